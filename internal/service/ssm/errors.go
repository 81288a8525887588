package ssm

import (
	"errors"
	"fmt"
	"net/http"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// AWS sends ParameterNotFound without a message for reads. Clients (Karpenter, eksctl, Terraform)
// check the code.
func errNotFound() error { return &ssmtypes.ParameterNotFound{Message: aws.String("")} }

// errNoSecret is the error for a reference to a secret that does not exist. AWS's text has a null where there is no
// selector, and no first slash.
// [recorded] test_get_inexistent_secret, LocalStack's tests/aws/services/ssm/test_ssm.py, has a pattern for it
func errNoSecret(name string, selector *string) error {
	text := "null"
	if selector != nil {
		text = *selector
	}
	return &ssmtypes.ParameterNotFound{Message: aws.String("An error occurred (ParameterNotFound) when referencing Secrets Manager: Secret " + strings.TrimPrefix(name, "/") + text + " not found.")}
}

func errVersionNotFound(name, version string) error {
	return &ssmtypes.ParameterVersionNotFound{Message: aws.String(fmt.Sprintf("Systems Manager could not find version %s of %s. Verify the version and try again.", version, name))}
}

func errExists() error {
	return &ssmtypes.ParameterAlreadyExists{Message: aws.String("The parameter already exists. To overwrite this value, set the overwrite option in the request to true.")}
}

func errTagsWithOverwrite() error {
	return errValidation("Invalid request: tags and overwrite can't be used together. To create a parameter with tags, please remove overwrite flag. To update tags for an existing parameter, please use AddTagsToResource or RemoveTagsFromResource.")
}

// errValidation is not in the API model of these operations.
func errValidation(format string, args ...any) error {
	return awserr.Newf("ValidationException", format, args...)
}

func errOtherKey(id string) error {
	return awserr.NotImplemented("SSM parameters sealed with the key " + id + ": there is " + defaultKey + " only")
}

// errKMS is KMS's error as Parameter Store passes it on.
// https://github.com/cloudposse/docs/issues/152 (InvalidKeyId),
// https://github.com/Droplr/aws-env/issues/29 (AccessDeniedException)
func errKMS(requestID string, err error) error {
	var api smithy.APIError
	if !errors.As(err, &api) {
		return err
	}
	text := fmt.Sprintf("%s (Service: AWSKMS; Status Code: 400; Error Code: %s; Request ID: %s)", api.ErrorMessage(), api.ErrorCode(), requestID)
	switch api.ErrorCode() {
	case "AccessDeniedException":
		return awserr.New("AccessDeniedException", text).WithStatus(http.StatusBadRequest)
	case "NotFoundException", "DisabledException", "KMSInvalidStateException", "InvalidKeyUsageException", "InvalidArnException":
		return &ssmtypes.InvalidKeyId{Message: &text}
	}
	return err
}

// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html, TooManyUpdates
func errConcurrent() error {
	return &ssmtypes.TooManyUpdates{Message: aws.String("There are concurrent updates for a resource that supports one update at a time.")}
}

// [seen] in tests of Parameter Store clients
func errKeyOfPlain() error {
	return errValidation("KeyId is required for SecureString type parameter only.")
}

// https://docs.aws.amazon.com/systems-manager/latest/userguide/parameter-store-advanced-parameters.html
func errDowngrade() error {
	return errValidation("This parameter uses the advanced-parameter tier. You can't downgrade a parameter from the advanced-parameter tier to the standard-parameter tier. If necessary, you can delete the advanced parameter and recreate it as a standard parameter. Be aware that this process permanently deletes the advanced parameter's value and history.")
}

// https://docs.aws.amazon.com/systems-manager/latest/APIReference/API_PutParameter.html, ParameterLimitExceeded
func errLimit() error {
	return &ssmtypes.ParameterLimitExceeded{Message: aws.String("You have exceeded the number of parameters for this AWS account. Delete one or more parameters and try again.")}
}

// https://docs.aws.amazon.com/systems-manager/latest/userguide/sysman-paramstore-versions.html; the
// text was recorded by moto's authors
func errMaxVersions(name string, oldest int64) error {
	return &ssmtypes.ParameterMaxVersionLimitExceeded{Message: aws.String(fmt.Sprintf("You attempted to create a new version of %s by calling the PutParameter API with the overwrite flag. Version %d, the oldest version, can't be deleted because it has a label associated with it. Move the label to another version of the parameter, and try again.", name, oldest))}
}

func errLabelNotFound(name, label string) error {
	return &ssmtypes.ParameterVersionNotFound{Message: aws.String(fmt.Sprintf("Systems Manager could not find label %s for parameter %s. Verify the label and try again.", label, name))}
}

func errLabelLimit() error {
	return &ssmtypes.ParameterVersionLabelLimitExceeded{Message: aws.String("A parameter version can have maximum 10 labels.Move one or more labels to another version and try again.")}
}

func errTooManyTags() error {
	// AWS sends no text.
	return &ssmtypes.TooManyTagsError{}
}

// from memory
func errTag(key string) error {
	return errValidation("Tag keys cannot start with aws:: %s", key)
}

// The text was recorded by moto's authors.
func errReservedName(isPath bool) error {
	if !isPath {
		return errValidation("Parameter name: can't be prefixed with \"aws\" or \"ssm\" (case-insensitive).")
	}
	return errName()
}

func errReadOnlyName(name string) error {
	return awserr.Newf("AccessDeniedException", "No access to reserved parameter name: %s.", name)
}

// errName is the error for all malformed names, whether they are read or written.
// [seen] https://github.com/boto/boto3/issues/1499, https://github.com/aws/aws-sdk-js-v3/issues/5005
func errName() error {
	return errValidation("Parameter name: can't be prefixed with \"ssm\" (case-insensitive). If formed as a path, it can consist of sub-paths divided by slash symbol; each sub-path can be formed as a mix of letters, numbers and the following 3 symbols .-_")
}

// [seen] https://github.com/hashicorp/terraform-provider-aws/issues/7251
func errUnqualifiedName() error {
	return errValidation("Parameter name must be a fully qualified name.")
}

func errPattern(pattern string) error {
	return &ssmtypes.ParameterPatternMismatchException{Message: aws.String("Parameter value, cannot be validated against allowedPattern: " + pattern)}
}

// errUnread is the error for the value of a parameter in a twin.
func errUnread(name string) error {
	return awserr.NotImplemented("the value of parameter " + name + ", which drydock import does not read; aws ssm put-parameter --overwrite sets one")
}

func errResourceID() error {
	return &ssmtypes.InvalidResourceId{Message: aws.String("The resource ID is not valid. Verify that you entered the correct ID and try again.")}
}

// The texts about filters were recorded by moto's authors.

func errFilterKey(key string, valid []string) error {
	return errInvalidFilterKey(fmt.Sprintf("The following filter key is not valid: %s. Valid filter keys include: [%s].", key, strings.Join(valid, ", ")))
}

func errFilterTwice(key string) error {
	return errInvalidFilterKey(fmt.Sprintf("The following filter is duplicated in the request: %s. A request can contain only one occurrence of a specific filter.", key))
}

func errFilterEmpty(key string) error {
	return &ssmtypes.InvalidFilterValue{Message: aws.String(fmt.Sprintf("The following filter values are missing : null for filter key %s.", key))}
}

func errFilterOption(option string, valid ...string) error {
	return &ssmtypes.InvalidFilterOption{Message: aws.String(fmt.Sprintf("The following filter option is not valid: %s. Valid options include: [%s].", option, strings.Join(valid, ", ")))}
}

// errInvalidFilterKey is not one of the SDK's errors, because in the model this error has no message, although AWS sends one.
// The general text is that of the API reference.
func errInvalidFilterKey(text string) error { return awserr.New("InvalidFilterKey", text) }

func errNextToken() error {
	return &ssmtypes.InvalidNextToken{Message: aws.String("The specified token isn't valid.")}
}
