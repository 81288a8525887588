package app

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/sts"
)

// keys finds the owner of an access key for the AWS API server.
type keys struct {
	iam *iam.Service
	sts *sts.Service
	// open reports whether the well-known credentials, test/test and account numbers, are accepted. They are only if
	// the daemon listens on loopback.
	open bool
}

func (k keys) lookup(ctx context.Context, accessKeyID, sessionToken string) (sigv4.Credential, error) {
	if sessionToken != "" || strings.HasPrefix(accessKeyID, "ASIA") {
		secret, p, err := k.sts.OpenSession(ctx, accessKeyID, sessionToken)
		switch {
		case errors.Is(err, sts.ErrTokenExpired):
			return sigv4.Credential{}, sigv4.ErrTokenExpired
		case errors.Is(err, sts.ErrTokenInvalid):
			return sigv4.Credential{}, sigv4.ErrTokenInvalid
		case err != nil:
			return sigv4.Credential{}, err
		}
		return sigv4.Credential{SecretKey: secret, Principal: p}, nil
	}
	root := isAccount(accessKeyID)
	if !k.open && (root || accessKeyID == wellKnownKey) {
		return sigv4.Credential{}, sigv4.ErrUnknownKey
	}
	secret, p, err := k.iam.LookupAccessKey(ctx, accessKeyID)
	if errors.Is(err, iam.ErrNoSuchKey) {
		return sigv4.Credential{}, sigv4.ErrUnknownKey
	}
	if err != nil {
		return sigv4.Credential{}, err
	}
	return sigv4.Credential{SecretKey: secret, SkipSignature: root, Principal: p}, nil
}

// caller returns the owner of an access key.
func (k keys) caller(ctx context.Context, accessKeyID, sessionToken string) (awsapi.Principal, error) {
	c, err := k.lookup(ctx, accessKeyID, sessionToken)
	return c.Principal, err
}

// wellKnownKey is both the access key ID and the secret of the default user.
const wellKnownKey = "test"

// identities answers the EKS service's questions about IAM.
type identities struct{ iam *iam.Service }

// trusted are the services that EKS looks for in trust policies.
var trusted = []string{"eks.amazonaws.com", "ec2.amazonaws.com", "eks-fargate-pods.amazonaws.com", "pods.eks.amazonaws.com", "capabilities.eks.amazonaws.com", "ssm.amazonaws.com"}

func (i identities) identity(ctx context.Context, name string) (eks.Identity, error) {
	a, err := arn.Parse(name)
	if err != nil || a.Service != "iam" {
		return eks.Identity{}, eks.ErrNoIdentity
	}
	kind, rest, _ := strings.Cut(a.Resource, "/")
	switch kind {
	case "root":
		return eks.Identity{ARN: name, ID: a.Account}, nil
	case "role":
		role, err := i.iam.RoleByARN(ctx, name)
		if errors.Is(err, iam.ErrNoSuchRole) {
			return eks.Identity{}, eks.ErrNoIdentity
		}
		if err != nil {
			return eks.Identity{}, err
		}
		id := eks.Identity{ARN: role.ARN, ID: role.ID, Trusts: func(service, sourceARN string) bool {
			return i.iam.TrustsServiceFor(role, service, sourceARN)
		}, TaggableBy: func(service string) bool { return i.iam.TaggableBy(role, service) }}
		for _, s := range trusted {
			if i.iam.TrustsService(role, s) {
				id.TrustedServices = append(id.TrustedServices, s)
			}
		}
		return id, nil
	case "user":
		user := rest[strings.LastIndexByte(rest, '/')+1:]
		ctx := awsapi.AsService(ctx, a.Account, "us-east-1", eks.ServiceRole, time.Now())
		out, err := i.iam.GetUser(ctx, &awsiam.GetUserInput{UserName: &user})
		var missing *iamtypes.NoSuchEntityException
		if errors.As(err, &missing) || err == nil && aws.ToString(out.User.Arn) != name {
			return eks.Identity{}, eks.ErrNoIdentity
		}
		if err != nil {
			return eks.Identity{}, err
		}
		return eks.Identity{ARN: name, ID: aws.ToString(out.User.UserId)}, nil
	default:
		return eks.Identity{}, eks.ErrNoIdentity
	}
}

// InstanceProfile answers EC2's questions about instance profiles.
func (i identities) InstanceProfile(ctx context.Context, account, name string) (ec2.Profile, bool, error) {
	p, role, err := i.iam.InstanceProfileRole(ctx, account, name)
	switch {
	case errors.Is(err, iam.ErrNoSuchInstanceProfile):
		return ec2.Profile{}, false, nil
	case errors.Is(err, iam.ErrNoSuchRole):
		return ec2.Profile{ARN: p.ARN, ID: p.ID}, true, nil
	case err != nil:
		return ec2.Profile{}, false, err
	}
	return ec2.Profile{ARN: p.ARN, ID: p.ID, RoleARN: role.ARN}, true, nil
}

// denies returns the actions that none of a role's policies allows on any resource, or that a policy denies on every
// resource. An action that depends on a condition counts as allowed.
func (i identities) denies(ctx context.Context, roleARN string, actions []string) ([]string, error) {
	role, err := i.iam.RoleByARN(ctx, roleARN)
	if errors.Is(err, iam.ErrNoSuchRole) {
		return actions, nil
	}
	if err != nil {
		return nil, fmt.Errorf("looking %s up: %w", roleARN, err)
	}
	a, err := arn.Parse(roleARN)
	if err != nil {
		return nil, err
	}
	who := awsapi.Principal{Type: awsapi.AssumedRole, Account: a.Account, RoleARN: roleARN, UserID: role.ID + ":addon"}
	policies, _ := i.iam.PoliciesOf(who)
	var denied []string
	for _, action := range actions {
		req := policy.Request{Action: action, Resource: "*", Principal: policy.Principal{ARN: roleARN, Account: a.Account}}
		req.Context.Unknown = func(string) bool { return true }
		if got := policy.Evaluate(req, policies); !got.Allowed && len(got.UnknownKeys) == 0 {
			denied = append(denied, action)
		}
	}
	return denied, nil
}

// exists reports whether a policy may name a principal: an account by its number or its root, an existing user or
// role, or a session of an existing role.
func (i identities) exists(ctx context.Context, name string) bool {
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
		_, ok := i.iam.Authz().Resource(ctx, a.Account, "", kind, name)
		return ok
	case a.Service == "sts" && kind == "assumed-role":
		role, session, _ := strings.Cut(id, "/")
		_, ok := i.iam.Authz().Resource(ctx, a.Account, "", "role", role)
		return ok && session != ""
	case a.Service == "sts" && kind == "federated-user":
		return id != ""
	}
	return false
}

func isAccount(s string) bool { return len(s) == 12 && strings.Trim(s, "0123456789") == "" }
