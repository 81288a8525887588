package app

import (
	"context"
	"strings"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/service/kms"
)

// newKMS connects KMS with who decides about requests, and with IAM, whose users and
// roles key policies and grants name.
func (d *daemon) newKMS() *kms.Service {
	return kms.New(kms.Config{
		Store:           d.store,
		Allowed:         d.authorizer.Allowed,
		PrincipalExists: d.principalExists,
		Log:             d.log,
	})
}

// principalExists reports whether a policy may name a principal: an account by its
// number or root, a user or role that is there, a session of such a role.
func (d *daemon) principalExists(ctx context.Context, name string) bool {
	if isAccount(name) {
		return true
	}
	a, err := arn.Parse(name)
	if err != nil || !isAccount(a.Account) {
		return false
	}
	kind, id, _ := strings.Cut(a.Resource, "/")
	switch {
	case a.Service == "iam" && a.Resource == "root":
		return true
	case a.Service == "iam" && (kind == "user" || kind == "role"):
		_, ok := d.iam.Authz().Resource(ctx, a.Account, "", kind, name)
		return ok
	case a.Service == "sts" && kind == "assumed-role":
		role, session, _ := strings.Cut(id, "/")
		_, ok := d.iam.Authz().Resource(ctx, a.Account, "", "role", role)
		return ok && session != ""
	case a.Service == "sts" && kind == "federated-user":
		return id != ""
	}
	return false
}

func isAccount(s string) bool { return len(s) == 12 && strings.Trim(s, "0123456789") == "" }
