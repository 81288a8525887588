package ecr

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/imagestore"
)

// layerType is the media type that ECR shows for every layer.
const layerType = "application/vnd.docker.image.rootfs.diff.tar.gzip"

// BatchCheckLayerAvailability returns which layers a repository has, so that clients do not upload them again.
func (s *Service) BatchCheckLayerAvailability(ctx context.Context, in *awsecr.BatchCheckLayerAvailabilityInput) (*awsecr.BatchCheckLayerAvailabilityOutput, error) {
	_, _, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	out := &awsecr.BatchCheckLayerAvailabilityOutput{Layers: []ecrtypes.Layer{}, Failures: []ecrtypes.LayerFailure{}}
	for _, digest := range in.LayerDigests {
		if !strings.Contains(digest, ":") {
			out.Failures = append(out.Failures, ecrtypes.LayerFailure{
				LayerDigest: &digest, FailureCode: ecrtypes.LayerFailureCodeInvalidLayerDigest,
				FailureReason: aws.String("Invalid request parameters: image digest should satisfy the regex '[a-zA-Z0-9-_+.]+:[a-fA-F0-9]+'"),
			})
			continue
		}
		l := ecrtypes.Layer{LayerDigest: &digest, LayerAvailability: ecrtypes.LayerAvailabilityUnavailable}
		if size, ok := s.images.Layer(contents, digest); ok {
			l.LayerAvailability, l.LayerSize, l.MediaType = ecrtypes.LayerAvailabilityAvailable, &size, aws.String(layerType)
		}
		out.Layers = append(out.Layers, l)
	}
	return out, nil
}

// InitiateLayerUpload begins the upload of a layer.
func (s *Service) InitiateLayerUpload(ctx context.Context, in *awsecr.InitiateLayerUploadInput) (*awsecr.InitiateLayerUploadOutput, error) {
	_, _, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	id, err := s.images.Begin(ctx, contents)
	return &awsecr.InitiateLayerUploadOutput{UploadId: &id, PartSize: aws.Int64(imagestore.MaxPart)}, err
}

// UploadLayerPart adds a part to an upload.
func (s *Service) UploadLayerPart(ctx context.Context, in *awsecr.UploadLayerPartInput) (*awsecr.UploadLayerPartOutput, error) {
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	err = s.images.Append(ctx, contents, *in.UploadId, *in.PartFirstByte, *in.PartLastByte, in.LayerPartBlob)
	return &awsecr.UploadLayerPartOutput{LastByteReceived: in.PartLastByte, RegistryId: &sc.Account, RepositoryName: &r.Name, UploadId: in.UploadId}, err
}

// CompleteLayerUpload completes an upload, whose content must have one of the given digests.
func (s *Service) CompleteLayerUpload(ctx context.Context, in *awsecr.CompleteLayerUploadInput) (*awsecr.CompleteLayerUploadOutput, error) {
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	digest, err := s.images.Complete(ctx, contents, *in.UploadId, in.LayerDigests)
	return &awsecr.CompleteLayerUploadOutput{LayerDigest: &digest, RegistryId: &sc.Account, RepositoryName: &r.Name, UploadId: in.UploadId}, err
}

// GetDownloadUrlForLayer returns a URL from which a layer can be read for an hour, without credentials.
func (s *Service) GetDownloadUrlForLayer(ctx context.Context, in *awsecr.GetDownloadUrlForLayerInput) (*awsecr.GetDownloadUrlForLayerOutput, error) {
	sc := registryOf(ctx, in.RegistryId)
	if i := sc.supplied(*in.RepositoryName); i == nil {
		_, _, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
		if err != nil {
			return nil, err
		}
		if _, ok := s.images.Layer(contents, *in.LayerDigest); !ok {
			return nil, contents.ErrNoLayer(*in.LayerDigest)
		}
	} else if _, ok := i.Blob(*in.LayerDigest); !ok {
		return nil, sc.contents(&repositoryRecord{Name: *in.RepositoryName}).ErrNoLayer(*in.LayerDigest)
	}
	url, err := s.layerURL(ctx, sc, *in.RepositoryName, *in.LayerDigest)
	return &awsecr.GetDownloadUrlForLayerOutput{DownloadUrl: &url, LayerDigest: in.LayerDigest}, err
}
