package iam

import (
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/store"
)

// The records. IAM is global: keys have no region. Names are unique without
// regard to case, so they are keyed in lower case.
var (
	accounts  = store.NewCollection[account]("iam", "account")
	users     = store.NewCollection[user]("iam", "user")
	groups    = store.NewCollection[group]("iam", "group")
	keys      = store.NewCollection[accessKey]("iam", "access-key")
	roles     = store.NewCollection[role]("iam", "role")
	policies  = store.NewCollection[managedPolicy]("iam", "policy")
	profiles  = store.NewCollection[instanceProfile]("iam", "instance-profile")
	providers = store.NewCollection[oidcProvider]("iam", "oidc-provider")
)

// accountID is the one record of collection accounts in each account.
const accountID = "account"

// An account exists from its first use on.
type account struct {
	Created   time.Time
	Alias     string          // or empty
	Passwords *passwordPolicy // nil: AWS's default
}

// identity is what users, groups and roles have in common.
type identity struct {
	Name     string
	Path     string
	ID       string
	Created  time.Time
	Attached []string          // managed policies' ARNs, in the order of attachment
	Inline   map[string]string // policy name → document
	Boundary string            // a managed policy's ARN, or empty
	Tags     []tag
}

func (id *identity) path() string { return id.Path }

type tag struct{ Key, Value string }

type user struct {
	identity
	Groups []string // names, sorted
	Login  *login   // nil: without a password
}

func (u *user) arn(account string) string { return arn.IAM(account, "user"+u.Path+u.Name) }

type group struct{ identity }

func (g *group) arn(account string) string { return arn.IAM(account, "group"+g.Path+g.Name) }

type role struct {
	identity
	Trust string // document
	// Trusted holds the unique IDs of the users and roles that Trust names by their
	// ARNs, as they were when it was set: one made again under the name is another.
	Trusted       map[string]string
	Description   string
	MaxSession    int32  // seconds
	ServiceLinked string // the service that owns the role, or empty
}

func (r *role) arn(account string) string { return arn.IAM(account, "role"+r.Path+r.Name) }

type accessKey struct {
	User    string // name
	UserID  string
	Secret  string // SigV4 needs the plain secret; the store's folder is private
	Active  bool
	Created time.Time
}

type managedPolicy struct {
	Name        string
	Path        string
	ID          string
	Description string
	Created     time.Time
	Updated     time.Time
	Tags        []tag
	Versions    []policyVersion // oldest first
	Default     string          // the version in force
	LastVersion int             // numbers are never used again
}

type policyVersion struct {
	ID       string
	Document string
	Created  time.Time
}

func (p *managedPolicy) arn(account string) string { return arn.IAM(account, "policy"+p.Path+p.Name) }

func (p *managedPolicy) version(id string) (policyVersion, bool) {
	i := slices.IndexFunc(p.Versions, func(v policyVersion) bool { return v.ID == id })
	if i < 0 {
		return policyVersion{}, false
	}
	return p.Versions[i], true
}

type instanceProfile struct {
	Name    string
	Path    string
	ID      string
	Created time.Time
	Role    string // name, or empty
	Tags    []tag
}

func (p *instanceProfile) path() string { return p.Path }

func (p *instanceProfile) arn(account string) string {
	return arn.IAM(account, "instance-profile"+p.Path+p.Name)
}

type oidcProvider struct {
	URL         string // without the scheme
	ClientIDs   []string
	Thumbprints []string
	Created     time.Time
	Tags        []tag
}

// nameKey is the key of what has a name.
func nameKey(account, name string) store.Key {
	return store.Key{Account: account, ID: strings.ToLower(name)}
}

// within selects the records of an account.
func within(account string) store.Scope { return store.Scope{Account: account, Global: true} }

// arnName takes "arn:aws:iam::ACCOUNT:TYPE/PATH/NAME" apart.
func arnName(s, typ string) (account, path, name string, ok bool) {
	a, err := arn.Parse(s)
	if err != nil || a.Partition != "aws" || a.Service != "iam" || a.Region != "" {
		return "", "", "", false
	}
	rest, ok := strings.CutPrefix(a.Resource, typ)
	if !ok || !strings.HasPrefix(rest, "/") || a.Account == "" {
		return "", "", "", false
	}
	i := strings.LastIndexByte(rest, '/')
	return a.Account, rest[:i+1], rest[i+1:], true
}
