package sns

import (
	awssns "github.com/aws/aws-sdk-go-v2/service/sns"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: resolver{s}, Tagging: s.taggable()}
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "sns",
		Handler:       s,
		Authorization: authorization,
		Operations: []awsapi.Operation{
			{Name: "CreateTopic", Members: "Attributes Name Tags", Except: "attributes other than DisplayName and Policy"},
			{Name: "DeleteTopic", Members: "TopicArn"},
			{Name: "ListTopics", Members: "NextToken"},
			{Name: "GetTopicAttributes", Members: "TopicArn"},
			{Name: "SetTopicAttributes", Members: "AttributeName AttributeValue TopicArn", Except: "attributes other than DisplayName and Policy"},
			{Name: "Subscribe", Members: "Attributes Endpoint Protocol ReturnSubscriptionArn TopicArn",
				Except: "protocols other than sqs, queues of other accounts than the caller's, attributes other than FilterPolicy, FilterPolicyScope, RawMessageDelivery and RedrivePolicy"},
			{Name: "Unsubscribe", Members: "SubscriptionArn"},
			{Name: "ListSubscriptions", Members: "NextToken"},
			{Name: "ListSubscriptionsByTopic", Members: "NextToken TopicArn"},
			{Name: "GetSubscriptionAttributes", Members: "SubscriptionArn"},
			{Name: "SetSubscriptionAttributes", Members: "AttributeName AttributeValue SubscriptionArn", Except: "attributes other than FilterPolicy, FilterPolicyScope, RawMessageDelivery and RedrivePolicy"},
			{Name: "Publish", Members: "Message MessageAttributes MessageStructure Subject TargetArn TopicArn", DataEvent: true},
			{Name: "PublishBatch", Members: "PublishBatchRequestEntries.Id PublishBatchRequestEntries.Message PublishBatchRequestEntries.MessageAttributes PublishBatchRequestEntries.MessageStructure PublishBatchRequestEntries.Subject TopicArn", DataEvent: true},
			{Name: "TagResource", Members: "ResourceArn Tags"},
			{Name: "UntagResource", Members: "ResourceArn TagKeys"},
			{Name: "ListTagsForResource", Members: "ResourceArn"},
		},
		Refused: []awsapi.Refusal{
			{Operations: "AddPermission RemovePermission", Why: "SetTopicAttributes sets the whole policy."},
			{Operations: "ConfirmSubscription", Why: "Queues of the caller's own account, the only ones that can subscribe, need no confirmation."},
		},
	}
}

func (s *Service) taggable() module.Tagging {
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, topics, account, region, func(k store.Key, t *topicRecord) (string, map[string]string) {
				return scope{regional.At(k.Account, k.Region)}.arn(t.Name), t.Tags
			})
		},
		Put: func(name string, tags map[string]string) any {
			return &awssns.TagResourceInput{ResourceArn: &name, Tags: tagList(tags)}
		},
		Remove: func(name string, keys []string) any {
			return &awssns.UntagResourceInput{ResourceArn: &name, TagKeys: keys}
		},
	}
}
