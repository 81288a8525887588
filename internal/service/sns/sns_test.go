package sns_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	"github.com/aws/aws-sdk-go-v2/credentials"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/awsapi/sigv4"
	"github.com/drydock-dev/drydock/internal/awscall"
	"github.com/drydock-dev/drydock/internal/bytestore"
	"github.com/drydock-dev/drydock/internal/service/iam"
	"github.com/drydock-dev/drydock/internal/service/sns"
	"github.com/drydock-dev/drydock/internal/service/sqs"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A world is an AWS API server with IAM, SQS and SNS behind it, and an account's root user.
type world struct {
	*testkit.Server
	t       *testing.T
	account string
	c       *awssns.Client
	queues  *awssqs.Client
}

func newWorld(t *testing.T, endpoint string) *world {
	w := &world{t: t}
	bytes, err := bytestore.Open(bytestore.Config{Dir: t.TempDir(), Ephemeral: true})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = bytes.Close() })
	var users *iam.Service
	var authorizer *authz.Authorizer
	w.Server = testkit.NewServer(t, testkit.Config{
		Calling: func(st *store.Store, front *server.Server) []awsapi.Service {
			users = iam.New(iam.Config{Store: st, Log: testkit.Log(t)})
			queues := sqs.New(sqs.Config{Store: st, Bytes: bytes, Log: testkit.Log(t)})
			topics := sns.New(sns.Config{Store: st, SQS: awscall.SQS{API: front}, Log: testkit.Log(t)})
			authorizer = authz.New(authz.Config{
				Services: []awsapi.Service{users.AWS(), queues.AWS(), topics.AWS()},
				Policies: users.PoliciesOf, Resolvers: map[string]authz.Resolver{"iam": users.Authz(), "sqs": queues.Authz()}, Store: st,
				EndpointPolicy: func(context.Context, string, string, string) (string, bool) { return endpoint, true },
			})
			authorizer.Register("sns", topics.Module().Resolver)
			return []awsapi.Service{users.AWS(), queues.AWS(), topics.AWS()}
		},
		Lookup: func(ctx context.Context, key, _ string) (sigv4.Credential, error) {
			secret, p, err := users.LookupAccessKey(ctx, key)
			if err != nil {
				return sigv4.Credential{}, sigv4.ErrUnknownKey
			}
			return sigv4.Credential{SecretKey: secret, Principal: p}, nil
		},
		Origin: func(string) (awsapi.VPCEndpoint, netip.Addr) {
			if endpoint == "" {
				return awsapi.VPCEndpoint{}, netip.Addr{}
			}
			return awsapi.VPCEndpoint{ID: "vpce-0123456789abcdef0", VPCID: "vpc-0123456789abcdef0"}, netip.MustParseAddr("10.0.0.5")
		},
		AuthorizeInput: func(ctx context.Context, call *awsapi.Call, in any) error { return authorizer.Authorize(ctx, call, in) },
	})
	w.account = w.Account(t)
	w.c, w.queues = awssns.NewFromConfig(w.AWSConfig(w.account)), awssqs.NewFromConfig(w.AWSConfig(w.account))
	return w
}

func (w *world) topic(name string) *string {
	w.t.Helper()
	return testkit.Must(w.c.CreateTopic(w.t.Context(), &awssns.CreateTopicInput{Name: &name}))(w.t).TopicArn
}

