package ecrpublic

import (
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/imagestore"
)

// Errors that Amazon ECR also has use its texts (internal/service/ecr/errors.go). The other texts are from memory.

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

func errNoRegistry(id string) error {
	return awserr.Newf("RegistryNotFoundException", "The registry with id '%s' does not exist", id)
}

func errRegion(operation string) error {
	return awserr.Newf("UnsupportedCommandException", "%s command is only supported in us-east-1.", operation)
}

func errPolicy() error {
	return imagestore.ErrParameter("PolicyText", "Invalid repository policy provided")
}

func errLockOut() error {
	return imagestore.ErrParameter("PolicyText", "The new policy would prevent the calling user from setting the policy again. Use force to set it")
}

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

func errPaging() error {
	return imagestore.ErrParameter("maxResults", "maxResults and nextToken cannot be used when resources are named")
}
