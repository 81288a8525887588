package why

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// getWhyServiceAccount explains the chain from a service account to its role.
func (x *Explainer) getWhyServiceAccount(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	account, region, err := httpapi.Place(r)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	ctx := awsapi.WithCall(r.Context(), &awsapi.Call{Account: account, Region: region})
	cluster, err := x.OnlyCluster(ctx, account, region, q.Get("cluster"))
	if err != nil {
		refuse(w, err, http.StatusBadRequest)
		return
	}
	sa, err := x.cfg.EKS.ServiceAccountIdentity(ctx, cluster, q.Get("namespace"), q.Get("name"))
	var refused smithy.APIError
	switch {
	case err == nil:
		e := x.explainServiceAccount(ctx, &sa)
		e.Unknown = x.unknownServiceAccount(&e, &sa)
		httpapi.Answer(w, e)
	case errors.As(err, &refused):
		http.Error(w, refused.ErrorMessage(), http.StatusNotFound)
	default:
		http.Error(w, err.Error(), http.StatusInternalServerError)
	}
}

// A chain is the links that are known so far.
type chain struct {
	x  *Explainer
	sa *eks.ServiceAccountIdentity
	api.ServiceAccountExplanation
}

func (c *chain) add(l api.IdentityLink) { c.Links = append(c.Links, l) }

// podIdentityService is the service that assumes the roles of EKS Pod Identity.
const podIdentityService = "pods.eks.amazonaws.com"

// explainServiceAccount follows the chain to its end or to where it cannot be followed.
func (x *Explainer) explainServiceAccount(ctx context.Context, sa *eks.ServiceAccountIdentity) api.ServiceAccountExplanation {
	c := &chain{x: x, sa: sa, ServiceAccountExplanation: api.ServiceAccountExplanation{
		Cluster: sa.Cluster, Account: sa.Account, Region: sa.Region, Namespace: sa.Namespace, ServiceAccount: sa.ServiceAccount,
	}}
	c.serviceAccount()
	switch {
	case sa.Association != nil:
		c.Mechanism = "EKS Pod Identity"
		c.association()
		c.token("eks-pod-identity-token")
		c.podIdentityRole(ctx)
	case sa.Exists && c.annotation():
		c.Mechanism = "IAM role for service accounts"
		c.token("aws-iam-token")
		c.webIdentityRole(ctx)
	}
	c.mendAll()
	return c.ServiceAccountExplanation
}

// mendAll extends the fixes of the first broken link with those of the other broken links, because pods need the
// whole chain.
func (c *chain) mendAll() {
	first := c.Broken()
	if first == nil {
		return
	}
	for i := range c.Links {
		l := &c.Links[i]
		if l == first || l.State != api.LinkBroken {
			continue
		}
		for j := range first.Fixes {
			f := &first.Fixes[j]
			if len(l.Fixes) == 0 || l.Fixes[0].Sketch != "" {
				f.Lacks(l.Says)
			} else if f.Sketch == "" {
				f.Then(l.Fixes[0])
			}
		}
	}
}

func (c *chain) serviceAccount() {
	l := api.IdentityLink{Name: "service account", State: api.LinkHolds, Says: "exists"}
	if !c.sa.Exists {
		l.State, l.Says = api.LinkBroken, "the namespace has no service account with that name"
		l.Fixes = createServiceAccount(c.sa.Namespace, c.sa.ServiceAccount, fmt.Sprintf("kubectl --namespace %s create serviceaccount %s", c.sa.Namespace, c.sa.ServiceAccount))
	}
	c.add(l)
}

// annotation reports whether there is a role to continue with.
func (c *chain) annotation() bool {
	l := api.IdentityLink{Name: "annotation", State: api.LinkHolds, Says: "eks.amazonaws.com/role-arn: " + c.sa.RoleARN}
	a, err := arn.Parse(c.sa.RoleARN)
	name, isRole := strings.CutPrefix(a.Resource, "role/")
	fixes := oneSketch("set ROLE to the name of the role (aws iam list-roles --query 'Roles[].RoleName')",
		fmt.Sprintf("kubectl --namespace %s annotate --overwrite serviceaccount %s eks.amazonaws.com/role-arn=arn:aws:iam::%s:role/$ROLE", c.sa.Namespace, c.sa.ServiceAccount, c.sa.Account))
	ok := err == nil && a.Service == "iam" && isRole && name != ""
	switch {
	case c.sa.RoleARN == "":
		l.State, l.Says, l.Fixes = api.LinkBroken, "no eks.amazonaws.com/role-arn, and no EKS Pod Identity association: pods get no token", fixes
	case !ok:
		l.State, l.Fixes = api.LinkBroken, fixes
		l.Error = "ValidationError: " + c.sa.RoleARN + " is invalid"
		l.Details = []string{"that is not the ARN of a role; want arn:aws:iam::ACCOUNT:role/NAME"}
	}
	c.add(l)
	return ok
}

