package ecr

import (
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/imagestore"
)

func idOf(id ecrtypes.ImageIdentifier) imagestore.ID {
	return imagestore.ID{Digest: aws.ToString(id.ImageDigest), Tag: aws.ToString(id.ImageTag)}
}

func identifier(id imagestore.ID) ecrtypes.ImageIdentifier {
	var out ecrtypes.ImageIdentifier
	if id.Digest != "" {
		out.ImageDigest = &id.Digest
	}
	if id.Tag != "" {
		out.ImageTag = &id.Tag
	}
	return out
}

func idsOf(list []ecrtypes.ImageIdentifier) []imagestore.ID {
	var out []imagestore.ID
	for _, id := range list {
		out = append(out, idOf(id))
	}
	return out
}

func failure(id ecrtypes.ImageIdentifier, f *imagestore.Failure) ecrtypes.ImageFailure {
	return ecrtypes.ImageFailure{ImageId: &id, FailureCode: ecrtypes.ImageFailureCode(f.Code), FailureReason: &f.Reason}
}

// named reports whether a list names an image.
func named(list []ecrtypes.ImageIdentifier, digest string, tags []string) bool {
	return slices.ContainsFunc(list, func(id ecrtypes.ImageIdentifier) bool {
		return (id.ImageDigest == nil || *id.ImageDigest == digest) && (id.ImageTag == nil || slices.Contains(tags, *id.ImageTag))
	})
}

// hasStatus reports whether an image with tags matches a filter.
func hasStatus(want ecrtypes.TagStatus, tags []string) bool {
	return want == "" || want == ecrtypes.TagStatusAny || (want == ecrtypes.TagStatusTagged) == (len(tags) > 0)
}

// PutImage stores the manifest of an image whose layers have been uploaded, or adds a tag to an existing image.
func (s *Service) PutImage(ctx context.Context, in *awsecr.PutImageInput) (*awsecr.PutImageOutput, error) {
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	i, err := s.images.Put(ctx, contents, imagestore.Put{
		Manifest: *in.ImageManifest, MediaType: aws.ToString(in.ImageManifestMediaType), Digest: aws.ToString(in.ImageDigest), Tag: aws.ToString(in.ImageTag),
		Immutable: r.immutable, Scan: r.ScanOnPush,
	})
	if err != nil {
		return nil, err
	}
	id := identifier(imagestore.ID{Digest: i.Digest, Tag: aws.ToString(in.ImageTag)})
	s.emit(sc, r.Name, "PUSH", i.Digest, aws.ToString(in.ImageTag))
	return &awsecr.PutImageOutput{Image: &ecrtypes.Image{
		ImageId: &id, ImageManifest: in.ImageManifest, ImageManifestMediaType: &i.MediaType, RegistryId: &sc.Account, RepositoryName: &r.Name,
	}}, nil
}

func (s *Service) emit(sc scope, repository, action, digest, tag string) {
	if s.cfg.Emit != nil {
		s.cfg.Emit(Action{Account: sc.Account, Region: sc.Region, Repository: repository, Type: action, Digest: digest, Tag: tag, At: s.now()})
	}
}

// BatchGetImage returns manifests. Clients use it to pull images.
func (s *Service) BatchGetImage(ctx context.Context, in *awsecr.BatchGetImageInput) (*awsecr.BatchGetImageOutput, error) {
	if sc := registryOf(ctx, in.RegistryId); sc.supplied(*in.RepositoryName) != nil {
		return sc.pullSupplied(sc.supplied(*in.RepositoryName), in), nil
	}
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	out := &awsecr.BatchGetImageOutput{Images: []ecrtypes.Image{}, Failures: []ecrtypes.ImageFailure{}}
	for _, id := range in.ImageIds {
		i, manifest, f, err := s.images.Pull(ctx, contents, idOf(id))
		if err != nil {
			return nil, err
		}
		if f != nil {
			out.Failures = append(out.Failures, failure(id, f))
			continue
		}
		shown := identifier(imagestore.ID{Digest: i.Digest, Tag: aws.ToString(id.ImageTag)})
		out.Images = append(out.Images, ecrtypes.Image{
			ImageId: &shown, ImageManifest: &manifest, ImageManifestMediaType: &i.MediaType, RegistryId: &sc.Account, RepositoryName: &r.Name,
		})
	}
	return out, nil
}

// BatchDeleteImage deletes images, or single tags of images that have several.
func (s *Service) BatchDeleteImage(ctx context.Context, in *awsecr.BatchDeleteImageInput) (*awsecr.BatchDeleteImageOutput, error) {
	sc, r, _, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	deleted, failures, err := s.delete(ctx, sc, &r, idsOf(in.ImageIds))
	if err != nil {
		return nil, err
	}
	out := &awsecr.BatchDeleteImageOutput{ImageIds: []ecrtypes.ImageIdentifier{}, Failures: []ecrtypes.ImageFailure{}}
	for _, id := range deleted {
		out.ImageIds = append(out.ImageIds, identifier(id))
	}
	for _, id := range in.ImageIds {
		if f := failures[idOf(id)]; f != nil {
			out.Failures = append(out.Failures, failure(id, f))
		}
	}
	return out, nil
}

