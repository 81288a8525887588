package sqs_test

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	v4 "github.com/aws/aws-sdk-go-v2/aws/signer/v4"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	smithyhttp "github.com/aws/smithy-go/transport/http"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestQueues(t *testing.T) {
	w := newWorld(t, options{pause: time.Minute})
	c, account := w.root(t)
	ctx := t.Context()
	q := w.queue(t, c, "jobs", map[string]string{"VisibilityTimeout": "20"})
	if want := "https://sqs.us-east-1.amazonaws.com/" + account + "/jobs"; *q.url != want {
		t.Errorf("URL %s, want %s", *q.url, want)
	}
	got := q.attributes()
	delete(got, "CreatedTimestamp")
	delete(got, "LastModifiedTimestamp")
	// As recorded by LocalStack's test_create_and_update_queue_attributes.
	if diff := cmp.Diff(map[string]string{
		"ApproximateNumberOfMessages": "0", "ApproximateNumberOfMessagesDelayed": "0", "ApproximateNumberOfMessagesNotVisible": "0", "DelaySeconds": "0",
		"MaximumMessageSize": "1048576", "MessageRetentionPeriod": "345600", "QueueArn": "arn:aws:sqs:us-east-1:" + account + ":jobs",
		"ReceiveMessageWaitTimeSeconds": "0", "SqsManagedSseEnabled": "true", "VisibilityTimeout": "20",
	}, got); diff != "" {
		t.Errorf("attributes (-want +got):\n%s", diff)
	}
	create := func(name string, attributes map[string]string) error {
		_, err := c.CreateQueue(ctx, &awssqs.CreateQueueInput{QueueName: &name, Attributes: attributes})
		return err
	}
	for _, same := range []map[string]string{nil, {"VisibilityTimeout": "20"}, {"DelaySeconds": "0"}} {
		if err := create("jobs", same); err != nil {
			t.Errorf("once more with %v: %v", same, err)
		}
	}
	testkit.WantError(t, create("jobs", map[string]string{"DelaySeconds": "1"}), "QueueAlreadyExists", "A queue already exists with the same name and a different value for attribute DelaySeconds")
	for _, tt := range []struct {
		name       string
		attributes map[string]string
		code, text string
	}{
		{"a b", nil, "InvalidParameterValue", "Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length"},
		{"x.fifo", nil, "InvalidParameterValue", ""},
		{"x", map[string]string{"FifoQueue": "true"}, "InvalidParameterValue", "The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length."},
		{"x", map[string]string{"FifoQueue": "false"}, "InvalidAttributeName", "Unknown Attribute FifoQueue."},
		{"x", map[string]string{"ContentBasedDeduplication": "false"}, "InvalidAttributeName", "Unknown Attribute ContentBasedDeduplication."},
		{"x", map[string]string{"DeduplicationScope": "queue"}, "InvalidAttributeName", "You can specify the DeduplicationScope only when FifoQueue is set to true."},
		{"x", map[string]string{"Colour": "red"}, "InvalidAttributeName", "Unknown Attribute Colour."},
		{"x", map[string]string{"QueueArn": "red"}, "InvalidAttributeName", "Unknown Attribute QueueArn."},
		{"x", map[string]string{"DelaySeconds": "901"}, "InvalidAttributeValue", "Invalid value for the parameter DelaySeconds."},
		{"x", map[string]string{"MaximumMessageSize": "1048577"}, "InvalidAttributeValue", ""},
		{"x", map[string]string{"Policy": "{"}, "InvalidAttributeValue", "Invalid value for the parameter Policy."},
		{"x", map[string]string{"RedrivePolicy": `{"deadLetterTargetArn":"arn:aws:sqs:us-east-1:` + account + `:none","maxReceiveCount":3}`}, "InvalidParameterValue", ""},
		{"x", map[string]string{"RedriveAllowPolicy": `{"redrivePermission":"byQueue"}`}, "InvalidAttributeValue", ""},
		{"x", map[string]string{"KmsMasterKeyId": "k", "SqsManagedSseEnabled": "true"}, "InvalidAttributeName", "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE."},
	} {
		testkit.WantError(t, create(tt.name, tt.attributes), tt.code, tt.text)
	}
	testkit.WantError(t, q.set(map[string]string{"FifoQueue": "true"}), "InvalidAttributeName", "Unknown Attribute FifoQueue.")
	if err := q.set(map[string]string{"VisibilityTimeout": "", "KmsMasterKeyId": "key", "KmsDataKeyReusePeriodSeconds": "6000"}); err != nil {
		t.Fatal(err)
	}
	if a := q.attributes(); a["VisibilityTimeout"] != "30" || a["SqsManagedSseEnabled"] != "false" || a["KmsDataKeyReusePeriodSeconds"] != "6000" {
		t.Errorf("after a change: %v", a)
	}
	if err := q.set(map[string]string{"SqsManagedSseEnabled": "true"}); err != nil || q.attributes()["KmsMasterKeyId"] != "" {
		t.Errorf("of two kinds of encryption: %v %v", err, q.attributes())
	}

	// Tag the queue.
	testkit.Must(c.TagQueue(ctx, &awssqs.TagQueueInput{QueueUrl: q.url, Tags: map[string]string{"a": "1", "b": ""}}))(t)
	testkit.Must(c.UntagQueue(ctx, &awssqs.UntagQueueInput{QueueUrl: q.url, TagKeys: []string{"a"}}))(t)
	if tags := testkit.Must(c.ListQueueTags(ctx, &awssqs.ListQueueTagsInput{QueueUrl: q.url}))(t).Tags; fmt.Sprint(tags) != "map[b:]" {
		t.Errorf("tags %v", tags)
	}

	// List queues.
	for i := range 5 {
		w.queue(t, c, fmt.Sprintf("list-%d", i), nil)
	}
	list := &awssqs.ListQueuesInput{QueueNamePrefix: aws.String("list-"), MaxResults: aws.Int32(2)}
	var names []string
	for {
		out := testkit.Must(c.ListQueues(ctx, list))(t)
		for _, u := range out.QueueUrls {
			names = append(names, u[strings.LastIndexByte(u, '/')+1:])
		}
		if list.NextToken = out.NextToken; out.NextToken == nil {
			break
		}
	}
	if got := strings.Join(names, " "); got != "list-0 list-1 list-2 list-3 list-4" {
		t.Errorf("listed %s", got)
	}
	if out := testkit.Must(c.ListQueues(ctx, nil))(t); len(out.QueueUrls) != 6 || out.NextToken != nil {
		t.Errorf("all: %v", out.QueueUrls)
	}

	// Delete the queue.
	if out := testkit.Must(c.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: aws.String("jobs")}))(t); *out.QueueUrl != *q.url {
		t.Errorf("URL %s", *out.QueueUrl)
	}
	testkit.Must(c.PurgeQueue(ctx, &awssqs.PurgeQueueInput{QueueUrl: q.url}))(t)
	_, err := c.PurgeQueue(ctx, &awssqs.PurgeQueueInput{QueueUrl: q.url})
	testkit.WantError(t, err, "AWS.SimpleQueueService.PurgeQueueInProgress", "Only one PurgeQueue operation on jobs is allowed every 60 seconds.")
	testkit.Must(c.DeleteQueue(ctx, &awssqs.DeleteQueueInput{QueueUrl: q.url}))(t)
	_, err = c.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: aws.String("jobs")})
	testkit.WantError(t, err, "AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist.")
	testkit.WantError(t, create("jobs", nil), "AWS.SimpleQueueService.QueueDeletedRecently", "You must wait 60 seconds after deleting a queue before you can create another with the same name.")
	w.clock.Step(time.Minute)
	if err := create("jobs", nil); err != nil {
		t.Errorf("after a minute: %v", err)
	}
}

