package ecr

import (
	"errors"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/imagestore"
)

// Unless another source is given, the texts are those that users of ECR have reported, as collected in moto's tests
// (https://github.com/getmoto/moto, tests/test_ecr).

func errNoLifecycle(name, registry string) error {
	return awserr.Newf("LifecyclePolicyNotFoundException", "Lifecycle policy does not exist for the repository with name '%s' in the registry with id '%s'", name, registry)
}

func errNoPreview(name, registry string) error {
	return awserr.Newf("LifecyclePolicyPreviewNotFoundException", "Lifecycle policy preview does not exist for the repository with name '%s' in the registry with id '%s'", name, registry)
}

func errNoRegistryPolicy(registry string) error {
	return awserr.Newf("RegistryPolicyNotFoundException", "Registry policy does not exist in the registry with id '%s'", registry)
}

func errRegistryPolicy() error {
	return imagestore.ErrParameter("PolicyText", "Invalid registry policy provided")
}

func errLifecycle(err error) error {
	return imagestore.ErrParameter("LifecyclePolicyText", "Lifecycle policy validation failure: "+err.Error())
}

func errNoScan(id imagestore.ID, name, registry string) error {
	return awserr.Newf("ScanNotFoundException", "Image scan does not exist for the image with '{imageDigest:'%s', imageTag:'%s'}' in the repository with name '%s' in the registry with id '%s'",
		orNull(id.Digest), orNull(id.Tag), name, registry)
}

func orNull(text string) string {
	if text == "" {
		return "null"
	}
	return text
}

// https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_KmsException.html: the message is KMS's.
func errKMS(err error) error {
	return awserr.New("KmsException", awserr.TextOf(err))
}

func isDryRun(err error) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == "DryRunOperationException"
}

// The texts of this error and those below are from memory.
func errFilters(constraint string) error {
	return imagestore.ErrParameter("imageTagMutabilityExclusionFilters", constraint)
}

func errCacheRuleExists(prefix, registry string) error {
	return awserr.Newf("PullThroughCacheRuleAlreadyExistsException", "A pull through cache rule with prefix '%s' already exists in the registry with id '%s'", prefix, registry)
}

func errNoCacheRule(prefix, registry string) error {
	return awserr.Newf("PullThroughCacheRuleNotFoundException", "Pull through cache rule with prefix '%s' not found in the registry with id '%s'", prefix, registry)
}

// The texts of this error and the next four are those that others have seen when they used ECR:
// https://github.com/aws-controllers-k8s/community/issues/2589 and the rules for ECR of cdk-preflight. The codes of the last
// two are from memory.
func errUpstream(url string) error {
	return awserr.Newf("UnsupportedUpstreamRegistryException", "The upstream registry URL %s is invalid", url)
}

func errNeedsSecret() error {
	return awserr.New("UnsupportedUpstreamRegistryException", "The specified upstream registry requires authentication. Specify a valid Secrets Manager ARN containing the upstream registry credentials.")
}

func errNeedsNoSecret() error {
	return awserr.New("UnsupportedUpstreamRegistryException", "The specified upstream registry doesn't require authentication")
}

func errCredentialKind() error {
	return awserr.New("InvalidParameterException", "Upstream registry URL and provided credential type do not match")
}

func errUpstreamKind() error {
	return awserr.New("InvalidParameterException", "Upstream registry URL and entered upstream registry do not match")
}

// errNeedsRole is from memory.
func errNeedsRole() error {
	return awserr.New("UnsupportedUpstreamRegistryException", "The specified upstream registry requires authentication. Specify a valid IAM role ARN.")
}

// https://github.com/entigolabs/entigo-infralib/pull/1645
func errNoSecret() error {
	return awserr.New("SecretNotFoundException", "The ARN of the secret specified in the pull through cache rule was not found. Update the pull through cache rule with a valid secret ARN and try again.")
}

// errSecretElsewhere is as in cdk-preflight. Its code is from memory.
func errSecretElsewhere() error {
	return awserr.New("SecretNotFoundException", "Please verify the secret exists in the same region and account that the pullthrough cache rule will be created in")
}

// https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_UpdatePullThroughCacheRule.html
func errSecretAccess() error {
	return awserr.New("UnableToAccessSecretException", "The secret is unable to be accessed. Verify the resource permissions for the secret and try again.")
}

// https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_UpdatePullThroughCacheRule.html
func errSecretEncryption() error {
	return awserr.New("UnableToDecryptSecretValueException", "The secret is accessible but is unable to be decrypted. Verify the resource permissions and try again.")
}

// upstreamImage is the code of errors of BatchGetImage for images of upstream registries.
const upstreamImage = "UnableToGetUpstreamImageException"

// errAuthentication is as in https://github.com/aws/containers-roadmap/issues/2354.
func errAuthentication() error {
	return awserr.New(upstreamImage, "The authentication to the upstream registry failed. Verify that the credentials provided in the pull through cache rule are correct, and try again.")
}

// errUnreachable is from memory.
func errUnreachable(url string) error {
	return awserr.New(upstreamImage, "Unable to access the upstream registry "+url+".")
}

// errSecretForm is from memory.
func errSecretForm() error {
	return awserr.New(upstreamImage, "The secret specified in the pull through cache rule must be a JSON object with the keys username and accessToken.")
}

// errAssume is from memory.
func errAssume(role string) error {
	return awserr.New(upstreamImage, "Amazon ECR is unable to assume the role "+role+".")
}

// The texts of these errors are those of the API reference.
// https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_CreateRepositoryCreationTemplate.html
func errTemplateExists() error {
	return awserr.New("TemplateAlreadyExistsException", "The repository creation template already exists. Specify a unique prefix and try again.")
}

func errNoTemplate() error {
	return awserr.New("TemplateNotFoundException", "The specified repository creation template can't be found. Verify the registry ID and prefix and try again.")
}

// errTemplateRole is from memory. That the role is needed:
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/repository-creation-templates.html
func errTemplateRole(prefix string) error {
	return awserr.Newf("ValidationException", "The repository creation template with prefix '%s' needs a repository creation role, because it has resource tags or KMS encryption", prefix)
}

func errSetting(name, value string) error {
	return awserr.Newf("ValidationException", "%s is not a value of the account setting %s", value, name)
}
