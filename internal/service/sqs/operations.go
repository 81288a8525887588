package sqs

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
		Name:          "sqs",
		Handler:       s,
		Authorization: authorization,
		Constraints:   constraints,
		Operations: []awsapi.Operation{
			{Name: "CreateQueue", Members: "Attributes QueueName tags"},
			{Name: "GetQueueUrl", Members: "QueueName QueueOwnerAWSAccountId"},
			{Name: "ListQueues", Members: "MaxResults NextToken QueueNamePrefix"},
			{Name: "GetQueueAttributes", Members: "AttributeNames QueueUrl"},
			{Name: "SetQueueAttributes", Members: "Attributes QueueUrl"},
			{Name: "DeleteQueue", Members: "QueueUrl"},
			{Name: "PurgeQueue", Members: "QueueUrl"},
			{Name: "TagQueue", Members: "QueueUrl Tags"},
			{Name: "UntagQueue", Members: "QueueUrl TagKeys"},
			{Name: "ListQueueTags", Members: "QueueUrl"},
			{Name: "AddPermission", Members: "AWSAccountIds Actions Label QueueUrl"},
			{Name: "RemovePermission", Members: "Label QueueUrl"},
			{Name: "SendMessage", Members: "DelaySeconds MessageAttributes MessageBody MessageDeduplicationId MessageGroupId MessageSystemAttributes QueueUrl", DataEvent: true},
			{Name: "SendMessageBatch", Members: "Entries QueueUrl", DataEvent: true},
			{Name: "ReceiveMessage", Members: "AttributeNames MaxNumberOfMessages MessageAttributeNames MessageSystemAttributeNames QueueUrl " +
				"ReceiveRequestAttemptId VisibilityTimeout WaitTimeSeconds", DataEvent: true},
			{Name: "DeleteMessage", Members: "QueueUrl ReceiptHandle", DataEvent: true},
			{Name: "DeleteMessageBatch", Members: "Entries QueueUrl", DataEvent: true},
			{Name: "ChangeMessageVisibility", Members: "QueueUrl ReceiptHandle VisibilityTimeout", DataEvent: true},
			{Name: "ChangeMessageVisibilityBatch", Members: "Entries QueueUrl", DataEvent: true},
			{Name: "ListDeadLetterSourceQueues", Members: "MaxResults NextToken QueueUrl"},
			{Name: "StartMessageMoveTask", Members: "DestinationArn MaxNumberOfMessagesPerSecond SourceArn"},
			{Name: "ListMessageMoveTasks", Members: "MaxResults SourceArn"},
			{Name: "CancelMessageMoveTask", Members: "TaskHandle"},
		},
	}
}
