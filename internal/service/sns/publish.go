package sns

import (
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"regexp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/eventpattern"
	"github.com/drydock-dev/drydock/internal/ids"
)

// principal is the principal that queue policies must allow to send messages.
const principal = "sns.amazonaws.com"

// maxMessage is the maximum size of a message with its attributes, and of a batch.
// https://docs.aws.amazon.com/sns/latest/api/API_Publish.html
const maxMessage = 256 << 10

// A message is a message that is published to a topic.
type message struct {
	ID, Text, Subject string
	Attributes        map[string]snstypes.MessageAttributeValue
}

// A notification is the body that a queue receives, unless its subscription has raw delivery.
//
// AWS deviation: it is not signed, so it has no Signature or SigningCertURL.
type notification struct {
	Type              string
	MessageID         string `json:"MessageId"`
	TopicARN          string `json:"TopicArn"`
	Subject           string `json:",omitempty"`
	Message           string
	Timestamp         string
	UnsubscribeURL    string
	MessageAttributes map[string]shownAttribute `json:",omitempty"`
}

type shownAttribute struct{ Type, Value string }

var attributeTypes = regexp.MustCompile(`^(String|String\.Array|Number|Binary)(\.[A-Za-z0-9_.-]+)?$`)

// sizeOf returns the size of a message with its attributes, in bytes.
func sizeOf(text *string, attributes map[string]snstypes.MessageAttributeValue) int {
	size := len(deref(text))
	for name, v := range attributes {
		size += len(name) + len(deref(v.DataType)) + len(deref(v.StringValue)) + len(v.BinaryValue)
	}
	return size
}

// newMessage returns a message, or an error if it is invalid.
func newMessage(text, structure, subject *string, attributes map[string]snstypes.MessageAttributeValue) (message, error) {
	m := message{ID: ids.UUID(), Text: deref(text), Subject: deref(subject), Attributes: attributes}
	if m.Text == "" {
		return m, errMessage("Empty message")
	}
	for name, v := range attributes {
		if !attributeTypes.MatchString(deref(v.DataType)) {
			return m, errMessage(fmt.Sprintf("The message attribute '%s' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.", name))
		}
		if deref(v.StringValue) == "" && len(v.BinaryValue) == 0 {
			return m, errMessage(fmt.Sprintf("The message attribute '%s' must contain non-empty message attribute value for message attribute type '%s'.", name, deref(v.DataType)))
		}
	}
	if sizeOf(text, attributes) > maxMessage {
		return m, errMessage("Message too long")
	}
	if len(m.Subject) > 100 || strings.ContainsAny(m.Subject, "\n\r") || subject != nil && m.Subject == "" {
		return m, errMessage("Subject")
	}
	if structure != nil {
		if *structure != "json" {
			return m, errMessage("MessageStructure")
		}
		var by map[string]any
		if json.Unmarshal([]byte(m.Text), &by) != nil {
			return m, errMessage("Message Structure - JSON message body failed to parse")
		}
		one, ok := by["default"].(string)
		if !ok {
			return m, errMessage("Message Structure - No default entry in JSON message body")
		}
		if own, ok := by["sqs"].(string); ok {
			one = own
		}
		m.Text = one
	}
	return m, nil
}

// Publish sends a message to the queues that are subscribed to a topic.
func (s *Service) Publish(ctx context.Context, in *awssns.PublishInput) (*awssns.PublishOutput, error) {
	name := in.TopicArn
	if name == nil {
		name = in.TargetArn
	}
	t, at, err := s.topic(s.store, scopeOf(ctx), name)
	if err != nil {
		return nil, err
	}
	m, err := newMessage(in.Message, in.MessageStructure, in.Subject, in.MessageAttributes)
	if err != nil {
		return nil, err
	}
	s.deliver(ctx, at, &t, &m)
	return &awssns.PublishOutput{MessageId: &m.ID}, nil
}

// PublishBatch sends up to ten messages.
func (s *Service) PublishBatch(ctx context.Context, in *awssns.PublishBatchInput) (*awssns.PublishBatchOutput, error) {
	t, at, err := s.topic(s.store, scopeOf(ctx), in.TopicArn)
	if err != nil {
		return nil, err
	}
	seen, size := map[string]bool{}, 0
	switch n := len(in.PublishBatchRequestEntries); {
	case n == 0:
		return nil, errBatch("EmptyBatchRequest", "The batch request doesn't contain any entries.")
	case n > 10:
		return nil, errBatch("TooManyEntriesInBatchRequest", "The batch request contains more entries than permissible (more than 10).")
	}
	for _, e := range in.PublishBatchRequestEntries {
		if seen[*e.Id] {
			return nil, errBatch("BatchEntryIdsNotDistinct", "Two or more batch entries in the request have the same Id.")
		}
		if len(*e.Id) > 80 {
			return nil, errBatch("InvalidBatchEntryId", "The Id of a batch entry in the batch request is too long: "+*e.Id)
		}
		if !entryID.MatchString(*e.Id) {
			return nil, errBatch("InvalidBatchEntryId", "The Id of a batch entry in the batch request contains an impermissible character: "+*e.Id)
		}
		seen[*e.Id] = true
		size += sizeOf(e.Message, e.MessageAttributes)
	}
	if size > maxMessage {
		return nil, errBatch("BatchRequestTooLong", "The length of all the messages put together is more than the limit.")
	}
	out := &awssns.PublishBatchOutput{Successful: []snstypes.PublishBatchResultEntry{}, Failed: []snstypes.BatchResultErrorEntry{}}
	for _, e := range in.PublishBatchRequestEntries {
		m, err := newMessage(e.Message, e.MessageStructure, e.Subject, e.MessageAttributes)
		if err != nil {
			out.Failed = append(out.Failed, snstypes.BatchResultErrorEntry{Id: e.Id, Code: aws.String(awserr.CodeOf(err)), Message: aws.String(awserr.TextOf(err)), SenderFault: true})
			continue
		}
		s.deliver(ctx, at, &t, &m)
		out.Successful = append(out.Successful, snstypes.PublishBatchResultEntry{Id: e.Id, MessageId: &m.ID})
	}
	return out, nil
}