// queue creates a queue, which accepts messages of a topic if topic is set, and returns its ARN.
func (w *world) queue(name string, topic *string) string {
	w.t.Helper()
	in := &awssqs.CreateQueueInput{QueueName: &name}
	if topic != nil {
		in.Attributes = map[string]string{"Policy": fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"sns.amazonaws.com"},"Action":"sqs:SendMessage","Resource":"*","Condition":{"ArnEquals":{"aws:SourceArn":%q}}}]}`, *topic)}
	}
	testkit.Must(w.queues.CreateQueue(w.t.Context(), in))(w.t)
	return "arn:aws:sqs:" + testkit.Region + ":" + w.account + ":" + name
}

func (w *world) subscribe(topic *string, queue string, attributes map[string]string) *string {
	w.t.Helper()
	return testkit.Must(w.c.Subscribe(w.t.Context(), &awssns.SubscribeInput{TopicArn: topic, Protocol: aws.String("sqs"), Endpoint: &queue, Attributes: attributes}))(w.t).SubscriptionArn
}

// bodies receives all messages of a queue.
func (w *world) bodies(queue string) []string {
	w.t.Helper()
	name := queue[strings.LastIndex(queue, ":")+1:]
	url := testkit.Must(w.queues.GetQueueUrl(w.t.Context(), &awssqs.GetQueueUrlInput{QueueName: &name}))(w.t).QueueUrl
	var out []string
	for _, m := range testkit.Must(w.queues.ReceiveMessage(w.t.Context(), &awssqs.ReceiveMessageInput{QueueUrl: url, MaxNumberOfMessages: 10, MessageAttributeNames: []string{"All"}}))(w.t).Messages {
		body := *m.Body
		for k, v := range m.MessageAttributes {
			body += " " + k + "=" + *v.StringValue
		}
		out = append(out, body)
	}
	return out
}

func text(value string) snstypes.MessageAttributeValue {
	return snstypes.MessageAttributeValue{DataType: aws.String("String"), StringValue: &value}
}

func TestMessagesReachTheQueuesThatWantThem(t *testing.T) {
	w := newWorld(t, "")
	topic := w.topic("t")
	all, raw, body, refusing, dead := w.queue("all", topic), w.queue("raw", topic), w.queue("body", topic), w.queue("refusing", nil), w.queue("dead", topic)
	w.subscribe(topic, all, nil)
	w.subscribe(topic, raw, map[string]string{"RawMessageDelivery": "true", "FilterPolicy": `{"shop":[{"prefix":"a"}],"price":[{"numeric":[">",5]}]}`})
	w.subscribe(topic, body, map[string]string{"RawMessageDelivery": "true", "FilterPolicy": `{"order":{"state":["paid"]}}`, "FilterPolicyScope": "MessageBody"})
	w.subscribe(topic, refusing, map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"` + dead + `"}`, "FilterPolicy": `{"shop":["abc"]}`})

	id := testkit.Must(w.c.Publish(t.Context(), &awssns.PublishInput{
		TopicArn: topic, Subject: aws.String("News"), Message: aws.String("hello"),
		MessageAttributes: map[string]snstypes.MessageAttributeValue{"shop": text("abc"), "price": {DataType: aws.String("Number"), StringValue: aws.String("7")}},
	}))(t).MessageId
	got := w.bodies(all)
	var n map[string]any
	if len(got) != 1 || json.Unmarshal([]byte(got[0]), &n) != nil || n["Type"] != "Notification" || n["MessageId"] != *id || n["TopicArn"] != *topic || n["Subject"] != "News" || n["Message"] != "hello" ||
		fmt.Sprint(n["MessageAttributes"]) != "map[price:map[Type:Number Value:7] shop:map[Type:String Value:abc]]" {
		t.Errorf("%v", got)
	}
	if got := w.bodies(raw); len(got) != 1 || !strings.HasPrefix(got[0], "hello ") || !strings.Contains(got[0], "shop=abc") {
		t.Errorf("%v", got)
	}
	if got := w.bodies(dead); len(got) != 1 {
		t.Errorf("dead letters: %v", got)
	}
	testkit.Must(w.c.Publish(t.Context(), &awssns.PublishInput{TopicArn: topic, Message: aws.String(`{"order":{"state":"paid"}}`)}))(t)
	testkit.Must(w.c.Publish(t.Context(), &awssns.PublishInput{TopicArn: topic, MessageStructure: aws.String("json"), Message: aws.String(`{"default":"d","sqs":"s"}`)}))(t)
	if got := w.bodies(body); len(got) != 1 || got[0] != `{"order":{"state":"paid"}}` {
		t.Errorf("%v", got)
	}
	if got := strings.Join(w.bodies(all), " "); !strings.Contains(got, `"Message": "s"`) {
		t.Error(got)
	}
	batch := testkit.Must(w.c.PublishBatch(t.Context(), &awssns.PublishBatchInput{TopicArn: topic, PublishBatchRequestEntries: []snstypes.PublishBatchRequestEntry{
		{Id: aws.String("1"), Message: aws.String("one")}, {Id: aws.String("2"), Message: aws.String("two"), MessageStructure: aws.String("json")},
	}}))(t)
	if len(batch.Successful) != 1 || len(batch.Failed) != 1 || *batch.Failed[0].Code != "InvalidParameter" {
		t.Errorf("%+v", batch)
	}
	large := snstypes.PublishBatchRequestEntry{Message: aws.String("m"), MessageAttributes: map[string]snstypes.MessageAttributeValue{
		"a": {DataType: aws.String("String"), StringValue: aws.String(strings.Repeat("x", 200_000))},
	}}
	one, two := large, large
	one.Id, two.Id = aws.String("1"), aws.String("2")
	_, err := w.c.PublishBatch(t.Context(), &awssns.PublishBatchInput{TopicArn: topic, PublishBatchRequestEntries: []snstypes.PublishBatchRequestEntry{one, two}})
	testkit.WantErrorWith(t, err, "BatchRequestTooLong", "")
}