func (c *chain) association() {
	a := c.sa.Association
	l := api.IdentityLink{Name: "association", State: api.LinkHolds, Says: a.ID + " gives it " + a.RoleARN}
	if a.TargetRoleARN != "" {
		l.Details = append(l.Details, "and from there "+a.TargetRoleARN+" with external ID "+a.ExternalID)
	}
	if c.sa.RoleARN != "" {
		l.Details = append(l.Details, "the annotation eks.amazonaws.com/role-arn is ignored: an association takes precedence")
	}
	c.add(l)
}

// token checks the tokens of the existing pods.
func (c *chain) token(volume string) {
	l := api.IdentityLink{
		Name: "token", State: api.LinkHolds, Says: fmt.Sprintf("volume %s, for %d s", volume, c.sa.Expiration),
		Details: []string{"issuer   " + c.sa.Issuer, "subject  " + c.sa.Subject, "audience " + c.sa.Audience},
	}
	switch n := len(c.sa.WithoutToken); {
	case n > 0:
		l.State = api.LinkBroken
		l.Says = fmt.Sprintf("%d of %d pods have none: they were created before the service account had the role", n, len(c.sa.Pods))
		l.Error = "Unable to locate credentials"
		l.Fixes = advice.Try(func([]advice.Change) error {
			if len(c.sa.Bare) > 0 {
				return errors.New("no controller makes " + strings.Join(c.sa.Bare, ", ") + " again")
			}
			return nil // the webhook gives every new pod a token
		}, []advice.Change{{Kind: advice.DeleteObject, Resource: "pod " + c.sa.Namespace + "/" + strings.Join(c.sa.WithoutToken, ",")}}, fmt.Sprintf("kubectl --namespace %s delete pod %s", c.sa.Namespace, strings.Join(c.sa.WithoutToken, " ")))
	case len(c.sa.Pods) > 0:
		l.Details = append(l.Details, fmt.Sprintf("mounted in %s", counted(len(c.sa.Pods), "pod")))
	}
	c.add(l)
}

// webIdentityRole checks what AssumeRoleWithWebIdentity needs from IAM.
func (c *chain) webIdentityRole(ctx context.Context) {
	role, _ := arn.Parse(c.sa.RoleARN) // annotation has already parsed it
	host := strings.TrimPrefix(c.sa.Issuer, "https://")
	provider, clientIDs, ok := c.x.cfg.IAM.OIDCProvider(ctx, role.Account, host)
	l := api.IdentityLink{Name: "provider", State: api.LinkHolds, Says: provider, Details: []string{"client IDs " + strings.Join(clientIDs, ", ")}}
	// refused is STS's answer for a provider with these client IDs.
	refused := func(registered bool, clientIDs []string) string {
		switch {
		case !registered:
			return "InvalidIdentityToken: No OpenIDConnect provider found in your account for " + c.sa.Issuer
		case !slices.Contains(clientIDs, c.sa.Audience):
			return "InvalidIdentityToken: Incorrect token audience"
		}
		return ""
	}
	fix := func(change advice.Change, command string) []advice.Fix {
		return advice.Try(func(changes []advice.Change) error {
			if err := refused(true, append(slices.Clip(clientIDs), changes[0].Value)); err != "" {
				return errors.New(err)
			}
			return nil
		}, []advice.Change{change}, command)
	}
	if l.Error = refused(ok, clientIDs); l.Error != "" {
		l.State = api.LinkBroken
	}
	switch {
	case !ok:
		provider = arn.IAM(role.Account, "oidc-provider/"+host)
		l.Says, l.Details = "the cluster's issuer is not registered in account "+role.Account, nil
		l.Fixes = fix(advice.Change{Kind: advice.CreateProvider, Resource: c.sa.Issuer, Value: c.sa.Audience}, fmt.Sprintf("aws iam create-open-id-connect-provider --url %s --client-id-list %s", c.sa.Issuer, c.sa.Audience))
	case l.Error != "":
		l.Details = append(l.Details, "the token's audience "+c.sa.Audience+" is not one of them")
		l.Fixes = fix(advice.Change{Kind: advice.AddAudience, Resource: provider, Value: c.sa.Audience}, fmt.Sprintf("aws iam add-client-id-to-open-id-connect-provider --open-id-connect-provider-arn %s --client-id %s", provider, c.sa.Audience))
	}
	c.add(l)
	prefix := strings.ToLower(host) + ":"
	c.role(ctx, c.sa.RoleARN, []string{"sts:AssumeRoleWithWebIdentity"}, policy.Principal{Federated: provider}, map[string][]string{
		prefix + "aud": {c.sa.Audience}, prefix + "sub": {c.sa.Subject}, "aws:federatedprovider": {provider},
	}, "AccessDenied: Not authorized to perform sts:AssumeRoleWithWebIdentity", trustStatement{
		Effect: "Allow", Principal: map[string]string{"Federated": provider}, Action: []string{"sts:AssumeRoleWithWebIdentity"},
		Condition: map[string]map[string]string{"StringEquals": {host + ":aud": c.sa.Audience, host + ":sub": c.sa.Subject}},
	})
}

