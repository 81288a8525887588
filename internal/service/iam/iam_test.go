package iam_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM, which looks up keys and authorizes with that same IAM.
type world struct {
	*testkit.Server
	iam *iam.Service
	// usage is what needs service-linked roles, by region.
	usage map[string][]string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	return newWorldAt(t, nil)
}

// newWorldAt returns a world whose IAM has the given clock.
func newWorldAt(t *testing.T, c clock.WithTicker) *world {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	check(t, err)
	t.Cleanup(func() { check(t, st.Close()) })
	w := &world{}
	w.iam = iam.New(iam.Config{Store: st, Clock: c, Log: testkit.Log(t)})
	w.iam.Register(func(string, string) map[string][]string { return w.usage })
	w.Server = testkit.NewServer(t, testkit.Config{
		Store:    st,
		Services: func(*store.Store) []awsapi.Service { return []awsapi.Service{w.iam.AWS()} },
		Lookup: func(ctx context.Context, key, token string) (sigv4.Credential, error) {
			if token != "" {
				return sigv4.Credential{}, sigv4.ErrTokenInvalid
			}
			secret, p, err := w.iam.LookupAccessKey(ctx, key)
			if errors.Is(err, iam.ErrNoSuchKey) {
				err = sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, err
		},
		Used: w.iam.RecordUse,
		AuthorizeInput: authz.New(authz.Config{
			Services: []awsapi.Service{w.iam.AWS()},
			Policies: w.iam.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": w.iam.Authz()}, Store: st,
		}).Authorize,
	})
	return w
}

// root returns a client of a new account's root.
func (w *world) root(t *testing.T) (client *awsiam.Client, account string) {
	account = w.Account(t)
	return awsiam.NewFromConfig(w.AWSConfig(account)), account
}

// as returns a client with an access key.
func (w *world) as(key, secret string) *awsiam.Client {
	return awsiam.NewFromConfig(w.AWSConfigWith(credentials.NewStaticCredentialsProvider(key, secret, "")))
}

const ec2Trust = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}`

const readerDoc = `{"Version":"2012-10-17","Statement":[{"Sid":"Read","Effect":"Allow","Action":["iam:Get*","iam:List*"],"Resource":"*"}]}`

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func TestDefaultCredentialsAreAnAdministrator(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c := w.as("test", "test")
	out := testkit.Must(c.GetUser(ctx, &awsiam.GetUserInput{}))(t)
	if got, want := aws.ToString(out.User.Arn), "arn:aws:iam::000000000000:user/admin"; got != want {
		t.Errorf("the caller is %s, want %s", got, want)
	}
	_, err := w.as("test", "wrong").GetUser(ctx, &awsiam.GetUserInput{})
	testkit.WantError(t, err, "SignatureDoesNotMatch", "")
	_, err = w.as("AKIAIOSFODNN7EXAMPLE", "x").GetUser(ctx, &awsiam.GetUserInput{})
	testkit.WantError(t, err, "InvalidClientTokenId", "The security token included in the request is invalid.")

	// Whatever a user deletes stays deleted.
	_, err = c.DeleteAccessKey(ctx, &awsiam.DeleteAccessKeyInput{AccessKeyId: aws.String("test")})
	check(t, err)
	_, err = c.GetUser(ctx, &awsiam.GetUserInput{})
	testkit.WantError(t, err, "InvalidClientTokenId", "")
}

func TestRootDescribesItself(t *testing.T) {
	w := newWorld(t)
	c, account := w.root(t)
	out := testkit.Must(c.GetUser(context.Background(), &awsiam.GetUserInput{}))(t)
	if got, want := aws.ToString(out.User.Arn), "arn:aws:iam::"+account+":root"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

func TestUserWithoutPoliciesIsDenied(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	_, err := root.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("ann"), Path: aws.String("/ops/")})
	check(t, err)
	key := testkit.Must(root.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: aws.String("ann")}))(t).AccessKey
	if got, ok := w.iam.AccessKeyAccount(*key.AccessKeyId); !ok || got != account {
		t.Errorf("%s names account %s, want %s", *key.AccessKeyId, got, account)
	}
	ann := w.as(*key.AccessKeyId, *key.SecretAccessKey)
	who := "User: arn:aws:iam::" + account + ":user/ops/ann is not authorized to perform: "
	list := func() error { _, err := ann.ListRoles(ctx, &awsiam.ListRolesInput{}); return err }

	testkit.WantError(t, list(), "AccessDenied", who+"iam:ListRoles on resource: arn:aws:iam::"+account+":role/ because no identity-based policy allows the iam:ListRoles action")

	// An inline policy takes effect at once.
	_, err = root.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("ann"), PolicyName: aws.String("reader"), PolicyDocument: aws.String(readerDoc)})
	check(t, err)
	check(t, list())

	// A boundary restricts it.
	_, err = root.PutUserPermissionsBoundary(ctx, &awsiam.PutUserPermissionsBoundaryInput{UserName: aws.String("ann"), PermissionsBoundary: aws.String("arn:aws:iam::aws:policy/AmazonEKSClusterPolicy")})
	check(t, err)
	testkit.WantError(t, list(), "AccessDenied", who+"iam:ListRoles on resource: arn:aws:iam::"+account+":role/ because no permissions boundary allows the iam:ListRoles action")
	_, err = root.DeleteUserPermissionsBoundary(ctx, &awsiam.DeleteUserPermissionsBoundaryInput{UserName: aws.String("ann")})
	check(t, err)

	// A group's deny takes precedence.
	_, err = root.CreateGroup(ctx, &awsiam.CreateGroupInput{GroupName: aws.String("Blocked")})
	check(t, err)
	_, err = root.PutGroupPolicy(ctx, &awsiam.PutGroupPolicyInput{GroupName: aws.String("blocked"), PolicyName: aws.String("no"), PolicyDocument: aws.String(strings.ReplaceAll(readerDoc, "Allow", "Deny"))})
	check(t, err)
	_, err = root.AddUserToGroup(ctx, &awsiam.AddUserToGroupInput{GroupName: aws.String("blocked"), UserName: aws.String("ann")})
	check(t, err)
	testkit.WantError(t, list(), "AccessDenied", who+"iam:ListRoles on resource: arn:aws:iam::"+account+":role/ with an explicit deny in an identity-based policy")
	_, err = root.RemoveUserFromGroup(ctx, &awsiam.RemoveUserFromGroupInput{GroupName: aws.String("blocked"), UserName: aws.String("ann")})
	check(t, err)
	check(t, list())

	// A key that is deactivated or deleted is unknown from the next request on.
	_, err = root.UpdateAccessKey(ctx, &awsiam.UpdateAccessKeyInput{UserName: aws.String("ann"), AccessKeyId: key.AccessKeyId, Status: iamtypes.StatusTypeInactive})
	check(t, err)
	testkit.WantError(t, list(), "InvalidClientTokenId", "")
	_, err = root.UpdateAccessKey(ctx, &awsiam.UpdateAccessKeyInput{UserName: aws.String("ann"), AccessKeyId: key.AccessKeyId, Status: iamtypes.StatusTypeActive})
	check(t, err)
	check(t, list())

	// A renamed user keeps keys and policies.
	_, err = root.UpdateUser(ctx, &awsiam.UpdateUserInput{UserName: aws.String("ann"), NewUserName: aws.String("anna")})
	check(t, err)
	check(t, list())
}

func TestUserLifecycleErrors(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	c, _ := w.root(t)
	name := aws.String("bob")
	_, err := c.GetUser(ctx, &awsiam.GetUserInput{UserName: name})
	testkit.WantError(t, err, "NoSuchEntity", "The user with name bob cannot be found.")
	_, err = c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: name, PermissionsBoundary: aws.String("arn:aws:iam::aws:policy/Nope")})
	testkit.WantError(t, err, "NoSuchEntity", "Scope ARN: arn:aws:iam::aws:policy/Nope does not exist or is not attachable.")
	_, err = c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: name, Tags: []iamtypes.Tag{{Key: aws.String("a"), Value: aws.String("1")}, {Key: aws.String("A"), Value: aws.String("2")}}})
	testkit.WantError(t, err, "InvalidInput", "Duplicate tag keys found. Please note that Tag keys are case insensitive.")
	_, err = c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: name, Tags: []iamtypes.Tag{{Key: aws.String("a"), Value: aws.String("1")}}})
	check(t, err)
	_, err = c.CreateUser(ctx, &awsiam.CreateUserInput{UserName: aws.String("BOB")})
	testkit.WantError(t, err, "EntityAlreadyExists", "User with name BOB already exists.")

	var keys []string
	for range 2 {
		k := testkit.Must(c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: name}))(t)
		keys = append(keys, *k.AccessKey.AccessKeyId)
	}
	_, err = c.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: name})
	testkit.WantError(t, err, "LimitExceeded", "Cannot exceed quota for AccessKeysPerUser: 2")
	listed := testkit.Must(c.ListAccessKeys(ctx, &awsiam.ListAccessKeysInput{UserName: name}))(t)
	if len(listed.AccessKeyMetadata) != 2 {
		t.Errorf("%d keys listed, want 2", len(listed.AccessKeyMetadata))
	}
	_, err = c.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: name})
	testkit.WantError(t, err, "DeleteConflict", "Cannot delete entity, must delete access keys first.")
	for _, k := range keys {
		_, err = c.DeleteAccessKey(ctx, &awsiam.DeleteAccessKeyInput{UserName: name, AccessKeyId: &k})
		check(t, err)
	}
	_, err = c.DeleteAccessKey(ctx, &awsiam.DeleteAccessKeyInput{UserName: name, AccessKeyId: &keys[0]})
	testkit.WantError(t, err, "NoSuchEntity", "The Access Key with id "+keys[0]+" cannot be found.")

	_, err = c.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{UserName: name, PolicyArn: aws.String("arn:aws:iam::aws:policy/Nope")})
	testkit.WantError(t, err, "NoSuchEntity", "Policy arn:aws:iam::aws:policy/Nope does not exist or is not attachable.")
	_, err = c.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{UserName: name, PolicyArn: aws.String("AmazonEKSClusterPolicyReadOnly")})
	testkit.WantError(t, err, "ValidationError", "Invalid ARN:  Could not be parsed!")
	_, err = c.AttachUserPolicy(ctx, &awsiam.AttachUserPolicyInput{UserName: name, PolicyArn: aws.String("arn:aws:iam::aws:policy/ReadOnlyAccess")})
	check(t, err)
	_, err = c.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: name})
	testkit.WantError(t, err, "DeleteConflict", "Cannot delete entity, must detach all policies first.")
	_, err = c.DetachUserPolicy(ctx, &awsiam.DetachUserPolicyInput{UserName: name, PolicyArn: aws.String("arn:aws:iam::aws:policy/ReadOnlyAccess")})
	check(t, err)
	_, err = c.DetachUserPolicy(ctx, &awsiam.DetachUserPolicyInput{UserName: name, PolicyArn: aws.String("arn:aws:iam::aws:policy/ReadOnlyAccess")})
	testkit.WantError(t, err, "NoSuchEntity", "Policy arn:aws:iam::aws:policy/ReadOnlyAccess was not found.")
	_, err = c.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: name})
	check(t, err)
	check(t, awsiam.NewUserExistsWaiter(c).Wait(ctx, &awsiam.GetUserInput{}, 1e9)) // root itself
}
