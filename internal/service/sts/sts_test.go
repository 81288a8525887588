package sts_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssts "github.com/aws/aws-sdk-go-v2/service/sts"
	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/sts"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM and STS, connected as in internal/app. Its clock stands
// still for credentials; signatures are checked against real time.
type world struct {
	*testkit.Server
	iam *iam.Service
	sts *sts.Service
	// authorizer authorizes every call.
	authorizer *authz.Authorizer
	clock      *clocktesting.FakeClock
	// issuers are the key sets of issuers that publish one.
	issuers map[string][]byte
	// endpoint, while it is set, is the policy of the VPC endpoint through which every connection
	// comes.
	endpoint string
}

func newWorld(t *testing.T) *world {
	t.Helper()
	st, err := store.Open(t.Context(), store.Config{Ephemeral: true})
	must(t, err)
	t.Cleanup(func() { must(t, st.Close()) })
	w := &world{clock: clocktesting.NewFakeClock(time.Now()), issuers: map[string][]byte{}, iam: iam.New(iam.Config{Store: st, Log: testkit.Log(t)})}
	w.authorizer = authz.New(authz.Config{Services: []awsapi.Service{w.iam.AWS(), new(sts.Service).AWS()}, Policies: w.iam.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": w.iam.Authz()}, Store: st,
		EndpointPolicy: func(_ context.Context, account, region, id string) (string, bool) {
			return w.endpoint, account == "999999999999" && region == "eu-west-1" && id == "vpce-1"
		},
	})
	w.sts = sts.New(sts.Config{Store: st, Directory: w.iam, Clock: w.clock, Authorize: w.authorizer.AuthorizeTargets, IssuerKeys: func(_ context.Context, issuer string) ([]byte, bool) {
		keys, ok := w.issuers[issuer]
		return keys, ok
	}})
	w.Server = testkit.NewServer(t, testkit.Config{
		Store:    st,
		Services: func(*store.Store) []awsapi.Service { return []awsapi.Service{w.iam.AWS(), w.sts.AWS()} },
		Lookup: func(ctx context.Context, key, token string) (sigv4.Credential, error) {
			if token != "" || strings.HasPrefix(key, "ASIA") {
				secret, p, err := w.sts.OpenSession(ctx, key, token)
				return sigv4.Credential{SecretKey: secret, Principal: p}, translate(err)
			}
			secret, p, err := w.iam.LookupAccessKey(ctx, key)
			return sigv4.Credential{SecretKey: secret, Principal: p}, translate(err)
		},
		AuthorizeInput: w.authorizer.Authorize,
		Origin: func(string) (awsapi.VPCEndpoint, netip.Addr) {
			if w.endpoint == "" {
				return awsapi.VPCEndpoint{}, netip.Addr{}
			}
			return awsapi.VPCEndpoint{ID: "vpce-1", VPCID: "vpc-1", Account: "999999999999", Region: "eu-west-1"}, netip.MustParseAddr("10.0.0.5")
		},
	})
	return w
}

func translate(err error) error {
	switch {
	case errors.Is(err, sts.ErrTokenInvalid):
		return sigv4.ErrTokenInvalid
	case errors.Is(err, sts.ErrTokenExpired):
		return sigv4.ErrTokenExpired
	case errors.Is(err, iam.ErrNoSuchKey):
		return sigv4.ErrUnknownKey
	}
	return err
}

// A caller has both clients with the same credentials.
type caller struct {
	iam *awsiam.Client
	sts *awssts.Client
}

func (w *world) as(key, secret, token string) caller {
	cfg := w.AWSConfigWith(credentials.NewStaticCredentialsProvider(key, secret, token))
	return caller{awsiam.NewFromConfig(cfg), awssts.NewFromConfig(cfg)}
}

func (w *world) with(c *ststypes.Credentials) caller {
	return w.as(*c.AccessKeyId, *c.SecretAccessKey, *c.SessionToken)
}

func (w *world) root(t *testing.T) (caller, string) {
	account := w.Account(t)
	return w.as(account, "any", ""), account
}

