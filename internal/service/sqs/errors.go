package sqs

import (
	"fmt"
	"net/http"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Unless another source is given, the texts are those that LocalStack's tests recorded from AWS
// (https://github.com/localstack/localstack, tests/aws/services/sqs/*.snapshot.json).

func errNoQueue() error {
	return awserr.New("QueueDoesNotExist", "The specified queue does not exist.")
}

func errValue(format string, args ...any) error {
	return awserr.Newf("InvalidParameterValueException", format, args...)
}

func errParameter(value any, name, reason string) error {
	return errValue("Value %v for parameter %s is invalid. Reason: %s", value, name, reason)
}

func errMissing(name string) error {
	return awserr.Newf("MissingRequiredParameterException", "The request must contain the parameter %s.", name)
}

func errUnknownAttribute(name string) error {
	return awserr.Newf("InvalidAttributeName", "Unknown Attribute %s.", name)
}

func errFIFOOnly(name string) error {
	return awserr.Newf("InvalidAttributeName", "You can specify the %s only when FifoQueue is set to true.", name)
}

func errTwoEncryptions() error {
	return awserr.New("InvalidAttributeName", "You can use one type of server-side encryption (SSE) at one time. You can either enable KMS SSE or SQS SSE.")
}

// https://github.com/hashicorp/terraform-provider-aws/issues/13980
func errAttributeValue(name string) error {
	return awserr.Newf("InvalidAttributeValue", "Invalid value for the parameter %s.", name)
}

func errAttributeReason(name, reason string) error {
	return awserr.Newf("InvalidAttributeValue", "Invalid value for the parameter %s. Reason: %s", name, reason)
}

// https://github.com/hashicorp/terraform-provider-aws/issues/22197
func errQueueName(fifo bool) error {
	if fifo {
		return errValue("The name of a FIFO queue can only include alphanumeric characters, hyphens, or underscores, must end with .fifo suffix and be 1 to 80 in length.")
	}
	return errValue("Can only include alphanumeric characters, hyphens, or underscores. 1 to 80 in length")
}

func errQueueExists(attribute string) error {
	return awserr.Newf("QueueNameExists", "A queue already exists with the same name and a different value for attribute %s", attribute)
}

// https://github.com/hashicorp/terraform-provider-aws, internal/service/sqs/queue.go retries on it
func errDeletedRecently() error {
	return awserr.New("QueueDeletedRecently", "You must wait 60 seconds after deleting a queue before you can create another with the same name.")
}

func errPurging(name string) error {
	return awserr.Newf("PurgeQueueInProgress", "Only one PurgeQueue operation on %s is allowed every 60 seconds.", name).WithStatus(http.StatusForbidden)
}

func errTooLong(most int) error {
	return errValue("One or more parameters are invalid. Reason: Message must be shorter than %d bytes.", most)
}

func errEntryTooLong(most int) error {
	return errValue("One or more parameters cannot be validated. Reason: Message must be shorter than %d bytes.", most)
}

func errBatchTooLong(size int) error {
	return awserr.Newf("BatchRequestTooLong", "Batch requests cannot be longer than %d bytes. You have sent %d bytes.", maxSize, size)
}

// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_SendMessage.html; the
// text is LocalStack's
func errContents() error {
	return awserr.New("InvalidMessageContents", "Invalid characters found. Valid unicode characters are #x9 | #xA | #xD | #x20 to #xD7FF | #xE000 to #xFFFD | #x10000 to #x10FFFF")
}

// errAttributeContents has the code of test_invalid_string_attributes_cause_invalid_parameter_value_error, and the text for bodies.
func errAttributeContents() error {
	return errValue("%s", errContents().(*awserr.Error).ErrorMessage())
}

func errNoDedup() error {
	return errValue("The queue should either have ContentBasedDeduplication enabled or MessageDeduplicationId provided explicitly")
}

// notThisType is the reason given for parameters of the other queue type, with AWS's grammar.
const notThisType = "The request include parameter that is not valid for this queue type."

func errToken(value, name string) error {
	return errParameter(value, name, name+" can only include alphanumeric and punctuation characters. 1 to 128 in length.")
}

func errReceipt(handle string) error {
	return awserr.Newf("ReceiptHandleIsInvalid", "The input receipt handle %q is not a valid receipt handle.", handle) // as in LocalStack
}

func errReceiptExpired(handle string) error {
	return errParameter(handle, "ReceiptHandle", "The receipt handle has expired.")
}

// https://github.com/aws/aws-sdk-java/issues/705
func errNotInFlight(handle string) error {
	return errParameter(handle, "ReceiptHandle", "Message does not exist or is not available for visibility timeout change.")
}

// https://github.com/awslabs/amazon-sqs-java-messaging-lib/issues/97
func errVisibility(seconds int32) error {
	return errParameter(seconds, "VisibilityTimeout", "Total VisibilityTimeout for the message is beyond the limit [43200 seconds].")
}

// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_ReceiveMessage.html; the words are from memory
func errOverLimit() error {
	return awserr.New("OverLimit", "Too many messages in flight for this queue").WithStatus(http.StatusForbidden)
}

// errFull is Drydock's own: SQS has no storage limit.
func errFull() error {
	return awserr.New("OverLimit", "The messages of this account have taken all the room that Drydock gives an account. Receive and delete some, or purge a queue.").WithStatus(http.StatusForbidden)
}

func errEmptyBatch(entry string) error {
	return awserr.Newf("EmptyBatchRequest", "There should be at least one %s in the request.", entry) // [seen] aws/aws-sdk-php#630, getmoto/moto#1799
}

func errManyEntries(n int) error {
	return awserr.Newf("TooManyEntriesInBatchRequest", "Maximum number of entries per request are %d. You have sent %d.", maxBatch, n)
}

func errEntryID() error {
	return awserr.New("InvalidBatchEntryId", "A batch entry id can only contain alphanumeric characters, hyphens and underscores. It can be at most 80 letters long.")
}

func errRepeatedID(id string) error {
	return awserr.Newf("BatchEntryIdsNotDistinct", "Id %s repeated.", id) // from memory
}

// The texts about message attributes, except for the first, are from memory.

func errEmptyAttribute(name, kind string) error {
	return errValue("Message (user) attribute '%s' must contain a non-empty value of type '%s'.", name, kind)
}

func errAttributeType(name string) error {
	return errValue("The message attribute '%s' has an invalid message attribute type, the set of supported type prefixes is Binary, Number, and String.", name)
}

func errAttributeName(name string) error {
	return errValue("Message (user) attribute name '%s' is invalid. It can contain alphanumeric characters, hyphens, underscores and periods, must not start with AWS. or Amazon., nor have periods in succession or at its ends, and is at most 256 characters long.", name)
}

func errNumber(name string) error {
	return errValue("Can't cast the value of message (user) attribute '%s' to a number.", name)
}

func errManyAttributes(n int) error {
	return errValue("Number of message attributes [%d] exceeds the allowed maximum [10].", n)
}

func errListValues() error {
	return awserr.New("UnsupportedOperation", "Message attribute list values in SendMessage operation are not supported.")
}

func errSystemAttribute(name string) error {
	return errValue("Message system attribute name '%s' is invalid.", name)
}

// The texts about tags are from memory.

func errReservedTag() error {
	return errValue("Tag keys cannot start with 'aws:'; this prefix is reserved for system use.")
}

func errManyTags() error { return errValue("Too many tags added for queue: at most 50.") }

func errLabelExists(label string) error { return errParameter(label, "Label", "Already exists.") }

func errNoLabel(label string) error { return errParameter(label, "Label", "can't find label.") }

// https://docs.aws.amazon.com/AWSSimpleQueueService/latest/APIReference/API_AddPermission.html; the words are from memory
func errManyActions(n int) error {
	return awserr.Newf("OverLimit", "%d Actions were found, maximum allowed is 7.", n).WithStatus(http.StatusForbidden)
}

func errAction(action string) error {
	return errValue("Value SQS:%s for parameter ActionName is invalid. Reason: Please refer to the appropriate WSDL for a list of valid actions.", action)
}

func errNextToken(token string) error { return errValue("Invalid or expired next token %q.", token) } // from memory

func errNotDeadLetter() error {
	return errValue("Source queue must be configured as a Dead Letter Queue.")
}

func errNoResource(parameter string) error {
	return awserr.Newf("ResourceNotFoundException", "The resource that you specified for the %s parameter doesn't exist.", parameter).WithStatus(http.StatusNotFound)
}

func errTaskHandle() error { return errValue("Value for parameter TaskHandle is invalid.") }

func errNoTask() error {
	return awserr.New("ResourceNotFoundException", "Task does not exist.").WithStatus(http.StatusNotFound)
}

func errTaskRuns() error {
	return errValue("There is already a task running. Only one active task is allowed for a source queue arn at a given time.")
}

// The texts about tasks that cannot be canceled are from memory.
func errTaskOver(status string) error {
	return awserr.Newf("UnsupportedOperation", "Only active tasks can be cancelled: the task is %s.", status)
}

func errRange(value any, name string, low, high int) error {
	return errParameter(value, name, fmt.Sprintf("Must be between %d and %d, if provided.", low, high))
}
