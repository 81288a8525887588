package sns

import (
	"context"
	"encoding/json"
	"maps"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// bodyScope is the scope of filter policies that apply to the message's body instead of its attributes.
const bodyScope = "MessageBody"

func (sc scope) subscriptionARN(r *subscriptionRecord) string {
	return sc.arn(r.Topic) + ":" + r.ID
}

// set sets an attribute of a subscription. An empty value removes it.
func (s *Service) set(r *subscriptionRecord, name, value string) error {
	switch name {
	case "RawMessageDelivery":
		given := value
		if value = strings.ToLower(value); value != "" && value != "true" && value != "false" {
			return errParameter("Attributes Reason: RawMessageDelivery: Invalid value [%s]. Must be true or false.", given)
		}
	case "FilterPolicy":
		if value == "{}" {
			value = "" // no policy
		}
		if value != "" {
			if _, err := s.filter(value); err != nil {
				return errFilter(err)
			}
		}
	case "FilterPolicyScope":
		if value != "" && value != bodyScope && value != "MessageAttributes" {
			return errParameter("FilterPolicyScope: Invalid value [%s]. Please use either MessageBody or MessageAttributes", value)
		}
	case "RedrivePolicy":
		if value != "" && deadLetter(value) == "" {
			return errParameter("RedrivePolicy: deadLetterTargetArn is an invalid arn")
		}
	case "DeliveryPolicy", "SubscriptionRoleArn", "ReplayPolicy":
		if value != "" {
			return awserr.NotImplemented("the subscription attribute " + name)
		}
	default:
		return errAttribute()
	}
	r.Attributes = maps.Clone(r.Attributes)
	if r.Attributes == nil {
		r.Attributes = map[string]string{}
	}
	if r.Attributes[name] = value; value == "" {
		delete(r.Attributes, name)
	}
	return nil
}

// deadLetter returns the ARN of the queue in a redrive policy, or "" if the policy is invalid.
func deadLetter(text string) string {
	var p struct {
		Target string `json:"deadLetterTargetArn"`
	}
	if json.Unmarshal([]byte(text), &p) != nil {
		return ""
	}
	if a, err := arn.Parse(p.Target); err != nil || a.Service != "sqs" {
		return ""
	}
	return p.Target
}

// https://docs.aws.amazon.com/sns/latest/api/API_Subscribe.html
var protocols = []string{"http", "https", "email", "email-json", "sms", "sqs", "application", "lambda", "firehose"}

// Subscribe subscribes a queue to a topic. Repeating the request returns the existing subscription.
func (s *Service) Subscribe(ctx context.Context, in *awssns.SubscribeInput) (*awssns.SubscribeOutput, error) {
	sc := scopeOf(ctx)
	queue, err := arn.Parse(deref(in.Endpoint))
	switch {
	case !slices.Contains(protocols, *in.Protocol):
		return nil, errParameter("Amazon SNS does not support this protocol string: %s", *in.Protocol)
	case *in.Protocol != "sqs":
		return nil, awserr.NotImplemented("the protocol " + *in.Protocol)
	case err != nil || queue.Service != "sqs":
		return nil, errParameter("SQS endpoint ARN")
	case queue.Account != sc.Account:
		return nil, awserr.NotImplemented("subscriptions of queues of other accounts")
	case strings.HasSuffix(queue.Resource, ".fifo"):
		return nil, errParameter("Endpoint Reason: FIFO SQS Queues can not be subscribed to standard SNS topics")
	}
	r := subscriptionRecord{ID: ids.UUID(), Queue: *in.Endpoint, Owner: sc.Account}
	for name, value := range in.Attributes {
		if err := s.set(&r, name, value); err != nil {
			return nil, err
		}
	}
	var out string
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		t, at, err := s.topic(tx, sc, in.TopicArn)
		if err != nil {
			return err
		}
		made := r
		made.Topic, out = t.Name, at.arn(t.Name)+":"+r.ID
		all := subscriptions.All(tx, at.Below(t.Name))
		for _, o := range all {
			if o.Value.Queue == made.Queue {
				out = at.subscriptionARN(&o.Value)
				if !maps.Equal(o.Value.Attributes, made.Attributes) {
					return errSubscriptionExists()
				}
				return nil
			}
		}
		if len(all) >= maxSubscriptions {
			return errManySubscriptions()
		}
		if err := checkFilters(all, &made); err != nil {
			return err
		}
		return subscriptions.Create(tx, at.Key(t.Name+"/"+made.ID), made)
	})
	return &awssns.SubscribeOutput{SubscriptionArn: &out}, err
}