// user creates a user and returns it as a caller.
func (w *world) user(t *testing.T, root caller, name string) caller {
	t.Helper()
	ctx := context.Background()
	must(t, second(root.iam.CreateUser(ctx, &awsiam.CreateUserInput{UserName: &name})))
	out, err := root.iam.CreateAccessKey(ctx, &awsiam.CreateAccessKeyInput{UserName: &name})
	must(t, err)
	return w.as(*out.AccessKey.AccessKeyId, *out.AccessKey.SecretAccessKey, "")
}

// role creates a role that may read IAM. It has a path, which is not part of session ARNs.
func (w *world) role(t *testing.T, root caller, name, principal, condition string) {
	t.Helper()
	ctx := context.Background()
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":` + principal + `,"Action":["sts:AssumeRole"]` + condition + `}]}`
	must(t, second(root.iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: &name, Path: aws.String("/p/"), AssumeRolePolicyDocument: &trust})))
	must(t, second(root.iam.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{RoleName: &name, PolicyArn: aws.String("arn:aws:iam::aws:policy/IAMReadOnlyAccess")})))
}

func (w *world) allow(t *testing.T, root caller, user, action, resource string) {
	t.Helper()
	doc := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"` + action + `","Resource":"` + resource + `"}]}`
	must(t, second(root.iam.PutUserPolicy(context.Background(), &awsiam.PutUserPolicyInput{UserName: &user, PolicyName: aws.String("allow"), PolicyDocument: &doc})))
}

func second[T any](_ T, err error) error { return err }

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func wantCaller(t *testing.T, c caller, arn string) {
	t.Helper()
	out, err := c.sts.GetCallerIdentity(context.Background(), &awssts.GetCallerIdentityInput{})
	must(t, err)
	if *out.Arn != arn {
		t.Errorf("the caller is %s, want %s", *out.Arn, arn)
	}
}

func roleARN(account, name string) *string {
	return aws.String("arn:aws:iam::" + account + ":role/p/" + name)
}

func (c caller) assume(role *string, change ...func(*awssts.AssumeRoleInput)) (*awssts.AssumeRoleOutput, error) {
	in := &awssts.AssumeRoleInput{RoleArn: role, RoleSessionName: aws.String("work")}
	for _, f := range change {
		f(in)
	}
	return c.sts.AssumeRole(context.Background(), in)
}

func TestCallerIdentity(t *testing.T) {
	w := newWorld(t)
	root, account := w.root(t)
	wantCaller(t, root, "arn:aws:iam::"+account+":root")
	wantCaller(t, w.as("test", "test", ""), "arn:aws:iam::000000000000:user/admin")
	ann := w.user(t, root, "ann") // without any policy
	wantCaller(t, ann, "arn:aws:iam::"+account+":user/ann")
}

// aws-iam-authenticator and `aws eks get-token` presign this call, and their servers request JSON.
func TestPresignedCallerIdentityAnswersJSON(t *testing.T) {
	w := newWorld(t)
	_, account := w.root(t)
	presign := awssts.NewPresignClient(awssts.NewFromConfig(w.AWSConfig(account)))
	req, err := presign.PresignGetCallerIdentity(context.Background(), &awssts.GetCallerIdentityInput{}, func(o *awssts.PresignOptions) {
		o.Presigner = v4.NewSigner()
	})
	must(t, err)
	get, err := http.NewRequestWithContext(context.Background(), req.Method, req.URL, nil)
	must(t, err)
	get.Header.Set("Accept", "application/json")
	res, err := w.Client().Do(get)
	must(t, err)
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	must(t, err)
	if want := `"Arn":"arn:aws:iam::` + account + `:root"`; res.StatusCode != 200 || !strings.Contains(string(body), "GetCallerIdentityResponse") || !strings.Contains(string(body), want) {
		t.Errorf("%d %s", res.StatusCode, body)
	}
}

func TestAssumeRoleWithinAnAccount(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	denied := "User: arn:aws:iam::" + account + ":user/ann is not authorized to perform: sts:AssumeRole on resource: "

	_, err := root.assume(roleARN(account, "any"))
	testkit.WantError(t, err, "AccessDenied", "Roles may not be assumed by root accounts.")
	_, err = ann.assume(roleARN(account, "missing"))
	testkit.WantError(t, err, "AccessDenied", denied+*roleARN(account, "missing"))

	// A trust policy that names the user is sufficient.
	w.role(t, root, "named", `{"AWS":"arn:aws:iam::`+account+`:user/ann"}`, "")
	out, err := ann.assume(roleARN(account, "named"))
	must(t, err)
	if want := "arn:aws:sts::" + account + ":assumed-role/named/work"; *out.AssumedRoleUser.Arn != want || !strings.HasSuffix(*out.AssumedRoleUser.AssumedRoleId, ":work") {
		t.Errorf("assumed %s (%s), want %s", *out.AssumedRoleUser.Arn, *out.AssumedRoleUser.AssumedRoleId, want)
	}
	session := w.with(out.Credentials)
	wantCaller(t, session, *out.AssumedRoleUser.Arn)
	must(t, second(session.iam.ListUsers(ctx, &awsiam.ListUsersInput{})))
	_, err = session.iam.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: aws.String("ann")})
	testkit.WantError(t, err, "AccessDenied", "User: arn:aws:sts::"+account+":assumed-role/named/work is not authorized to perform: iam:DeleteUser on resource: arn:aws:iam::"+account+":user/ann because no identity-based policy allows the iam:DeleteUser action")
	_, err = ann.assume(aws.String("arn:aws:iam::" + account + ":role/named")) // without its path
	testkit.WantError(t, err, "AccessDenied", "")

	// One that names the account leaves the decision to the account's policies.
	w.role(t, root, "account", `{"AWS":"`+account+`"}`, "")
	_, err = ann.assume(roleARN(account, "account"))
	testkit.WantError(t, err, "AccessDenied", denied+*roleARN(account, "account"))
	w.allow(t, root, "ann", "sts:AssumeRole", *roleARN(account, "*"))
	must(t, second(ann.assume(roleARN(account, "account"))))

	// One that names a service allows no one else.
	w.role(t, root, "service", `{"Service":"ec2.amazonaws.com"}`, "")
	_, err = ann.assume(roleARN(account, "service"))
	testkit.WantError(t, err, "AccessDenied", denied+*roleARN(account, "service"))

	// An explicit deny is reported.
	deny := `{"Version":"2012-10-17","Statement":[{"Effect":"Deny","Action":"sts:*","Resource":"*"}]}`
	must(t, second(root.iam.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("ann"), PolicyName: aws.String("deny"), PolicyDocument: &deny})))
	_, err = ann.assume(roleARN(account, "named"))
	testkit.WantError(t, err, "AccessDenied", denied+*roleARN(account, "named")+" with an explicit deny in an identity-based policy")

	// A role that is deleted and created again is a different role: its old sessions are not valid.
	must(t, second(root.iam.DetachRolePolicy(ctx, &awsiam.DetachRolePolicyInput{RoleName: aws.String("named"), PolicyArn: aws.String("arn:aws:iam::aws:policy/IAMReadOnlyAccess")})))
	must(t, second(root.iam.DeleteRole(ctx, &awsiam.DeleteRoleInput{RoleName: aws.String("named")})))
	w.role(t, root, "named", `{"AWS":"arn:aws:iam::`+account+`:user/ann"}`, "")
	_, err = session.iam.ListUsers(ctx, &awsiam.ListUsersInput{})
	testkit.WantError(t, err, "InvalidClientTokenId", "The security token included in the request is invalid.")
}

func TestAssumeRoleAcrossAccounts(t *testing.T) {
	w := newWorld(t)
	root, account := w.root(t)
	other, otherAccount := w.root(t)
	bob := w.user(t, other, "bob")
	w.role(t, root, "guest", `{"AWS":"arn:aws:iam::`+otherAccount+`:user/bob"}`, `,"Condition":{"StringEquals":{"sts:ExternalId":"s3cret"}}`)
	external := func(id string) func(*awssts.AssumeRoleInput) {
		return func(in *awssts.AssumeRoleInput) { in.ExternalId = &id }
	}
	_, err := bob.assume(roleARN(account, "guest"), external("s3cret"))
	testkit.WantError(t, err, "AccessDenied", "") // bob's own account must allow it, too
	w.allow(t, other, "bob", "sts:AssumeRole", "*")
	_, err = bob.assume(roleARN(account, "guest"))
	testkit.WantError(t, err, "AccessDenied", "")
	_, err = bob.assume(roleARN(account, "guest"), external("guess"))
	testkit.WantError(t, err, "AccessDenied", "")
	out, err := bob.assume(roleARN(account, "guest"), external("s3cret"))
	must(t, err)
	wantCaller(t, w.with(out.Credentials), "arn:aws:sts::"+account+":assumed-role/guest/work")
}

func TestSessionPoliciesNarrow(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	w.role(t, root, "r", `{"AWS":"arn:aws:iam::`+account+`:user/ann"}`, "")
	out, err := ann.assume(roleARN(account, "r"), func(in *awssts.AssumeRoleInput) {
		in.Policy = aws.String(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"iam:ListUsers","Resource":"*"}]}`)
	})
	must(t, err)
	//lint:ignore SA1019 clients of today still read it
	if out.PackedPolicySize == nil {
		t.Error("no packed policy size")
	}
	session := w.with(out.Credentials)
	must(t, second(session.iam.ListUsers(ctx, &awsiam.ListUsersInput{})))
	_, err = session.iam.ListRoles(ctx, &awsiam.ListRolesInput{})
	testkit.WantError(t, err, "AccessDenied", "User: arn:aws:sts::"+account+":assumed-role/r/work is not authorized to perform: iam:ListRoles on resource: arn:aws:iam::"+account+":role/ because no session policy allows the iam:ListRoles action")

	_, err = ann.assume(roleARN(account, "r"), func(in *awssts.AssumeRoleInput) { in.Policy = aws.String("{}") })
	testkit.WantError(t, err, "MalformedPolicyDocument", "Syntax errors in policy.")
	_, err = ann.assume(roleARN(account, "r"), func(in *awssts.AssumeRoleInput) { in.Policy = aws.String(strings.Repeat(" ", 4096)) })
	testkit.WantError(t, err, "PackedPolicyTooLarge", "Packed policy consumes 200% of allotted space, please use smaller policy.")
	_, err = ann.assume(roleARN(account, "r"), func(in *awssts.AssumeRoleInput) {
		in.Tags = []ststypes.Tag{{Key: aws.String("team"), Value: aws.String("a")}}
	})
	testkit.WantError(t, err, "AccessDenied", "User: arn:aws:iam::"+account+":user/ann is not authorized to perform: sts:TagSession on resource: "+*roleARN(account, "r"))
}

