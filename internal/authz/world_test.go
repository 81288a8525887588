package authz_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/service/autoscaling"
	"github.com/drydock-dev/drydock/internal/service/cloudtrail"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/service/eks"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/ssm"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// services have the rows of the services that the tests call.
var services = []awsapi.Service{new(iam.Service).AWS(), new(sts.Service).AWS(), new(ec2.Service).AWS(), new(ssm.Service).AWS(), new(autoscaling.Service).AWS(), new(eks.Service).AWS()}

// A world is an AWS API server with IAM, STS, EC2, Auto Scaling and SSM behind it, connected as in the daemon.
type world struct {
	*testkit.Server
	iam        *iam.Service
	sts        *sts.Service
	ec2        *ec2.Service
	ssm        *ssm.Service
	scaling    *autoscaling.Service
	authorizer *authz.Authorizer
	journal    *journal.Journal
	through    awsapi.VPCEndpoint // all connections come through it, if it is set
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{}
	var err error
	if w.journal, err = journal.Open(t.TempDir(), journal.Limits{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.journal.Close() })
	w.Server = testkit.NewServer(t, testkit.Config{
		Journal: w.journal,
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			w.iam = iam.New(iam.Config{Store: st})
			w.sts = sts.New(sts.Config{Store: st, Directory: w.iam, Authorize: func(ctx context.Context, call *awsapi.Call, in any, targets ...authz.Target) error {
				return w.authorizer.AuthorizeTargets(ctx, call, in, targets...)
			}})
			w.ec2 = ec2.New(ec2.Config{Store: st, Profiles: profiles{w.iam}, Launcher: awscall.EC2{API: front}})
			w.ssm = ssm.New(ssm.Config{Store: st})
			w.scaling = autoscaling.New(autoscaling.Config{Store: st, EC2: w.ec2, Instances: w.ec2})
			w.authorizer = authz.New(authz.Config{
				Services:  services,
				Policies:  w.iam.PoliciesOf,
				Resolvers: map[string]authz.Resolver{"ec2": w.ec2.Authz(), "iam": w.iam.Authz(), "ssm": w.ssm.Authz(), "autoscaling": w.scaling.Authz()},
				Store:     st,

				EndpointPolicy: w.ec2.EndpointPolicy,
			})
			trail := cloudtrail.New(cloudtrail.Config{Journal: w.journal})
			return []awsapi.Service{w.iam.AWS(), w.sts.AWS(), w.ec2.AWS(), w.ssm.AWS(), w.scaling.AWS(), trail.AWS()}
		},
		Lookup: w.lookup,
		Origin: func(string) (awsapi.VPCEndpoint, netip.Addr) {
			if w.through.ID == "" {
				return awsapi.VPCEndpoint{}, netip.Addr{}
			}
			return w.through, netip.MustParseAddr("10.0.0.5")
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error {
			return w.authorizer.Authorize(ctx, call, in)
		},
	})
	return w
}

func (w *world) lookup(ctx context.Context, key, token string) (sigv4.Credential, error) {
	if token != "" {
		secret, p, err := w.sts.OpenSession(ctx, key, token)
		return sigv4.Credential{SecretKey: secret, Principal: p}, err
	}
	secret, p, err := w.iam.LookupAccessKey(ctx, key)
	if errors.Is(err, iam.ErrNoSuchKey) {
		err = sigv4.ErrUnknownKey
	}
	return sigv4.Credential{SecretKey: secret, Principal: p}, err
}

// profiles answers EC2 as the daemon does.
type profiles struct{ iam *iam.Service }

func (p profiles) InstanceProfile(ctx context.Context, account, name string) (ec2.Profile, bool, error) {
	profile, role, err := p.iam.InstanceProfileRole(ctx, account, name)
	if errors.Is(err, iam.ErrNoSuchInstanceProfile) {
		return ec2.Profile{}, false, nil
	}
	return ec2.Profile{ARN: profile.ARN, ID: profile.ID, RoleARN: role.ARN}, true, nil
}

// A caller is a principal with its clients.
type caller struct {
	arn string
	cfg aws.Config
	ec2 *awsec2.Client
	iam *awsiam.Client
	sts *awssts.Client
}

func (w *world) caller(arn string, cfg aws.Config) caller {
	return caller{arn: arn, cfg: cfg, ec2: awsec2.NewFromConfig(cfg), iam: awsiam.NewFromConfig(cfg), sts: awssts.NewFromConfig(cfg)}
}

// root is the root of a fresh account.
func (w *world) root(t testing.TB) (root caller, account string) {
	account = w.Account(t)
	return w.caller("arn:aws:iam::"+account+":root", w.AWSConfig(account)), account
}

// user makes a user of root's account with an inline policy, if it is not empty.
func (w *world) user(t testing.TB, root caller, name, document string) caller {
	t.Helper()
	ctx := t.Context()
	u := must[*awsiam.CreateUserOutput](t)(root.iam.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name}))
	if document != "" {
		must[*awsiam.PutUserPolicyOutput](t)(root.iam.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{
			UserName: &name, PolicyName: aws.String("inline"), PolicyDocument: &document,
		}))
	}
	k := must[*awsiam.CreateAccessKeyOutput](t)(root.iam.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: &name})).AccessKey
	creds := credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "")
	return w.caller(*u.User.Arn, w.AWSConfigWith(creds))
}

// session assumes a role.
func (w *world) session(t testing.TB, who caller, roleARN string) caller {
	t.Helper()
	out := must[*awssts.AssumeRoleOutput](t)(who.sts.AssumeRole(t.Context(), &awssts.AssumeRoleInput{RoleArn: &roleARN, RoleSessionName: aws.String("session")}))
	c := out.Credentials
	return w.caller(*out.AssumedRoleUser.Arn, w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)))
}

func document(t testing.TB, name, account string) string {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return strings.ReplaceAll(string(b), "ACCOUNT", account)
}

func must[T any](t testing.TB) func(v T, err error) T {
	return func(v T, err error) T {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
}

// code is the code of an AWS error, "" for none.
func code(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorCode()
	}
	if err != nil {
		return err.Error()
	}
	return ""
}

func message(err error) string {
	var api smithy.APIError
	if errors.As(err, &api) {
		return api.ErrorMessage()
	}
	return ""
}

func tags(pairs ...string) []ec2types.Tag {
	var out []ec2types.Tag
	for i := 0; i+1 < len(pairs); i += 2 {
		out = append(out, ec2types.Tag{Key: &pairs[i], Value: &pairs[i+1]})
	}
	return out
}

func tagged(kind ec2types.ResourceType, pairs ...string) ec2types.TagSpecification {
	return ec2types.TagSpecification{ResourceType: kind, Tags: tags(pairs...)}
}
