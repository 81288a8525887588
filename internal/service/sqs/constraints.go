package sqs

import "github.com/drydock-dev/drydock/internal/awsapi"

// constraints correct the API model.
var constraints = []awsapi.Constraint{
	// It is EmptyBatchRequest.
	{At: "ChangeMessageVisibilityBatch.Entries", Unchecked: awsapi.UncheckedRequired, Source: "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ChangeMessageVisibilityBatch.html"},
	{At: "DeleteMessageBatch.Entries", Unchecked: awsapi.UncheckedRequired, Source: "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_DeleteMessageBatch.html"},
	{At: "SendMessageBatch.Entries", Unchecked: awsapi.UncheckedRequired, Source: "https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessageBatch.html"},
}
