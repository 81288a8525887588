package ecrpublic

import (
	"cmp"
	"context"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecrpublic "github.com/aws/aws-sdk-go-v2/service/ecrpublic"
	publictypes "github.com/aws/aws-sdk-go-v2/service/ecrpublic/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/imagestore"
)

// layerType is the media type that ECR shows for every layer.
const layerType = "application/vnd.docker.image.rootfs.diff.tar.gzip"

// BatchCheckLayerAvailability returns which layers a repository has, so that clients do not upload them again.
func (s *Service) BatchCheckLayerAvailability(ctx context.Context, in *awsecrpublic.BatchCheckLayerAvailabilityInput) (*awsecrpublic.BatchCheckLayerAvailabilityOutput, error) {
	_, _, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	out := &awsecrpublic.BatchCheckLayerAvailabilityOutput{Layers: []publictypes.Layer{}, Failures: []publictypes.LayerFailure{}}
	for _, digest := range in.LayerDigests {
		if !strings.Contains(digest, ":") {
			out.Failures = append(out.Failures, publictypes.LayerFailure{
				LayerDigest: &digest, FailureCode: publictypes.LayerFailureCodeInvalidLayerDigest,
				FailureReason: aws.String("Invalid request parameters: image digest should satisfy the regex '[a-zA-Z0-9-_+.]+:[a-fA-F0-9]+'"),
			})
			continue
		}
		l := publictypes.Layer{LayerDigest: &digest, LayerAvailability: publictypes.LayerAvailabilityUnavailable}
		if size, ok := s.images.Layer(contents, digest); ok {
			l.LayerAvailability, l.LayerSize, l.MediaType = publictypes.LayerAvailabilityAvailable, &size, aws.String(layerType)
		}
		out.Layers = append(out.Layers, l)
	}
	return out, nil
}

// InitiateLayerUpload begins the upload of a layer.
func (s *Service) InitiateLayerUpload(ctx context.Context, in *awsecrpublic.InitiateLayerUploadInput) (*awsecrpublic.InitiateLayerUploadOutput, error) {
	_, _, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	id, err := s.images.Begin(ctx, contents)
	return &awsecrpublic.InitiateLayerUploadOutput{UploadId: &id, PartSize: aws.Int64(imagestore.MaxPart)}, err
}

// UploadLayerPart adds a part to an upload.
func (s *Service) UploadLayerPart(ctx context.Context, in *awsecrpublic.UploadLayerPartInput) (*awsecrpublic.UploadLayerPartOutput, error) {
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	err = s.images.Append(ctx, contents, *in.UploadId, *in.PartFirstByte, *in.PartLastByte, in.LayerPartBlob)
	return &awsecrpublic.UploadLayerPartOutput{LastByteReceived: in.PartLastByte, RegistryId: &sc.Account, RepositoryName: &r.Name, UploadId: in.UploadId}, err
}

// CompleteLayerUpload completes an upload, whose content must have one of the given digests.
func (s *Service) CompleteLayerUpload(ctx context.Context, in *awsecrpublic.CompleteLayerUploadInput) (*awsecrpublic.CompleteLayerUploadOutput, error) {
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	digest, err := s.images.Complete(ctx, contents, *in.UploadId, in.LayerDigests)
	return &awsecrpublic.CompleteLayerUploadOutput{LayerDigest: &digest, RegistryId: &sc.Account, RepositoryName: &r.Name, UploadId: in.UploadId}, err
}

// PutImage stores the manifest of an image whose layers have been uploaded, or adds a tag to an existing image.
func (s *Service) PutImage(ctx context.Context, in *awsecrpublic.PutImageInput) (*awsecrpublic.PutImageOutput, error) {
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	i, err := s.images.Put(ctx, contents, imagestore.Put{
		Manifest: *in.ImageManifest, MediaType: aws.ToString(in.ImageManifestMediaType), Digest: aws.ToString(in.ImageDigest), Tag: aws.ToString(in.ImageTag),
	})
	if err != nil {
		return nil, err
	}
	id := identifier(imagestore.ID{Digest: i.Digest, Tag: aws.ToString(in.ImageTag)})
	return &awsecrpublic.PutImageOutput{Image: &publictypes.Image{
		ImageId: &id, ImageManifest: in.ImageManifest, ImageManifestMediaType: &i.MediaType, RegistryId: &sc.Account, RepositoryName: &r.Name,
	}}, nil
}

func idOf(id publictypes.ImageIdentifier) imagestore.ID {
	return imagestore.ID{Digest: aws.ToString(id.ImageDigest), Tag: aws.ToString(id.ImageTag)}
}

