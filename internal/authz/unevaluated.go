package authz

import (
	"slices"
	"strings"
)

// NotEvaluated lists, for docs/compatibility.md, the parts of IAM that are not evaluated here, and the effect.
var NotEvaluated = []struct{ What, Effect string }{
	{"AWS managed keys of KMS", "resource control policies restrict them too; on AWS they do not"},
	{"AWS service principals as grantees of KMS grants, the constraint SourceArn", "refused with 501"},
	{"resource-based policies of services whose operations are not handled", "the operations themselves answer 501"},
	{"the principal `CanonicalUser`", "matches no principal"},
	{"multi-factor authentication of root, hardware devices, passkeys", "only users can have MFA devices, and only virtual ones"},
	{"calls that AWS services make themselves", "no policy restricts a service that uses its service-linked role; when a service calls on a user's behalf, the user's policies apply, with `aws:CalledVia` and `aws:ViaAWSService`; but EKS looks up a user's subnets and security groups under its own role"},
	{"Access Analyzer", "not handled"},
}

// AbsentKeys are the global condition keys that no request has here.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html
var AbsentKeys = []string{
	"aws:AssumedRoot", "aws:CalledViaAWSMCP", "aws:ChatbotSourceArn", "aws:IsMcpServiceAction",
	"aws:PrincipalServiceNamesList", "aws:SignInSessionArn", "aws:ViaAWSMCPService",
}

// settled lists the keys whose values are found whenever a request has any: it lacks those that it does not set.
var settled = []string{"ec2:attribute", "ec2:attribute/${attributename}", "ec2:roledelivery", "eks:loggingtype/${type}"}

// Unresolved lists the service's own condition keys, as AWS writes them, that the reference gives an operation whose
// input is of in's type, and that nothing resolves on any resource. A statement that uses one is undecided: it never
// allows, and always denies if it is a Deny.
func (a *Authorizer) Unresolved(service, operation string, in any) []string {
	op := Prefix(service) + ":" + operation
	prefix, _ := split(op)
	c := Check{rows: a.rows, input: in}
	var ok bool
	if c.action, c.ref, ok = ActionOf(a.rows.action(op)); !ok || strings.HasPrefix(op, "sts:AssumeRole") {
		return nil // STS provides all keys that there are
	}
	if c.action.Access == "Tagging" {
		return nil // it applies to every type of resource; other operations have the keys of the handled types
	}
	offered := slices.Clone(c.action.Keys)
	for i := range c.action.Types {
		c.typ, c.target.Type = &c.action.Types[i], c.action.Types[i].Name
		offered = append(offered, c.typeKeys()...)
	}
	var out []string
	for _, key := range unique(offered) {
		name, own := strings.CutPrefix(key, prefix+":")
		if !own || strings.HasPrefix(name, "resourcetag/") || strings.HasPrefix(name, "requesttag/") || strings.HasPrefix(name, "recipientattestation:") {
			continue // those of Nitro enclaves are absent, because there are no enclaves
		}
		values := map[string][]string{}
		if c.fromMember(values, prefix, key); len(values) > 0 || has(a.rows.absentKeys, key) || has(settled, key) || a.rows.storedKeys[key] {
			continue
		}
		out = append(out, c.ref.Names[key])
	}
	return out
}

// Resolved reports whether a global condition key has a value in requests.
func Resolved(key string) bool {
	return slices.ContainsFunc(globalNames, func(n string) bool { return strings.EqualFold(n, key) })
}
