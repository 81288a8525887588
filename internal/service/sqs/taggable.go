package sqs

import (
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/store"
)

// taggable is what the Resource Groups Tagging API knows of queues.
func (s *Service) taggable() module.Tagging {
	url := func(name string) *string {
		a, _ := arn.Parse(name) // it is one that Resources returned
		out := scope{regional.At(a.Account, a.Region)}.url(a.Resource)
		return &out
	}
	return module.Tagging{
		Resources: func(account, region string) []module.Resource {
			return module.Resources(s.store, queues, account, region, func(k store.Key, q *queueRecord) (string, map[string]string) {
				return scope{regional.At(k.Account, k.Region)}.arn(k.ID), q.Tags
			})
		},
		Put: func(name string, tags map[string]string) any {
			return &awssqs.TagQueueInput{QueueUrl: url(name), Tags: tags}
		},
		Remove: func(name string, keys []string) any {
			return &awssqs.UntagQueueInput{QueueUrl: url(name), TagKeys: keys}
		},
	}
}
