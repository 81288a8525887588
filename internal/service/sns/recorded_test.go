package sns_test

import (
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// The answers are those that LocalStack's tests recorded from AWS
// (https://github.com/localstack/localstack, tests/aws/services/sns/test_sns.snapshot.json).
func TestAnswersAsRecorded(t *testing.T) {
	w, ctx := newWorld(t, ""), t.Context()
	tag := func(k, v string) snstypes.Tag { return snstypes.Tag{Key: &k, Value: &v} }
	topic := testkit.Must(w.c.CreateTopic(ctx, &awssns.CreateTopicInput{Name: aws.String("t"), Tags: []snstypes.Tag{tag("a", "1"), tag("b", "2")}}))(t).TopicArn
	for _, tags := range [][]snstypes.Tag{nil, {tag("a", "1")}} {
		if again := testkit.Must(w.c.CreateTopic(ctx, &awssns.CreateTopicInput{Name: aws.String("t"), Tags: tags}))(t).TopicArn; *again != *topic {
			t.Errorf("made again as %s", *again)
		}
	}
	_, err := w.c.CreateTopic(ctx, &awssns.CreateTopicInput{Name: aws.String("t"), Tags: []snstypes.Tag{tag("a", "2")}})
	testkit.WantError(t, err, "InvalidParameter", "Invalid parameter: Tags Reason: Topic already exists with different tags")
	_, err = w.c.TagResource(ctx, &awssns.TagResourceInput{ResourceArn: topic, Tags: []snstypes.Tag{tag("k", "v"), tag("k", "v")}})
	testkit.WantError(t, err, "InvalidParameter", "Invalid parameter: Duplicated keys are not allowed.")
	for name, want := range map[string]string{
		"randomstring":   "TopicArn Reason: An ARN must have at least 6 elements, not 1",
		"randomstring:1": "TopicArn Reason: An ARN must have at least 6 elements, not 2",
		strings.Replace(*topic, "us-east-1", "eu-west-1", 1): "TopicArn",
	} {
		_, err := w.c.Publish(ctx, &awssns.PublishInput{TopicArn: &name, Message: aws.String("m")})
		testkit.WantError(t, err, "InvalidParameter", "Invalid parameter: "+want)
	}
	batch := func(id string) error {
		_, err := w.c.PublishBatch(ctx, &awssns.PublishBatchInput{TopicArn: topic, PublishBatchRequestEntries: []snstypes.PublishBatchRequestEntry{{Id: &id, Message: aws.String("m")}}})
		return err
	}
	testkit.WantErrorWith(t, batch("message.id"), "InvalidBatchEntryId", "contains an impermissible character: message.id")
	testkit.WantErrorWith(t, batch(strings.Repeat("a", 81)), "InvalidBatchEntryId", "is too long: aaa")
	if err := batch("valid-message_123"); err != nil {
		t.Error(err)
	}
	_, err = w.c.Subscribe(ctx, &awssns.SubscribeInput{TopicArn: topic, Protocol: aws.String("test-protocol"), Endpoint: aws.String("x")})
	testkit.WantError(t, err, "InvalidParameter", "Invalid parameter: Amazon SNS does not support this protocol string: test-protocol")
	sub := w.subscribe(topic, w.queue("q", topic), map[string]string{"RawMessageDelivery": "TrUe"})
	if got := testkit.Must(w.c.GetSubscriptionAttributes(ctx, &awssns.GetSubscriptionAttributesInput{SubscriptionArn: sub}))(t).Attributes["RawMessageDelivery"]; got != "true" {
		t.Errorf("RawMessageDelivery %s", got)
	}
}