func (s *Service) delete(ctx context.Context, sc scope, r *repositoryRecord, ids []imagestore.ID) ([]imagestore.ID, map[imagestore.ID]*imagestore.Failure, error) {
	if len(ids) == 0 {
		return nil, nil, nil
	}
	deleted, failures, err := s.images.Delete(ctx, sc.contents(r), ids)
	for _, id := range deleted {
		s.emit(sc, r.Name, "DELETE", id.Digest, id.Tag)
	}
	return deleted, failures, err
}

// ListImages lists the digests of images, once for each tag.
func (s *Service) ListImages(ctx context.Context, in *awsecr.ListImagesInput) (*awsecr.ListImagesOutput, error) {
	_, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	var all []imagestore.ID
	for _, i := range s.images.Images(contents) {
		names := i.Names()
		if in.Filter != nil && (!hasStatus(in.Filter.TagStatus, names) || !isActive(string(in.Filter.ImageStatus))) {
			continue
		}
		if len(names) == 0 {
			names = []string{""}
		}
		for _, name := range names {
			all = append(all, imagestore.ID{Digest: i.Digest, Tag: name})
		}
	}
	all, next, err := paging.CutInOrder(imagestore.Pages(r.ID), all, func(id imagestore.ID) string { return id.Digest + " " + id.Tag }, in.MaxResults, in.NextToken)
	out := &awsecr.ListImagesOutput{ImageIds: []ecrtypes.ImageIdentifier{}, NextToken: next}
	for _, id := range all {
		out.ImageIds = append(out.ImageIds, identifier(id))
	}
	return out, err
}

// isActive reports whether a filter matches active images. No image is ever archived.
func isActive(want string) bool { return want == "" || want == "ANY" || want == "ACTIVE" }

// DescribeImages describes images.
func (s *Service) DescribeImages(ctx context.Context, in *awsecr.DescribeImagesInput) (*awsecr.DescribeImagesOutput, error) {
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	out := &awsecr.DescribeImagesOutput{ImageDetails: []ecrtypes.ImageDetail{}}
	if len(in.ImageIds) > 0 {
		if in.MaxResults != nil || in.NextToken != nil {
			return nil, imagestore.ErrPaging()
		}
		seen := map[string]bool{}
		for _, id := range in.ImageIds {
			i, err := s.image(contents, &id)
			if err != nil {
				return nil, err
			}
			if !seen[i.Digest] {
				seen[i.Digest] = true
				out.ImageDetails = append(out.ImageDetails, sc.detail(&r, &i))
			}
		}
		return out, nil
	}
	var all []imagestore.Image
	for _, i := range s.images.Images(contents) {
		if in.Filter == nil || hasStatus(in.Filter.TagStatus, i.Names()) && isActive(string(in.Filter.ImageStatus)) {
			all = append(all, i)
		}
	}
	all, out.NextToken, err = paging.Cut(imagestore.Pages(r.ID), all, func(i imagestore.Image) string { return i.Digest }, in.MaxResults, in.NextToken)
	for _, i := range all {
		out.ImageDetails = append(out.ImageDetails, sc.detail(&r, &i))
	}
	return out, err
}

// image returns the image that a request names.
func (s *Service) image(contents *imagestore.Repository, id *ecrtypes.ImageIdentifier) (imagestore.Image, error) {
	i, f, err := s.images.Find(contents, idOf(*id))
	switch {
	case err != nil || f == nil:
		return i, err
	case f.Code == imagestore.NotFound:
		return i, contents.ErrNoImage(idOf(*id))
	}
	return i, awserr.New("InvalidParameterException", f.Reason)
}

func (sc scope) detail(r *repositoryRecord, i *imagestore.Image) ecrtypes.ImageDetail {
	out := ecrtypes.ImageDetail{
		ImageDigest: &i.Digest, ImageManifestMediaType: &i.MediaType, ImagePushedAt: &i.Pushed, ImageSizeInBytes: &i.Size, ImageTags: i.Names(),
		ImageStatus: ecrtypes.ImageStatusActive, RegistryId: &sc.Account, RepositoryName: &r.Name,
	}
	if i.ArtifactType != "" {
		out.ArtifactMediaType = &i.ArtifactType
	}
	if !i.Pulled.IsZero() {
		out.LastRecordedPullTime = &i.Pulled
	}
	if i.Subject != "" {
		out.SubjectManifestDigest = &i.Subject
	}
	if i.Scanned {
		out.ImageScanStatus = notScanned()
	}
	return out
}

// notScanned returns the status of every scan: the one that AWS uses for images that it cannot scan.
func notScanned() *ecrtypes.ImageScanStatus {
	return &ecrtypes.ImageScanStatus{Status: ecrtypes.ScanStatusUnsupportedImage, Description: aws.String("Drydock has no database of vulnerabilities and does not scan images.")}
}