// podIdentityRole checks what EKS needs from IAM for an association.
func (c *chain) podIdentityRole(ctx context.Context) {
	a := c.sa.Association
	keys := map[string][]string{"aws:sourceaccount": {c.sa.Account}, "aws:sourcearn": {c.sa.ClusterARN}}
	actions := []string{"sts:AssumeRole"}
	if a.SessionTags {
		actions = append(actions, "sts:TagSession")
		for k, v := range map[string]string{
			"eks-cluster-arn": c.sa.ClusterARN, "eks-cluster-name": c.sa.Cluster,
			"kubernetes-namespace": c.sa.Namespace, "kubernetes-service-account": c.sa.ServiceAccount,
		} {
			keys["aws:requesttag/"+k] = []string{v}
		}
	}
	c.role(ctx, a.RoleARN, actions, policy.Principal{Service: podIdentityService}, keys, "AccessDeniedException: the role's trust policy does not let "+podIdentityService+" assume it", trustStatement{
		Effect: "Allow", Principal: map[string]string{"Service": podIdentityService}, Action: []string{"sts:AssumeRole", "sts:TagSession"},
	})
}

// A trustStatement is a statement that a trust policy lacks.
type trustStatement struct {
	Effect    string
	Principal map[string]string
	Action    []string
	Condition map[string]map[string]string `json:",omitempty"`
}

func (s trustStatement) String() string {
	b, _ := json.Marshal(s) // strings always encode
	return string(b)
}

// withStatement returns a policy with more statements, quoted for a shell.
func withStatement(document string, more ...any) string {
	// An apostrophe can only be inside a JSON string, and would end the string of the shell.
	return "'" + strings.ReplaceAll(added(document, more...), "'", `\u0027`) + "'"
}

// added returns a policy with more statements. It keeps the existing ones, because a condition that is wrong here may
// be meant for other callers.
func added(document string, more ...any) string {
	for _, m := range more {
		statement, err := json.Marshal(m)
		if err != nil { // strings and parsed JSON always encode
			panic(err)
		}
		out, err := policy.WithStatement(document, string(statement))
		if err != nil { // IAM does not store unreadable policies
			out, err = policy.WithStatement("", string(statement))
		}
		if err != nil {
			panic(err)
		}
		document = out
	}
	return document
}

// createRole returns the fix that creates the role of an ARN, or nil if its name is not valid in IAM.
func createRole(role string, trust trustStatement, actions []string, req policy.Request) []advice.Fix {
	_, path, _ := strings.Cut(role, ":role/")
	if !roleNames.MatchString(path) {
		return nil
	}
	command := "aws iam create-role --role-name " + roleName(role)
	if i := strings.LastIndexByte(path, '/'); i >= 0 {
		command += " --path /" + path[:i+1]
	}
	return advice.Try(func([]advice.Change) error { return allows("", trust, actions, req) },
		[]advice.Change{{Kind: advice.CreateRole, Resource: role, Value: trust.String()}}, command+" --assume-role-policy-document "+withStatement("", trust))
}

// roleNames matches names after paths as in https://docs.aws.amazon.com/IAM/latest/APIReference/API_CreateRole.html
// that need no quoting in a shell.
var roleNames = regexp.MustCompile(`^([\w+=,.@-]+/)*[\w+=,.@-]+$`)

