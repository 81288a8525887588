package events

import (
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Unless another source is given, the texts are those that LocalStack's tests recorded from AWS
// (https://github.com/localstack/localstack, tests/aws/services/events/*.snapshot.json).

func errValidation(format string, args ...any) error {
	return awserr.Newf("ValidationException", format, args...)
}

func errNoBus(name string) error {
	return awserr.Newf("ResourceNotFoundException", "Event bus %s does not exist.", name)
}

func errBusExists(name string) error {
	return awserr.Newf("ResourceAlreadyExistsException", "Event bus %s already exists.", name)
}

func errBusName() error {
	return errValidation("Event bus name must not contain '/'.") // from memory
}

func errDeleteDefault() error { return errValidation("Cannot delete event bus default.") }

func errBusHasRules() error {
	return errValidation("Event bus can't be deleted since it has rules.") // from memory
}

func errNoRule(bus, name string) error {
	return awserr.Newf("ResourceNotFoundException", "Rule %s does not exist on EventBus %s.", name, bus)
}

func errHasTargets() error { return errValidation("Rule can't be deleted since it has targets.") }

// From memory.
func errNothingToMatch() error {
	return errValidation("Parameter(s) EventPattern or ScheduleExpression must be specified.")
}

func errPattern(err error) error {
	return awserr.Newf("InvalidEventPatternException", "Event pattern is not valid. Reason: %s", err)
}

func errSchedule() error { return errValidation("Parameter ScheduleExpression is not valid.") }

func errScheduleBus() error {
	return errValidation("ScheduleExpression is supported only on the default event bus.")
}

func errLimit() error {
	return awserr.New("LimitExceededException", "The requested resource exceeds the maximum number allowed.")
}

func errOneInput(target string) error {
	return errValidation("Only one of Input, InputPath, or InputTransformer must be provided for target %s.", target)
}

func errPlaceholder(target, name string) error {
	return errValidation("InputTemplate for target %s contains invalid placeholder %s.", target, name)
}

// From memory.
func errInput(target string) error {
	return errValidation("JSON syntax error in input for target %s.", target)
}

// From memory.
func errInputPath(target string) error {
	return errValidation("Parameter InputPath of target %s is not a valid JSONPath.", target)
}

// From memory.
func errTargetARN(text string) error {
	return errValidation("Parameter %s is not valid. Reason: Provided Arn is not in correct format.", text)
}

// From memory.
func errGroup(target string) error {
	return errValidation("Parameter(s) SqsParameters must be specified for target: %s.", target)
}

func errTooLarge() error {
	return errValidation("Total size of the entries in the request is over the limit.")
}

func errNoStatement() error {
	return awserr.New("ResourceNotFoundException", "Statement with the provided id does not exist.")
}

// From memory.
func errPolicy(err error) error {
	return errValidation("The policy of the event bus is not valid: %s", err)
}

// From memory.
func errPermission() error {
	return errValidation("Either Policy, or Action, Principal and StatementId must be specified.")
}

// The texts about tags and tokens are from memory.

func errReservedTag(string) error {
	return errValidation("Tag keys cannot start with 'aws:'; this prefix is reserved for system use.")
}

func errManyTags() error { return errValidation("A resource can have at most 50 tags.") }

func errToken(string) error { return errValidation("Token is invalid.") }

func errEvent() error {
	return errValidation("Parameter Event is not valid.") // from memory
}
