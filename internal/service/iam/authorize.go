package iam

import (
	"cmp"
	"context"
	"log/slog"
	"slices"
	"strconv"
	"strings"
	"sync"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/managedpolicies"
	"github.com/drydock-dev/drydock/internal/policy"
)

// Authorize decides whether the caller may do what call says. The resource is
// not known yet: statements on single resources are not decided.
func (s *Service) Authorize(_ context.Context, call *awsapi.Call) policy.Decision {
	known := map[string][]string{
		"aws:requestedregion": {call.Region},
		"aws:securetransport": {strconv.FormatBool(call.TLS)},
	}
	return s.decide(call.Principal, policy.Request{Action: actionPrefix(call.Service) + ":" + call.Operation, Context: policy.Context{Values: known, Unknown: policy.AnyKey}})
}

// Decide evaluates the identity policies, permissions boundary and session
// policies of p for one action. An empty resource is one that is not known.
func (s *Service) Decide(_ context.Context, p awsapi.Principal, action, resource string) policy.Decision {
	return s.decide(p, policy.Request{Action: action, Resource: resource, Context: policy.Context{Values: map[string][]string{}, Unknown: policy.AnyKey}})
}

// prefixes are the SDK packages whose name is not the IAM prefix of their actions.
// https://docs.aws.amazon.com/service-authorization/latest/reference/reference_policies_actions-resources-contextkeys.html
var prefixes = map[string]string{
	"cloudwatchlogs":           "logs",
	"ecrpublic":                "ecr-public",
	"ec2instanceconnect":       "ec2-instance-connect",
	"eksauth":                  "eks-auth",
	"elasticloadbalancingv2":   "elasticloadbalancing",
	"eventbridge":              "events",
	"resourcegroupstaggingapi": "tag",
}

func actionPrefix(service string) string {
	if p, ok := prefixes[service]; ok {
		return p
	}
	return service
}

func (s *Service) decide(p awsapi.Principal, req policy.Request) policy.Decision {
	known := req.Context.Values
	known["aws:principalaccount"] = []string{p.Account}
	known["aws:principalarn"] = []string{p.ARN}
	known["aws:userid"] = []string{p.UserID}
	// Nobody has a second factor here; long-term keys do not even say so.
	// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_policies_condition-keys.html#condition-keys-multifactorauthpresent
	known["aws:multifactorauthpresent"] = nil
	if !p.IssuedAt.IsZero() {
		known["aws:multifactorauthpresent"] = []string{"false"}
	}
	switch p.Type {
	case awsapi.IAMUser:
		known["aws:username"] = []string{p.Name}
	case awsapi.AssumedRole:
		known["aws:principalarn"] = []string{p.RoleARN} // the role's, not the session's
	}
	if why := s.Refused(p, req.Action); why != "" {
		return policy.Decision{Action: req.Action, Resource: cmp.Or(req.Resource, "*"), Reason: why}
	}
	policies, root := s.PoliciesOf(p)
	if root {
		// Root needs no policy, but a session of root may have been narrowed.
		policies.Identity = []policy.Source{{Name: rootARN(p.Account), Document: everything}}
	}
	req.Principal = policy.Principal{Account: p.Account, ARN: p.ARN, RoleARN: p.RoleARN, ID: p.UserID}
	req.ResourceAccount = p.Account // the caller's side only
	return policy.Evaluate(req, policies)
}

// Refused says why p may not perform an action, whatever its policies say; empty:
// they decide. Temporary credentials of GetSessionToken and GetFederationToken
// reach neither IAM nor most of STS.
//
// AWS deviation: AWS answers InvalidClientTokenId, this is AccessDenied.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/id_credentials_temp_request.html
func (s *Service) Refused(p awsapi.Principal, action string) string {
	temporary := p.Type == awsapi.FederatedUser || p.Type != awsapi.AssumedRole && !p.IssuedAt.IsZero()
	switch {
	case !temporary, !strings.HasPrefix(action, "iam:") && !strings.HasPrefix(action, "sts:"):
		return ""
	case action == "sts:GetCallerIdentity":
		return ""
	case p.Type != awsapi.FederatedUser && slices.Contains([]string{"sts:AssumeRole", "sts:TagSession", "sts:SetSourceIdentity"}, action):
		return ""
	}
	return "temporary credentials of this kind cannot perform the " + action + " action"
}

// everything is the policy that the root of an account needs not have.
var everything = &policy.Document{Statements: []policy.Statement{{Actions: []string{"*"}, Resources: []string{"*"}}}}

