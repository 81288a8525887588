package logs_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	logstypes "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/kms"
	"github.com/drydock-dev/drydock/internal/service/logs"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM, KMS and CloudWatch Logs behind it, connected as
// the daemon connects them.
type world struct {
	*testkit.Server
	logs       *logs.Service
	bytes      *bytestore.Store
	authorizer *authz.Authorizer
	journal    *journal.Journal
	clock      *clocktesting.FakeClock
}

type options struct {
	dir   string // of the bytes; empty: a new one
	store *store.Store
	limit int64
	// endpoint is the policy of the VPC endpoint that calls come through; empty: they do not.
	endpoint string
}

func newWorld(t testing.TB, o options) *world {
	t.Helper()
	w := &world{clock: clocktesting.NewFakeClock(time.Now())}
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	var err error
	if w.bytes, err = bytestore.Open(bytestore.Config{Dir: o.dir, Ephemeral: true}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.bytes.Close() }) // a test may have closed it
	if w.journal, err = journal.Open(t.TempDir(), journal.Limits{}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.journal.Close() })
	var users *iam.Service
	w.Server = testkit.NewServer(t, testkit.Config{
		Store:   o.store,
		Journal: w.journal,
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			keys := kms.New(kms.Config{Store: st, Log: testkit.Log(t)})
			w.logs = logs.New(logs.Config{Store: st, Bytes: w.bytes, KMS: awscall.KMS{API: front}, Limit: o.limit, Clock: w.clock, Log: testkit.Log(t)})
			w.authorizer = authz.New(authz.Config{
				Services:  []awsapi.Service{users.AWS(), keys.AWS(), w.logs.AWS()},
				Policies:  users.PoliciesOf,
				Resolvers: map[string]authz.Resolver{"iam": users.Authz(), "kms": keys.Authz(), "logs": w.logs.Authz()},
				Store:     st,

				EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return o.endpoint, true },
			})
			return []awsapi.Service{users.AWS(), keys.AWS(), w.logs.AWS()}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		Origin: func(string) (awsapi.VPCEndpoint, netip.Addr) {
			if o.endpoint == "" {
				return awsapi.VPCEndpoint{}, netip.Addr{}
			}
			return awsapi.VPCEndpoint{ID: "vpce-0123456789abcdef0", VPCID: "vpc-0123456789abcdef0"}, netip.MustParseAddr("10.0.0.5")
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error {
			return w.authorizer.Authorize(ctx, call, in)
		},
	})
	return w
}

// An account is one with its root's client.
type account struct {
	t  testing.TB
	w  *world
	c  *awslogs.Client
	id string
}

func (w *world) account(t testing.TB) *account {
	id := w.Account(t)
	return &account{t, w, awslogs.NewFromConfig(w.AWSConfig(id)), id}
}

func (a *account) group(name string) {
	a.t.Helper()
	testkit.Must(a.c.CreateLogGroup(a.t.Context(), &awslogs.CreateLogGroupInput{LogGroupName: &name}))(a.t)
}

func (a *account) stream(group, name string) {
	a.t.Helper()
	testkit.Must(a.c.CreateLogStream(a.t.Context(), &awslogs.CreateLogStreamInput{LogGroupName: &group, LogStreamName: &name}))(a.t)
}

// put writes messages, each a second after the one before, the first some seconds from now.
func (a *account) put(group, stream string, seconds int, messages ...string) *awslogs.PutLogEventsOutput {
	a.t.Helper()
	return testkit.Must(a.c.PutLogEvents(a.t.Context(), a.batch(group, stream, seconds, messages...)))(a.t)
}

func (a *account) batch(group, stream string, seconds int, messages ...string) *awslogs.PutLogEventsInput {
	in := &awslogs.PutLogEventsInput{LogGroupName: &group, LogStreamName: &stream}
	for i, m := range messages {
		at := a.w.clock.Now().Add(time.Duration(seconds+i) * time.Second).UnixMilli()
		in.LogEvents = append(in.LogEvents, logstypes.InputLogEvent{Timestamp: &at, Message: aws.String(m)})
	}
	return in
}

// get reads events and returns the messages.
func (a *account) get(in *awslogs.GetLogEventsInput) (string, *awslogs.GetLogEventsOutput) {
	a.t.Helper()
	out := testkit.Must(a.c.GetLogEvents(a.t.Context(), in))(a.t)
	var messages []string
	for _, e := range out.Events {
		messages = append(messages, *e.Message)
	}
	return strings.Join(messages, " "), out
}

// filter returns the messages that a search finds, with STREAM: in front.
func (a *account) filter(in *awslogs.FilterLogEventsInput) (string, *awslogs.FilterLogEventsOutput) {
	a.t.Helper()
	out := testkit.Must(a.c.FilterLogEvents(a.t.Context(), in))(a.t)
	var messages []string
	for _, e := range out.Events {
		messages = append(messages, *e.LogStreamName+":"+*e.Message)
	}
	return strings.Join(messages, " "), out
}

// user makes a user of the account with an inline policy.
func (a *account) user(name, policy string) *awslogs.Client {
	a.t.Helper()
	c := awsiam.NewFromConfig(a.w.AWSConfig(a.id))
	testkit.Must(c.CreateUser(a.t.Context(), &awsiam.CreateUserInput{UserName: &name}))(a.t)
	testkit.Must(c.PutUserPolicy(a.t.Context(), &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(a.t)
	k := testkit.Must(c.CreateAccessKey(a.t.Context(), &awsiam.CreateAccessKeyInput{UserName: &name}))(a.t).AccessKey
	return awslogs.NewFromConfig(a.w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "")))
}
