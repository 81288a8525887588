package sqs

import (
	"context"
	"strings"

	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/policy"
)

// Authz provides package authz with the stored attributes of queues, including their policies.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// HoldsPolicies implements authz.PolicyHolder: queue policies apply even to the account's root.
func (resolver) HoldsPolicies() {}

// Resource implements authz.Resolver. A queue is identified by its URL, ARN or name.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	if kind != "queue" {
		return authz.Resource{}, false
	}
	sc, name := parseURL(scope{regional.At(account, region)}, id)
	q, err := queues.Get(r.s.store, sc.Key(name))
	if err != nil {
		return authz.Resource{}, false
	}
	out := authz.Resource{ARN: sc.arn(name), Tags: q.Tags}
	if text := q.Attributes["Policy"]; text != "" {
		out.Policy = &policy.Source{Name: "queue policy of " + out.ARN, Document: r.s.docs.Get(text)}
	}
	return out, true
}

// Targets implements authz.Targeter. Moving messages requires the permissions that moving them by
// hand would.
// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-configure-dead-letter-queue-redrive.html
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	queue := func(action, id string) authz.Target {
		return authz.Target{Action: action, Type: "queue", ID: id}
	}
	switch in := in.(type) {
	case *awssqs.GetQueueUrlInput:
		sc := scope{regional.At(call.Account, call.Region)}
		if in.QueueOwnerAWSAccountId != nil {
			sc.Account = *in.QueueOwnerAWSAccountId
		}
		return []authz.Target{queue("", sc.arn(*in.QueueName))}, true
	case *awssqs.StartMessageMoveTaskInput:
		out := []authz.Target{
			queue("", *in.SourceArn), queue("sqs:ReceiveMessage", *in.SourceArn),
			queue("sqs:DeleteMessage", *in.SourceArn), queue("sqs:GetQueueAttributes", *in.SourceArn),
		}
		if in.DestinationArn != nil {
			out = append(out, queue("sqs:SendMessage", *in.DestinationArn))
		}
		return out, true
	case *awssqs.ListMessageMoveTasksInput:
		return []authz.Target{queue("", *in.SourceArn)}, true
	case *awssqs.CancelMessageMoveTaskInput:
		if _, source, ok := parseHandle(*in.TaskHandle); ok {
			return []authz.Target{queue("", source)}, true
		}
	}
	return nil, false
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Actions: map[string]string{
		// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/SQSDeveloperGuide/sqs-api-permissions-reference.html
		"SendMessageBatch":             "SendMessage",
		"DeleteMessageBatch":           "DeleteMessage",
		"ChangeMessageVisibilityBatch": "ChangeMessageVisibility",
	},
	Members: map[string]string{
		"QueueName": "QueueName QueueUrl",
	},
	ARNs:    map[string]func(string) string{"queue": queueARN},
	Tagging: awsapi.Tagging{Action: "TagQueue", Source: "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_CreateQueue.html"},
}

// queueARN handles queue URLs, which end in ACCOUNT/NAME. The account may be another one.
func queueARN(arn string) string {
	f := strings.SplitN(arn, ":", 6)
	if i := strings.LastIndexByte(arn, '/'); len(f) == 6 && i >= 0 {
		f[5] = arn[i+1:]
		if account := arn[strings.LastIndexByte(arn[:i], '/')+1 : i]; len(account) == 12 && strings.Trim(account, "0123456789") == "" {
			f[4] = account
		}
		return strings.Join(f, ":")
	}
	return arn
}
