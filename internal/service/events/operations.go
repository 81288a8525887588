package events

import (
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/module"
)

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: s.Authz(), Tagging: s.taggable(), Run: s.Run, Reset: s.Reset}
}

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	return awsapi.Service{
		Name:          "events",
		Handler:       s,
		Authorization: authorization,
		Operations: []awsapi.Operation{
			{Name: "CreateEventBus", Members: "Description Name Tags"},
			{Name: "DescribeEventBus", Members: "Name"},
			{Name: "UpdateEventBus", Members: "Description Name"},
			{Name: "DeleteEventBus", Members: "Name"},
			{Name: "ListEventBuses", Members: "Limit NamePrefix NextToken"},
			{Name: "PutPermission", Members: "Action Condition EventBusName Policy Principal StatementId"},
			{Name: "RemovePermission", Members: "EventBusName RemoveAllPermissions StatementId"},
			{Name: "PutRule", Members: "Description EventBusName EventPattern Name ScheduleExpression State Tags", Except: "the state ENABLED_WITH_ALL_CLOUDTRAIL_MANAGEMENT_EVENTS"},
			{Name: "DescribeRule", Members: "EventBusName Name"},
			{Name: "DeleteRule", Members: "EventBusName Force Name"},
			{Name: "EnableRule", Members: "EventBusName Name"},
			{Name: "DisableRule", Members: "EventBusName Name"},
			{Name: "ListRules", Members: "EventBusName Limit NamePrefix NextToken"},
			{Name: "ListRuleNamesByTarget", Members: "EventBusName Limit NextToken TargetArn"},
			{Name: "PutTargets", Members: "EventBusName Rule Targets.Arn Targets.DeadLetterConfig Targets.Id Targets.Input Targets.InputPath Targets.InputTransformer Targets.RetryPolicy Targets.SqsParameters",
				Except: "targets other than queues of SQS, topics of SNS and log groups of CloudWatch Logs"},
			{Name: "RemoveTargets", Members: "EventBusName Force Ids Rule"},
			{Name: "ListTargetsByRule", Members: "EventBusName Limit NextToken Rule"},
			{Name: "PutEvents", Members: "Entries", DataEvent: true},
			{Name: "TestEventPattern", Members: "Event EventPattern", ReadOnly: true},
			{Name: "TagResource", Members: "ResourceARN Tags"},
			{Name: "UntagResource", Members: "ResourceARN TagKeys"},
			{Name: "ListTagsForResource", Members: "ResourceARN"},
		},
	}
}
