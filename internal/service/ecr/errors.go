package ecr

import (
	"errors"

	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/imagestore"
)

// Unless another source is given, the texts are those that users of ECR have reported, as collected in moto's tests
// (https://github.com/getmoto/moto, tests/test_ecr).

func errNoRepository(name, registry string) error {
	return awserr.Newf("RepositoryNotFoundException", "The repository with name '%s' does not exist in the registry with id '%s'", name, registry)
}

func errRepositoryExists(name, registry string) error {
	return awserr.Newf("RepositoryAlreadyExistsException", "The repository with name '%s' already exists in the registry with id '%s'", name, registry)
}

func errNotEmpty(name, registry string) error {
	return awserr.Newf("RepositoryNotEmptyException", "The repository with name '%s' in registry with id '%s' cannot be deleted because it still contains images", name, registry)
}

func errNoPolicy(name, registry string) error {
	return awserr.Newf("RepositoryPolicyNotFoundException", "Repository policy does not exist for the repository with name '%s' in the registry with id '%s'", name, registry)
}

func errNoLifecycle(name, registry string) error {
	return awserr.Newf("LifecyclePolicyNotFoundException", "Lifecycle policy does not exist for the repository with name '%s' in the registry with id '%s'", name, registry)
}

func errNoPreview(name, registry string) error {
	return awserr.Newf("LifecyclePolicyPreviewNotFoundException", "Lifecycle policy preview does not exist for the repository with name '%s' in the registry with id '%s'", name, registry)
}

func errNoRegistryPolicy(registry string) error {
	return awserr.Newf("RegistryPolicyNotFoundException", "Registry policy does not exist in the registry with id '%s'", registry)
}

func errPolicy() error {
	return imagestore.ErrParameter("PolicyText", "Invalid repository policy provided")
}

func errRegistryPolicy() error {
	return imagestore.ErrParameter("PolicyText", "Invalid registry policy provided")
}

// The text is from memory.
func errLockOut() error {
	return imagestore.ErrParameter("PolicyText", "The new policy would prevent the calling user from setting the policy again. Use force to set it")
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

// The texts about tags are from memory.

func errReservedTag(string) error {
	return awserr.New("InvalidTagParameterException", "Tag keys that begin with aws: are reserved for AWS use.")
}

func errTagTwice(string) error {
	return awserr.New("InvalidTagParameterException", "A request cannot have several tags with the same key.")
}

func errManyTags() error {
	return awserr.New("TooManyTagsException", "A repository can have at most 50 tags.")
}

func errToken(string) error { return imagestore.ErrParameter("nextToken", "Invalid token provided") }

// The texts of this error and the next four are from memory.
func errPaging() error {
	return imagestore.ErrParameter("maxResults", "maxResults and nextToken cannot be used when resources are named")
}

func errFilters(constraint string) error {
	return imagestore.ErrParameter("imageTagMutabilityExclusionFilters", constraint)
}

func errCacheRuleExists(prefix, registry string) error {
	return awserr.Newf("PullThroughCacheRuleAlreadyExistsException", "A pull through cache rule with prefix '%s' already exists in the registry with id '%s'", prefix, registry)
}

func errNoCacheRule(prefix, registry string) error {
	return awserr.Newf("PullThroughCacheRuleNotFoundException", "Pull through cache rule with prefix '%s' not found in the registry with id '%s'", prefix, registry)
}

func errUpstream(url string) error {
	return awserr.Newf("UnsupportedUpstreamRegistryException", "The upstream registry %s is not supported", url)
}

func errSetting(name, value string) error {
	return awserr.Newf("ValidationException", "%s is not a value of the account setting %s", value, name)
}
