package logs

import (
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Unless another source is given, the texts are those that LocalStack's tests recorded from AWS
// (https://github.com/localstack/localstack, tests/aws/services/logs/*.snapshot.json).

func errParameter(format string, args ...any) error {
	return awserr.Newf("InvalidParameterException", format, args...)
}

func errNoGroup() error {
	return awserr.New("ResourceNotFoundException", "The specified log group does not exist.")
}

func errNoStream() error {
	return awserr.New("ResourceNotFoundException", "The specified log stream does not exist.")
}

func errGroupExists() error {
	return awserr.New("ResourceAlreadyExistsException", "The specified log group already exists")
}

func errStreamExists() error {
	return awserr.New("ResourceAlreadyExistsException", "The specified log stream already exists")
}

func errNameAndIdentifier() error {
	return awserr.New("ValidationException", "LogGroup name and LogGroup ARN are mutually exclusive parameters.")
}

func errNoName() error {
	return awserr.New("ValidationException", "Either LogGroup name or LogGroup ARN must be specified.") // from memory
}

func errPrefixAndPattern() error {
	return errParameter("LogGroup name prefix and LogGroup name pattern are mutually exclusive parameters.")
}

func errToken(string) error { return errParameter("The specified nextToken is invalid.") }

func errOrder() error {
	return errParameter("Log events in a single PutLogEvents request must be in chronological order.")
}

// https://docs.aws.amazon.com/AmazonCloudWatchLogs/latest/APIReference/API_PutLogEvents.html; the
// text is from memory.
func errSpan() error {
	return errParameter("The batch of log events in a single PutLogEvents request cannot span more than 24 hours.")
}

// As reported by https://github.com/aws/amazon-cloudwatch-agent and others.
func errTooLarge(size int) error {
	return errParameter("Upload too large: %d bytes exceeds limit of %d", size, maxBatchSize)
}

// errFull is Drydock's own: AWS has no storage limit.
func errFull() error {
	return awserr.New("LimitExceededException", "What this account stores has taken all the room that Drydock gives an account. Delete log groups, or messages of queues.")
}

// From memory.
func errOrderWithPrefix() error {
	return errParameter("Cannot order by LastEventTime with a logStreamNamePrefix.")
}

// From memory.
func errNamesAndPrefix() error {
	return errParameter("logStreamNames and logStreamNamePrefix are mutually exclusive parameters.")
}

// https://github.com/hashicorp/terraform-provider-aws/issues/29282
func errKey(arn string) error {
	return awserr.Newf("AccessDeniedException", "The specified KMS key does not exist or is not allowed to be used with Arn '%s'", arn)
}

// From memory.
func errProtected() error {
	return awserr.New("ValidationException", "The log group cannot be deleted because deletion protection is enabled.")
}

// The texts about tags are from memory.

func errReservedTag(string) error {
	return errParameter("aws: prefixed tag key names are not allowed for external use.")
}

func errManyTags() error {
	return awserr.New("TooManyTagsException", "A log group can have at most 50 tags.")
}

func errPolicyLimit() error { return awserr.New("LimitExceededException", "Resource limit exceeded.") }

func errNoPolicy(name string) error {
	return awserr.Newf("ResourceNotFoundException", "Policy with name [%s] does not exist.", name)
}

// From memory.
func errPolicy(err error) error {
	return errParameter("The resource policy is not valid: %s", err)
}

// From memory.
func errFilterPattern(err error) error { return errParameter("%s", err) }