func TestMessages(t *testing.T) {
	w := newWorld(t, options{})
	c, _ := w.root(t)
	ctx := t.Context()
	q := w.queue(t, c, "jobs", nil)
	sent := testkit.Must(c.SendMessage(ctx, &awssqs.SendMessageInput{ // the SDK checks the response
		QueueUrl: q.url, MessageBody: aws.String("hello"),
		MessageAttributes: map[string]sqstypes.MessageAttributeValue{
			"a.number": {DataType: aws.String("Number.int"), StringValue: aws.String("7")}, "a.bytes": {DataType: aws.String("Binary"), BinaryValue: []byte{1, 2}},
			"other": {DataType: aws.String("String"), StringValue: aws.String("x")},
		},
		MessageSystemAttributes: map[string]sqstypes.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: aws.String("Root=1")}},
	}))(t)
	if *sent.MD5OfMessageBody != "5d41402abc4b2a76b9719d911017c592" || sent.MD5OfMessageAttributes == nil || sent.MD5OfMessageSystemAttributes == nil {
		t.Errorf("sent: %+v", sent)
	}
	m := q.want(1, "hello")[0]
	if a := m.Attributes; a["ApproximateReceiveCount"] != "1" || a["AWSTraceHeader"] != "Root=1" || a["SenderId"] == "" || len(m.MessageAttributes) != 3 || *m.MessageId != *sent.MessageId {
		t.Errorf("received %+v", m)
	}
	q.wantCounts("0 0 1")
	q.want(1, "")
	w.clock.Step(30 * time.Second)
	out := testkit.Must(c.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: q.url, MessageAttributeNames: []string{"a.*"}}))(t)
	again := out.Messages[0]
	if len(again.MessageAttributes) != 2 || again.Attributes != nil {
		t.Errorf("some attributes: %+v", again)
	}
	if err := q.delete(m); err != nil { // not the latest receipt: AWS reports success but does not delete the message
		t.Error(err)
	}
	q.wantCounts("0 0 1")
	if err := q.visibility(m, 0); err != nil { // but AWS makes it visible
		t.Error(err)
	}
	if err := q.visibility(again, 5); err != nil { // it has expired
		t.Error(err)
	}
	q.wantCounts("0 0 1")
	w.clock.Step(5 * time.Second)
	third := q.want(1, "hello")[0]
	if third.Attributes["ApproximateReceiveCount"] != "3" {
		t.Errorf("received %v", third.Attributes)
	}
	for range 2 { // deleting is idempotent
		if err := q.delete(third); err != nil {
			t.Error(err)
		}
	}
	q.wantCounts("0 0 0")
	testkit.WantError(t, q.visibility(third, 0), "InvalidParameterValue", "Value "+*third.ReceiptHandle+" for parameter ReceiptHandle is invalid. Reason: Message does not exist or is not available for visibility timeout change.")

	// Delays: the message's, the queue's, and none in spite of the queue's.
	if err := q.set(map[string]string{"DelaySeconds": "10"}); err != nil {
		t.Fatal(err)
	}
	q.send("late")
	testkit.Must(c.SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("soon"), DelaySeconds: 5}))(t)
	q.wantCounts("0 2 0")
	q.want(10, "")
	w.clock.Step(5 * time.Second)
	q.want(10, "soon")
	w.clock.Step(5 * time.Second)
	q.want(10, "late")
	w.clock.Step(4 * 24 * time.Hour) // the retention period
	q.want(10, "")
	q.wantCounts("0 0 0")
	if n := w.bytes.Used(strings.Split(*q.url, "/")[3]); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
	if err := q.set(map[string]string{"DelaySeconds": "", "MaximumMessageSize": "1024"}); err != nil {
		t.Fatal(err)
	}

	// Send and delete in batches.
	entries := []sqstypes.SendMessageBatchRequestEntry{{Id: aws.String("1"), MessageBody: aws.String(strings.Repeat("x", 1025))}, {Id: aws.String("2"), MessageBody: aws.String("fits")}}
	batch := testkit.Must(c.SendMessageBatch(ctx, &awssqs.SendMessageBatchInput{QueueUrl: q.url, Entries: entries}))(t)
	if len(batch.Successful) != 1 || len(batch.Failed) != 1 || *batch.Failed[0].Code != "InvalidParameterValue" ||
		*batch.Failed[0].Message != "One or more parameters cannot be validated. Reason: Message must be shorter than 1024 bytes." {
		t.Errorf("batch: %+v", batch)
	}
	m = q.want(10, "fits")[0]
	vis := testkit.Must(c.ChangeMessageVisibilityBatch(ctx, &awssqs.ChangeMessageVisibilityBatchInput{QueueUrl: q.url, Entries: []sqstypes.ChangeMessageVisibilityBatchRequestEntry{
		{Id: aws.String("1"), ReceiptHandle: m.ReceiptHandle, VisibilityTimeout: 100}, {Id: aws.String("2"), ReceiptHandle: aws.String("?")}}}))(t)
	if len(vis.Successful) != 1 || len(vis.Failed) != 1 || *vis.Failed[0].Code != "ReceiptHandleIsInvalid" {
		t.Errorf("batch of visibilities: %+v", vis)
	}
	w.clock.Step(50 * time.Second)
	q.want(10, "")
	del := testkit.Must(c.DeleteMessageBatch(ctx, &awssqs.DeleteMessageBatchInput{QueueUrl: q.url, Entries: []sqstypes.DeleteMessageBatchRequestEntry{
		{Id: aws.String("1"), ReceiptHandle: m.ReceiptHandle}, {Id: aws.String("2"), ReceiptHandle: aws.String("?")}}}))(t)
	if len(del.Successful) != 1 || len(del.Failed) != 1 {
		t.Errorf("batch of deletions: %+v", del)
	}
	q.wantCounts("0 0 0")

	send := func(edit func(*awssqs.SendMessageInput)) error {
		in := &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("x")}
		edit(in)
		_, err := c.SendMessage(ctx, in)
		return err
	}
	with := func(name string, v sqstypes.MessageAttributeValue) func(*awssqs.SendMessageInput) {
		return func(in *awssqs.SendMessageInput) {
			in.MessageAttributes = map[string]sqstypes.MessageAttributeValue{name: v}
		}
	}
	value := func(kind, text string) sqstypes.MessageAttributeValue {
		return sqstypes.MessageAttributeValue{DataType: &kind, StringValue: &text}
	}
	for _, tt := range []struct {
		edit       func(*awssqs.SendMessageInput)
		code, text string
	}{
		{func(in *awssqs.SendMessageInput) { in.MessageBody = aws.String("") }, "MissingParameter", "The request must contain the parameter MessageBody."},
		{func(in *awssqs.SendMessageInput) { in.MessageBody = aws.String("\x01") }, "InvalidMessageContents", ""},
		{func(in *awssqs.SendMessageInput) { in.MessageBody = aws.String(strings.Repeat("x", 1025)) }, "InvalidParameterValue", "One or more parameters are invalid. Reason: Message must be shorter than 1024 bytes."},
		{func(in *awssqs.SendMessageInput) { in.DelaySeconds = 901 }, "InvalidParameterValue", "Value 901 for parameter DelaySeconds is invalid. Reason: DelaySeconds must be >= 0 and <= 900."},
		{func(in *awssqs.SendMessageInput) { in.MessageGroupId = aws.String("a b") }, "InvalidParameterValue", "Value a b for parameter MessageGroupId is invalid. Reason: MessageGroupId can only include alphanumeric and punctuation characters. 1 to 128 in length."},
		{func(in *awssqs.SendMessageInput) { in.MessageDeduplicationId = aws.String("d") }, "InvalidParameterValue", "Value d for parameter MessageDeduplicationId is invalid. Reason: The request include parameter that is not valid for this queue type."},
		{func(in *awssqs.SendMessageInput) { in.QueueUrl = aws.String(*q.url + "x") }, "AWS.SimpleQueueService.NonExistentQueue", "The specified queue does not exist."},
		{with("e", value("String", "")), "InvalidParameterValue", "Message (user) attribute 'e' must contain a non-empty value of type 'String'."},
		{with("e", value("Text", "x")), "InvalidParameterValue", "The message attribute 'e' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String."},
		{with("AWS.e", value("String", "x")), "InvalidParameterValue", ""},
		{with("e", value("Number", "x")), "InvalidParameterValue", ""},
	} {
		testkit.WantError(t, send(tt.edit), tt.code, tt.text)
	}
	many := make([]sqstypes.SendMessageBatchRequestEntry, 11)
	for i := range many {
		many[i] = sqstypes.SendMessageBatchRequestEntry{Id: aws.String(fmt.Sprint(i)), MessageBody: aws.String("x")}
	}
	twice := []sqstypes.SendMessageBatchRequestEntry{many[0], many[0]}
	invalid := []sqstypes.SendMessageBatchRequestEntry{{Id: aws.String("a:b"), MessageBody: aws.String("x")}}
	for _, tt := range []struct {
		entries []sqstypes.SendMessageBatchRequestEntry
		code    string
	}{{many, "TooManyEntriesInBatchRequest"}, {twice, "BatchEntryIdsNotDistinct"}, {invalid, "InvalidBatchEntryId"}} {
		_, err := c.SendMessageBatch(ctx, &awssqs.SendMessageBatchInput{QueueUrl: q.url, Entries: tt.entries})
		testkit.WantError(t, err, "AWS.SimpleQueueService."+tt.code, "")
	}
	for _, in := range []*awssqs.ReceiveMessageInput{{MaxNumberOfMessages: 11}, {WaitTimeSeconds: 21}, {VisibilityTimeout: 43201}, {ReceiveRequestAttemptId: aws.String("x")}} {
		in.QueueUrl = q.url
		_, err := c.ReceiveMessage(ctx, in)
		testkit.WantError(t, err, "InvalidParameterValue", "")
	}
}

