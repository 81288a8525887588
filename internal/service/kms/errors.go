package kms

import (
	"fmt"
	"net/http"

	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Unless another source is given, the texts are those that LocalStack's tests recorded from AWS
// (https://github.com/localstack/localstack, tests/aws/services/kms/test_kms.snapshot.json).

func errValidation(format string, args ...any) error {
	return awserr.Newf("ValidationException", format, args...)
}

func errNoKey(arn string) error {
	return &kmstypes.NotFoundException{Message: new(fmt.Sprintf("Key '%s' does not exist", arn))}
}

func errKeyID(id string) error {
	return &kmstypes.NotFoundException{Message: new(fmt.Sprintf("Invalid keyId '%s'", id))}
}

// errRegion is the error for an ARN in another region than the call's.
func errRegion(region string) error {
	return &kmstypes.NotFoundException{Message: new("Invalid arn " + region)}
}

// https://github.com/cloudposse/docs/issues/152
func errNoAlias(arn string) error {
	return &kmstypes.NotFoundException{Message: new("Alias " + arn + " is not found.")}
}

// from memory
func errARN(arn string) error {
	return &kmstypes.InvalidArnException{Message: new("Invalid arn " + arn)}
}

// errAliasARN is the error for an alias ARN where only keys are accepted.
// https://github.com/hashicorp/terraform/issues/20813
func errAliasARN() error {
	return &kmstypes.InvalidArnException{Message: new("Key Aliases are not supported for this operation")}
}

func errDisabled(arn string) error {
	return &kmstypes.DisabledException{Message: new(arn + " is disabled.")}
}

// https://github.com/hashicorp/terraform-provider-aws, resource_aws_kms_key.go
func errPendingDeletion(arn string) error {
	return &kmstypes.KMSInvalidStateException{Message: new(arn + " is pending deletion.")}
}

// from memory
func errNotPendingDeletion(arn string) error {
	return &kmstypes.KMSInvalidStateException{Message: new(arn + " is not pending deletion.")}
}

func errUsage(arn string, usage kmstypes.KeyUsageType, operation string) error {
	return &kmstypes.InvalidKeyUsageException{Message: new(fmt.Sprintf("%s key usage is %s which is not valid for %s.", arn, usage, operation))}
}

func errAlgorithm(algorithm string, spec kmstypes.KeySpec) error {
	return &kmstypes.InvalidKeyUsageException{Message: new(fmt.Sprintf("Algorithm %s is incompatible with key spec %s.", algorithm, spec))}
}

// AWS gives no further reason.
func errCiphertext() error { return &kmstypes.InvalidCiphertextException{Message: new("")} }

func errIncorrectKey() error {
	return &kmstypes.IncorrectKeyException{Message: new("The key ID in the request does not identify a CMK that can perform this operation.")}
}

// errForeignCiphertext is the only thing that callers learn about a ciphertext whose key is not in
// the region.
// https://github.com/aws/aws-encryption-sdk-javascript/issues/1005
func errForeignCiphertext() error {
	return awserr.New("AccessDeniedException", "The ciphertext refers to a customer master key that does not exist, does not exist in this region, or you are not allowed to access.").WithStatus(http.StatusBadRequest)
}

// errOtherAccount is the error of operations that cannot be used across accounts, whatever the key
// policy says.
// https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-modifying-external-accounts.html
func errOtherAccount(caller, operation, arn string) error {
	return awserr.Newf("AccessDeniedException", "User: %s is not authorized to perform: kms:%s on resource: %s because no resource-based policy allows the kms:%s action", caller, operation, arn, operation).WithStatus(http.StatusBadRequest)
}

func errDryRun() error {
	return &kmstypes.DryRunOperationException{Message: new("The request would have succeeded, but the DryRun option is set.")}
}

// from memory
func errMarker(marker string) error {
	return &kmstypes.InvalidMarkerException{Message: new(fmt.Sprintf("Could not deserialize marker '%s'", marker))}
}

// https://github.com/terraform-aws-modules/terraform-aws-eks/issues/2843
func errLockout() error {
	return &kmstypes.MalformedPolicyDocumentException{Message: new("The new key policy will not allow you to update the key policy in the future.")}
}

// https://github.com/lightspin-tech/eks-creation-engine/issues/4
func errPolicyPrincipals() error {
	return &kmstypes.MalformedPolicyDocumentException{Message: new("Policy contains a statement with one or more invalid principals.")}
}

func errMalformedPolicy(text string) error {
	return &kmstypes.MalformedPolicyDocumentException{Message: &text}
}

// from memory
func errNoPolicy() error {
	return &kmstypes.NotFoundException{Message: new("No such policy exists")}
}

func errAliasPrefix() error {
	return errValidation(`Alias must start with the prefix "alias/". Please see https://docs.aws.amazon.com/kms/latest/developerguide/kms-alias.html`)
}

// The texts about alias names were recorded by moto's authors (https://github.com/getmoto/moto,
// moto/kms/responses.py).

func errReservedAlias() error { return awserr.New("NotAuthorizedException", "") }

func errAliasCharacters(name string) error {
	return errValidation("%s contains invalid characters for an alias", name)
}

func errAliasOfAlias() error { return errValidation("Aliases must refer to keys. Not aliases") }

// https://github.com/cloudbees-oss/terraform-aws-cloudbees-ci-eks-addon/issues/66
func errAliasExists(arn string) error {
	return &kmstypes.AlreadyExistsException{Message: new("An alias with the name " + arn + " already exists")}
}

// https://docs.aws.amazon.com/kms/latest/APIReference/API_UpdateAlias.html; the words are from memory
func errAliasKind(from, to *keyRecord) error {
	return errValidation("Alias cannot be changed from a %s key for %s to a %s key for %s", from.Spec, from.Usage, to.Spec, to.Usage)
}

// https://docs.aws.amazon.com/kms/latest/developerguide/resource-limits.html; the words are from memory
func errLimit(what string, n int) error {
	return &kmstypes.LimitExceededException{Message: new(fmt.Sprintf("The limit of %d %s has been reached", n, what))}
}

func errRotations(arn string) error {
	return &kmstypes.LimitExceededException{Message: new("The on-demand rotations limit has been reached for the given keyId. No more on-demand rotations can be performed for this key: " + arn)}
}

// AWS gives no further reason for keys that cannot be rotated.
func errUnsupported() error { return &kmstypes.UnsupportedOperationException{Message: new("")} }

func errTags(text string) error { return &kmstypes.TagException{Message: &text} }

func errGrantToken() error {
	return &kmstypes.InvalidGrantTokenException{Message: new("Invalid grant token")} // from memory
}

// https://docs.aws.amazon.com/kms/latest/APIReference/API_RevokeGrant.html; the words are from memory
func errGrantID(id string) error {
	return &kmstypes.NotFoundException{Message: new(fmt.Sprintf("Grant ID %s not found", id))}
}

// errPrincipal is the error for a grantee or retiring principal that does not exist.
// https://github.com/hashicorp/terraform-provider-aws, internal/service/kms/grant.go retries on the
// code;
// [seen] aws/chalice, where Lambda passes on KMS's error
func errPrincipal(arn string) error {
	return &kmstypes.InvalidArnException{Message: new("ARN does not refer to a valid principal: " + arn)}
}

func errWindow(days int32) error {
	return errValidation("PendingWindowInDays should be between 7 and 30, but it is %d", days) // from memory
}

// https://docs.aws.amazon.com/kms/latest/developerguide/concepts.html#encrypt_context; the words are from memory
func errContextOfAsymmetric() error {
	return errValidation("Encryption context is not supported with asymmetric keys")
}

// The texts were recorded by moto's authors.
func errDataKeySize() error {
	return errValidation("Please specify either number of bytes or key spec.")
}

func errTooLarge(algorithm kmstypes.EncryptionAlgorithmSpec, spec kmstypes.KeySpec, most int) error {
	return errValidation("Algorithm %s and key spec %s cannot encrypt data larger than %d bytes.", algorithm, spec, most)
}

// https://docs.aws.amazon.com/kms/latest/APIReference/API_Sign.html; the words are from memory
func errMessageType(kind kmstypes.MessageType, algorithm kmstypes.SigningAlgorithmSpec) error {
	return errValidation("MessageType %s is not compatible with SigningAlgorithm %s", kind, algorithm)
}

// https://docs.aws.amazon.com/kms/latest/APIReference/API_CreateGrant.html; the words are from memory
func errGrantOperation(op kmstypes.GrantOperation, k *keyRecord) error {
	return errValidation("Grant operation %s is not supported for a %s key with usage %s", op, k.Spec, k.Usage)
}

func errConstraints(text string) error { return errValidation("%s", text) } // from memory

// AWS gives no further reason for a public key that is not on the key's
// curve.
func errPublicKey() error { return errValidation("%s", "") }
