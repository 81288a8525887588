package sqs

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/policy"
)

// Limits and default values of numeric attributes.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html
var numbers = map[string]struct {
	low, high int
	usual     string
}{
	"DelaySeconds":                  {0, 900, "0"},
	"MaximumMessageSize":            {1024, maxSize, strconv.Itoa(maxSize)},
	"MessageRetentionPeriod":        {60, 1209600, "345600"},
	"ReceiveMessageWaitTimeSeconds": {0, 20, "0"},
	"VisibilityTimeout":             {0, maxVisibility, "30"},
	"KmsDataKeyReusePeriodSeconds":  {60, 86400, "300"},
}

// choices are the values of enumerated attributes, the default first.
var choices = map[string][]string{
	"ContentBasedDeduplication": {"false", "true"},
	"DeduplicationScope":        {"queue", "messageGroup"},
	"FifoQueue":                 {"false", "true"},
	"FifoThroughputLimit":       {"perQueue", "perMessageGroupId"},
	"SqsManagedSseEnabled":      {"true", "false"},
}

// readOnly are attributes that cannot be set.
var readOnly = []string{
	"ApproximateNumberOfMessages", "ApproximateNumberOfMessagesDelayed", "ApproximateNumberOfMessagesNotVisible",
	"CreatedTimestamp", "LastModifiedTimestamp", "QueueArn",
}

const (
	maxSize       = 1 << 20
	maxVisibility = 43200
	maxBatch      = 10
	// inFlight is how many messages can be in flight, for both types of queues.
	// https://aws.amazon.com/about-aws/whats-new/2024/11/amazon-sqs-increases-in-flight-limit-fifo-queues/
	inFlight = 120000
)

func (q *queueRecord) fifo() bool { return q.Attributes["FifoQueue"] == "true" }

// attribute returns the value of an attribute, or its default.
func (q *queueRecord) attribute(name string) string {
	if v, ok := q.Attributes[name]; ok {
		return v
	}
	if name == "SqsManagedSseEnabled" && q.Attributes["KmsMasterKeyId"] != "" {
		return "false"
	}
	if n, ok := numbers[name]; ok {
		return n.usual
	}
	if c := choices[name]; c != nil {
		return c[0]
	}
	return ""
}

func (q *queueRecord) number(name string) int {
	n, _ := strconv.Atoi(q.attribute(name)) // validated when it was set
	return n
}

func (q *queueRecord) seconds(name string) time.Duration {
	return time.Duration(q.number(name)) * time.Second
}

// A redrivePolicy moves messages that have been received too often to another queue.
type redrivePolicy struct {
	Target string `json:"deadLetterTargetArn"`
	Max    count  `json:"maxReceiveCount"`
}

// A count is a number that clients may also send as a string.
type count int

func (m *count) UnmarshalJSON(b []byte) error {
	n, err := strconv.Atoi(strings.Trim(string(b), `"`))
	*m = count(n)
	return err
}

// redrive returns the queue's redrive policy, or nil if it has none.
func (q *queueRecord) redrive() *redrivePolicy {
	text := q.Attributes["RedrivePolicy"]
	var p redrivePolicy
	if text == "" || json.Unmarshal([]byte(text), &p) != nil {
		return nil
	}
	return &p
}

type redriveAllowPolicy struct {
	Permission string   `json:"redrivePermission"`
	Sources    []string `json:"sourceQueueArns"`
}

// allowsRedrive reports whether a queue may use this one as its dead-letter queue.
func (q *queueRecord) allowsRedrive(source string) bool {
	var p redriveAllowPolicy
	if json.Unmarshal([]byte(q.Attributes["RedriveAllowPolicy"]), &p) != nil {
		return true // no such policy
	}
	switch p.Permission {
	case "denyAll":
		return false
	case "byQueue":
		return slices.Contains(p.Sources, source)
	}
	return true
}

// compact returns a JSON object without white space and with sorted keys, as SQS returns redrive policies. Otherwise
// Terraform plans a change forever. [seen] hashicorp/terraform-provider-aws, TestAccSQSQueue_redrivePolicy
func compact(text string) string {
	var object map[string]json.RawMessage
	if json.Unmarshal([]byte(text), &object) != nil {
		return text
	}
	b, err := json.Marshal(object)
	if err != nil {
		return text
	}
	return string(b)
}