// The answers are those that LocalStack's test_aws_trace_header_propagation recorded.
func TestTraceHeader(t *testing.T) {
	w := newWorld(t, options{})
	c, _ := w.root(t)
	q := w.queue(t, c, "jobs", nil)
	const trace, other = "Root=1-3152b799-8954dae64eda91bc9a23a7e8;Parent=7fa8c0f79203be72;Sampled=1", "Root=1-5759e988-bd862e3fe1be46a994272793;Sampled=0"
	for name, tt := range map[string]struct{ header, attribute, want string }{
		"header": {trace, "", trace}, "attribute": {trace, other, other}, "malformed": {"Self=1", "", ""},
	} {
		in := &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: &name}
		if tt.attribute != "" {
			in.MessageSystemAttributes = map[string]sqstypes.MessageSystemAttributeValue{"AWSTraceHeader": {DataType: aws.String("String"), StringValue: &tt.attribute}}
		}
		testkit.Must(c.SendMessage(t.Context(), in, awssqs.WithAPIOptions(smithyhttp.SetHeaderValue("X-Amzn-Trace-Id", tt.header))))(t)
		if got := q.want(1, name)[0].Attributes["AWSTraceHeader"]; got != tt.want {
			t.Errorf("%s: the message's trace header is %q, want %q", name, got, tt.want)
		}
	}
}

