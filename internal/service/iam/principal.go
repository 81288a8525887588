package iam

import (
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/catalog/managedpolicies"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// PoliciesOf returns the policies that apply to p: its own, its groups', its permissions boundary
// and its session's. If the user or role was deleted, or replaced by another of the same name, no
// policies apply and nothing is allowed. root reports that p needs no policy; a session policy
// still restricts it.
func (s *Service) PoliciesOf(p awsapi.Principal) (out policy.Policies, root bool) {
	switch p.Type {
	case awsapi.Root:
		root = true
	case awsapi.IAMUser, awsapi.FederatedUser:
		// A federated user acts on behalf of the user who requested its credentials, or of root.
		if p.Type == awsapi.FederatedUser && p.Name == "" {
			root = true
			break
		}
		u, err := users.Get(s.store, nameKey(p.Account, p.Name))
		if err != nil || p.Type == awsapi.IAMUser && u.ID != p.UserID {
			addUnreadable(&out, err)
			break
		}
		s.addIdentity(&out, p.Account, u.arn(p.Account), &u.identity)
		for _, name := range u.Groups {
			g, err := groups.Get(s.store, nameKey(p.Account, name))
			if err != nil {
				addUnreadable(&out, err)
				continue
			}
			s.addIdentity(&out, p.Account, g.arn(p.Account), &g.identity)
		}
	case awsapi.AssumedRole:
		account, _, name, _ := arnName(p.RoleARN, "role")
		r, err := roles.Get(s.store, nameKey(account, name))
		if id, _, _ := strings.Cut(p.UserID, ":"); err != nil || r.ID != id {
			addUnreadable(&out, err)
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
	// A federated user without session policies has no permissions.
	out.Sessioned = len(out.Session) > 0 || p.Type == awsapi.FederatedUser
	return out, root
}

// addUnreadable adds a policy that denies everything if err says that a record with policies exists but cannot be read.
func addUnreadable(out *policy.Policies, err error) {
	if err != nil && !store.IsNotFound(err) {
		out.Identity = append(out.Identity, policy.Source{Name: "unreadable", Document: unreadable})
	}
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

// managed returns the version of a managed policy that is in force. A deleted policy allows
// nothing.
func (s *Service) managed(account, policyARN string) policy.Source {
	src := policy.Source{Name: policyARN, Document: &policy.Document{}}
	if p, ok := managedpolicies.Get(policyARN); ok {
		// The cache key is the ARN: hashing AWS's larger documents would cost more than evaluating
		// them.
		src.Document = s.parsed.named(p.ARN, policy.Identity, p.Document)
		return src
	}
	_, _, name, _ := arnName(policyARN, "policy")
	p, err := policies.Get(s.store, nameKey(account, name))
	if err != nil && !store.IsNotFound(err) {
		src.Document = unreadable
		return src
	}
	if err != nil || p.arn(account) != policyARN {
		return src
	}
	if v, ok := p.version(p.Default); ok {
		src.Document = s.parsed.get(policy.Identity, v.Document)
	}
	return src
}

// maxParsed limits the cache of parsed documents.
const maxParsed = 4096

// A documentCache caches parsed documents by their text, or by a name that no document has. When it
// is full it is emptied; whatever is in use is soon cached again.
type documentCache struct {
	log  *slog.Logger
	mu   sync.RWMutex
	docs map[cacheKey]*policy.Document
}

type cacheKey struct {
	kind policy.Kind
	name string
}

// unreadable replaces a stored document that can no longer be parsed, or a record that can no longer be read. What it
// denied is not known, so unreadable denies everything.
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
		c.log.Error("iam: a stored policy cannot be parsed, so it denies everything", "error", err)
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

// TagsOf returns the current tags of the user or role behind p.
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
