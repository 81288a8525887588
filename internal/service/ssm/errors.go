package ssm

import (
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// AWS sends ParameterNotFound without a message for reads; clients (Karpenter,
// eksctl, Terraform) look at the code.
func errNotFound() error { return &ssmtypes.ParameterNotFound{Message: aws.String("")} }

func errVersionNotFound(name, version string) error {
	return &ssmtypes.ParameterVersionNotFound{Message: aws.String(fmt.Sprintf("Systems Manager could not find version %s of %s. Verify the version and try again.", version, name))}
}

func errExists() error {
	return &ssmtypes.ParameterAlreadyExists{Message: aws.String("The parameter already exists. To overwrite this value, set the overwrite option in the request to true.")}
}

func errTagsWithOverwrite() error {
	return errValidation("Invalid request: tags and overwrite can't be used together. To create a parameter with tags, please remove overwrite flag. To update tags for an existing parameter, please use AddTagsToResource or RemoveTagsFromResource.")
}

// errValidation is not modelled for these operations.
func errValidation(format string, args ...any) error {
	return awserr.Newf("ValidationException", format, args...)
}

func errTooManyNames(n int) error {
	return errValidation("1 validation error detected: Value at 'names' failed to satisfy constraint: Member must have length less than or equal to 10, got %d", n)
}

func errSecureString() error {
	return awserr.NotImplemented("SSM parameters of type SecureString, which need KMS")
}

func errReservedName() error {
	return errValidation("Parameter name: can't be prefixed with \"aws\" or \"ssm\" (case-insensitive), except global parameter name path prefixed with \"aws\" (case-insensitive).")
}

func errReadOnlyName(name string) error {
	return awserr.Newf("AccessDeniedException", "No access to reserved parameter name: %s.", name)
}

func errName() error {
	return errValidation("Parameter name must be a fully qualified name: only a mix of letters, numbers and the following 3 symbols .-_ is allowed, separated by /.")
}

func errPattern(pattern string) error {
	return &ssmtypes.ParameterPatternMismatchException{Message: aws.String("Parameter value, cannot be validated against allowedPattern: " + pattern)}
}

func errResourceID() error {
	return &ssmtypes.InvalidResourceId{Message: aws.String("The resource ID is not valid. Verify that you entered the correct ID and try again.")}
}

func errFilterKey(key string) error {
	return &ssmtypes.InvalidFilterKey{Message: aws.String("The specified filter key is not valid: " + key)}
}

func errFilterOption(option string) error {
	return &ssmtypes.InvalidFilterOption{Message: aws.String("The filter option is not valid: " + option)}
}

func errNextToken() error {
	return &ssmtypes.InvalidNextToken{Message: aws.String("The specified token isn't valid.")}
}
