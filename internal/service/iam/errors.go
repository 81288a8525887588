package iam

import (
	"fmt"
	"net/http"

	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/policy"
)

// The texts are IAM's own, as quoted by clients and in their issue trackers. "no source" marks
// those for which none was found.

func noSuchEntity(format string, args ...any) error {
	m := fmt.Sprintf(format, args...)
	return &iamtypes.NoSuchEntityException{Message: &m}
}

func alreadyExists(format string, args ...any) error {
	m := fmt.Sprintf(format, args...)
	return &iamtypes.EntityAlreadyExistsException{Message: &m}
}

func deleteConflict(message string) error {
	return &iamtypes.DeleteConflictException{Message: &message}
}

func limitExceeded(format string, args ...any) error {
	m := fmt.Sprintf(format, args...)
	return &iamtypes.LimitExceededException{Message: &m}
}

func invalidInput(format string, args ...any) error {
	m := fmt.Sprintf(format, args...)
	return &iamtypes.InvalidInputException{Message: &m}
}

func malformedDocument(err error) error {
	m := err.Error()
	return &iamtypes.MalformedPolicyDocumentException{Message: &m}
}

// validationError is not in the API model.
func validationError(message string) error { return awserr.New("ValidationError", message) }

func invalidARN(s string) error { return invalidInput("ARN %s is not valid.", s) }

// invalidPolicyARN: localstack/localstack tests/aws/services/iam/test_iam.snapshot.json, recorded
// from AWS for ARNs of unknown types.
func invalidPolicyARN(s string) error {
	if _, err := arn.Parse(s); err != nil {
		return validationError("Invalid ARN:  Could not be parsed!")
	}
	return invalidARN(s)
}

func invalidMarker() error { return validationError("Invalid Marker.") }

// Users.

func noSuchUser(name string) error {
	return noSuchEntity("The user with name %s cannot be found.", name)
}
func userExists(name string) error { return alreadyExists("User with name %s already exists.", name) }

func callerIsNoUser() error {
	return validationError("Must specify userName when calling with non-User credentials")
}

func noSuchAccessKey(id string) error {
	return noSuchEntity("The Access Key with id %s cannot be found.", id)
}

// https://github.com/ansible/ansible/issues/43197
func noSuchLoginProfile(user string) error {
	return noSuchEntity("Login Profile for User %s cannot be found.", user)
}

func loginProfileExists(user string) error {
	return alreadyExists("Login Profile for user %s already exists.", user)
}

// [seen] for lengths and for the default policy. The others are worded alike.
func passwordViolation(format string, args ...any) error {
	m := fmt.Sprintf(format, args...)
	return &iamtypes.PasswordPolicyViolationException{Message: &m}
}

// MFA devices. The texts are quoted in issues of clients: hashicorp/terraform-provider-aws, aws/aws-cli.

func noSuchMFADevice(serial string) error {
	return noSuchEntity("VirtualMFADevice with serial number %s doesn't exist.", serial)
}
func mfaDeviceExists() error {
	return alreadyExists("MFADevice entity at the same path and name already exists.")
}
func mfaDeviceInUse() error    { return alreadyExists("MFA Device is already in use.") }
func notUsersMFADevice() error { return noSuchEntity("MFA Device invalid for user.") }

func invalidMFACode() error {
	m := "Authentication code for device is not valid."
	return &iamtypes.InvalidAuthenticationCodeException{Message: &m}
}

// The account.

func noSuchPasswordPolicy(account string) error {
	return noSuchEntity("The Password Policy with domain name %s cannot be found.", account)
}

func aliasTaken(alias string) error {
	return alreadyExists("The account alias %s already exists.", alias)
}

// From memory.
func noSuchAlias(alias string) error {
	return noSuchEntity("The account alias %s cannot be found.", alias)
}

// Groups.

func noSuchGroup(name string) error {
	return noSuchEntity("The group with name %s cannot be found.", name)
}
func groupExists(name string) error { return alreadyExists("Group with name %s already exists.", name) }

// Roles.

func noSuchRole(name string) error {
	return noSuchEntity("The role with name %s cannot be found.", name)
}

func roleExists(name string) error { return alreadyExists("Role with name %s already exists.", name) }

// https://github.com/rebuy-de/aws-nuke/issues/331
func protectedRole(name string) error {
	m := fmt.Sprintf("Cannot perform the operation on the protected role '%s' - this role is only modifiable by AWS", name)
	return &iamtypes.UnmodifiableEntityException{Message: &m}
}

