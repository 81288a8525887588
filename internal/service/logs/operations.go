package logs

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
		Name:          "logs",
		Handler:       s,
		Authorization: authorization,
		Constraints:   constraints,
		Operations: []awsapi.Operation{
			{Name: "CreateLogGroup", Members: "deletionProtectionEnabled kmsKeyId logGroupClass logGroupName tags", Except: "logGroupClass DELIVERY"},
			{Name: "DeleteLogGroup", Members: "logGroupName"},
			{Name: "DescribeLogGroups", Members: "limit logGroupClass logGroupIdentifiers logGroupNamePattern logGroupNamePrefix nextToken"},
			{Name: "ListLogGroups", Members: "limit logGroupClass logGroupNamePattern nextToken"},
			{Name: "PutRetentionPolicy", Members: "logGroupName retentionInDays"},
			{Name: "DeleteRetentionPolicy", Members: "logGroupName"},
			{Name: "PutLogGroupDeletionProtection", Members: "deletionProtectionEnabled logGroupIdentifier"},
			{Name: "AssociateKmsKey", Members: "kmsKeyId logGroupName resourceIdentifier"},
			{Name: "DisassociateKmsKey", Members: "logGroupName resourceIdentifier"},
			{Name: "TagLogGroup", Members: "logGroupName tags"},
			{Name: "UntagLogGroup", Members: "logGroupName tags"},
			{Name: "ListTagsLogGroup", Members: "logGroupName"},
			{Name: "TagResource", Members: "resourceArn tags"},
			{Name: "UntagResource", Members: "resourceArn tagKeys"},
			{Name: "ListTagsForResource", Members: "resourceArn"},
			{Name: "CreateLogStream", Members: "logGroupName logStreamName"},
			{Name: "DeleteLogStream", Members: "logGroupName logStreamName"},
			{Name: "DescribeLogStreams", Members: "descending limit logGroupIdentifier logGroupName logStreamNamePrefix nextToken orderBy"},
			{Name: "PutLogEvents", Members: "logEvents logGroupName logStreamName sequenceToken", DataEvent: true},
			{Name: "GetLogEvents", Members: "endTime limit logGroupIdentifier logGroupName logStreamName nextToken startFromHead startTime", DataEvent: true},
			{Name: "FilterLogEvents", Members: "endTime filterPattern interleaved limit logGroupIdentifier logGroupName logStreamNamePrefix logStreamNames nextToken startTime", ReadOnly: true, DataEvent: true},
			{Name: "TestMetricFilter", Members: "filterPattern logEventMessages", ReadOnly: true},
			{Name: "PutResourcePolicy", Members: "policyDocument policyName"},
			{Name: "DeleteResourcePolicy", Members: "policyName"},
			{Name: "DescribeResourcePolicies", Members: "limit nextToken"},
			{Name: "DescribeSubscriptionFilters", Members: "filterNamePrefix limit logGroupName nextToken"},
		},
		Refused: []awsapi.Refusal{
			{Operations: "PutSubscriptionFilter DeleteSubscriptionFilter", Why: "Drydock does not have the services that a subscription filter sends events to: Kinesis, Firehose and Lambda. DescribeSubscriptionFilters returns an empty list."},
			{Operations: "StartQuery StopQuery GetQueryResults DescribeQueries GetLogRecord GetLogGroupFields PutQueryDefinition DescribeQueryDefinitions DeleteQueryDefinition",
				Why: "Logs Insights has a query language of its own. FilterLogEvents searches."},
			{Operations: "PutMetricFilter DescribeMetricFilters DeleteMetricFilter", Why: "Drydock has no CloudWatch metrics. TestMetricFilter tells what a pattern matches."},
		},
	}
}