// TestFIFO checks FIFO queues. Behavior that AWS does not document is as recorded by LocalStack's
// tests (test_fifo_group_visibility_extends_with_change_message_visibility and others).
func TestFIFO(t *testing.T) {
	w := newWorld(t, options{})
	c, _ := w.root(t)
	q := w.fifo(t, c, nil)
	q.send("a:1", "b:1", "a:2", "a:3", "b:2", "a:1") // the last is a duplicate
	q.wantCounts("5 0 0")
	first := q.want(2, "a:1 a:2")
	q.want(10, "b:1 b:2")
	q.want(10, "")
	if err := q.visibility(first[0], 100); err != nil {
		t.Fatal(err)
	}
	w.clock.Step(30 * time.Second)
	testkit.WantError(t, q.delete(first[1]), "InvalidParameterValue", "Value "+*first[1].ReceiptHandle+" for parameter ReceiptHandle is invalid. Reason: The receipt handle has expired.")
	q.want(10, "b:1 b:2") // no message of group a overtakes its first message
	w.clock.Step(70 * time.Second)
	all := q.want(10, "b:1 b:2 a:1 a:2 a:3")
	if s := all[2].Attributes; s["MessageGroupId"] != "a" || s["SequenceNumber"] >= all[3].Attributes["SequenceNumber"] || len(s["SequenceNumber"]) != 20 || s["MessageDeduplicationId"] == "" {
		t.Errorf("attributes %v", s)
	}
	for _, m := range all {
		if err := q.delete(m); err != nil {
			t.Error(err)
		}
	}
	q.send("a:1") // sent, received and deleted, but still known to deduplication
	q.wantCounts("0 0 0")
	w.clock.Step(5 * time.Minute)
	q.send("a:1")
	q.wantCounts("1 0 0")

	ctx := t.Context()
	send := func(edit func(*awssqs.SendMessageInput)) error {
		in := &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("x"), MessageGroupId: aws.String("g")}
		edit(in)
		_, err := c.SendMessage(ctx, in)
		return err
	}
	testkit.WantError(t, send(func(in *awssqs.SendMessageInput) { in.MessageGroupId = nil }), "MissingParameter", "The request must contain the parameter MessageGroupId.")
	testkit.WantError(t, send(func(in *awssqs.SendMessageInput) { in.DelaySeconds = 2 }), "InvalidParameterValue", "Value 2 for parameter DelaySeconds is invalid. Reason: The request include parameter that is not valid for this queue type.")
	testkit.WantError(t, q.set(map[string]string{"FifoThroughputLimit": "perMessageGroupId"}), "InvalidAttributeValue", "")
	testkit.WantError(t, q.set(map[string]string{"FifoQueue": "false"}), "InvalidAttributeValue", "Invalid value for the parameter FifoQueue. Reason: Modifying queue type is not supported.")
	if err := q.set(map[string]string{"FifoThroughputLimit": "perMessageGroupId", "DeduplicationScope": "messageGroup", "ContentBasedDeduplication": "false"}); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, send(func(*awssqs.SendMessageInput) {}), "InvalidParameterValue", "The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
	for _, group := range []string{"g", "h", "g"} {
		if err := send(func(in *awssqs.SendMessageInput) {
			in.MessageGroupId, in.MessageDeduplicationId = &group, aws.String("d")
		}); err != nil {
			t.Error(err)
		}
	}
	q.wantCounts("3 0 0")

	// A receiver that did not get the response repeats its request and gets the same messages.
	attempt := &awssqs.ReceiveMessageInput{QueueUrl: q.url, MaxNumberOfMessages: 10, ReceiveRequestAttemptId: aws.String("try")}
	one, two := testkit.Must(c.ReceiveMessage(ctx, attempt))(t), testkit.Must(c.ReceiveMessage(ctx, attempt))(t)
	if len(one.Messages) != 3 || len(two.Messages) != 3 || *one.Messages[0].ReceiptHandle != *two.Messages[0].ReceiptHandle {
		t.Errorf("an attempt got %d messages and then %d", len(one.Messages), len(two.Messages))
	}
}