// Recorded from AWS: localstack/localstack tests/aws/services/iam/test_iam.snapshot.json
func serviceRoleTaken(name string) error {
	return invalidInput("Service role name %s has been taken in this account, please try a different suffix.", name)
}

// Recorded from AWS: localstack/localstack tests/aws/services/iam/test_iam.snapshot.json
func noCustomSuffix(service string) error {
	return invalidInput("Custom suffix is not allowed for %s", service)
}

func invalidPrincipal(kind, value string) error {
	return malformedDocument(fmt.Errorf("Invalid principal in policy: %q:%q", kind, value)) //nolint:staticcheck // AWS's text
}

// Deletions: https://github.com/99designs/iamy/pull/68 (instance profile),
// https://github.com/awslabs/aws-orbit-workbench/issues/633 (policies),
// https://github.com/aws-cloudformation/rain/issues/462 (attachments),
// https://github.com/hashicorp/terraform/issues/29147 (groups).
const (
	mustDetach         = "Cannot delete entity, must detach all policies first."
	mustDeletePolicies = "Cannot delete entity, must delete policies first."
	mustDeleteKeys     = "Cannot delete entity, must delete access keys first."
	mustDeleteLogin    = "Cannot delete entity, must delete login profile first." // https://github.com/rebuy-de/aws-nuke/pull/169
	mustDeleteMFA      = "Cannot delete entity, must delete MFA device first."
	mustDeactivateMFA  = "MFA VirtualDevice in use. Must deactivate first."
	mustLeaveGroups    = "Cannot delete entity, must remove users from group first."
	mustRemoveRoles    = "Cannot delete entity, must remove roles from instance profile first."
	policyAttached     = "Cannot delete a policy attached to entities."
	policyHasVersions  = "This policy has more than one version. Before you delete a policy, you must delete the policy's versions. The default version is deleted with the policy."
	isDefaultVersion   = "Cannot delete the default version of a policy."
)

// Policies.

func noSuchInlinePolicy(owner, name string) error {
	return noSuchEntity("The %s policy with name %s cannot be found.", owner, name)
}

func noSuchPolicy(arn string) error { return noSuchEntity("Policy %s was not found.", arn) }

func notAttachable(arn string) error {
	return noSuchEntity("Policy %s does not exist or is not attachable.", arn)
}

func noSuchVersion(arn, version string) error {
	return noSuchEntity("Policy %s version %s does not exist or is not attachable.", arn, version)
}

func noSuchBoundary(arn string) error {
	return noSuchEntity("Scope ARN: %s does not exist or is not attachable.", arn)
}

func policyExists(name string) error {
	return alreadyExists("A policy called %s already exists. Duplicate names are not allowed.", name)
}

func tooManyVersions() error {
	return limitExceeded("A managed policy can have up to 5 versions. Before you create a new version, you must delete an existing version.")
}

func quotaExceeded(name string, limit int) error {
	return limitExceeded("Cannot exceed quota for %s: %d", name, limit)
}

func inlinePoliciesTooLarge(limit int, owner, name string) error {
	return limitExceeded("Maximum policy size of %d bytes exceeded for %s %s", limit, owner, name)
}

// awsManaged returns the error for changes to AWS's policies, which are forbidden even to root.
func awsManaged(call *awsapi.Call, policyARN string) error {
	d := policy.Decision{Action: "iam:" + call.Operation, Resource: "policy " + policyARN}
	return awserr.New("AccessDenied", d.Message(call.Principal.ARN)).WithStatus(http.StatusForbidden)
}

// Instance profiles. Karpenter distinguishes a missing profile from a missing role by these texts:
// karpenter-provider-aws pkg/errors/errors.go.

func noSuchInstanceProfile(name string) error {
	return noSuchEntity("Instance Profile %s cannot be found.", name)
}

func instanceProfileExists(name string) error {
	return alreadyExists("Instance Profile %s already exists.", name)
}

// OpenID Connect providers.

func noSuchProvider(arn string) error {
	return noSuchEntity("OpenIDConnect Provider not found for arn %s", arn)
}

func providerExists(url string) error {
	return alreadyExists("Provider with url https://%s already exists.", url)
}

func invalidProviderURL() error { return validationError("Invalid Open ID Connect Provider URL") }

// Tags: moto, checked against AWS.

func duplicateTags() error {
	return invalidInput("Duplicate tag keys found. Please note that Tag keys are case insensitive.")
}

func tooManyThumbprints() error {
	return invalidInput("Thumbprint list must contain fewer than 5 entries.")
}
