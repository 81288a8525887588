package iam

import (
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/store"
)

// IAM's records. IAM is global, so keys have no region. Names are case-insensitive, so keys use
// lower case.
var (
	accounts  = store.NewCollection[account]("iam", "account", store.Same) // version 2 has TokensV2
	users     = store.NewCollection[user]("iam", "user", store.Same)
	groups    = store.NewCollection[group]("iam", "group")
	keys      = store.NewCollection[accessKey]("iam", "access-key")
	roles     = store.NewCollection[role]("iam", "role")
	policies  = store.NewCollection[managedPolicy]("iam", "policy")
	profiles  = store.NewCollection[instanceProfile]("iam", "instance-profile")
	providers = store.NewCollection[oidcProvider]("iam", "oidc-provider")

	sshKeys             = store.NewCollection[sshKey]("iam", "ssh-key")
	signingCertificates = store.NewCollection[signingCertificate]("iam", "signing-certificate")
	serviceCredentials  = store.NewCollection[serviceCredential]("iam", "service-credential")
	samlProviders       = store.NewCollection[samlProvider]("iam", "saml-provider")
	mfaDevices          = store.NewCollection[mfaDevice]("iam", "mfa-device")
	serverCertificates  = store.NewCollection[serverCertificate]("iam", "server-certificate", store.Same) // version 2 has Key
)

// accountID is the ID of the single record in collection accounts of each account.
const accountID = "account"

// An account exists from its first use.
type account struct {
	Created   time.Time
	Alias     string          // or empty
	Passwords *passwordPolicy // nil means AWS's default
	// TokensV2 says that tokens from STS's global endpoint are valid in all regions.
	TokensV2 bool `json:",omitempty"`
}

// An identity is what users, groups and roles have in common.
type identity struct {
	Name     string
	Path     string
	ID       string
	Created  time.Time
	Attached []string          // ARNs of managed policies, in order of attachment
	Inline   map[string]string // policy name → document
	Boundary string            // ARN of a managed policy, or empty
	Tags     []tag
}

func (id *identity) path() string { return id.Path }

type tag struct{ Key, Value string }

type user struct {
	identity
	Groups []string // names, sorted
	Login  *login   // nil for users without a password
}

func (u *user) arn(account string) string { return arn.IAM(account, "user"+u.Path+u.Name) }

type group struct{ identity }

func (g *group) arn(account string) string { return arn.IAM(account, "group"+g.Path+g.Name) }

type role struct {
	identity
	Trust string // document
	// Trusted has the unique IDs of the users and roles in Trust, by ARN, as of when Trust was set.
	// A principal that is deleted and created again has a different ID.
	Trusted       map[string]string
	Description   string
	MaxSession    int32  // seconds
	ServiceLinked string // the service that owns the role, or empty
}

func (r *role) arn(account string) string { return arn.IAM(account, "role"+r.Path+r.Name) }

type accessKey struct {
	User    string // name
	UserID  string
	Secret  string // in plain text, because SigV4 needs it; the store's folder is private
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
	Default     string          // ID of the version in force
	LastVersion int             // numbers are never reused
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

// nameKey returns the key of a record with a name.
func nameKey(account, name string) store.Key {
	return store.Key{Account: account, ID: strings.ToLower(name)}
}

// within returns the scope of an account's records.
func within(account string) store.Scope { return store.Scope{Account: account, Global: true} }

// arnName splits "arn:aws:iam::ACCOUNT:TYPE/PATH/NAME" into its parts.
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
