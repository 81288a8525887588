package app

import (
	"context"
	"strings"

	awskms "github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/service/kms"
)

// newKMS connects KMS with who decides about requests, and with IAM, whose users and
// roles key policies and grants name.
func (d *daemon) newKMS() *kms.Service {
	return kms.New(kms.Config{
		Store: d.store,
		Allowed: func(ctx context.Context, t authz.Target, key authz.Resource) bool {
			return d.authorizer.Allowed(ctx, t, key)
		},
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

// keysOfCaller is KMS for services that use keys on behalf of their callers.
type keysOfCaller struct{ d *daemon }

func (k keysOfCaller) Encrypt(ctx context.Context, in *awskms.EncryptInput) (*awskms.EncryptOutput, error) {
	return asCaller(ctx, k.d, "Encrypt", in, k.d.kms.Encrypt)
}

func (k keysOfCaller) Decrypt(ctx context.Context, in *awskms.DecryptInput) (*awskms.DecryptOutput, error) {
	return asCaller(ctx, k.d, "Decrypt", in, k.d.kms.Decrypt)
}

func (k keysOfCaller) GenerateDataKey(ctx context.Context, in *awskms.GenerateDataKeyInput) (*awskms.GenerateDataKeyOutput, error) {
	return asCaller(ctx, k.d, "GenerateDataKey", in, k.d.kms.GenerateDataKey)
}

// asCaller does an operation of KMS if the caller of ctx may.
func asCaller[In, Out any](ctx context.Context, d *daemon, operation string, in *In, do func(context.Context, *In) (*Out, error)) (*Out, error) {
	if err := d.authorizer.AuthorizeAs(ctx, "kms", operation, in); err != nil {
		return nil, err
	}
	return do(ctx, in)
}
