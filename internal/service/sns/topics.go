package sns

import (
	"context"
	"fmt"
	"maps"
	"regexp"
	"strconv"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/awsapi/tagging"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// These are default quotas, except for maxSubscriptions: AWS allows 12.5 million per topic.
// https://docs.aws.amazon.com/general/latest/gr/sns.html
const (
	maxTopics        = 100_000
	maxSubscriptions = 10_000
	maxFilters       = 200 // per topic
)

var topicForm = regexp.MustCompile(`^[A-Za-z0-9_-]{1,256}$`)

// set sets an attribute of a topic.
func (t *topicRecord) set(name, value string) error {
	switch name {
	case "DisplayName":
		t.Display = value
	case "Policy":
		if _, err := policy.Parse(policy.Resource, value); value != "" && err != nil {
			return errParameter("Policy Error: %s", err)
		}
		t.Policy = value
	case "FifoTopic":
		if value != "false" {
			return awserr.NotImplemented("FIFO topics")
		}
	default:
		usual, known := usualValues[name]
		if m := feedback.FindStringSubmatch(name); m != nil {
			usual, known = map[string]string{"SuccessFeedbackSampleRate": "0"}[m[1]], true
		}
		switch {
		case !known:
			return errAttribute()
		case value != "" && value != usual:
			return awserr.NotImplemented("the topic attribute " + name)
		}
	}
	return nil
}

// usualValues are attributes that are accepted only with their default. Terraform sends defaults for every topic.
var usualValues = map[string]string{
	"KmsMasterKeyId": "", "SignatureVersion": "1", "TracingConfig": "PassThrough", "DeliveryPolicy": "", "ContentBasedDeduplication": "false", "ArchivePolicy": "", "FifoThroughputScope": "",
}

// feedback matches the attributes that log the status of deliveries.
// https://docs.aws.amazon.com/sns/latest/dg/topics-attrib.html
var feedback = regexp.MustCompile(`^(?:Application|Firehose|HTTP|Lambda|SQS)(SuccessFeedbackRoleArn|SuccessFeedbackSampleRate|FailureFeedbackRoleArn)$`)

// CreateTopic creates a topic, or returns the one with that name.
func (s *Service) CreateTopic(ctx context.Context, in *awssns.CreateTopicInput) (*awssns.CreateTopicOutput, error) {
	sc := scopeOf(ctx)
	t := topicRecord{Name: *in.Name, Created: s.now()}
	for name, value := range in.Attributes {
		if err := t.set(name, value); err != nil {
			return nil, err
		}
	}
	if !topicForm.MatchString(t.Name) {
		return nil, errTopicName()
	}
	var err error
	if t.Tags, err = putTags(nil, in.Tags); err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		old, err := topics.Get(tx, sc.Key(t.Name))
		switch {
		case err == nil && (t.Display != "" && t.Display != old.Display || t.Policy != "" && t.Policy != old.Policy):
			return errTopicExists()
		case err == nil && !within(t.Tags, old.Tags):
			return errTopicTags()
		case err == nil || !store.IsNotFound(err):
			return err
		case len(topics.All(tx, sc.All())) >= maxTopics:
			return errManyTopics()
		}
		return topics.Create(tx, sc.Key(t.Name), t)
	})
	return &awssns.CreateTopicOutput{TopicArn: aws.String(sc.arn(t.Name))}, err
}

// DeleteTopic deletes a topic with its subscriptions. Deleting one that does not exist succeeds.
func (s *Service) DeleteTopic(ctx context.Context, in *awssns.DeleteTopicInput) (*awssns.DeleteTopicOutput, error) {
	at, topic, subscription, ok := scopeOf(ctx).parse(*in.TopicArn)
	if !ok || subscription != "" {
		return nil, errTopicARN(*in.TopicArn)
	}
	return &awssns.DeleteTopicOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		for _, item := range subscriptions.All(tx, at.Below(topic)) {
			subscriptions.Delete(tx, item.Key)
		}
		topics.Delete(tx, at.Key(topic))
		return nil
	})
}

var pages = paging.Rules{Usual: 100, BadToken: errToken}

// ListTopics lists topics.
func (s *Service) ListTopics(ctx context.Context, in *awssns.ListTopicsInput) (*awssns.ListTopicsOutput, error) {
	sc := scopeOf(ctx)
	some, next, err := paging.Cut(pages, topics.All(s.store, sc.All()), func(i store.Item[topicRecord]) string { return i.Key.ID }, nil, in.NextToken)
	out := &awssns.ListTopicsOutput{Topics: []snstypes.Topic{}, NextToken: next}
	for _, item := range some {
		out.Topics = append(out.Topics, snstypes.Topic{TopicArn: aws.String(sc.arn(item.Value.Name))})
	}
	return out, err
}