func TestSessionsEnd(t *testing.T) {
	w := newWorld(t)
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	w.role(t, root, "first", `{"AWS":"arn:aws:iam::`+account+`:user/ann"}`, "")
	w.role(t, root, "second", `{"AWS":"arn:aws:iam::`+account+`:role/p/first"}`, "")
	lasting := func(seconds int32) func(*awssts.AssumeRoleInput) {
		return func(in *awssts.AssumeRoleInput) { in.DurationSeconds = &seconds }
	}
	_, err := ann.assume(roleARN(account, "first"), lasting(60))
	testkit.WantError(t, err, "ValidationError", "1 validation error detected: Value '60' at 'durationSeconds' failed to satisfy constraint: Member must have value greater than or equal to 900")
	_, err = ann.assume(roleARN(account, "first"), lasting(7200))
	testkit.WantError(t, err, "ValidationError", "The requested DurationSeconds exceeds the MaxSessionDuration set for this role.")
	_, err = ann.assume(roleARN(account, "first"), func(in *awssts.AssumeRoleInput) { in.RoleSessionName = aws.String("a b") })
	testkit.WantError(t, err, "ValidationError", `1 validation error detected: Value 'a b' at 'roleSessionName' failed to satisfy constraint: Member must satisfy regular expression pattern: [\w+=,.@-]*`)
	_, err = ann.assume(aws.String("a-role-without-any-arn"))
	testkit.WantError(t, err, "ValidationError", "a-role-without-any-arn is invalid")

	out, err := ann.assume(roleARN(account, "first"), lasting(900))
	must(t, err)
	first := w.with(out.Credentials)
	must(t, second(root.iam.UpdateRole(context.Background(), &awsiam.UpdateRoleInput{RoleName: aws.String("second"), MaxSessionDuration: aws.Int32(7200)})))
	_, err = first.assume(roleARN(account, "second"), lasting(7200))
	testkit.WantError(t, err, "ValidationError", "The requested DurationSeconds exceeds the 1 hour session limit for roles assumed by role chaining.")
	chained, err := first.assume(roleARN(account, "second"))
	must(t, err)
	wantCaller(t, w.with(chained.Credentials), "arn:aws:sts::"+account+":assumed-role/second/work")

	w.clock.Step(899 * time.Second)
	wantCaller(t, first, "arn:aws:sts::"+account+":assumed-role/first/work")
	w.clock.Step(time.Second)
	_, err = first.sts.GetCallerIdentity(context.Background(), &awssts.GetCallerIdentityInput{})
	testkit.WantError(t, err, "ExpiredToken", "The security token included in the request is expired")
}

