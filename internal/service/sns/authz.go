package sns

import (
	"context"
	"strings"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/policy"
)

type resolver struct{ s *Service }

// HoldsPolicies implements authz.PolicyHolder.
func (resolver) HoldsPolicies() {}

// Resource implements authz.Resolver. A topic is identified by its ARN or name.
func (r resolver) Resource(_ context.Context, account, region, _, id string) (authz.Resource, bool) {
	sc := scope{regional.At(account, region)}
	if !strings.HasPrefix(id, "arn:") {
		id = sc.arn(id)
	}
	t, at, err := r.s.topic(r.s.store, sc, &id)
	if err != nil {
		return authz.Resource{}, false
	}
	out := authz.Resource{ARN: id, Tags: t.Tags}
	if t.Policy != "" {
		out.Policy = &policy.Source{Name: "topic policy of " + at.arn(t.Name), Document: r.s.docs.Get(t.Policy)}
	}
	return out, true
}

// Targets implements authz.Targeter. Operations on a subscription are authorized on its topic.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	name, ok := authz.Named(in, "SubscriptionArn")
	if !ok {
		return nil, false
	}
	at, topic, _, ok := scope{regional.At(call.Account, call.Region)}.parse(name)
	if !ok {
		return []authz.Target{{Type: "topic", ID: name}}, true
	}
	return []authz.Target{{Type: "topic", ID: at.arn(topic)}}, true
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Actions: map[string]string{
		"PublishBatch": "Publish",
	},
	Members: map[string]string{
		"TopicName": "TopicArn ResourceArn TargetArn Name",
	},
	Tagging: awsapi.Tagging{Action: "TagResource", Source: "https://docs.aws.amazon.com/sns/latest/api/API_CreateTopic.html"},
}