// role evaluates the role's trust policy with the request's values, and lists what the role may do.
func (c *chain) role(ctx context.Context, role string, actions []string, who policy.Principal, keys map[string][]string, refusal string, wanted trustStatement) {
	req := policy.Request{Resource: role, Principal: who, Context: policy.Context{Values: keys, Unknown: unknownOfPods}}
	r, err := c.x.cfg.IAM.RoleByARN(ctx, role)
	if err != nil {
		c.add(api.IdentityLink{Name: "role", State: api.LinkBroken, Says: "there is no " + role, Error: refusal, Fixes: createRole(role, wanted, actions, req)})
		return
	}
	trust, err := policy.Parse(policy.Trust, r.Trust)
	if err != nil { // IAM does not store unreadable policies
		c.add(api.IdentityLink{Name: "trust policy", State: api.LinkBroken, Says: err.Error(), Error: refusal})
		return
	}
	l := api.IdentityLink{Name: "trust policy", State: api.LinkHolds, Says: "allows " + strings.Join(actions, " and ")}
	for _, action := range actions {
		req.Action = action
		policies := policy.Policies{Trust: &policy.Source{Name: "trust policy of " + role, Document: trust}}
		why := policy.Explain(req, policies)
		if why.Decision.Allowed {
			continue
		}
		l.State, l.Error = api.LinkBroken, refusal
		l.Says = "does not allow " + action
		if len(why.Decision.UnknownKeys) > 0 {
			l.State, l.Says = api.LinkUnknown, "may or may not allow "+action+": it depends on "+strings.Join(why.Decision.UnknownKeys, ", ")
		}
		l.Details = append(l.Details, why.String())
		if !why.Decision.ExplicitDeny {
			l.Fixes = advice.Try(func([]advice.Change) error { return allows(r.Trust, wanted, actions, req) },
				[]advice.Change{{Kind: advice.AddStatement, Resource: role, Value: wanted.String()}},
				"aws iam update-assume-role-policy --role-name "+roleName(role)+" --policy-document "+withStatement(r.Trust, wanted))
		}
		break
	}
	c.add(l)
	c.permissions(role, r.ID)
}

// allows returns an error unless a trust policy with one more statement allows the actions.
func allows(trust string, more trustStatement, actions []string, req policy.Request) error {
	doc, err := policy.Parse(policy.Trust, added(trust, more))
	if err != nil {
		return err
	}
	for _, req.Action = range actions {
		if d := policy.Evaluate(req, policy.Policies{Trust: &policy.Source{Document: doc}}); !d.Allowed {
			return errors.New(req.Action + " is still refused: " + d.Reason)
		}
	}
	return nil
}

// createServiceAccount returns the fix that creates a service account, which is all that the API server requires.
func createServiceAccount(namespace, name, command string) []advice.Fix {
	wanted := "serviceaccount " + namespace + "/" + name
	return advice.Try(func(changes []advice.Change) error {
		if changes[0].Kind != advice.CreateObject || changes[0].Resource != wanted {
			return errors.New(wanted + " still does not exist")
		}
		return nil
	}, []advice.Change{{Kind: advice.CreateObject, Resource: wanted}}, command)
}

// unknownOfPods reports whether only the request of a particular pod has a condition key.
func unknownOfPods(key string) bool {
	switch key {
	case "sts:rolesessionname", "aws:requesttag/kubernetes-pod-name", "aws:requesttag/kubernetes-pod-uid", "aws:sourceip", "aws:currenttime", "aws:epochtime":
		return true
	}
	return false
}

// permissions adds what the role may do, one line per policy. A role without permissions is not a broken link.
func (c *chain) permissions(role, id string) {
	a, _ := arn.Parse(role) // it was found above
	policies, _ := c.x.cfg.IAM.PoliciesOf(awsapi.Principal{Type: awsapi.AssumedRole, Account: a.Account, RoleARN: role, UserID: id + ":pod"})
	l := api.IdentityLink{Name: "role", State: api.LinkHolds, Says: role + " has no permissions: it has no policies"}
	if n := len(policies.Identity); n > 0 {
		l.Says = role + " has " + counted(n, "policy")
	}
	for _, p := range policies.Identity {
		l.Details = append(l.Details, p.Name+": "+grants(p.Document))
	}
	if policies.Boundary != nil {
		l.Details = append(l.Details, "and no more than "+policies.Boundary.Name+": "+grants(policies.Boundary.Document))
	}
	c.add(l)
}

// grants summarizes a policy: the first actions that it allows and denies.
func grants(doc *policy.Document) string {
	const most = 6
	var allowed, denied []string
	for i := range doc.Statements {
		s := &doc.Statements[i]
		actions := s.Actions
		if len(s.NotActions) > 0 {
			actions = []string{"all but " + strings.Join(s.NotActions, ", ")}
		}
		if s.Deny {
			denied = append(denied, actions...)
		} else {
			allowed = append(allowed, actions...)
		}
	}
	var parts []string
	for _, p := range []struct {
		verb    string
		actions []string
	}{{"allows", allowed}, {"denies", denied}} {
		if len(p.actions) == 0 {
			continue
		}
		said := p.verb + " " + strings.Join(p.actions[:min(most, len(p.actions))], ", ")
		if more := len(p.actions) - most; more > 0 {
			said += fmt.Sprintf(" and %d more", more)
		}
		parts = append(parts, said)
	}
	return strings.Join(parts, "; ")
}

func counted(n int, what string) string {
	switch {
	case n == 1:
	case strings.HasSuffix(what, "y"):
		what = strings.TrimSuffix(what, "y") + "ies"
	default:
		what += "s"
	}
	return fmt.Sprintf("%d %s", n, what)
}