func TestTokensAreBoundToTheirKey(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	w.role(t, root, "r", `{"AWS":"arn:aws:iam::`+account+`:user/ann"}`, "")
	one, err := ann.assume(roleARN(account, "r"))
	must(t, err)
	two, err := ann.assume(roleARN(account, "r"))
	must(t, err)
	a, b := one.Credentials, two.Credentials
	// The last character may contain bits that base64 ignores; the tenth does not.
	forged := []byte(*a.SessionToken)
	forged[10] ^= 1
	for name, c := range map[string]caller{
		"no token":         w.as(*a.AccessKeyId, *a.SecretAccessKey, ""),
		"another's token":  w.as(*a.AccessKeyId, *a.SecretAccessKey, *b.SessionToken),
		"a forged token":   w.as(*a.AccessKeyId, *a.SecretAccessKey, string(forged)),
		"a short token":    w.as(*a.AccessKeyId, *a.SecretAccessKey, "AQ=="),
		"no base64":        w.as(*a.AccessKeyId, *a.SecretAccessKey, "?"),
		"a long-term key":  w.as("test", "test", *a.SessionToken),
		"an unissued ASIA": w.as(w.iam.NewAccessKeyID("ASIA", account), "x", *a.SessionToken),
		"a needless token": w.as("test", "test", "anything"),
	} {
		t.Run(name, func(t *testing.T) {
			_, err := c.sts.GetCallerIdentity(ctx, &awssts.GetCallerIdentityInput{})
			testkit.WantError(t, err, "InvalidClientTokenId", "The security token included in the request is invalid.")
		})
	}
	_, err = w.as(*a.AccessKeyId, *b.SecretAccessKey, *a.SessionToken).sts.GetCallerIdentity(ctx, &awssts.GetCallerIdentityInput{})
	testkit.WantError(t, err, "SignatureDoesNotMatch", "")
}

