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

func errUpstream(url string) error {
	return awserr.Newf("UnsupportedUpstreamRegistryException", "The upstream registry %s is not supported", url)
}

func errSetting(name, value string) error {
	return awserr.Newf("ValidationException", "%s is not a value of the account setting %s", value, name)
}