func TestTopicsAndSubscriptions(t *testing.T) {
	w := newWorld(t, "")
	topic := w.topic("t")
	if again := w.topic("t"); *again != *topic {
		t.Error(*again)
	}
	_, err := w.c.CreateTopic(t.Context(), &awssns.CreateTopicInput{Name: aws.String("t"), Attributes: map[string]string{"DisplayName": "T"}})
	testkit.WantError(t, err, "InvalidParameter", "Invalid parameter: Attributes Reason: Topic already exists with different attributes")
	_, err = w.c.CreateTopic(t.Context(), &awssns.CreateTopicInput{Name: aws.String("t.fifo"), Attributes: map[string]string{"FifoTopic": "true"}})
	testkit.WantErrorWith(t, err, "NotImplemented", "")
	_, err = w.c.GetTopicAttributes(t.Context(), &awssns.GetTopicAttributesInput{TopicArn: aws.String(*topic + "x")})
	testkit.WantError(t, err, "NotFound", "Topic does not exist")

	q := w.queue("q", topic)
	sub := w.subscribe(topic, q, nil)
	if again := w.subscribe(topic, q, nil); *again != *sub {
		t.Error("subscribed twice", *again)
	}
	_, err = w.c.Subscribe(t.Context(), &awssns.SubscribeInput{TopicArn: topic, Protocol: aws.String("email"), Endpoint: aws.String("a@b.c")})
	testkit.WantErrorWith(t, err, "NotImplemented", "")
	_, err = w.c.SetSubscriptionAttributes(t.Context(), &awssns.SetSubscriptionAttributesInput{SubscriptionArn: sub, AttributeName: aws.String("FilterPolicy"), AttributeValue: aws.String(`{"a":1}`)})
	testkit.WantErrorWith(t, err, "InvalidParameter", "FilterPolicy")
	testkit.Must(w.c.SetSubscriptionAttributes(t.Context(), &awssns.SetSubscriptionAttributesInput{SubscriptionArn: sub, AttributeName: aws.String("FilterPolicy"), AttributeValue: aws.String(`{"a":["b"]}`)}))(t)
	a := testkit.Must(w.c.GetSubscriptionAttributes(t.Context(), &awssns.GetSubscriptionAttributesInput{SubscriptionArn: sub}))(t).Attributes
	if a["FilterPolicyScope"] != "MessageAttributes" || a["Endpoint"] != q || a["PendingConfirmation"] != "false" {
		t.Errorf("%v", a)
	}
	if got := testkit.Must(w.c.ListSubscriptionsByTopic(t.Context(), &awssns.ListSubscriptionsByTopicInput{TopicArn: topic}))(t).Subscriptions; len(got) != 1 || *got[0].SubscriptionArn != *sub {
		t.Errorf("%+v", got)
	}
	testkit.Must(w.c.Unsubscribe(t.Context(), &awssns.UnsubscribeInput{SubscriptionArn: sub}))(t)
	testkit.Must(w.c.Publish(t.Context(), &awssns.PublishInput{TopicArn: topic, Message: aws.String("m")}))(t)
	if got := w.bodies(q); got != nil {
		t.Errorf("%v", got)
	}
	testkit.Must(w.c.DeleteTopic(t.Context(), &awssns.DeleteTopicInput{TopicArn: topic}))(t)
	if got := testkit.Must(w.c.ListTopics(t.Context(), &awssns.ListTopicsInput{}))(t).Topics; len(got) != 0 {
		t.Errorf("%+v", got)
	}
}