func TestSessionToken(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	out, err := ann.sts.GetSessionToken(ctx, &awssts.GetSessionTokenInput{})
	must(t, err)
	if got := out.Credentials.Expiration.Sub(w.clock.Now()).Round(time.Minute); got != 12*time.Hour {
		t.Errorf("a user's token lasts %v", got)
	}
	session := w.with(out.Credentials)
	wantCaller(t, session, "arn:aws:iam::"+account+":user/ann")
	_, err = session.sts.GetSessionToken(ctx, &awssts.GetSessionTokenInput{})
	testkit.WantError(t, err, "AccessDenied", "Cannot call GetSessionToken with session credentials")
	w.allow(t, root, "ann", "*", "*")
	must(t, second(ann.iam.ListUsers(ctx, &awsiam.ListUsersInput{})))
	_, err = session.iam.ListUsers(ctx, &awsiam.ListUsersInput{})
	testkit.WantError(t, err, "AccessDenied", "")

	rooted, err := root.sts.GetSessionToken(ctx, &awssts.GetSessionTokenInput{DurationSeconds: aws.Int32(43200)})
	must(t, err)
	if got := rooted.Credentials.Expiration.Sub(w.clock.Now()).Round(time.Minute); got != time.Hour {
		t.Errorf("root's token lasts %v", got)
	}
}