func identifier(id imagestore.ID) publictypes.ImageIdentifier {
	var out publictypes.ImageIdentifier
	if id.Digest != "" {
		out.ImageDigest = &id.Digest
	}
	if id.Tag != "" {
		out.ImageTag = &id.Tag
	}
	return out
}

// BatchDeleteImage deletes images, or single tags of images that have several.
func (s *Service) BatchDeleteImage(ctx context.Context, in *awsecrpublic.BatchDeleteImageInput) (*awsecrpublic.BatchDeleteImageOutput, error) {
	_, _, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	var asked []imagestore.ID
	for _, id := range in.ImageIds {
		asked = append(asked, idOf(id))
	}
	deleted, failures, err := s.images.Delete(ctx, contents, asked)
	if err != nil {
		return nil, err
	}
	out := &awsecrpublic.BatchDeleteImageOutput{ImageIds: []publictypes.ImageIdentifier{}, Failures: []publictypes.ImageFailure{}}
	for _, id := range deleted {
		out.ImageIds = append(out.ImageIds, identifier(id))
	}
	for _, id := range in.ImageIds {
		if f := failures[idOf(id)]; f != nil {
			out.Failures = append(out.Failures, publictypes.ImageFailure{ImageId: &id, FailureCode: publictypes.ImageFailureCode(f.Code), FailureReason: &f.Reason})
		}
	}
	return out, nil
}

// DescribeImages describes images.
func (s *Service) DescribeImages(ctx context.Context, in *awsecrpublic.DescribeImagesInput) (*awsecrpublic.DescribeImagesOutput, error) {
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	all := s.images.Images(contents)
	if len(in.ImageIds) > 0 {
		if in.MaxResults != nil || in.NextToken != nil {
			return nil, imagestore.ErrPaging()
		}
		named := map[string]bool{}
		for _, id := range in.ImageIds {
			i, f, err := s.images.Find(contents, idOf(id))
			switch {
			case err != nil:
				return nil, err
			case f != nil && f.Code == imagestore.NotFound:
				return nil, contents.ErrNoImage(idOf(id))
			case f != nil:
				return nil, awserr.New("InvalidParameterException", f.Reason)
			}
			named[i.Digest] = true
		}
		all = slices.DeleteFunc(all, func(i imagestore.Image) bool { return !named[i.Digest] })
	}
	all, next, err := paging.Cut(imagestore.Pages(r.ID), all, func(i imagestore.Image) string { return i.Digest }, in.MaxResults, in.NextToken)
	out := &awsecrpublic.DescribeImagesOutput{ImageDetails: []publictypes.ImageDetail{}, NextToken: next}
	for _, i := range all {
		d := publictypes.ImageDetail{
			ImageDigest: &i.Digest, ImageManifestMediaType: &i.MediaType, ImagePushedAt: &i.Pushed, ImageSizeInBytes: &i.Size, ImageTags: i.Names(), RegistryId: &sc.Account, RepositoryName: &r.Name,
		}
		if i.ArtifactType != "" {
			d.ArtifactMediaType = &i.ArtifactType
		}
		out.ImageDetails = append(out.ImageDetails, d)
	}
	return out, err
}

// DescribeImageTags lists the tags of a repository with their images.
func (s *Service) DescribeImageTags(ctx context.Context, in *awsecrpublic.DescribeImageTagsInput) (*awsecrpublic.DescribeImageTagsOutput, error) {
	_, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	var all []publictypes.ImageTagDetail
	for _, i := range s.images.Images(contents) {
		d := &publictypes.ReferencedImageDetail{ImageDigest: &i.Digest, ImageManifestMediaType: &i.MediaType, ImagePushedAt: &i.Pushed, ImageSizeInBytes: &i.Size}
		if i.ArtifactType != "" {
			d.ArtifactMediaType = &i.ArtifactType
		}
		for _, t := range i.Tags {
			all = append(all, publictypes.ImageTagDetail{ImageTag: &t.Name, CreatedAt: &t.Created, ImageDetail: d})
		}
	}
	slices.SortFunc(all, func(a, b publictypes.ImageTagDetail) int { return cmp.Compare(*a.ImageTag, *b.ImageTag) })
	all, next, err := paging.Cut(imagestore.Pages(r.ID), all, func(t publictypes.ImageTagDetail) string { return *t.ImageTag }, in.MaxResults, in.NextToken)
	if all == nil {
		all = []publictypes.ImageTagDetail{}
	}
	return &awsecrpublic.DescribeImageTagsOutput{ImageTagDetails: all, NextToken: next}, err
}
