package s3

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// DeleteObject deletes an object, or one version of it. In a versioned bucket, deleting an object only adds a delete
// marker.
func (s *Service) DeleteObject(ctx context.Context, in *awss3.DeleteObjectInput) (*awss3.DeleteObjectOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	bypass, err := b.bypasses(in.BypassGovernanceRetention)
	if err != nil {
		return nil, err
	}
	done, err := s.remove(ctx, &b, aws.ToString(in.Key), in.VersionId, in.IfMatch, bypass)
	if err != nil {
		return nil, err
	}
	return &awss3.DeleteObjectOutput{DeleteMarker: done.marker, VersionId: done.version}, nil
}

// maxDeleted is the maximum number of keys that a request can delete.
const maxDeleted = 1000

// DeleteObjects deletes several objects. Each deletion is authorized individually.
func (s *Service) DeleteObjects(ctx context.Context, in *awss3.DeleteObjectsInput) (*awss3.DeleteObjectsOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	if in.Delete == nil || len(in.Delete.Objects) == 0 || len(in.Delete.Objects) > maxDeleted {
		return nil, errMalformedXML()
	}
	bypass, err := b.bypasses(in.BypassGovernanceRetention)
	if err != nil {
		return nil, err
	}
	out := &awss3.DeleteObjectsOutput{}
	call := awsapi.CallFrom(ctx)
	for _, id := range in.Delete.Objects {
		key := aws.ToString(id.Key)
		err := refusal(s.cfg.Authorize(ctx, call, in, deletion(call, b.Name, key, id.VersionId, bypass)...))
		var done removal
		if err == nil {
			done, err = s.remove(ctx, &b, key, id.VersionId, id.ETag, bypass)
		}
		// [recorded] test_s3_api, test_delete_objects: an ID that is no version ID is not found here, unlike in DeleteObject
		if awserr.CodeOf(err) == "InvalidArgument" && !validVersion(aws.ToString(id.VersionId)) {
			err = errNoVersion(key, *id.VersionId)
		}
		if refused := (smithy.APIError)(nil); errors.As(err, &refused) {
			out.Errors = append(out.Errors, s3types.Error{Code: aws.String(refused.ErrorCode()), Key: id.Key, Message: aws.String(refused.ErrorMessage()), VersionId: id.VersionId})
			continue
		}
		if err != nil {
			return nil, err
		}
		if !aws.ToBool(in.Delete.Quiet) {
			d := s3types.DeletedObject{Key: id.Key, VersionId: id.VersionId, DeleteMarker: done.marker}
			if aws.ToBool(done.marker) {
				d.DeleteMarkerVersionId = done.version
			}
			out.Deleted = append(out.Deleted, d)
		}
	}
	return out, nil
}