func TestDeadLetters(t *testing.T) {
	w := newWorld(t, options{})
	testkit.Run(t, w.sqs.Run)
	c, account := w.root(t)
	ctx := t.Context()
	dead := w.queue(t, c, "dead", nil)
	redrive := map[string]string{"VisibilityTimeout": "1", "RedrivePolicy": `{"deadLetterTargetArn":"` + dead.arn() + `","maxReceiveCount":"1"}`}
	q := w.queue(t, c, "jobs", redrive)
	if err := q.set(map[string]string{"RedrivePolicy": `{
  "maxReceiveCount": "1", "deadLetterTargetArn": "` + dead.arn() + `"
}`}); err != nil {
		t.Fatal(err)
	}
	if got := q.attributes("RedrivePolicy")["RedrivePolicy"]; got != redrive["RedrivePolicy"] {
		t.Errorf("the policy is not compact: %s", got)
	}
	q.send("poison", "more")
	q.want(10, "poison more")
	w.clock.Step(time.Second)
	q.want(10, "")
	got := dead.want(10, "poison more")
	// As recorded by LocalStack's test_dead_letter_queue_message_attributes.
	if a := got[0].Attributes; a["ApproximateReceiveCount"] != "2" || a["DeadLetterQueueSourceArn"] != q.arn() {
		t.Errorf("attributes of a dead letter: %v", a)
	}
	w.clock.Step(time.Minute)
	if l := testkit.Must(c.ListDeadLetterSourceQueues(ctx, &awssqs.ListDeadLetterSourceQueuesInput{QueueUrl: dead.url}))(t); len(l.QueueUrls) != 1 || l.QueueUrls[0] != *q.url {
		t.Errorf("sources: %v", l.QueueUrls)
	}

	// Move the messages back to where they came from.
	start := &awssqs.StartMessageMoveTaskInput{SourceArn: aws.String(dead.arn())}
	testkit.Must(c.StartMessageMoveTask(ctx, start))(t)
	list := func() sqstypes.ListMessageMoveTasksResultEntry {
		return testkit.Must(c.ListMessageMoveTasks(ctx, &awssqs.ListMessageMoveTasksInput{SourceArn: start.SourceArn}))(t).Results[0]
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if e := list(); *e.Status != "COMPLETED" || e.ApproximateNumberOfMessagesMoved != 2 {
			return fmt.Errorf("%s after %d", *e.Status, e.ApproximateNumberOfMessagesMoved)
		}
		return nil
	})
	if m := q.want(10, "poison more")[0]; m.Attributes["ApproximateReceiveCount"] != "1" || *m.MessageId == *got[0].MessageId {
		t.Errorf("a redriven message: %v", m.Attributes)
	}
	dead.wantCounts("0 0 0")

	// With a rate limit, until the task is canceled.
	w.clock.Step(time.Second)
	q.want(10, "")
	other := w.queue(t, c, "other", nil)
	start.DestinationArn, start.MaxNumberOfMessagesPerSecond = aws.String(other.arn()), aws.Int32(1)
	task := testkit.Must(c.StartMessageMoveTask(ctx, start))(t)
	_, err := c.StartMessageMoveTask(ctx, start)
	testkit.WantError(t, err, "InvalidParameterValue", "There is already a task running. Only one active task is allowed for a source queue arn at a given time.")
	testkit.Eventually(t, 10*time.Second, func() error {
		if e := list(); e.ApproximateNumberOfMessagesMoved != 1 {
			return fmt.Errorf("%d moved", e.ApproximateNumberOfMessagesMoved)
		}
		return nil
	})
	if out := testkit.Must(c.CancelMessageMoveTask(ctx, &awssqs.CancelMessageMoveTaskInput{TaskHandle: task.TaskHandle}))(t); out.ApproximateNumberOfMessagesMoved != 1 {
		t.Errorf("%d moved when cancelled", out.ApproximateNumberOfMessagesMoved)
	}
	if e := list(); *e.Status != "CANCELLED" || e.TaskHandle != nil {
		t.Errorf("cancelled: %+v", e)
	}
	dead.wantCounts("1 0 0")
	other.wantCounts("1 0 0")

	_, err = c.StartMessageMoveTask(ctx, &awssqs.StartMessageMoveTaskInput{SourceArn: aws.String(q.arn())})
	testkit.WantError(t, err, "InvalidParameterValue", "Source queue must be configured as a Dead Letter Queue.")
	_, err = c.StartMessageMoveTask(ctx, &awssqs.StartMessageMoveTaskInput{SourceArn: aws.String(dead.arn()), DestinationArn: aws.String("arn:aws:sqs:us-east-1:" + account + ":none")})
	testkit.WantError(t, err, "ResourceNotFoundException", "The resource that you specified for the DestinationArn parameter doesn't exist.")
	_, err = c.CancelMessageMoveTask(ctx, &awssqs.CancelMessageMoveTaskInput{TaskHandle: aws.String("?")})
	testkit.WantError(t, err, "InvalidParameterValue", "Value for parameter TaskHandle is invalid.")
	if err := dead.set(map[string]string{"RedriveAllowPolicy": `{"redrivePermission":"denyAll"}`}); err != nil {
		t.Fatal(err)
	}
	testkit.WantError(t, q.set(map[string]string{"RedrivePolicy": redrive["RedrivePolicy"]}), "InvalidParameterValue", "")
}