// PoliciesOf collects the policies that bind p: its own, its groups', its
// permissions boundary and those of its session. Of a user or role that is gone,
// or was made again since, none apply: nothing is allowed. root says that p needs
// no policy at all; one of its session limits it all the same.
func (s *Service) PoliciesOf(p awsapi.Principal) (out policy.Policies, root bool) {
	switch p.Type {
	case awsapi.Root:
		root = true
	case awsapi.IAMUser, awsapi.FederatedUser:
		// A federated user acts for the user who vouched for it, or for root.
		if p.Type == awsapi.FederatedUser && p.Name == "" {
			root = true
			break
		}
		u, err := users.Get(s.store, nameKey(p.Account, p.Name))
		if err != nil || p.Type == awsapi.IAMUser && u.ID != p.UserID {
			break
		}
		s.addIdentity(&out, p.Account, u.arn(p.Account), &u.identity)
		for _, name := range u.Groups {
			if g, err := groups.Get(s.store, nameKey(p.Account, name)); err == nil {
				s.addIdentity(&out, p.Account, g.arn(p.Account), &g.identity)
			}
		}
	case awsapi.AssumedRole:
		account, _, name, _ := arnName(p.RoleARN, "role")
		r, err := roles.Get(s.store, nameKey(account, name))
		if id, _, _ := strings.Cut(p.UserID, ":"); err != nil || r.ID != id {
			break
		}
		s.addIdentity(&out, p.Account, r.arn(p.Account), &r.identity)
	}
	for i, doc := range p.SessionPolicies {
		out.Session = append(out.Session, policy.Source{Name: "session policy " + strconv.Itoa(i+1), Document: s.parsed.get(policy.Session, doc)})
	}
	for _, a := range p.SessionPolicyARNs {
		out.Session = append(out.Session, s.managed(p.Account, a))
	}
	// A federated user without session policies may do nothing.
	out.Sessioned = len(out.Session) > 0 || p.Type == awsapi.FederatedUser
	return out, root
}

// addIdentity adds the policies of a user, group or role.
func (s *Service) addIdentity(out *policy.Policies, account, owner string, id *identity) {
	for _, a := range id.Attached {
		out.Identity = append(out.Identity, s.managed(account, a))
	}
	for _, name := range id.inlineNames() {
		out.Identity = append(out.Identity, policy.Source{Name: owner + "/" + name, Document: s.parsed.get(policy.Identity, id.Inline[name])})
	}
	if id.Boundary != "" {
		b := s.managed(account, id.Boundary)
		out.Boundary = &b
	}
}

// managed returns a managed policy in force; one that is gone allows nothing.
func (s *Service) managed(account, policyARN string) policy.Source {
	src := policy.Source{Name: policyARN, Document: &policy.Document{}}
	if p, ok := managedpolicies.Get(policyARN); ok {
		// By its ARN: hashing AWS's larger documents would cost more than deciding.
		src.Document = s.parsed.named(p.ARN, policy.Identity, p.Document)
		return src
	}
	_, _, name, _ := arnName(policyARN, "policy")
	p, err := policies.Get(s.store, nameKey(account, name))
	if err != nil || p.arn(account) != policyARN {
		return src
	}
	if v, ok := p.version(p.Default); ok {
		src.Document = s.parsed.get(policy.Identity, v.Document)
	}
	return src
}

// maxParsed bounds the cache of parsed documents.
const maxParsed = 4096

// A documentCache keeps parsed documents by their text, or by a name that no
// document has. When it is full it forgets everything: what is in use comes back
// at once.
type documentCache struct {
	log  *slog.Logger
	mu   sync.RWMutex
	docs map[cacheKey]*policy.Document
}

type cacheKey struct {
	kind policy.Kind
	name string
}

// unreadable is what a stored document that no longer parses counts as: it was
// valid once, so what it denied is not known any more.
var unreadable = &policy.Document{Statements: []policy.Statement{{
	SID: "unreadable", Deny: true, Principals: &policy.Principals{All: true}, Actions: []string{"*"},
}}}

func (c *documentCache) get(kind policy.Kind, text string) *policy.Document {
	return c.named(text, kind, text)
}

func (c *documentCache) named(name string, kind policy.Kind, text string) *policy.Document {
	key := cacheKey{kind, name}
	c.mu.RLock()
	doc, ok := c.docs[key]
	c.mu.RUnlock()
	if ok {
		return doc
	}
	doc, err := policy.Parse(kind, text)
	if err != nil {
		c.log.Error("iam: a stored policy does not parse; it denies everything", "error", err)
		doc = unreadable
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.docs == nil || len(c.docs) >= maxParsed {
		c.docs = map[cacheKey]*policy.Document{}
	}
	c.docs[key] = doc
	return doc
}

// TagsOf returns the tags of the user or role behind p, as they are now.
func (s *Service) TagsOf(p awsapi.Principal) map[string]string {
	var have []tag
	switch p.Type {
	case awsapi.IAMUser, awsapi.FederatedUser:
		if u, err := users.Get(s.store, nameKey(p.Account, p.Name)); err == nil {
			have = u.Tags
		}
	case awsapi.AssumedRole:
		account, _, name, _ := arnName(p.RoleARN, "role")
		if r, err := roles.Get(s.store, nameKey(account, name)); err == nil {
			have = r.Tags
		}
	}
	return tagMap(have)
}