var entryID = regexp.MustCompile(`^[A-Za-z0-9_-]+$`)

// deliver sends a message to all queues whose subscriptions it matches. If a queue refuses it, the others still get it.
func (s *Service) deliver(ctx context.Context, at scope, t *topicRecord, m *message) {
	asSNS := awsapi.AsServicePrincipal(ctx, at.Account, at.Region, principal, at.arn(t.Name), s.now())
	for _, item := range subscriptions.All(s.store, at.Below(t.Name)) {
		r := &item.Value
		if !s.matches(r, m) {
			continue
		}
		in, err := s.envelope(at, r, m)
		if err == nil {
			_, err = s.sqs.SendMessage(asSNS, in)
		}
		if err == nil {
			continue
		}
		s.log.InfoContext(ctx, "sns: a queue refused a message", "subscription", at.subscriptionARN(r), "queue", r.Queue, "err", err)
		if dead := deadLetter(r.Attributes["RedrivePolicy"]); dead != "" && in != nil {
			in.QueueUrl = &dead
			if _, err := s.sqs.SendMessage(asSNS, in); err != nil {
				s.log.WarnContext(ctx, "sns: sending to a dead-letter queue", "subscription", at.subscriptionARN(r), "queue", dead, "err", err)
			}
		}
	}
}

// matches reports whether a message matches a subscription's filter policy.
// https://docs.aws.amazon.com/sns/latest/dg/sns-subscription-filter-policies.html
func (s *Service) matches(r *subscriptionRecord, m *message) bool {
	text := r.Attributes["FilterPolicy"]
	if text == "" {
		return true
	}
	p, err := s.filter(text)
	if err != nil {
		return false // the policy was checked when it was set
	}
	raw := []byte(m.Text)
	if r.Attributes["FilterPolicyScope"] != bodyScope {
		raw = m.filtered()
	}
	e, err := eventpattern.ParseEvent(raw)
	return err == nil && p.Matches(e)
}

// filtered returns the attributes by which messages are filtered, as a JSON object. Binary ones are ignored.
func (m *message) filtered() []byte {
	all := map[string]json.RawMessage{}
	for name, v := range m.Attributes {
		value := deref(v.StringValue)
		switch kind := deref(v.DataType); {
		case strings.HasPrefix(kind, "Binary"):
		case strings.HasPrefix(kind, "String.Array"), strings.HasPrefix(kind, "Number"):
			if json.Valid([]byte(value)) {
				all[name] = json.RawMessage(value)
			}
		default:
			all[name], _ = json.Marshal(value) // marshaling a string cannot fail
		}
	}
	out, _ := json.Marshal(all) // as above
	return out
}

// envelope returns the request that sends the message to a subscription's queue.
// https://docs.aws.amazon.com/sns/latest/dg/sns-large-payload-raw-message-delivery.html
func (s *Service) envelope(at scope, r *subscriptionRecord, m *message) (*awssqs.SendMessageInput, error) {
	out := &awssqs.SendMessageInput{QueueUrl: &r.Queue, MessageBody: &m.Text}
	if r.Attributes["RawMessageDelivery"] == "true" {
		for name, v := range m.Attributes {
			if out.MessageAttributes == nil {
				out.MessageAttributes = map[string]sqstypes.MessageAttributeValue{}
			}
			out.MessageAttributes[name] = sqstypes.MessageAttributeValue{DataType: v.DataType, StringValue: v.StringValue, BinaryValue: v.BinaryValue}
		}
		return out, nil
	}
	n := notification{
		Type: "Notification", MessageID: m.ID, TopicARN: at.arn(r.Topic), Subject: m.Subject, Message: m.Text, Timestamp: s.now().Format("2006-01-02T15:04:05.000Z"),
		UnsubscribeURL: "https://sns." + at.Region + ".amazonaws.com/?Action=Unsubscribe&SubscriptionArn=" + at.subscriptionARN(r),
	}
	for name, v := range m.Attributes {
		if n.MessageAttributes == nil {
			n.MessageAttributes = map[string]shownAttribute{}
		}
		value := deref(v.StringValue)
		if v.BinaryValue != nil {
			value = base64.StdEncoding.EncodeToString(v.BinaryValue)
		}
		n.MessageAttributes[name] = shownAttribute{deref(v.DataType), value}
	}
	var body strings.Builder
	enc := json.NewEncoder(&body)
	enc.SetEscapeHTML(false)
	enc.SetIndent("", "  ")
	if err := enc.Encode(n); err != nil {
		return nil, err
	}
	out.MessageBody = aws.String(strings.TrimSpace(body.String()))
	return out, nil
}