func TestFederationToken(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	_, err := ann.sts.GetFederationToken(ctx, &awssts.GetFederationTokenInput{Name: aws.String("guest")})
	testkit.WantError(t, err, "AccessDenied", "User: arn:aws:iam::"+account+":user/ann is not authorized to perform: sts:GetFederationToken on resource: arn:aws:sts::"+account+":federated-user/guest because no identity-based policy allows the sts:GetFederationToken action")
	w.allow(t, root, "ann", "*", "*")
	out, err := ann.sts.GetFederationToken(ctx, &awssts.GetFederationTokenInput{Name: aws.String("guest")})
	must(t, err)
	guest := w.with(out.Credentials)
	wantCaller(t, guest, "arn:aws:sts::"+account+":federated-user/guest")

	// Without session policies, a federated user has no permissions; with them, at most those of
	// the user who requested the credentials.
	p := awsapi.Principal{Type: awsapi.FederatedUser, Account: account, ARN: *out.FederatedUser.Arn, UserID: *out.FederatedUser.FederatedUserId, Name: "ann"}
	may := func(operation string) error {
		call := &awsapi.Call{Principal: p, Service: "eks", Operation: operation, Account: account, Region: "us-east-1"}
		return w.authorizer.Authorize(ctx, call, &awseks.ListClustersInput{})
	}
	if err := may("ListClusters"); err == nil || !strings.Contains(err.Error(), "no session policy allows the eks:ListClusters action") {
		t.Error(err)
	}
	p.SessionPolicyARNs = []string{"arn:aws:iam::aws:policy/ReadOnlyAccess"}
	must(t, may("ListClusters"))
	if may("CreateCluster") == nil {
		t.Error("created without the session policy's leave")
	}
}

// A name does not inherit trust: IAM stores principals by unique ID.
func TestTrustEndsWithItsUser(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	by := `{"AWS":["arn:aws:iam::` + account + `:user/ann"]}`
	w.role(t, root, "r", by, "")
	must(t, second(ann.assume(roleARN(account, "r"))))
	user := aws.String("ann")
	keys, err := root.iam.ListAccessKeys(ctx, &awsiam.ListAccessKeysInput{UserName: user})
	must(t, err)
	must(t, second(root.iam.DeleteAccessKey(ctx, &awsiam.DeleteAccessKeyInput{UserName: user, AccessKeyId: keys.AccessKeyMetadata[0].AccessKeyId})))
	was, err := root.iam.GetUser(ctx, &awsiam.GetUserInput{UserName: user})
	must(t, err)
	must(t, second(root.iam.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: user})))
	ann = w.user(t, root, "ann")
	_, err = ann.assume(roleARN(account, "r"))
	testkit.WantError(t, err, "AccessDenied", "")
	role, err := root.iam.GetRole(ctx, &awsiam.GetRoleInput{RoleName: aws.String("r")})
	must(t, err)
	if doc := *role.Role.AssumeRolePolicyDocument; !strings.Contains(doc, *was.User.UserId) || strings.Contains(doc, "user%2Fann") {
		t.Errorf("the trust policy is shown as %s", doc)
	}
	// Setting the policy again makes it refer to the new user.
	trust := `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":` + by + `,"Action":"sts:AssumeRole"}]}`
	must(t, second(root.iam.UpdateAssumeRolePolicy(ctx, &awsiam.UpdateAssumeRolePolicyInput{RoleName: aws.String("r"), PolicyDocument: &trust})))
	must(t, second(ann.assume(roleARN(account, "r"))))
}

// A renamed user keeps the trust that it has, and its old name has none.
func TestTrustFollowsARenamedUser(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	w.role(t, root, "r", `{"AWS":["arn:aws:iam::`+account+`:user/ann"]}`, "")
	must(t, second(root.iam.UpdateUser(ctx, &awsiam.UpdateUserInput{UserName: aws.String("ann"), NewUserName: aws.String("bea")})))
	must(t, second(ann.assume(roleARN(account, "r"))))
	_, err := w.user(t, root, "ann").assume(roleARN(account, "r"))
	testkit.WantError(t, err, "AccessDenied", "")
}

// Managed session policies must exist.
func TestSessionPoliciesExist(t *testing.T) {
	w := newWorld(t)
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	w.role(t, root, "r", `{"AWS":["arn:aws:iam::`+account+`:user/ann"]}`, "")
	with := func(arn string) func(*awssts.AssumeRoleInput) {
		return func(in *awssts.AssumeRoleInput) {
			in.PolicyArns = []ststypes.PolicyDescriptorType{{Arn: &arn}}
		}
	}
	must(t, second(ann.assume(roleARN(account, "r"), with("arn:aws:iam::aws:policy/IAMReadOnlyAccess"))))
	for _, arn := range []string{"arn:aws:iam::aws:policy/NoSuchAccess", "arn:aws:iam::" + account + ":policy/none", "arn:aws:iam::999999999999:policy/theirs"} {
		_, err := ann.assume(roleARN(account, "r"), with(arn))
		testkit.WantError(t, err, "MalformedPolicyDocument", "")
	}
}

