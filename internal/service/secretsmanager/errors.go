package secretsmanager

import (
	"errors"
	"net/http"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Unless another source is given, the texts are those that LocalStack's tests recorded from AWS
// (https://github.com/localstack/localstack, tests/aws/services/secretsmanager/test_secretsmanager.snapshot.json), or
// from memory.

func errNoSecret() error {
	return awserr.New("ResourceNotFoundException", "Secrets Manager can't find the specified secret.")
}

func errNoVersion(what, which string) error {
	return awserr.Newf("ResourceNotFoundException", "Secrets Manager can't find the specified secret value for %s: %s", what, which)
}

func errDeleted() error {
	return awserr.New("InvalidRequestException", "You can't perform this operation on the secret because it was marked for deletion.")
}

func errDeletionScheduled() error {
	return awserr.New("InvalidRequestException", "You can't create this secret because a secret with this name is already scheduled for deletion.")
}

func errExists(name string) error {
	return awserr.Newf("ResourceExistsException", "The operation failed because the secret %s already exists.", name)
}

func errName() error {
	return awserr.New("ValidationException", "Invalid name. Must be a valid name containing alphanumeric characters, or any of the following: -/_+=.@!")
}

func errTwoValues() error {
	return awserr.New("InvalidParameterException", "You can't specify both a binary secret value and a string secret value in the same secret.")
}

func errNoValue() error {
	return awserr.New("InvalidRequestException", "You must provide either SecretString or SecretBinary.")
}

func errTokenUsed(token, name string) error {
	return awserr.Newf("ResourceExistsException", "You can't use ClientRequestToken %s because that value is already in use for a version of secret %s.", token, name)
}

func errWindow() error {
	return awserr.New("InvalidParameterException", "The RecoveryWindowInDays value must be between 7 and 30 days (inclusive).")
}

func errWindowAndForce() error {
	return awserr.New("InvalidParameterException", "You can't use ForceDeleteWithoutRecovery in conjunction with RecoveryWindowInDays.")
}

func errVersionMismatch() error {
	return awserr.New("InvalidRequestException", "You provided a VersionStage that is not associated to the provided VersionId.")
}

func errMoveFrom(stage, version string) error {
	return awserr.Newf("InvalidParameterException", "The parameter RemoveFromVersionId can't be empty. Staging label %s is currently attached to version %s, so you must explicitly reference that version in RemoveFromVersionId.", stage, version)
}

func errNotAttached(stage, version string) error {
	return awserr.Newf("InvalidParameterException", "The staging label %s isn't attached to version %s.", stage, version)
}

func errCurrentNeeded() error {
	return awserr.New("InvalidParameterException", "You can only move staging label AWSCURRENT to a different secret version. It can't be completely removed.")
}

func errNoRotation() error {
	return awserr.New("InvalidRequestException", "No Lambda rotation function ARN is associated with this secret.")
}

func errLambda() error {
	return awserr.New("InvalidParameterException", "Invalid RotationLambdaARN.")
}

func errRules() error {
	return awserr.New("InvalidParameterException", "You must specify either AutomaticallyAfterDays or a ScheduleExpression of the form rate(…) or cron(…).")
}

func errPolicySyntax() error {
	return awserr.New("MalformedPolicyDocumentException", "This resource policy contains a syntax error.")
}

func errPublicPolicy() error {
	return awserr.New("PublicPolicyException", "You can't attach a resource policy that allows broad access to the secret.")
}

func errReservedTag(string) error {
	return awserr.New("InvalidParameterException", "Tag keys that start with aws: are reserved for AWS use.")
}

func errManyTags() error {
	return awserr.New("LimitExceededException", "A secret can have at most 50 tags.")
}

func errToken(string) error {
	return awserr.New("InvalidNextTokenException", "The provided NextToken is not valid.")
}

func errBatch() error {
	return awserr.New("InvalidParameterException", "Either 'SecretIdList' or 'Filters' must be provided, but not both.")
}

func errPassword() error {
	return awserr.New("InvalidParameterException", "The password cannot be generated: all characters are excluded.")
}

func errPasswordLength() error {
	return awserr.New("InvalidParameterException", "Password length is too short for the required character types.")
}

func errEncryption() error {
	return awserr.New("EncryptionFailure", "Secrets Manager can't encrypt the protected secret text using the provided KMS key. Check that the KMS key is available, enabled, and not in an invalid state.")
}

func errDecryption() error {
	return awserr.New("DecryptionFailure", "Secrets Manager can't decrypt the protected secret text using the provided KMS key.")
}

// errKMS returns Secrets Manager's error for an error from KMS. It calls other unless KMS has denied access.
func errKMS(err error, other func() error) error {
	var api smithy.APIError
	switch {
	case !errors.As(err, &api):
		return err
	case api.ErrorCode() == "AccessDeniedException":
		return awserr.New("AccessDeniedException", "Access to KMS is not allowed").WithStatus(http.StatusBadRequest)
	}
	return other()
}
