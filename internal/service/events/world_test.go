package events_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	eventstypes "github.com/aws/aws-sdk-go-v2/service/eventbridge/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	clocktesting "k8s.io/utils/clock/testing"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/service/events"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/logs"
	"github.com/drydock-dev/drydock/internal/service/sns"
	"github.com/drydock-dev/drydock/internal/service/sqs"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM, SQS, SNS, CloudWatch Logs and EventBridge behind it,
// connected as the daemon connects them.
type world struct {
	*testkit.Server
	events     *events.Service
	bytes      *bytestore.Store
	authorizer *authz.Authorizer
	clock      *clocktesting.FakeClock
}

type options struct {
	dir   string // of the bytes; empty: a new one
	store *store.Store
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
	entries, err := journal.Open(t.TempDir(), journal.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = entries.Close() })
	var users *iam.Service
	w.Server = testkit.NewServer(t, testkit.Config{
		Store:   o.store,
		Journal: entries,
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			queues := sqs.New(sqs.Config{Store: st, Bytes: w.bytes, Clock: w.clock, Draining: server.Draining, Log: testkit.Log(t)})
			topics := sns.New(sns.Config{Store: st, SQS: awscall.SQS{API: front}, Clock: w.clock, Log: testkit.Log(t)})
			groups := logs.New(logs.Config{Store: st, Bytes: w.bytes, Clock: w.clock, Log: testkit.Log(t)})
			w.events = events.New(events.Config{
				Store: st, Bytes: w.bytes, SQS: awscall.SQS{API: front}, SNS: awscall.SNS{API: front}, Logs: awscall.Logs{API: front}, Clock: w.clock,
				Log: testkit.Log(t),
			})
			w.authorizer = authz.New(authz.Config{
				Services:  []awsapi.Service{users.AWS(), queues.AWS(), topics.AWS(), groups.AWS(), w.events.AWS()},
				Policies:  users.PoliciesOf,
				Resolvers: map[string]authz.Resolver{"iam": users.Authz(), "sqs": queues.Authz(), "sns": topics.Module().Resolver, "logs": groups.Authz(), "events": w.events.Authz()},
				Store:     st,

				EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return o.endpoint, true },
			})
			return []awsapi.Service{users.AWS(), queues.AWS(), topics.AWS(), groups.AWS(), w.events.AWS()}
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

// An account is one with its root's clients.
type account struct {
	t      testing.TB
	w      *world
	id     string
	events *awsevents.Client
	sqs    *awssqs.Client
	logs   *awslogs.Client
}

func (w *world) account(t testing.TB) *account {
	id := w.Account(t)
	cfg := w.AWSConfig(id)
	return &account{t, w, id, awsevents.NewFromConfig(cfg), awssqs.NewFromConfig(cfg), awslogs.NewFromConfig(cfg)}
}

// A queue is one that may be a target.
type queue struct {
	a   *account
	url string
	arn string
}

// queue makes a queue that lets EventBridge send, or not.
func (a *account) queue(name string, open bool) *queue {
	a.t.Helper()
	attributes := map[string]string{}
	q := &queue{a: a, arn: "arn:aws:sqs:us-east-1:" + a.id + ":" + name}
	if open {
		attributes["Policy"] = `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":["events.amazonaws.com","sqs.amazonaws.com"]},"Action":"sqs:SendMessage","Resource":"` + q.arn + `"}}`
	}
	if strings.HasSuffix(name, ".fifo") {
		attributes["FifoQueue"], attributes["ContentBasedDeduplication"] = "true", "true"
	}
	q.url = *testkit.Must(a.sqs.CreateQueue(a.t.Context(), &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes}))(a.t).QueueUrl
	return q
}

// messages waits until a queue has n messages, and takes them.
func (q *queue) messages(n int) []sqstypes.Message {
	q.a.t.Helper()
	var all []sqstypes.Message
	testkit.Eventually(q.a.t, 10*time.Second, func() error {
		out, err := q.a.sqs.ReceiveMessage(q.a.t.Context(), &awssqs.ReceiveMessageInput{
			QueueUrl: &q.url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"}, MessageSystemAttributeNames: []sqstypes.MessageSystemAttributeName{"All"},
		})
		if err != nil {
			return err
		}
		for _, m := range out.Messages {
			all = append(all, m)
			if _, err := q.a.sqs.DeleteMessage(q.a.t.Context(), &awssqs.DeleteMessageInput{QueueUrl: &q.url, ReceiptHandle: m.ReceiptHandle}); err != nil {
				return err
			}
		}
		if len(all) != n {
			return fmt.Errorf("%d of %d messages", len(all), n)
		}
		return nil
	})
	return all
}

// rule makes a rule with targets.
func (a *account) rule(name, pattern string, targets ...eventstypes.Target) string {
	a.t.Helper()
	out := testkit.Must(a.events.PutRule(a.t.Context(), &awsevents.PutRuleInput{Name: &name, EventPattern: &pattern}))(a.t)
	a.targets(name, targets...)
	return *out.RuleArn
}

func (a *account) targets(rule string, targets ...eventstypes.Target) {
	a.t.Helper()
	if len(targets) > 0 {
		testkit.Must(a.events.PutTargets(a.t.Context(), &awsevents.PutTargetsInput{Rule: &rule, Targets: targets}))(a.t)
	}
}

func (q *queue) target(id string) eventstypes.Target {
	return eventstypes.Target{Id: &id, Arn: &q.arn}
}

// put sends an event to the default bus.
func (a *account) put(source, detailType, detail string) string {
	a.t.Helper()
	out := testkit.Must(a.events.PutEvents(a.t.Context(), &awsevents.PutEventsInput{Entries: []eventstypes.PutEventsRequestEntry{{Source: &source, DetailType: &detailType, Detail: &detail}}}))(a.t)
	if out.FailedEntryCount != 0 {
		a.t.Fatalf("%s: %s", aws.ToString(out.Entries[0].ErrorCode), aws.ToString(out.Entries[0].ErrorMessage))
	}
	return *out.Entries[0].EventId
}

func parse(t testing.TB, text string) map[string]any {
	t.Helper()
	var v map[string]any
	if err := json.Unmarshal([]byte(text), &v); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return v
}

// user makes a user of the account with an inline policy.
func (a *account) user(name, policy string) *awsevents.Client {
	a.t.Helper()
	c := awsiam.NewFromConfig(a.w.AWSConfig(a.id))
	testkit.Must(c.CreateUser(a.t.Context(), &awsiam.CreateUserInput{UserName: &name}))(a.t)
	testkit.Must(c.PutUserPolicy(a.t.Context(), &awsiam.PutUserPolicyInput{UserName: &name, PolicyName: aws.String("p"), PolicyDocument: &policy}))(a.t)
	k := testkit.Must(c.CreateAccessKey(a.t.Context(), &awsiam.CreateAccessKeyInput{UserName: &name}))(a.t).AccessKey
	return awsevents.NewFromConfig(a.w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "")))
}
