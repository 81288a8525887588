package cloudformation

import (
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"
	snstypes "github.com/aws/aws-sdk-go-v2/service/sns/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// subscriptionAttributes lists the properties of a subscription that the API takes as attributes.
const subscriptionAttributes = "FilterPolicy FilterPolicyScope RawMessageDelivery RedrivePolicy"

func snsHandlers() map[string]handler {
	return map[string]handler{
		"AWS::SNS::Topic": made(handler{
			inPlace: "DisplayName Subscription Tags", update: updateTopic, adopts: true,
			find: func(r *request) (string, error) {
				topic := arn.New("sns", r.o.key.Region, r.o.key.Account, r.name("TopicName", 256))
				_, err := call[awssns.GetTopicAttributesOutput](r, &awssns.GetTopicAttributesInput{TopicArn: &topic})
				return topic, err
			},
			settle: func(r *request) error {
				for _, in := range r.subscriptions() {
					if _, err := call[awssns.SubscribeOutput](r, &in); err != nil {
						return err
					}
				}
				return nil
			},
			read: func(r *request) (map[string]any, error) {
				return map[string]any{"TopicArn": r.id, "TopicName": r.id[strings.LastIndexByte(r.id, ':')+1:]}, nil
			},
			remove: one[awssns.DeleteTopicOutput](func(r *request) any { return &awssns.DeleteTopicInput{TopicArn: &r.id} }),
		}, "DisplayName FifoTopic Subscription Tags TopicName", func(r *request, in *awssns.CreateTopicInput) {
			in.Name, in.Tags, in.Attributes = aws.String(r.name("TopicName", 256)), snsTags(r.tags()), map[string]string{}
			for _, p := range []string{"DisplayName", "FifoTopic"} {
				if r.props.Has(p) {
					in.Attributes[p] = r.text(p)
				}
			}
		}, func(_ *request, out *awssns.CreateTopicOutput) *string { return out.TopicArn }),
		"AWS::SNS::Subscription": made(handler{
			inPlace: subscriptionAttributes, find: findSubscription,
			update: func(r *request) error {
				for _, p := range strings.Fields(subscriptionAttributes) {
					if !r.changed(p) {
						continue
					}
					in := &awssns.SetSubscriptionAttributesInput{SubscriptionArn: &r.id, AttributeName: &p, AttributeValue: aws.String(r.document(p))}
					if _, err := call[awssns.SetSubscriptionAttributesOutput](r, in); err != nil {
						return err
					}
				}
				return nil
			},
			read:   idAs("Arn"),
			remove: one[awssns.UnsubscribeOutput](func(r *request) any { return &awssns.UnsubscribeInput{SubscriptionArn: &r.id} }),
		}, subscriptionAttributes, func(r *request, in *awssns.SubscribeInput) {
			in.ReturnSubscriptionArn, in.Attributes = true, map[string]string{}
			for _, p := range strings.Fields(subscriptionAttributes) {
				if r.props.Has(p) {
					in.Attributes[p] = r.document(p)
				}
			}
		}, func(_ *request, out *awssns.SubscribeOutput) *string { return out.SubscriptionArn }),
		"AWS::SNS::TopicPolicy": {
			input: &awssns.SetTopicAttributesInput{}, own: "PolicyDocument Topics", inPlace: "PolicyDocument Topics",
			update: func(r *request) error {
				if err := r.setTopicPolicy("", r.goneFrom("Topics")); err != nil {
					return err
				}
				return r.setTopicPolicy(r.document("PolicyDocument"), r.list("Topics"))
			},
			create: func(r *request) (string, error) {
				return r.generated(r.o.rec.Name, 80), r.setTopicPolicy(r.document("PolicyDocument"), r.list("Topics"))
			},
			read:   idAs("Id"),
			remove: func(r *request) error { return r.setTopicPolicy("", r.list("Topics")) },
		},
		"AWS::SNS::TopicInlinePolicy": {
			input: &awssns.SetTopicAttributesInput{}, own: "PolicyDocument TopicArn", inPlace: "PolicyDocument",
			update: func(r *request) error { return r.setTopicPolicy(r.document("PolicyDocument"), r.list("TopicArn")) },
			create: func(r *request) (string, error) {
				return r.text("TopicArn"), r.setTopicPolicy(r.document("PolicyDocument"), r.list("TopicArn"))
			},
			remove: func(r *request) error { return r.setTopicPolicy("", r.list("TopicArn")) },
		},
	}
}

func snsTags(tags []tagRecord) (out []snstypes.Tag) {
	for _, t := range tags {
		out = append(out, snstypes.Tag{Key: &t.Key, Value: &t.Value})
	}
	return out
}

// subscriptions returns the subscriptions in the properties of a topic.
func (r *request) subscriptions() (out []awssns.SubscribeInput) {
	list, _ := r.props.Get("Subscription").([]any)
	for _, e := range list {
		m, _ := e.(*template.Map)
		out = append(out, awssns.SubscribeInput{TopicArn: &r.id, Endpoint: aws.String(text(m, "Endpoint")), Protocol: aws.String(text(m, "Protocol"))})
	}
	return out
}

// subscription returns the ARN of a topic's subscription for an endpoint, or "" if it does not exist.
func (r *request) subscription(topic, endpoint string) (string, error) {
	in := &awssns.ListSubscriptionsByTopicInput{TopicArn: &topic}
	for {
		out, err := call[awssns.ListSubscriptionsByTopicOutput](r, in)
		if err != nil {
			return "", err
		}
		for _, s := range out.Subscriptions {
			if aws.ToString(s.Endpoint) == endpoint {
				return aws.ToString(s.SubscriptionArn), nil
			}
		}
		if in.NextToken = out.NextToken; in.NextToken == nil {
			return "", nil
		}
	}
}

func findSubscription(r *request) (string, error) {
	return r.subscription(r.text("TopicArn"), r.text("Endpoint"))
}

// updateTopic changes a topic and removes subscriptions. settle adds the new ones.
func updateTopic(r *request) error {
	if r.changed("DisplayName") {
		in := &awssns.SetTopicAttributesInput{TopicArn: &r.id, AttributeName: aws.String("DisplayName"), AttributeValue: aws.String(r.text("DisplayName"))}
		if _, err := call[awssns.SetTopicAttributesOutput](r, in); err != nil {
			return err
		}
	}
	keep := map[string]bool{}
	for _, s := range r.subscriptions() {
		keep[*s.Endpoint] = true
	}
	for _, s := range r.was.subscriptions() {
		if keep[*s.Endpoint] {
			continue
		}
		name, err := r.subscription(r.id, *s.Endpoint)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		if _, err := call[awssns.UnsubscribeOutput](r, &awssns.UnsubscribeInput{SubscriptionArn: &name}); err != nil {
			return err
		}
	}
	set, gone := r.tagChanges()
	if len(gone) > 0 {
		if _, err := call[awssns.UntagResourceOutput](r, &awssns.UntagResourceInput{ResourceArn: &r.id, TagKeys: gone}); err != nil {
			return err
		}
	}
	if len(set) == 0 {
		return nil
	}
	_, err := call[awssns.TagResourceOutput](r, &awssns.TagResourceInput{ResourceArn: &r.id, Tags: snsTags(set)})
	return err
}

// setTopicPolicy sets the policy of topics, or restores their default policy if document is "".
func (r *request) setTopicPolicy(document string, topics []string) error {
	for _, topic := range topics {
		_, err := call[awssns.SetTopicAttributesOutput](r, &awssns.SetTopicAttributesInput{TopicArn: &topic, AttributeName: aws.String("Policy"), AttributeValue: &document})
		if err != nil && (document != "" || !notFound(err)) {
			return err
		}
	}
	return nil
}
