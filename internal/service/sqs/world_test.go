package sqs_test

import (
	"context"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	"k8s.io/utils/clock"
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
	"github.com/drydock-dev/drydock/internal/service/sqs"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM, KMS and SQS, connected as in the daemon.
type world struct {
	*testkit.Server
	sqs        *sqs.Service
	bytes      *bytestore.Store
	authorizer *authz.Authorizer
	journal    *journal.Journal
	clock      *clocktesting.FakeClock
}

type options struct {
	dir   string // folder of the byte store; empty for a new one
	store *store.Store
	pause time.Duration
	clock *clocktesting.FakeClock
	real  bool // clock
	room  int64
	sync  bool
	// endpoint is the policy of the VPC endpoint through which calls come, or empty if they do not
	// come through one.
	endpoint string
}

func newWorld(t testing.TB, o options) *world {
	t.Helper()
	w := &world{clock: o.clock}
	if w.clock == nil {
		w.clock = clocktesting.NewFakeClock(time.Now())
	}
	var clk clock.WithTicker = w.clock
	if o.real {
		clk = clock.RealClock{}
	}
	if o.dir == "" {
		o.dir = t.TempDir()
	}
	var err error
	if w.bytes, err = bytestore.Open(bytestore.Config{Dir: o.dir, Ephemeral: !o.sync, Room: o.room}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = w.bytes.Close() }) // a test may have closed it already
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
			w.sqs = sqs.New(sqs.Config{Store: st, Bytes: w.bytes, KMS: awscall.KMS{API: front}, Clock: clk, Pause: o.pause, Draining: server.Draining, Log: testkit.Log(t)})
			w.authorizer = authz.New(authz.Config{
				Services:  []awsapi.Service{users.AWS(), keys.AWS(), w.sqs.AWS()},
				Policies:  users.PoliciesOf,
				Resolvers: map[string]authz.Resolver{"iam": users.Authz(), "kms": keys.Authz(), "sqs": w.sqs.Authz()},
				Store:     st,

				EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return o.endpoint, true },
			})
			return []awsapi.Service{users.AWS(), keys.AWS(), w.sqs.AWS()}
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

// A queue is a queue of an account, with a client of its owner.
type queue struct {
	t   testing.TB
	c   *awssqs.Client
	w   *world
	url *string
}

func (w *world) root(t testing.TB) (*awssqs.Client, string) {
	account := w.Account(t)
	return awssqs.NewFromConfig(w.AWSConfig(account)), account
}

func (w *world) queue(t testing.TB, c *awssqs.Client, name string, attributes map[string]string) *queue {
	t.Helper()
	out, err := c.CreateQueue(t.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
	if err != nil {
		t.Fatal(err)
	}
	return &queue{t, c, w, out.QueueUrl}
}

func (w *world) fifo(t testing.TB, c *awssqs.Client, attributes map[string]string) *queue {
	all := map[string]string{"FifoQueue": "true", "ContentBasedDeduplication": "true"}
	for k, v := range attributes {
		all[k] = v
	}
	return w.queue(t, c, "q.fifo", all)
}

func (q *queue) send(bodies ...string) {
	q.t.Helper()
	for _, b := range bodies {
		in := &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String(b)}
		if strings.HasSuffix(*q.url, ".fifo") { // GROUP:BODY
			group, _, _ := strings.Cut(b, ":")
			in.MessageGroupId = &group
		}
		testkit.Must(q.c.SendMessage(q.t.Context(), in))(q.t)
	}
}

func (q *queue) receive(n int32) []sqstypes.Message {
	q.t.Helper()
	return testkit.Must(q.c.ReceiveMessage(q.t.Context(), &awssqs.ReceiveMessageInput{
		QueueUrl: q.url, MaxNumberOfMessages: n, MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"All"}, MessageAttributeNames: []string{"All"},
	}))(q.t).Messages
}

func bodies(list []sqstypes.Message) string {
	var out []string
	for _, m := range list {
		out = append(out, *m.Body)
	}
	return strings.Join(out, " ")
}

func (q *queue) want(n int32, want string) []sqstypes.Message {
	q.t.Helper()
	got := q.receive(n)
	if bodies(got) != want {
		q.t.Errorf("received %q, want %q", bodies(got), want)
	}
	return got
}

func (q *queue) delete(m sqstypes.Message) error {
	_, err := q.c.DeleteMessage(q.t.Context(), &awssqs.DeleteMessageInput{QueueUrl: q.url, ReceiptHandle: m.ReceiptHandle})
	return err
}

func (q *queue) visibility(m sqstypes.Message, seconds int32) error {
	_, err := q.c.ChangeMessageVisibility(q.t.Context(), &awssqs.ChangeMessageVisibilityInput{QueueUrl: q.url, ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: seconds})
	return err
}

func (q *queue) set(attributes map[string]string) error {
	_, err := q.c.SetQueueAttributes(q.t.Context(), &awssqs.SetQueueAttributesInput{QueueUrl: q.url, Attributes: attributes})
	return err
}

func (q *queue) attributes(names ...sqstypes.QueueAttributeName) map[string]string {
	q.t.Helper()
	if names == nil {
		names = []sqstypes.QueueAttributeName{"All"}
	}
	return testkit.Must(q.c.GetQueueAttributes(q.t.Context(), &awssqs.GetQueueAttributesInput{QueueUrl: q.url, AttributeNames: names}))(q.t).Attributes
}

func (q *queue) arn() string { return q.attributes("QueueArn")["QueueArn"] }

// counts returns the numbers of visible, delayed and in-flight messages.
func (q *queue) counts() string {
	a := q.attributes()
	return a["ApproximateNumberOfMessages"] + " " + a["ApproximateNumberOfMessagesDelayed"] + " " + a["ApproximateNumberOfMessagesNotVisible"]
}

func (q *queue) wantCounts(want string) {
	q.t.Helper()
	if got := q.counts(); got != want {
		q.t.Errorf("visible, delayed, in flight: %s, want %s", got, want)
	}
}

// user creates a user of an account with an inline policy, or without one if it is empty.
func (w *world) user(t testing.TB, account, name, policy string) aws.Config {
	t.Helper()
	c := awsiam.NewFromConfig(w.AWSConfig(account))
	testkit.Must(c.CreateUser(t.Context(), &awsiam.CreateUserInput{UserName: &name}))(t)
	if policy != "" {
		testkit.Must(c.PutUserPolicy(t.Context(), &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(t)
	}
	k := testkit.Must(c.CreateAccessKey(t.Context(), &awsiam.CreateAccessKeyInput{UserName: &name}))(t).AccessKey
	return w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, ""))
}