func TestLongPolling(t *testing.T) {
	w := newWorld(t, options{})
	c, _ := w.root(t)
	q := w.queue(t, c, "jobs", map[string]string{"ReceiveMessageWaitTimeSeconds": "20"})
	waiting := func() {
		testkit.Eventually(t, 10*time.Second, func() error {
			if !w.clock.HasWaiters() {
				return fmt.Errorf("nobody waits")
			}
			return nil
		})
	}
	poll := func() <-chan string {
		got := make(chan string, 1)
		go func() { got <- bodies(q.receive(10)) }()
		waiting()
		return got
	}
	got := poll()
	q.send("one")
	if b := <-got; b != "one" {
		t.Errorf("a send woke with %q", b)
	}
	got = poll() // until the message is visible again
	w.clock.Step(30 * time.Second)
	if b := <-got; b != "one" && b != "" {
		t.Errorf("the timeout woke with %q", b)
	}
	w.clock.Step(30 * time.Second)
	m := q.want(1, "one")[0]
	got = poll()
	w.clock.Step(20 * time.Second)
	if b := <-got; b != "" {
		t.Errorf("after 20 s: %q", b)
	}
	got = poll()
	if err := q.visibility(m, 0); err == nil {
		if b := <-got; b != "one" {
			t.Errorf("a change of visibility woke with %q", b)
		}
	} else {
		t.Error(err)
	}
}