// No one inherits the sessions of a deleted user, not even a new user of the same name.
func TestSessionsEndWithTheirUser(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	ann := w.user(t, root, "ann")
	w.allow(t, root, "ann", "*", "*")
	own, err := ann.sts.GetSessionToken(ctx, &awssts.GetSessionTokenInput{})
	must(t, err)
	vouched, err := ann.sts.GetFederationToken(ctx, &awssts.GetFederationTokenInput{Name: aws.String("guest")})
	must(t, err)
	byRoot, err := root.sts.GetFederationToken(ctx, &awssts.GetFederationTokenInput{Name: aws.String("guest")})
	must(t, err)
	sessions := map[string]caller{"own": w.with(own.Credentials), "federated": w.with(vouched.Credentials)}
	for _, c := range sessions {
		must(t, second(c.sts.GetCallerIdentity(ctx, &awssts.GetCallerIdentityInput{})))
	}
	refused := func(when string) {
		t.Helper()
		for name, c := range sessions {
			t.Run(name+" "+when, func(t *testing.T) {
				_, err := c.sts.GetCallerIdentity(ctx, &awssts.GetCallerIdentityInput{})
				testkit.WantError(t, err, "InvalidClientTokenId", "The security token included in the request is invalid.")
			})
		}
	}
	user := aws.String("ann")
	keys, err := root.iam.ListAccessKeys(ctx, &awsiam.ListAccessKeysInput{UserName: user})
	must(t, err)
	must(t, second(root.iam.DeleteAccessKey(ctx, &awsiam.DeleteAccessKeyInput{UserName: user, AccessKeyId: keys.AccessKeyMetadata[0].AccessKeyId})))
	must(t, second(root.iam.DeleteUserPolicy(ctx, &awsiam.DeleteUserPolicyInput{UserName: user, PolicyName: aws.String("allow")})))
	must(t, second(root.iam.DeleteUser(ctx, &awsiam.DeleteUserInput{UserName: user})))
	refused("of a deleted user")
	w.user(t, root, "ann")
	w.allow(t, root, "ann", "*", "*")
	refused("of a user made again")
	wantCaller(t, w.with(byRoot.Credentials), "arn:aws:sts::"+account+":federated-user/guest")
}

func TestInstancesHoldTheirRole(t *testing.T) {
	w := newWorld(t)
	ctx := context.Background()
	root, account := w.root(t)
	w.role(t, root, "node", `{"Service":"ec2.amazonaws.com"}`, "")
	assume := func(service, role string) (*awssts.AssumeRoleOutput, error) {
		ctx := awsapi.AsServicePrincipal(ctx, account, testkit.Region, service, "", time.Now())
		return awsapi.Do[awssts.AssumeRoleOutput](ctx, w.Front, &awssts.AssumeRoleInput{RoleArn: roleARN(account, role), RoleSessionName: aws.String("i-0abcdef0123456789")})
	}
	out, err := assume("ec2.amazonaws.com", "node")
	must(t, err)
	c := out.Credentials
	if lasts := c.Expiration.Sub(w.clock.Now()); lasts.Round(time.Minute) != 6*time.Hour {
		t.Errorf("the session lasts %v", lasts)
	}
	node := w.with(c)
	wantCaller(t, node, "arn:aws:sts::"+account+":assumed-role/node/i-0abcdef0123456789")
	must(t, second(node.iam.ListUsers(ctx, &awsiam.ListUsersInput{})))
	info, err := root.sts.GetAccessKeyInfo(ctx, &awssts.GetAccessKeyInfoInput{AccessKeyId: c.AccessKeyId})
	must(t, err)
	if *info.Account != account {
		t.Errorf("the key is of %s", *info.Account)
	}
	_, err = assume("ec2.amazonaws.com", "none")
	testkit.WantError(t, err, "AccessDenied", "User: ec2.amazonaws.com is not authorized to perform: sts:AssumeRole on resource: "+*roleARN(account, "none"))
	_, err = assume("pods.eks.amazonaws.com", "node")
	testkit.WantError(t, err, "AccessDenied", "User: pods.eks.amazonaws.com is not authorized to perform: sts:AssumeRole on resource: "+*roleARN(account, "node"))
}
