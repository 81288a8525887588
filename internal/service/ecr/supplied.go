package ecr

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/catalog/addonimages"
	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/policy"
)

// supplied returns the image of a repository of EKS's own registry, or nil. Nodes that run containers pull the images of
// add-ons from there.
func (sc scope) supplied(name string) *addonimages.Image {
	if addons.Registry(sc.Region) != sc.host() {
		return nil
	}
	return addonimages.Of(name)
}

// SuppliedLayer returns a layer of an image in EKS's own registry, or false if not found.
func SuppliedLayer(account, region, repository, digest string) ([]byte, bool) {
	i := scope{regional.At(account, region)}.supplied(repository)
	if i == nil {
		return nil, false
	}
	return i.Blob(digest)
}

// suppliedPolicy is the policy of EKS's repositories: any account may pull from them.
const suppliedPolicy = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":["ecr:BatchCheckLayerAvailability","ecr:BatchGetImage","ecr:GetDownloadUrlForLayer"]}]}`

func (s *Service) suppliedPolicy(arn string) policy.Source {
	return policy.Source{Name: "repository policy of " + arn, Document: s.docs.Get(suppliedPolicy)}
}

// pullSupplied is BatchGetImage for a repository of EKS. It has each tag that it is asked for.
func (sc scope) pullSupplied(i *addonimages.Image, in *awsecr.BatchGetImageInput) *awsecr.BatchGetImageOutput {
	out := &awsecr.BatchGetImageOutput{Images: []ecrtypes.Image{}, Failures: []ecrtypes.ImageFailure{}}
	for _, id := range in.ImageIds {
		if d := aws.ToString(id.ImageDigest); d != "" && d != i.Digest {
			out.Failures = append(out.Failures, failure(id, &imagestore.Failure{Code: imagestore.NotFound, Reason: "Requested image not found"}))
			continue
		}
		shown := identifier(imagestore.ID{Digest: i.Digest, Tag: aws.ToString(id.ImageTag)})
		out.Images = append(out.Images, ecrtypes.Image{ImageId: &shown, ImageManifest: &i.Manifest, ImageManifestMediaType: &i.MediaType, RegistryId: &sc.Account, RepositoryName: in.RepositoryName})
	}
	return out
}