// TestPolicies checks that queue policies take part in authorization.
func TestPolicies(t *testing.T) {
	w := newWorld(t, options{})
	owner, account := w.root(t)
	ctx := t.Context()
	q := w.queue(t, owner, "jobs", nil)
	plain := awssqs.NewFromConfig(w.user(t, account, "plain", ""))
	receiver := awssqs.NewFromConfig(w.user(t, account, "receiver", `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Action":"sqs:ReceiveMessage","Resource":"`+q.arn()+`"}}`))
	stranger, other := w.root(t)
	send := func(c *awssqs.Client) error {
		_, err := c.SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("x")})
		return err
	}
	testkit.WantErrorWith(t, send(plain), "AccessDenied", "is not authorized to perform: sqs:SendMessage on resource: "+q.arn())
	testkit.WantErrorWith(t, send(receiver), "AccessDenied", "no identity-based policy allows")
	testkit.WantErrorWith(t, send(stranger), "AccessDenied", q.arn())
	if _, err := receiver.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: q.url}); err != nil {
		t.Error(err)
	}
	testkit.Must(owner.AddPermission(ctx, &awssqs.AddPermissionInput{QueueUrl: q.url, Label: aws.String("share"), AWSAccountIds: []string{other}, Actions: []string{"SendMessage"}}))(t)
	want := `{"Version":"2008-10-17","Id":"` + q.arn() + `/SQSDefaultPolicy","Statement":[{"Sid":"share","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + other + `:root"},"Action":"SQS:SendMessage","Resource":"` + q.arn() + `"}]}`
	if got := q.attributes("Policy")["Policy"]; got != want {
		t.Errorf("policy %s\nwant   %s", got, want)
	}
	if err := send(stranger); err != nil {
		t.Errorf("the other account: %v", err)
	}
	if out, err := stranger.GetQueueUrl(ctx, &awssqs.GetQueueUrlInput{QueueName: aws.String("jobs"), QueueOwnerAWSAccountId: &account}); err == nil {
		t.Errorf("%v", out)
	}
	_, err := owner.AddPermission(ctx, &awssqs.AddPermissionInput{QueueUrl: q.url, Label: aws.String("share"), AWSAccountIds: []string{other}, Actions: []string{"*"}})
	testkit.WantError(t, err, "InvalidParameterValue", "Value share for parameter Label is invalid. Reason: Already exists.")
	testkit.Must(owner.RemovePermission(ctx, &awssqs.RemovePermissionInput{QueueUrl: q.url, Label: aws.String("share")}))(t)
	if got := q.attributes("Policy"); len(got) != 0 {
		t.Errorf("policy %v", got)
	}
	_, err = owner.RemovePermission(ctx, &awssqs.RemovePermissionInput{QueueUrl: q.url, Label: aws.String("share")})
	testkit.WantError(t, err, "InvalidParameterValue", "Value share for parameter Label is invalid. Reason: can't find label.")

	// As in Karpenter's template: no one may use plain HTTP, not even the owner.
	if err := q.set(map[string]string{"Policy": `{"Version":"2012-10-17","Statement":[
		{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:user/plain"},"Action":"sqs:SendMessage","Resource":"` + q.arn() + `"},
		{"Effect":"Deny","Principal":"*","Action":"sqs:Send*","Resource":"` + q.arn() + `","Condition":{"Bool":{"aws:SecureTransport":"false"}}}]}`}); err != nil {
		t.Fatal(err)
	}
	testkit.WantErrorWith(t, send(owner), "AccessDenied", "with an explicit deny in a resource-based policy")
	if err := q.set(map[string]string{"Policy": `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + account + `:user/plain"},"Action":"sqs:SendMessage","Resource":"` + q.arn() + `"}}`}); err != nil {
		t.Fatal(err)
	}
	if err := send(plain); err != nil {
		t.Errorf("by the queue's policy alone: %v", err)
	}

	// An AWS service, on behalf of a resource in the account.
	rule := "arn:aws:events:us-east-1:" + account + ":rule/r"
	if err := q.set(map[string]string{"Policy": `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Principal":{"Service":["events.amazonaws.com","sqs.amazonaws.com"]},"Action":"sqs:SendMessage","Resource":"` + q.arn() + `",
		"Condition":{"ArnEquals":{"aws:SourceArn":"` + rule + `"}}}}`}); err != nil {
		t.Fatal(err)
	}
	event := func(service, source string) error {
		_, err := w.Front.Call(awsapi.AsServicePrincipal(ctx, account, testkit.Region, service, source, time.Now()), &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("x")})
		return err
	}
	if err := event("events.amazonaws.com", rule); err != nil {
		t.Errorf("EventBridge: %v", err)
	}
	for service, source := range map[string]string{"events.amazonaws.com": rule + "2", "s3.amazonaws.com": rule} {
		if event(service, source) == nil {
			t.Errorf("%s was let in for %s", service, source)
		}
	}
}

// TestEndpointPolicy checks that calls through a VPC endpoint also need its policy's permission.
func TestEndpointPolicy(t *testing.T) {
	w := newWorld(t, options{endpoint: `{"Statement":[{"Effect":"Allow","Principal":"*","Action":["sqs:CreateQueue","sqs:ReceiveMessage"],"Resource":"*"}]}`})
	c, _ := w.root(t)
	q := w.queue(t, c, "jobs", nil)
	q.want(1, "")
	_, err := c.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("x")})
	testkit.WantErrorWith(t, err, "AccessDenied", "because no VPC endpoint policy allows the sqs:SendMessage action")
}

// TestTrail checks that CloudTrail records calls that manage queues, but no messages.
func TestTrail(t *testing.T) {
	w := newWorld(t, options{})
	c, account := w.root(t)
	q := w.queue(t, c, "jobs", nil)
	q.send("secret")
	q.receive(1)
	var names []string
	testkit.Eventually(t, 10*time.Second, func() error {
		names = nil
		for e, err := range w.journal.Query(journal.Filter{Account: account}) {
			if err != nil {
				return err
			}
			if e.Fields["event"] != nil {
				names = append(names, fmt.Sprint(e.Fields["operation"]))
			}
		}
		if len(names) == 0 {
			return fmt.Errorf("no events yet")
		}
		return nil
	})
	if got := strings.Join(names, " "); got != "CreateQueue" {
		t.Errorf("events of %s", got)
	}
}

