package policy

import (
	"regexp"
	"slices"
	"strings"
)

// check applies the rules that relate the elements of a well-formed document, in the order in which IAM reports
// violations. The texts were collected from IAM's answers; moto's policy_validation.py, which was checked against
// AWS, has the same ones.
func check(kind Kind, doc *Document) error {
	sids := map[string]bool{}
	for _, s := range doc.Statements {
		if s.SID != "" && sids[s.SID] && kind != Key {
			return malformed("Statement IDs (SID) in a single policy must be unique.")
		}
		sids[s.SID] = true
		if kind.attached() && !alphanumeric(s.SID) {
			return malformed("Statement IDs (SID) must be alpha-numeric. Check that your input satisfies the regular expression [0-9A-Za-z]*")
		}
	}
	for i := range doc.Statements {
		s := &doc.Statements[i]
		var err error
		switch kind {
		case Trust:
			err = checkTrust(s)
		case Resource, Endpoint, Key:
			err = checkResourcePolicy(kind, s)
		default:
			err = checkIdentity(s)
		}
		if err != nil {
			return err
		}
		if err := checkDates(s); err != nil {
			return err
		}
	}
	return nil
}

// attached reports whether policies of this kind are attached to identities, and therefore name no principal.
func (k Kind) attached() bool { return k == Identity || k == Session || k == Boundary }

func checkIdentity(s *Statement) error {
	if s.Principals != nil || s.NotPrincipals != nil {
		return malformed("Policy document should not specify a principal.")
	}
	if len(s.Actions)+len(s.NotActions) == 0 {
		return malformed("Policy statement must contain actions.")
	}
	if len(s.Resources)+len(s.NotResources) == 0 {
		return malformed("Policy statement must contain resources.")
	}
	return checkElements(s)
}

// checkResourcePolicy checks a statement of a resource's policy. The texts are IAM's; services use their own.
// Policies of some services, such as ECR, have no Resource.
func checkResourcePolicy(kind Kind, s *Statement) error {
	switch {
	case s.Principals == nil && s.NotPrincipals == nil:
		return malformed("Missing required field Principal")
	case len(s.Actions)+len(s.NotActions) == 0:
		return malformed("Policy statement must contain actions.")
	case kind == Endpoint && len(s.Resources)+len(s.NotResources) == 0:
		return malformed("Policy statement must contain resources.")
	}
	return checkElements(s)
}

// checkElements checks the syntax of resources and actions.
func checkElements(s *Statement) error {
	for _, r := range slices.Concat(s.Resources, s.NotResources) {
		if err := checkResource(r); err != nil {
			return err
		}
	}
	for _, a := range slices.Concat(s.Actions, s.NotActions) {
		if err := checkAction(a); err != nil {
			return err
		}
	}
	return nil
}

func checkTrust(s *Statement) error {
	switch {
	case s.Resources != nil:
		return malformed("Has prohibited field Resource")
	case s.NotResources != nil:
		return malformed("Has prohibited field NotResource")
	case s.NotPrincipals != nil:
		// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_elements_notprincipal.html
		return malformed("Has prohibited field NotPrincipal") // from memory, in the form of Resource
	case s.Principals == nil:
		return malformed("Missing required field Principal")
	case len(s.Principals.names()) == 0:
		// https://github.com/terraform-aws-modules/terraform-aws-iam/issues/47
		return malformed("Invalid principal in policy: com.amazon.balsa.error.InvalidPolicyException: The passed in policy has a statement with no principals!")
	case len(s.Actions)+len(s.NotActions) == 0:
		return malformed("Missing required field Action")
	}
	for _, a := range slices.Concat(s.Actions, s.NotActions) {
		if err := checkAction(a); err != nil {
			return err
		}
		if vendor, _, _ := strings.Cut(a, ":"); !strings.EqualFold(vendor, "sts") {
			return malformed("AssumeRole policy may only specify STS AssumeRole actions.")
		}
	}
	return nil
}

var badVendor = regexp.MustCompile(`[^a-zA-Z0-9\-.]`)

func checkAction(a string) error {
	vendor, rest, ok := strings.Cut(a, ":")
	switch {
	case a == "*":
		return nil
	case !ok:
		return malformed("Actions/Conditions must be prefaced by a vendor, e.g., iam, sdb, ec2, etc.")
	case strings.Contains(rest, ":"):
		return malformed("Actions/Condition can contain only one colon.")
	case vendor != "*" && (vendor == "" || badVendor.MatchString(vendor)):
		return malformed("Vendor %s is not valid", vendor)
	}
	return nil
}

func checkResource(r string) error {
	if strings.Trim(r, "*") == "" && r != "" {
		return nil
	}
	p := strings.SplitN(r, ":", 6)
	switch {
	case len(p) < 2 || p[0] != "arn" && !strings.ContainsAny(p[0], "*?"):
		return malformed("Resource %s must be in ARN format or \"*\".", r)
	case !slices.Contains(partitions, p[1]) && !strings.ContainsAny(p[1], "*?$"):
		for len(p) < 6 {
			p = append(p, "*")
		}
		return malformed("Partition %q is not valid for resource %q.", p[1], "arn:"+strings.Join(p[1:], ":"))
	case len(p) == 2:
		return malformed("Resource vendor must be fully qualified and cannot contain regexes.")
	case p[2] == "" || len(p) < 6 && strings.Contains(r, "::"):
		return malformed("The policy failed legacy parsing")
	case len(p) < 6:
		return nil // the rest is wildcards
	}
	return checkLocation(r, p[2], p[3], p[5])
}

// checkLocation applies the rules for region and account in ARNs of IAM and S3.
func checkLocation(r, service, region, path string) error {
	fixed := region != "" && !strings.Contains(region, "*")
	switch {
	case service == "iam" && fixed:
		return malformed("IAM resource %s cannot contain region information.", r)
	case service == "s3" && fixed && !strings.HasPrefix(path, "access"):
		return malformed("Resource %s can not contain region information.", r)
	case service == "iam" && !slices.ContainsFunc(iamPaths, func(p string) bool { return strings.HasPrefix(path, p) }):
		first, _, _ := strings.Cut(path, "/")
		if !strings.ContainsAny(first, "*?$") && path != "root" {
			return malformed(`IAM resource path must either be "*" or start with %s.`, strings.Join(iamPaths, ", "))
		}
	}
	return nil
}

// iamPaths are the allowed beginnings of the resource part of IAM's ARNs.
var iamPaths = []string{
	"user/", "federated-user/", "role/", "group/", "instance-profile/", "mfa/", "server-certificate/", "policy/",
	"sms-mfa/", "saml-provider/", "oidc-provider/", "report/", "access-report/",
}

// checkDates rejects invalid dates.
func checkDates(s *Statement) error {
	for _, c := range s.Conditions {
		op, _, _, _ := parseOperator(c.Operator)
		if !strings.HasPrefix(op.name, "Date") {
			continue
		}
		for _, v := range c.Values {
			if _, ok := parseDate(v); !ok {
				return malformed("The policy failed legacy parsing")
			}
		}
	}
	return nil
}

// the partitions of AWS; all are valid in documents although Drydock only has aws
var partitions = []string{"aws", "aws-cn", "aws-us-gov", "aws-iso", "aws-iso-b", "aws-iso-e", "aws-iso-f", "aws-eusc"}

func alphanumeric(s string) bool {
	for _, r := range s {
		if (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') {
			return false
		}
	}
	return true
}