// The default policy and delivery policy of a topic, as AWS shows them. Drydock does not retry deliveries.
const (
	defaultPolicy = `{"Version":"2008-10-17","Id":"__default_policy_ID","Statement":[{"Sid":"__default_statement_ID","Effect":"Allow","Principal":{"AWS":"*"},` +
		`"Action":["SNS:GetTopicAttributes","SNS:SetTopicAttributes","SNS:AddPermission","SNS:RemovePermission","SNS:DeleteTopic","SNS:Subscribe",` +
		`"SNS:ListSubscriptionsByTopic","SNS:Publish"],"Resource":%q,"Condition":{"StringEquals":{"AWS:SourceOwner":%q}}}]}`
	defaultDelivery = `{"http":{"defaultHealthyRetryPolicy":{"minDelayTarget":20,"maxDelayTarget":20,"numRetries":3,"numMaxDelayRetries":0,"numNoDelayRetries":0,` +
		`"numMinDelayRetries":0,"backoffFunction":"linear"},"disableSubscriptionOverrides":false,"defaultRequestPolicy":{"headerContentType":"text/plain; charset=UTF-8"}}}`
)

// GetTopicAttributes returns a topic's attributes.
func (s *Service) GetTopicAttributes(ctx context.Context, in *awssns.GetTopicAttributesInput) (*awssns.GetTopicAttributesOutput, error) {
	t, at, err := s.topic(s.store, scopeOf(ctx), in.TopicArn)
	if err != nil {
		return nil, err
	}
	text := t.Policy
	if text == "" {
		text = fmt.Sprintf(defaultPolicy, at.arn(t.Name), at.Account)
	}
	return &awssns.GetTopicAttributesOutput{Attributes: map[string]string{
		"TopicArn": at.arn(t.Name), "Owner": at.Account, "DisplayName": t.Display, "Policy": text, "EffectiveDeliveryPolicy": defaultDelivery,
		"SubscriptionsConfirmed": strconv.Itoa(len(subscriptions.All(s.store, at.Below(t.Name)))), "SubscriptionsPending": "0", "SubscriptionsDeleted": strconv.Itoa(t.Deleted),
	}}, nil
}

// SetTopicAttributes sets an attribute of a topic.
func (s *Service) SetTopicAttributes(ctx context.Context, in *awssns.SetTopicAttributesInput) (*awssns.SetTopicAttributesOutput, error) {
	return &awssns.SetTopicAttributesOutput{}, s.changeTopic(ctx, in.TopicArn, func(_ scope, t *topicRecord) error {
		return t.set(*in.AttributeName, deref(in.AttributeValue))
	})
}

// within reports whether all has the tags.
func within(tags, all map[string]string) bool {
	for k, v := range tags {
		if have, ok := all[k]; !ok || have != v {
			return false
		}
	}
	return true
}

func putTags(old map[string]string, more []snstypes.Tag) (map[string]string, error) {
	rules := tagging.Rules{Most: 50, Reserved: errReservedTag, Twice: errTagTwice, TooMany: errManyTags}
	return tagging.Put(rules, old, more, func(t snstypes.Tag) (key, value *string) { return t.Key, t.Value })
}

func tagList(tags map[string]string) []snstypes.Tag {
	return tagging.List(tags, func(k, v *string) snstypes.Tag { return snstypes.Tag{Key: k, Value: v} })
}

// TagResource sets tags of a topic.
func (s *Service) TagResource(ctx context.Context, in *awssns.TagResourceInput) (*awssns.TagResourceOutput, error) {
	return &awssns.TagResourceOutput{}, resourceError(s.changeTopic(ctx, in.ResourceArn, func(_ scope, t *topicRecord) (err error) {
		t.Tags, err = putTags(t.Tags, in.Tags)
		return err
	}))
}

// UntagResource removes tags of a topic.
func (s *Service) UntagResource(ctx context.Context, in *awssns.UntagResourceInput) (*awssns.UntagResourceOutput, error) {
	return &awssns.UntagResourceOutput{}, resourceError(s.changeTopic(ctx, in.ResourceArn, func(_ scope, t *topicRecord) error {
		t.Tags = maps.Clone(t.Tags)
		for _, k := range in.TagKeys {
			delete(t.Tags, k)
		}
		return nil
	}))
}

// ListTagsForResource lists the tags of a topic.
func (s *Service) ListTagsForResource(ctx context.Context, in *awssns.ListTagsForResourceInput) (*awssns.ListTagsForResourceOutput, error) {
	t, _, err := s.topic(s.store, scopeOf(ctx), in.ResourceArn)
	return &awssns.ListTagsForResourceOutput{Tags: tagList(t.Tags)}, resourceError(err)
}

// resourceError returns err as the operations on tags report it.
func resourceError(err error) error {
	if awserr.CodeOf(err) == "NotFound" {
		return errNoResource()
	}
	return err
}