// StartImageScan records that a scan of an image was requested.
func (s *Service) StartImageScan(ctx context.Context, in *awsecr.StartImageScanInput) (*awsecr.StartImageScanOutput, error) {
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	i, err := s.image(contents, in.ImageId)
	if err != nil {
		return nil, err
	}
	id := identifier(imagestore.ID{Digest: i.Digest, Tag: aws.ToString(in.ImageId.ImageTag)})
	return &awsecr.StartImageScanOutput{ImageId: &id, ImageScanStatus: notScanned(), RegistryId: &sc.Account, RepositoryName: &r.Name}, s.images.Scan(ctx, contents, i.Digest)
}

// DescribeImageScanFindings returns the status of a scan. There are no findings.
func (s *Service) DescribeImageScanFindings(ctx context.Context, in *awsecr.DescribeImageScanFindingsInput) (*awsecr.DescribeImageScanFindingsOutput, error) {
	sc, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	i, err := s.image(contents, in.ImageId)
	if err != nil {
		return nil, err
	}
	if !i.Scanned {
		return nil, errNoScan(idOf(*in.ImageId), r.Name, sc.Account)
	}
	id := identifier(imagestore.ID{Digest: i.Digest, Tag: aws.ToString(in.ImageId.ImageTag)})
	return &awsecr.DescribeImageScanFindingsOutput{ImageId: &id, ImageScanStatus: notScanned(), RegistryId: &sc.Account, RepositoryName: &r.Name}, nil
}

// PutImageScanningConfiguration sets whether images are to be scanned when they are pushed.
func (s *Service) PutImageScanningConfiguration(ctx context.Context, in *awsecr.PutImageScanningConfigurationInput) (*awsecr.PutImageScanningConfigurationOutput, error) {
	sc, err := s.change(ctx, in.RegistryId, in.RepositoryName, func(r *repositoryRecord) error {
		r.ScanOnPush = in.ImageScanningConfiguration.ScanOnPush
		return nil
	})
	return &awsecr.PutImageScanningConfigurationOutput{ImageScanningConfiguration: in.ImageScanningConfiguration, RegistryId: &sc.Account, RepositoryName: in.RepositoryName}, err
}

// BatchGetRepositoryScanningConfiguration returns when the images of repositories are scanned.
func (s *Service) BatchGetRepositoryScanningConfiguration(ctx context.Context, in *awsecr.BatchGetRepositoryScanningConfigurationInput) (*awsecr.BatchGetRepositoryScanningConfigurationOutput, error) {
	sc := registryOf(ctx, nil)
	out := &awsecr.BatchGetRepositoryScanningConfigurationOutput{ScanningConfigurations: []ecrtypes.RepositoryScanningConfiguration{}, Failures: []ecrtypes.RepositoryScanningConfigurationFailure{}}
	for _, name := range in.RepositoryNames {
		r, err := s.repository(sc, name)
		if err != nil {
			if awserr.CodeOf(err) == "" {
				return nil, err
			}
			out.Failures = append(out.Failures, ecrtypes.RepositoryScanningConfigurationFailure{
				RepositoryName: &name, FailureCode: ecrtypes.ScanningConfigurationFailureCodeRepositoryNotFound, FailureReason: aws.String(awserr.TextOf(err)),
			})
			continue
		}
		c := ecrtypes.RepositoryScanningConfiguration{
			RepositoryName: &r.Name, RepositoryArn: aws.String(sc.arn(r.Name)), ScanOnPush: r.ScanOnPush, ScanFrequency: ecrtypes.ScanFrequencyManual, AppliedScanFilters: []ecrtypes.ScanningRepositoryFilter{},
		}
		if r.ScanOnPush {
			c.ScanFrequency = ecrtypes.ScanFrequencyScanOnPush
		}
		out.ScanningConfigurations = append(out.ScanningConfigurations, c)
	}
	return out, nil
}

// ListImageReferrers lists the artifacts that describe an image, such as signatures.
func (s *Service) ListImageReferrers(ctx context.Context, in *awsecr.ListImageReferrersInput) (*awsecr.ListImageReferrersOutput, error) {
	_, r, contents, err := s.within(ctx, in.RegistryId, in.RepositoryName)
	if err != nil {
		return nil, err
	}
	var all []imagestore.Image
	for _, i := range s.images.ReferrersOf(contents, *in.SubjectId.ImageDigest) {
		if in.Filter == nil || len(in.Filter.ArtifactTypes) == 0 || slices.Contains(in.Filter.ArtifactTypes, i.ArtifactType) {
			all = append(all, i)
		}
	}
	all, next, err := paging.Cut(imagestore.Pages(r.ID), all, func(i imagestore.Image) string { return i.Digest }, in.MaxResults, in.NextToken)
	out := &awsecr.ListImageReferrersOutput{Referrers: []ecrtypes.ImageReferrer{}, NextToken: next}
	for _, i := range all {
		out.Referrers = append(out.Referrers, ecrtypes.ImageReferrer{
			Digest: &i.Digest, MediaType: &i.MediaType, ArtifactType: &i.ArtifactType, Size: &i.ManifestSize, ArtifactStatus: ecrtypes.ArtifactStatusActive,
		})
	}
	return out, err
}
