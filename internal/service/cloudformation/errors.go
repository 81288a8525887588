package cloudformation

import (
	"errors"
	"slices"
	"strings"

	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

func invalid(format string, args ...any) error {
	return awserr.Newf("ValidationError", format, args...)
}

// violated returns the error for a value that AWS refuses, if that does not depend on the value alone (constraints).
// [seen] the same snapshots as below, test_stacks and test_validations.
func violated(value, member, constraint string) error {
	return invalid("1 validation error detected: Value '%s' at '%s' failed to satisfy constraint: %s", value, member, constraint)
}

// stackNotFound has one of AWS's three texts for a missing stack: see the snapshots in
// localstack/localstack, tests/aws/services/cloudformation. Terraform and CDK look for the text.
func stackNotFound(name string) error { return invalid("Stack with id %s does not exist", name) }

func stackNotFoundInBrackets(name string) error { return invalid("Stack [%s] does not exist", name) }

func stackNotFoundInQuotes(name string) error { return invalid("Stack '%s' does not exist", name) }

// [seen] the same snapshots, test_resources.
func resourceNotFound(stack, id string) error {
	return invalid("Resource %s does not exist for stack %s", id, stack)
}

// [seen] the same snapshots, test_stacks.
func stackExists(name string) error {
	return awserr.Newf("AlreadyExistsException", "Stack [%s] already exists", name)
}

func tokenExists(token string) error {
	return awserr.Newf("TokenAlreadyExistsException", "Client request token %s has been used already with other arguments", token) // from memory
}

// [seen] the same snapshots, test_stacks and test_validations.
func noTemplate() error { return invalid("Either Template URL or Template Body must be specified.") }

// [seen] hashicorp/terraform-provider-aws, aws_cloudformation_stack: CAPABILITY_NAMED_IAM.
func insufficientCapabilities(names ...string) error {
	return awserr.Newf("InsufficientCapabilitiesException", "Requires capabilities : [%s]", strings.Join(names, ", "))
}

// [seen] the same snapshots, test_stacks; Terraform tries again.
func badRole(arn string) *awserr.Error {
	return awserr.Newf("ValidationError", "Role %s is invalid or cannot be assumed", arn)
}

// ErrNoRole is Config.Assume's error for a role that does not exist.
var ErrNoRole = errors.New("no such role")

func protected(name string) error {
	return invalid("Stack [%s] cannot be deleted while TerminationProtection is enabled", name)
}

// https://github.com/aws/aws-cdk/issues/3414 and others
func exportInUse(export, by string) error {
	return invalid("Export %s cannot be deleted as it is in use by %s", export, by)
}

func cannotRetain(arn string) error {
	return invalid("Invalid operation on stack [%s]. When you delete a stack, specify which resources to retain only when the stack is in the DELETE_FAILED state.", arn)
}

func unrecognized(types []string) error {
	text := ""
	if slices.Contains(types, lambdaFunction) {
		text = ". Drydock has no AWS Lambda; docs/cloudformation.md lists the custom resources that need none."
	}
	return invalid("Template format error: Unrecognized resource types: [%s]%s", strings.Join(types, ", "), text)
}

// [seen] the same snapshots, test_update_stack.
func noUpdates() error { return invalid(nothingToUpdate) }

const nothingToUpdate = "No updates are to be performed."

func wrongState(arn string, status cloudformationtypes.StackStatus) error {
	return invalid("Stack:%s is in %s state and can not be updated.", arn, status)
}

func cannotSkip(id string) error {
	return invalid("Resource %s cannot be skipped: it is not in the state UPDATE_FAILED.", id) // our own wording
}

// [seen] the same snapshots, test_changesets.
func setNotFound(name string) error {
	return awserr.Newf("ChangeSetNotFound", "ChangeSet [%s] does not exist", name)
}

func setStatus(format string, args ...any) error {
	return awserr.Newf("InvalidChangeSetStatus", format, args...)
}

func setsStackExists(stack, set string) error {
	return invalid("Stack [%s] already exists and cannot be created again with the changeSet [%s].", stack, set)
}

func setExists(name string) error {
	return awserr.Newf("AlreadyExistsException", "ChangeSet [%s] already exists", name) // from memory
}

// notYet returns the error for something that Drydock does not implement.
func notYet(what string) error { return awserr.NotImplemented(what) }

// [seen] the same snapshots: late signals.
func cannotSignal(what, status string) error {
	return invalid("%s is in %s state and cannot be signaled", what, status)
}