// set changes attributes of a new or existing queue.
func (s *Service) set(ctx context.Context, sc scope, q *queueRecord, attributes map[string]string, made bool) error {
	if attributes["SqsManagedSseEnabled"] == "true" && attributes["KmsMasterKeyId"] != "" {
		return errTwoEncryptions()
	}
	names := make([]string, 0, len(attributes))
	for name := range attributes {
		names = append(names, name)
	}
	slices.Sort(names)
	for _, name := range names {
		value := attributes[name]
		if err := s.check(ctx, sc, q, name, value, made); err != nil {
			return err
		}
		if q.Attributes == nil {
			q.Attributes = map[string]string{}
		}
		if value == "" {
			if name == "KmsMasterKeyId" && q.Attributes[name] != "" {
				// [recorded] test_set_queue_attributes_default_values, LocalStack's tests/aws/services/sqs/test_sqs.py
				q.Attributes["SqsManagedSseEnabled"] = "false"
			}
			delete(q.Attributes, name)
			continue
		}
		q.Attributes[name] = value
		switch { // of the two kinds of encryption, the one set last is in effect
		case name == "KmsMasterKeyId":
			delete(q.Attributes, "SqsManagedSseEnabled")
		case name == "SqsManagedSseEnabled" && value == "true":
			delete(q.Attributes, "KmsMasterKeyId")
		}
	}
	if q.attribute("FifoThroughputLimit") == "perMessageGroupId" && q.attribute("DeduplicationScope") != "messageGroup" {
		// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SetQueueAttributes.html; the words are from memory
		return errAttributeReason("FifoThroughputLimit", "The perMessageGroupId value is allowed only when the value for DeduplicationScope is messageGroup.")
	}
	return nil
}

func (s *Service) check(ctx context.Context, sc scope, q *queueRecord, name, value string, made bool) error {
	if n, ok := numbers[name]; ok {
		if value == "" {
			return nil
		}
		v, err := strconv.Atoi(value)
		if err != nil || v < n.low || v > n.high {
			return errAttributeValue(name)
		}
		return nil
	}
	switch name {
	case "FifoQueue":
		switch {
		case !q.fifo() && !(made && value == "true"):
			return errUnknownAttribute(name) // AWS does not even accept false
		case !made && value != "true":
			return errAttributeReason(name, "Modifying queue type is not supported.")
		}
		return nil
	case "ContentBasedDeduplication":
		if !q.fifo() {
			return errUnknownAttribute(name)
		}
	case "DeduplicationScope", "FifoThroughputLimit":
		if !q.fifo() {
			return errFIFOOnly(name)
		}
	case "KmsMasterKeyId":
		return nil // KMS checks it when it is used
	case "Policy":
		return s.checkPolicy(ctx, value)
	case "RedrivePolicy":
		return s.checkRedrive(sc, q, value)
	case "RedriveAllowPolicy":
		return checkAllow(value)
	}
	c := choices[name]
	switch {
	case c == nil:
		return errUnknownAttribute(name)
	case value != "" && !slices.Contains(c, value):
		return errAttributeValue(name)
	}
	return nil
}

func (s *Service) checkPolicy(ctx context.Context, text string) error {
	if text == "" {
		return nil
	}
	doc, err := policy.Parse(policy.Resource, text)
	if err != nil {
		return errAttributeValue("Policy")
	}
	for i := range doc.Statements {
		for _, ps := range []*policy.Principals{doc.Statements[i].Principals, doc.Statements[i].NotPrincipals} {
			if ps == nil || s.cfg.PrincipalExists == nil {
				continue
			}
			for _, name := range ps.AWS {
				if name != "*" && !s.cfg.PrincipalExists(ctx, name) {
					return errAttributeValue("Policy")
				}
			}
		}
	}
	return nil
}

// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-dead-letter-queues.html;
// the texts of the reasons are LocalStack's or from memory.
func (s *Service) checkRedrive(sc scope, q *queueRecord, text string) error {
	if text == "" {
		return nil
	}
	bad := func(reason string) error {
		return errParameter(text, "RedrivePolicy", reason)
	}
	var p redrivePolicy
	if json.Unmarshal([]byte(text), &p) != nil {
		return bad("Redrive policy is not a valid JSON map.")
	}
	switch {
	case p.Target == "":
		return bad("Redrive policy does not contain mandatory attribute: deadLetterTargetArn.")
	case p.Max == 0:
		return bad("Redrive policy does not contain mandatory attribute: maxReceiveCount.")
	case p.Max < 1 || p.Max > 1000:
		return bad("Invalid value for maxReceiveCount: " + strconv.Itoa(int(p.Max)) + ", valid values are from 1 to 1000 both inclusive.")
	}
	at, name := parseARN(sc, p.Target)
	if name == "" || at.Account != sc.Account {
		return bad("Invalid value for deadLetterTargetArn.")
	}
	dead, err := queues.Get(s.store, at.Key(name))
	switch {
	case notFound(err):
		return bad("Dead letter target does not exist.")
	case err != nil:
		return err
	case dead.fifo() != q.fifo():
		return bad("Dead-letter queue must be same type of queue as the source.")
	case !dead.allowsRedrive(sc.arn(q.Name)):
		return bad("Queue does not have permission to use the dead-letter queue.")
	}
	return nil
}

func checkAllow(text string) error {
	if text == "" {
		return nil
	}
	var p redriveAllowPolicy
	if json.Unmarshal([]byte(text), &p) != nil {
		return errAttributeValue("RedriveAllowPolicy")
	}
	switch byQueue := p.Permission == "byQueue"; {
	case !byQueue && p.Permission != "allowAll" && p.Permission != "denyAll",
		byQueue && (len(p.Sources) == 0 || len(p.Sources) > 10),
		!byQueue && p.Sources != nil:
		return errAttributeValue("RedriveAllowPolicy")
	}
	return nil
}

// show returns the attributes with the given names. All means all that have a value.
func (q *queueRecord) show(sc scope, names []string, counts counts) (map[string]string, error) {
	all := map[string]string{
		"ApproximateNumberOfMessages":           strconv.Itoa(counts.visible),
		"ApproximateNumberOfMessagesDelayed":    strconv.Itoa(counts.delayed),
		"ApproximateNumberOfMessagesNotVisible": strconv.Itoa(counts.inFlight),
		"CreatedTimestamp":                      strconv.FormatInt(q.Created.Unix(), 10),
		"LastModifiedTimestamp":                 strconv.FormatInt(q.Modified.Unix(), 10),
		"QueueArn":                              sc.arn(q.Name),
		"SqsManagedSseEnabled":                  q.attribute("SqsManagedSseEnabled"),
	}
	for name := range numbers {
		if name != "KmsDataKeyReusePeriodSeconds" || q.Attributes["KmsMasterKeyId"] != "" {
			all[name] = q.attribute(name)
		}
	}
	for _, name := range []string{"KmsMasterKeyId", "Policy", "RedriveAllowPolicy", "RedrivePolicy"} {
		v := q.Attributes[name]
		if strings.HasPrefix(name, "Redrive") {
			v = compact(v)
		}
		if v != "" {
			all[name] = v
		}
	}
	if q.fifo() {
		for _, name := range []string{"ContentBasedDeduplication", "DeduplicationScope", "FifoQueue", "FifoThroughputLimit"} {
			all[name] = q.attribute(name)
		}
	}
	if slices.Contains(names, "All") {
		return all, nil
	}
	out := map[string]string{}
	for _, name := range names {
		if v, ok := all[name]; ok {
			out[name] = v
			continue
		}
		_, number := numbers[name]
		known := number || choices[name] != nil || slices.Contains(readOnly, name) ||
			slices.Contains([]string{"KmsMasterKeyId", "Policy", "RedriveAllowPolicy", "RedrivePolicy"}, name)
		if !known {
			return nil, errUnknownAttribute(name)
		}
	}
	return out, nil
}
