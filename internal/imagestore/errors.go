package imagestore

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Unless another source is given, the texts are those that users of ECR have reported, as collected in moto's tests
// (https://github.com/getmoto/moto, tests/test_ecr).

// ErrParameter is the error for an invalid request.
func ErrParameter(member, constraint string) error {
	return awserr.Newf("InvalidParameterException", "Invalid parameter at '%s' failed to satisfy constraint: '%s'", member, constraint)
}

func quoted(text string) string {
	if text == "" {
		return "null"
	}
	return "'" + text + "'"
}

// ErrNoImage is the error for an image that does not exist.
func (r *Repository) ErrNoImage(id ID) error {
	return awserr.Newf("ImageNotFoundException", "The image with imageId {imageDigest:%s, imageTag:%s} does not exist within the repository with name '%s' in the registry with id '%s'",
		quoted(id.Digest), quoted(id.Tag), r.Name, r.Registry)
}

func (r *Repository) errExists(digest, tag string) error {
	if tag == "" {
		return awserr.Newf("ImageAlreadyExistsException", "Image with digest '%s' already exists in the repository with name '%s' in registry with id '%s'", digest, r.Name, r.Registry)
	}
	return awserr.Newf("ImageAlreadyExistsException", "Image with digest '%s' and tag '%s' already exists in the repository with name '%s' in registry with id '%s'",
		digest, tag, r.Name, r.Registry)
}

// https://github.com/aws/containers-roadmap/issues/862
func (r *Repository) errImmutable(tag string) error {
	return awserr.Newf("ImageTagAlreadyExistsException", "The image tag '%s' already exists in the '%s' repository and cannot be overwritten because the repository is immutable.", tag, r.Name)
}

// AWS has no such error, as far as its documentation says.
func (r *Repository) errPushed(tag string) error {
	return awserr.Newf("ImageTagAlreadyExistsException", "The image tag '%s' already exists in the '%s' repository, and its image does not come from the upstream registry.", tag, r.Name)
}

// The texts of this error and the next one are from memory.
func errDigest(given, actual string) error {
	return awserr.Newf("ImageDigestDoesNotMatchException", "Image digest '%s' does not match the digest '%s' that was calculated from the manifest", given, actual)
}

func errManifest(why string) error {
	return ErrParameter("imageManifest", "Invalid image manifest: "+why)
}

// errNoParts has the text that users report when they push an index before its images. The text for layers is modeled
// on it.
func (r *Repository) errNoParts(code, what string, digests []string) error {
	return awserr.Newf(code, "%s with digests '[%s]' required for pushing image into repository with name '%s' in the registry with id '%s' do not exist",
		what, strings.Join(digests, ", "), r.Name, r.Registry)
}

// ErrNoLayer is the error for a layer that does not exist.
// https://github.com/monken/aws-ecr-public/issues/11
func (r *Repository) ErrNoLayer(digest string) error {
	return awserr.Newf("LayersNotFoundException", "The layer with digest '%s' does not exist within the repository with name '%s' in the registry with id '%s'", digest, r.Name, r.Registry)
}

func (r *Repository) errNoUpload(id string) error {
	return awserr.Newf("UploadNotFoundException", "The upload with id '%s' in the repository with name '%s' in registry with id '%s' does not exist", id, r.Name, r.Registry) // modeled on errEmpty
}

// https://github.com/devcontainers/cli/issues/814
func (r *Repository) errEmpty(id string) error {
	return awserr.Newf("EmptyUploadException", "The upload with id '%s' in the repository with name '%s' in registry with id '%s' cannot be completed because it does not have any parts", id, r.Name, r.Registry)
}

// The texts of this error and the next two are from memory.
func (r *Repository) errPart(id string, next int64) error {
	return awserr.Newf("InvalidLayerPartException", "The layer part of the upload with id '%s' in the repository with name '%s' in registry with id '%s' does not follow the last byte received, %d", id, r.Name, r.Registry, next-1)
}

func (r *Repository) errSmallPart(id string) error {
	return awserr.Newf("LayerPartTooSmallException", "The upload with id '%s' in the repository with name '%s' in registry with id '%s' has a layer part of less than 5 MiB that is not the last", id, r.Name, r.Registry)
}

func (r *Repository) errLayerExists(digest string) error {
	return awserr.Newf("LayerAlreadyExistsException", "The layer with digest '%s' already exists in the repository with name '%s' in registry with id '%s'", digest, r.Name, r.Registry)
}

// https://github.com/bazelbuild/rules_docker/issues/298
func errLayerDigest(digest string) error {
	return awserr.Newf("InvalidLayerException", "None of the provided layer digests match the calculated layer digest: %s", digest)
}

// https://docs.aws.amazon.com/AmazonECR/latest/userguide/service-quotas.html; the text is from memory.
func errLayerSize() error {
	return awserr.New("LimitExceededException", "The layer exceeds the maximum size of 42,000 MiB")
}

// errFull is specific to Drydock: AWS does not limit how much a registry stores.
func errFull() error {
	return awserr.New("LimitExceededException", "The contents of this account have taken all the room that Drydock gives an account. Delete images.")
}

// ErrNoRepository is the error for a repository that does not exist.
func ErrNoRepository(name, registry string) error {
	return awserr.Newf("RepositoryNotFoundException", "The repository with name '%s' does not exist in the registry with id '%s'", name, registry)
}

// ErrRepositoryExists is the error for a repository whose name is taken.
func ErrRepositoryExists(name, registry string) error {
	return awserr.Newf("RepositoryAlreadyExistsException", "The repository with name '%s' already exists in the registry with id '%s'", name, registry)
}

// ErrNotEmpty is the error for the deletion of a repository that holds images.
func ErrNotEmpty(name, registry string) error {
	return awserr.Newf("RepositoryNotEmptyException", "The repository with name '%s' in registry with id '%s' cannot be deleted because it still contains images", name, registry)
}

// ErrNoPolicy is the error for a repository without a policy.
func ErrNoPolicy(name, registry string) error {
	return awserr.Newf("RepositoryPolicyNotFoundException", "Repository policy does not exist for the repository with name '%s' in the registry with id '%s'", name, registry)
}

// ErrPolicy is the error for a policy that cannot be parsed.
func ErrPolicy() error { return ErrParameter("PolicyText", "Invalid repository policy provided") }

// The texts below are from memory.

// ErrLockOut is the error for a policy that would keep the caller from setting another one.
func ErrLockOut() error {
	return ErrParameter("PolicyText", "The new policy would prevent the calling user from setting the policy again. Use force to set it")
}

// ErrPaging is the error for a request that both names resources and asks for a page.
func ErrPaging() error {
	return ErrParameter("maxResults", "maxResults and nextToken cannot be used when resources are named")
}

func errToken(string) error { return ErrParameter("nextToken", "Invalid token provided") }

func errReservedTag(string) error {
	return awserr.New("InvalidTagParameterException", "Tag keys that begin with aws: are reserved for AWS use.")
}

func errTagTwice(string) error {
	return awserr.New("InvalidTagParameterException", "A request cannot have several tags with the same key.")
}

func errManyTags() error {
	return awserr.New("TooManyTagsException", "A repository can have at most 50 tags.")
}