func TestPolicies(t *testing.T) {
	w := newWorld(t, "")
	topic := w.topic("t")
	users := awsiam.NewFromConfig(w.AWSConfig(w.account))
	testkit.Must(users.CreateUser(t.Context(), &awsiam.CreateUserInput{UserName: aws.String("u")}))(t)
	k := testkit.Must(users.CreateAccessKey(t.Context(), &awsiam.CreateAccessKeyInput{UserName: aws.String("u")}))(t).AccessKey
	u := awssns.NewFromConfig(w.AWSConfigWith(credentials.NewStaticCredentialsProvider(*k.AccessKeyId, *k.SecretAccessKey, "")))
	publish := &awssns.PublishInput{TopicArn: topic, Message: aws.String("m")}
	_, err := u.Publish(t.Context(), publish)
	testkit.WantErrorWith(t, err, "AuthorizationError", "User: arn:aws:iam::"+w.account+":user/u is not authorized to perform: SNS:Publish on resource: "+*topic)
	_, err = u.PublishBatch(t.Context(), &awssns.PublishBatchInput{TopicArn: topic, PublishBatchRequestEntries: []snstypes.PublishBatchRequestEntry{{Id: aws.String("1"), Message: aws.String("m")}}})
	testkit.WantErrorWith(t, err, "AuthorizationError", "SNS:Publish")

	// The topic's own policy allows the user, and denies even the owner.
	policy := fmt.Sprintf(`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::%s:user/u"},"Action":"sns:Publish","Resource":%q},{"Effect":"Deny","Principal":"*","Action":"sns:DeleteTopic","Resource":%q}]}`, w.account, *topic, *topic)
	testkit.Must(w.c.SetTopicAttributes(t.Context(), &awssns.SetTopicAttributesInput{TopicArn: topic, AttributeName: aws.String("Policy"), AttributeValue: &policy}))(t)
	// Terraform sets these for every aws_sns_topic (TestAccSQSQueue_Policy_basic of its provider has one).
	for _, name := range []string{"ApplicationSuccessFeedbackSampleRate", "FirehoseSuccessFeedbackSampleRate", "HTTPSuccessFeedbackSampleRate", "LambdaSuccessFeedbackSampleRate", "SQSSuccessFeedbackSampleRate"} {
		testkit.Must(w.c.SetTopicAttributes(t.Context(), &awssns.SetTopicAttributesInput{TopicArn: topic, AttributeName: &name, AttributeValue: aws.String("0")}))(t)
		_, err := w.c.SetTopicAttributes(t.Context(), &awssns.SetTopicAttributesInput{TopicArn: topic, AttributeName: &name, AttributeValue: aws.String("5")})
		testkit.WantError(t, err, "NotImplemented", "")
	}
	testkit.Must(u.Publish(t.Context(), publish))(t)
	_, err = w.c.DeleteTopic(t.Context(), &awssns.DeleteTopicInput{TopicArn: topic})
	testkit.WantErrorWith(t, err, "AuthorizationError", "with an explicit deny in a resource-based policy")
	_, err = w.c.SetTopicAttributes(t.Context(), &awssns.SetTopicAttributesInput{TopicArn: topic, AttributeName: aws.String("Policy"), AttributeValue: aws.String("no policy")})
	testkit.WantErrorWith(t, err, "InvalidParameter", "Policy")
}

func TestEndpointPolicy(t *testing.T) {
	w := newWorld(t, `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"sns:ListTopics","Resource":"*"}]}`)
	testkit.Must(w.c.ListTopics(t.Context(), &awssns.ListTopicsInput{}))(t)
	_, err := w.c.CreateTopic(t.Context(), &awssns.CreateTopicInput{Name: aws.String("t")})
	testkit.WantErrorWith(t, err, "AuthorizationError", "no VPC endpoint policy allows")
}
