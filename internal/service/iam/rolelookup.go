package iam

import (
	"context"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Role is what other parts of Drydock need to know about a role.
type Role struct {
	Account string
	Name    string
	Path    string // "/" or "/a/b/"
	ARN     string // includes the path
	ID      string // AROA…
	// Trust is the trust policy document.
	Trust string
	// MaxSession is the maximum of AssumeRole's DurationSeconds.
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

// RoleByARN returns the role with an ARN, which includes the path, or ErrNoSuchRole.
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

// RoleSession returns a role's unique ID and maximum session duration, for service/sts.
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

// PolicyExists reports whether a managed policy is AWS's or the account's.
func (s *Service) PolicyExists(account, policyARN string) bool {
	return checkManaged(s.store, account, policyARN, noSuchBoundary) == nil
}

// UserExists reports whether the account has a user with that name and unique ID.
func (s *Service) UserExists(_ context.Context, account, name, id string) bool {
	u, err := users.Get(s.store, nameKey(account, name))
	return err == nil && u.ID == id
}

// TrustsService reports whether a role's trust policy allows an AWS service, such as
// eks.amazonaws.com, to assume it for a resource in the role's account.
func (s *Service) TrustsService(role Role, service string) bool {
	return s.TrustsServiceFor(role, service, "")
}

// TrustsServiceFor is TrustsService for one resource, whose ARN the trust policy may check as
// aws:SourceArn. If the ARN is empty, such a condition is not met.
func (s *Service) TrustsServiceFor(role Role, service, sourceARN string) bool {
	return s.allowsService(role, service, "sts:AssumeRole", sourceARN)
}

// TaggableBy reports whether a role's trust policy lets a service tag the sessions of the role.
func (s *Service) TaggableBy(role Role, service string) bool {
	return s.allowsService(role, service, "sts:TagSession", "")
}

func (s *Service) allowsService(role Role, service, action, sourceARN string) bool {
	known := map[string][]string{"aws:sourceaccount": {role.Account}}
	if sourceARN != "" {
		known["aws:sourcearn"] = []string{sourceARN}
	}
	return policy.AllowsService(s.parsed.get(policy.Trust, role.Trust), service, action, policy.Context{Values: known, Unknown: policy.AnyKey})
}

// An InstanceProfile is what EC2 needs to know about an instance profile.
type InstanceProfile struct {
	Name, ARN, ID string
}

// InstanceProfileRole returns an instance profile, given its name or ARN, and its role. It returns
// ErrNoSuchInstanceProfile if the account has no such profile, and the profile with ErrNoSuchRole
// if it has no role.
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
		return InstanceProfile{}, Role{}, ErrNoSuchInstanceProfile // the ARN has a different path
	}
	if p.Role == "" {
		return out, Role{}, ErrNoSuchRole
	}
	r, err := s.RoleByName(ctx, account, p.Role)
	return out, r, err
}

// OIDCProvider returns the identity provider that the account has registered for an issuer, given
// without its scheme.
func (s *Service) OIDCProvider(_ context.Context, account, issuer string) (providerARN string, clientIDs []string, ok bool) {
	p, err := providers.Get(s.store, store.Key{Account: account, ID: issuer})
	if err != nil {
		return "", nil, false
	}
	return arn.IAM(account, "oidc-provider/"+p.URL), p.ClientIDs, true
}