// checkFilters checks that a subscription does not exceed its topic's quota of filter policies.
func checkFilters(all []store.Item[subscriptionRecord], r *subscriptionRecord) error {
	n := 0
	for _, o := range all {
		if o.Value.ID != r.ID && o.Value.Attributes["FilterPolicy"] != "" {
			n++
		}
	}
	if r.Attributes["FilterPolicy"] != "" && n >= maxFilters {
		return errManyFilters()
	}
	return nil
}

// Unsubscribe deletes a subscription. Deleting one that does not exist succeeds.
func (s *Service) Unsubscribe(ctx context.Context, in *awssns.UnsubscribeInput) (*awssns.UnsubscribeOutput, error) {
	return &awssns.UnsubscribeOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		r, at, err := s.subscription(tx, scopeOf(ctx), in.SubscriptionArn)
		if awserr.CodeOf(err) == "NotFound" {
			return nil
		}
		if err != nil {
			return err
		}
		subscriptions.Delete(tx, at.Key(r.Topic+"/"+r.ID))
		return store.IgnoreNotFound(topics.Update(tx, at.Key(r.Topic), func(t *topicRecord) error {
			t.Deleted++
			return nil
		}))
	})
}

func (s *Service) list(at scope, under store.Scope, token *string) ([]snstypes.Subscription, *string, error) {
	some, next, err := paging.Cut(pages, subscriptions.All(s.store, under), func(i store.Item[subscriptionRecord]) string { return i.Key.ID }, nil, token)
	out := []snstypes.Subscription{}
	for _, item := range some {
		r := &item.Value
		out = append(out, snstypes.Subscription{SubscriptionArn: aws.String(at.subscriptionARN(r)), TopicArn: aws.String(at.arn(r.Topic)), Protocol: aws.String("sqs"), Endpoint: &r.Queue, Owner: &r.Owner})
	}
	return out, next, err
}

// ListSubscriptions lists the subscriptions to the account's topics.
func (s *Service) ListSubscriptions(ctx context.Context, in *awssns.ListSubscriptionsInput) (*awssns.ListSubscriptionsOutput, error) {
	sc := scopeOf(ctx)
	out, next, err := s.list(sc, sc.All(), in.NextToken)
	return &awssns.ListSubscriptionsOutput{Subscriptions: out, NextToken: next}, err
}

// ListSubscriptionsByTopic lists the subscriptions to a topic.
func (s *Service) ListSubscriptionsByTopic(ctx context.Context, in *awssns.ListSubscriptionsByTopicInput) (*awssns.ListSubscriptionsByTopicOutput, error) {
	t, at, err := s.topic(s.store, scopeOf(ctx), in.TopicArn)
	if err != nil {
		return nil, err
	}
	out, next, err := s.list(at, at.Below(t.Name), in.NextToken)
	return &awssns.ListSubscriptionsByTopicOutput{Subscriptions: out, NextToken: next}, err
}

// GetSubscriptionAttributes returns a subscription's attributes.
func (s *Service) GetSubscriptionAttributes(ctx context.Context, in *awssns.GetSubscriptionAttributesInput) (*awssns.GetSubscriptionAttributesOutput, error) {
	r, at, err := s.subscription(s.store, scopeOf(ctx), in.SubscriptionArn)
	if err != nil {
		return nil, err
	}
	out := map[string]string{
		"SubscriptionArn": at.subscriptionARN(&r), "TopicArn": at.arn(r.Topic), "Protocol": "sqs", "Endpoint": r.Queue, "Owner": r.Owner,
		"ConfirmationWasAuthenticated": "true", "PendingConfirmation": "false", "RawMessageDelivery": "false", "SubscriptionPrincipal": arn.IAM(r.Owner, "root"),
	}
	maps.Copy(out, r.Attributes)
	if out["FilterPolicy"] != "" && out["FilterPolicyScope"] == "" {
		out["FilterPolicyScope"] = "MessageAttributes"
	}
	return &awssns.GetSubscriptionAttributesOutput{Attributes: out}, nil
}

// SetSubscriptionAttributes sets an attribute of a subscription.
func (s *Service) SetSubscriptionAttributes(ctx context.Context, in *awssns.SetSubscriptionAttributesInput) (*awssns.SetSubscriptionAttributesOutput, error) {
	return &awssns.SetSubscriptionAttributesOutput{}, s.store.Update(ctx, func(tx *store.Tx) error {
		r, at, err := s.subscription(tx, scopeOf(ctx), in.SubscriptionArn)
		if err != nil {
			return err
		}
		if err := s.set(&r, *in.AttributeName, deref(in.AttributeValue)); err != nil {
			return err
		}
		if err := checkFilters(subscriptions.All(tx, at.Below(r.Topic)), &r); err != nil {
			return err
		}
		return subscriptions.Put(tx, at.Key(r.Topic+"/"+r.ID), r)
	})
}
