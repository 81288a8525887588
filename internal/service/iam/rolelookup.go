package iam

import (
	"context"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Role is what other parts of Drydock may know of a role.
type Role struct {
	Account string
	Name    string
	Path    string // "/" or "/a/b/"
	ARN     string // with the path
	ID      string // AROA…
	// Trust is the trust policy's document.
	Trust string
	// MaxSession limits AssumeRole's DurationSeconds.
	MaxSession time.Duration
	// AttachedPolicies are the ARNs of attached managed policies.
	AttachedPolicies []string
}

func export(account string, r *role) Role {
	return Role{
		Account: account, Name: r.Name, Path: r.Path, ARN: r.arn(account), ID: r.ID, Trust: r.Trust,
		MaxSession: time.Duration(r.MaxSession) * time.Second, AttachedPolicies: r.Attached,
	}
}

// RoleByARN returns the role with that ARN, path included, or ErrNoSuchRole.
func (s *Service) RoleByARN(ctx context.Context, roleARN string) (Role, error) {
	account, _, name, ok := arnName(roleARN, "role")
	if !ok {
		return Role{}, ErrNoSuchRole
	}
	r, err := s.RoleByName(ctx, account, name)
	if err == nil && r.ARN != roleARN {
		return Role{}, ErrNoSuchRole
	}
	return r, err
}

// RoleByName returns a role of an account, or ErrNoSuchRole.
func (s *Service) RoleByName(_ context.Context, account, name string) (Role, error) {
	r, err := roles.Get(s.store, nameKey(account, name))
	if err != nil {
		return Role{}, store.NotFoundAs(err, ErrNoSuchRole)
	}
	return export(account, &r), nil
}

// RoleSession returns a role's unique ID and longest session. It is what service/sts
// needs.
func (s *Service) RoleSession(_ context.Context, roleARN string) (id string, maxSession time.Duration, ok bool) {
	account, _, name, ok := arnName(roleARN, "role")
	if !ok {
		return "", 0, false
	}
	r, err := roles.Get(s.store, nameKey(account, name))
	if err != nil || r.arn(account) != roleARN {
		return "", 0, false
	}
	return r.ID, time.Duration(r.MaxSession) * time.Second, true
}

// PolicyExists reports whether a managed policy is AWS's or account's.
func (s *Service) PolicyExists(account, policyARN string) bool {
	return checkManaged(s.store, account, policyARN, noSuchBoundary) == nil
}

// UserExists reports whether the account's user of that name has that unique ID.
func (s *Service) UserExists(_ context.Context, account, name, id string) bool {
	u, err := users.Get(s.store, nameKey(account, name))
	return err == nil && u.ID == id
}

// TrustsService reports whether role's trust policy lets an AWS service, named
// as in eks.amazonaws.com, assume it for a resource of the role's own account.
func (s *Service) TrustsService(role Role, service string) bool {
	return s.TrustsServiceFor(role, service, "")
}

// TrustsServiceFor is TrustsService for one resource, whose ARN the trust policy
// may ask for as aws:SourceArn. Empty: a condition on it is not met.
func (s *Service) TrustsServiceFor(role Role, service, sourceARN string) bool {
	known := map[string][]string{"aws:sourceaccount": {role.Account}}
	if sourceARN != "" {
		known["aws:sourcearn"] = []string{sourceARN}
	}
	return policy.TrustsService(s.parsed.get(policy.Trust, role.Trust), service, policy.Context{Values: known, Unknown: policy.AnyKey})
}

// An InstanceProfile is what EC2 may know of one.
type InstanceProfile struct {
	Name, ARN, ID string
}

// InstanceProfileRole returns an instance profile, named by its name or its ARN,
// and its role. ErrNoSuchInstanceProfile if account has no such profile; a
// profile without a role comes with ErrNoSuchRole.
func (s *Service) InstanceProfileRole(ctx context.Context, account, nameOrARN string) (InstanceProfile, Role, error) {
	name := nameOrARN
	if strings.HasPrefix(nameOrARN, "arn:") {
		owner, _, n, ok := arnName(nameOrARN, "instance-profile")
		if !ok || owner != account {
			return InstanceProfile{}, Role{}, ErrNoSuchInstanceProfile
		}
		name = n
	}
	p, err := profiles.Get(s.store, nameKey(account, name))
	if err != nil {
		return InstanceProfile{}, Role{}, store.NotFoundAs(err, ErrNoSuchInstanceProfile)
	}
	out := InstanceProfile{Name: p.Name, ARN: p.arn(account), ID: p.ID}
	if name != nameOrARN && out.ARN != nameOrARN {
		return InstanceProfile{}, Role{}, ErrNoSuchInstanceProfile // another path
	}
	if p.Role == "" {
		return out, Role{}, ErrNoSuchRole
	}
	r, err := s.RoleByName(ctx, account, p.Role)
	return out, r, err
}

// OIDCProvider returns the identity provider that account has registered for an
// issuer, which is named without its scheme.
func (s *Service) OIDCProvider(_ context.Context, account, issuer string) (providerARN string, clientIDs []string, ok bool) {
	p, err := providers.Get(s.store, store.Key{Account: account, ID: issuer})
	if err != nil {
		return "", nil, false
	}
	return arn.IAM(account, "oidc-provider/"+p.URL), p.ClientIDs, true
}