// TestKMS checks that SQS calls KMS as its caller for a queue with a key.
func TestKMS(t *testing.T) {
	w := newWorld(t, options{})
	c, account := w.root(t)
	ctx := t.Context()
	keys := awskms.NewFromConfig(w.AWSConfig(account))
	key := testkit.Must(keys.CreateKey(ctx, nil))(t).KeyMetadata.Arn
	q := w.queue(t, c, "jobs", map[string]string{"KmsMasterKeyId": *key, "KmsDataKeyReusePeriodSeconds": "60"})
	q.send("secret")
	q.want(1, "secret")
	user := func(name, condition string) *queue {
		cfg := w.user(t, account, name, `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"sqs:*","Resource":"*"},
			{"Effect":"Allow","Action":["kms:GenerateDataKey","kms:Decrypt"],"Resource":"*","Condition":{"StringEquals":{"kms:ViaService":"`+condition+`"}}}]}`)
		return &queue{t, awssqs.NewFromConfig(cfg), w, q.url}
	}
	good, bad := user("good", "sqs.us-east-1.amazonaws.com"), user("bad", "s3.us-east-1.amazonaws.com")
	good.send("another")
	w.clock.Step(30 * time.Second)
	_, err := bad.c.ReceiveMessage(ctx, &awssqs.ReceiveMessageInput{QueueUrl: q.url})
	testkit.WantErrorWith(t, err, "KMS.AccessDeniedException", "kms:Decrypt")
	good.want(10, "secret another") // messages that could not be delivered moved to the end of the queue
	_, err = bad.c.SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("x")})
	testkit.WantErrorWith(t, err, "KMS.AccessDeniedException", "kms:GenerateDataKey")
	testkit.Must(keys.DisableKey(ctx, &awskms.DisableKeyInput{KeyId: key}))(t)
	good.send("with the old data key")
	w.clock.Step(time.Minute)
	_, err = good.c.SendMessage(ctx, &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String("x")})
	testkit.WantError(t, err, "KMS.DisabledException", *key+" is disabled.")
}

// TestQueryProtocol checks the form-encoded requests of clients from before 2023, many of which go
// to the queue's URL.
func TestQueryProtocol(t *testing.T) {
	w := newWorld(t, options{})
	c, account := w.root(t)
	q := w.queue(t, c, "jobs", nil)
	post := func(path, form string) (int, string) {
		t.Helper()
		return w.post(t, account, path, form+"&Version=2012-11-05", map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
	}
	if code, body := post("/"+account+"/jobs", "Action=SendMessage&MessageBody=by+form"); code != 200 || !strings.Contains(body, "<MD5OfMessageBody>") {
		t.Errorf("%d %s", code, body)
	}
	q.want(1, "by form")
	if code, body := post("/", "Action=GetQueueAttributes&AttributeName.1=QueueArn&QueueUrl="+*q.url); code != 200 || !strings.Contains(body, "<Name>QueueArn</Name><Value>"+q.arn()+"</Value>") {
		t.Errorf("%d %s", code, body)
	}
	if code, body := post("/"+account+"/none", "Action=DeleteQueue"); code != 400 || !strings.Contains(body, "<Code>AWS.SimpleQueueService.NonExistentQueue</Code>") {
		t.Errorf("%d %s", code, body)
	}
}

// A batch without entries is refused in the same words, whether the request has an empty list of them or none at all.
func TestEmptyBatches(t *testing.T) {
	w := newWorld(t, options{})
	c, account := w.root(t)
	q := w.queue(t, c, "jobs", nil)
	for _, op := range []string{"SendMessageBatch", "DeleteMessageBatch", "ChangeMessageVisibilityBatch"} {
		want := "There should be at least one " + op + "RequestEntry in the request."
		for _, entries := range []string{`,"Entries":[]`, ""} {
			body := `{"QueueUrl":"` + *q.url + `"` + entries + `}`
			code, got := w.post(t, account, "/", body, map[string]string{"Content-Type": "application/x-amz-json-1.0", "X-Amz-Target": "AmazonSQS." + op})
			if code != 400 || !strings.Contains(got, `"__type":"EmptyBatchRequest","message":"`+want+`"`) {
				t.Errorf("%s %s: %d %s", op, body, code, got)
			}
		}
		code, got := w.post(t, account, "/", "Action="+op+"&QueueUrl="+*q.url+"&Version=2012-11-05", map[string]string{"Content-Type": "application/x-www-form-urlencoded"})
		if code != 400 || !strings.Contains(got, "<Code>AWS.SimpleQueueService.EmptyBatchRequest</Code><Message>"+want+"</Message>") {
			t.Errorf("%s in a form: %d %s", op, code, got)
		}
	}
}

// post sends a signed request as it is.
func (w *world) post(t *testing.T, account, path, body string, headers map[string]string) (int, string) {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, w.URL+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	for k, v := range headers {
		req.Header.Set(k, v)
	}
	sum := sha256.Sum256([]byte(body))
	if err := v4.NewSigner().SignHTTP(t.Context(), aws.Credentials{AccessKeyID: account, SecretAccessKey: "any"}, req, hex.EncodeToString(sum[:]), "sqs", testkit.Region, time.Now()); err != nil {
		t.Fatal(err)
	}
	resp, err := w.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestRoom(t *testing.T) {
	w := newWorld(t, options{room: 3000})
	c, account := w.root(t)
	q := w.queue(t, c, "jobs", nil)
	q.send(strings.Repeat("x", 2000))
	_, err := c.SendMessage(t.Context(), &awssqs.SendMessageInput{QueueUrl: q.url, MessageBody: aws.String(strings.Repeat("y", 2000))})
	testkit.WantError(t, err, "OverLimit", "")
	if err := q.delete(q.receive(1)[0]); err != nil {
		t.Error(err)
	}
	q.send(strings.Repeat("y", 2000))
	testkit.Must(c.DeleteQueue(t.Context(), &awssqs.DeleteQueueInput{QueueUrl: q.url}))(t)
	if n := w.bytes.Used(account); n != 0 {
		t.Errorf("%d bytes are left", n)
	}
}
