package s3

import (
	"cmp"
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// The bucket settings in this file are stored and returned. Except for versioning and encryption they have no effect:
// CORS, websites, access logs and acceleration are not implemented.

// PutBucketVersioning turns versioning on, or suspends it.
func (s *Service) PutBucketVersioning(ctx context.Context, in *awss3.PutBucketVersioningInput) (*awss3.PutBucketVersioningOutput, error) {
	status := string(in.VersioningConfiguration.Status)
	if status != versioningOn && status != versioningSuspended {
		return nil, errMalformedXML() // [recorded] test_s3_api, test_bucket_versioning_crud
	}
	if in.VersioningConfiguration.MFADelete == s3types.MFADeleteEnabled {
		return nil, awserr.NotImplemented("MFA delete")
	}
	return &awss3.PutBucketVersioningOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		if b.ObjectLock != nil && status != versioningOn {
			return conflict("InvalidBucketState", "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.")
		}
		b.Versioning, b.MFADelete = status, cmp.Or(in.VersioningConfiguration.MFADelete, b.MFADelete)
		return nil
	})
}

// GetBucketVersioning returns whether a bucket is versioned.
func (s *Service) GetBucketVersioning(ctx context.Context, in *awss3.GetBucketVersioningInput) (*awss3.GetBucketVersioningOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	return &awss3.GetBucketVersioningOutput{Status: s3types.BucketVersioningStatus(b.Versioning), MFADelete: s3types.MFADeleteStatus(b.MFADelete)}, nil
}

// PutBucketEncryption sets how objects are encrypted by default.
func (s *Service) PutBucketEncryption(ctx context.Context, in *awss3.PutBucketEncryptionInput) (*awss3.PutBucketEncryptionOutput, error) {
	c := in.ServerSideEncryptionConfiguration
	return &awss3.PutBucketEncryptionOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		// [recorded] test_s3_api, test_s3_default_bucket_encryption_exc
		if len(c.Rules) != 1 {
			return errMalformedXML()
		}
		if d := c.Rules[0].ApplyServerSideEncryptionByDefault; d != nil && d.KMSMasterKeyID != nil && d.SSEAlgorithm == s3types.ServerSideEncryptionAes256 {
			return invalid("InvalidArgument", "a KMSMasterKeyID is not applicable if the default sse algorithm is not aws:kms or aws:kms:dsse").
				With("ArgumentName", "ApplyServerSideEncryptionByDefault")
		}
		b.Encryption = c
		return nil
	})
}

// GetBucketEncryption returns how objects are encrypted by default.
func (s *Service) GetBucketEncryption(ctx context.Context, in *awss3.GetBucketEncryptionInput) (*awss3.GetBucketEncryptionOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	return &awss3.GetBucketEncryptionOutput{ServerSideEncryptionConfiguration: cmp.Or(b.Encryption, &s3types.ServerSideEncryptionConfiguration{
		Rules: []s3types.ServerSideEncryptionRule{{
			ApplyServerSideEncryptionByDefault: &s3types.ServerSideEncryptionByDefault{SSEAlgorithm: s3types.ServerSideEncryptionAes256}, BucketKeyEnabled: aws.Bool(false),
		}},
	})}, nil
}

// DeleteBucketEncryption restores the default encryption.
func (s *Service) DeleteBucketEncryption(ctx context.Context, in *awss3.DeleteBucketEncryptionInput) (*awss3.DeleteBucketEncryptionOutput, error) {
	return &awss3.DeleteBucketEncryptionOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.Encryption = nil
		return nil
	})
}

// PutBucketCors sets the CORS rules of a bucket.
func (s *Service) PutBucketCors(ctx context.Context, in *awss3.PutBucketCorsInput) (*awss3.PutBucketCorsOutput, error) {
	rules := in.CORSConfiguration.CORSRules
	if len(rules) == 0 || len(rules) > 100 {
		return nil, errMalformedXML()
	}
	return &awss3.PutBucketCorsOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.CORS = rules
		return nil
	})
}

// GetBucketCors returns the CORS rules of a bucket.
func (s *Service) GetBucketCors(ctx context.Context, in *awss3.GetBucketCorsInput) (*awss3.GetBucketCorsOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	if len(b.CORS) == 0 {
		return nil, notFound("NoSuchCORSConfiguration", "The CORS configuration does not exist").With("BucketName", b.Name)
	}
	return &awss3.GetBucketCorsOutput{CORSRules: b.CORS}, nil
}

// DeleteBucketCors removes the CORS rules of a bucket.
func (s *Service) DeleteBucketCors(ctx context.Context, in *awss3.DeleteBucketCorsInput) (*awss3.DeleteBucketCorsOutput, error) {
	return &awss3.DeleteBucketCorsOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.CORS = nil
		return nil
	})
}

// PutBucketWebsite sets the website configuration of a bucket.
func (s *Service) PutBucketWebsite(ctx context.Context, in *awss3.PutBucketWebsiteInput) (*awss3.PutBucketWebsiteOutput, error) {
	return &awss3.PutBucketWebsiteOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.Website = in.WebsiteConfiguration
		return nil
	})
}

// GetBucketWebsite returns the website configuration of a bucket.
func (s *Service) GetBucketWebsite(ctx context.Context, in *awss3.GetBucketWebsiteInput) (*awss3.GetBucketWebsiteOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	w := b.Website
	if w == nil {
		return nil, notFound("NoSuchWebsiteConfiguration", "The specified bucket does not have a website configuration").With("BucketName", b.Name)
	}
	return &awss3.GetBucketWebsiteOutput{ErrorDocument: w.ErrorDocument, IndexDocument: w.IndexDocument, RedirectAllRequestsTo: w.RedirectAllRequestsTo, RoutingRules: w.RoutingRules}, nil
}

// DeleteBucketWebsite removes the website configuration of a bucket.
func (s *Service) DeleteBucketWebsite(ctx context.Context, in *awss3.DeleteBucketWebsiteInput) (*awss3.DeleteBucketWebsiteOutput, error) {
	return &awss3.DeleteBucketWebsiteOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.Website = nil
		return nil
	})
}

// PutBucketLogging sets where the access logs of a bucket go.
func (s *Service) PutBucketLogging(ctx context.Context, in *awss3.PutBucketLoggingInput) (*awss3.PutBucketLoggingOutput, error) {
	to := in.BucketLoggingStatus.LoggingEnabled
	if to != nil {
		b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
		if err != nil {
			return nil, err
		}
		target, err := s.lookup(s.store, b.key.Account, b.key.Region, aws.ToString(to.TargetBucket))
		if err != nil || target.key.Account != b.key.Account {
			return nil, invalid("InvalidTargetBucketForLogging", "The target bucket for logging does not exist").With("TargetBucket", aws.ToString(to.TargetBucket))
		}
	}
	return &awss3.PutBucketLoggingOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.Logging = to
		return nil
	})
}

// GetBucketLogging returns where the access logs of a bucket go.
func (s *Service) GetBucketLogging(ctx context.Context, in *awss3.GetBucketLoggingInput) (*awss3.GetBucketLoggingOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	return &awss3.GetBucketLoggingOutput{LoggingEnabled: b.Logging}, nil
}

// PutBucketAccelerateConfiguration sets whether transfers are accelerated.
func (s *Service) PutBucketAccelerateConfiguration(ctx context.Context, in *awss3.PutBucketAccelerateConfigurationInput) (*awss3.PutBucketAccelerateConfigurationOutput, error) {
	status := in.AccelerateConfiguration.Status
	if strings.Contains(aws.ToString(in.Bucket), ".") { // [recorded] test_s3_api, test_bucket_acceleration_configuration_exc
		return nil, invalid("InvalidRequest", "S3 Transfer Acceleration is not supported for buckets with periods (.) in their names")
	}
	if status != s3types.BucketAccelerateStatusEnabled && status != s3types.BucketAccelerateStatusSuspended {
		return nil, errMalformedXML()
	}
	return &awss3.PutBucketAccelerateConfigurationOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.Accelerate = string(status)
		return nil
	})
}

// GetBucketAccelerateConfiguration returns whether transfers are accelerated.
func (s *Service) GetBucketAccelerateConfiguration(ctx context.Context, in *awss3.GetBucketAccelerateConfigurationInput) (*awss3.GetBucketAccelerateConfigurationOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	return &awss3.GetBucketAccelerateConfigurationOutput{Status: s3types.BucketAccelerateStatus(b.Accelerate)}, nil
}

// PutBucketRequestPayment sets who pays for requests.
func (s *Service) PutBucketRequestPayment(ctx context.Context, in *awss3.PutBucketRequestPaymentInput) (*awss3.PutBucketRequestPaymentOutput, error) {
	payer := in.RequestPaymentConfiguration.Payer
	if payer != s3types.PayerBucketOwner && payer != s3types.PayerRequester {
		return nil, errMalformedXML()
	}
	return &awss3.PutBucketRequestPaymentOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.Payer = string(payer)
		return nil
	})
}

// GetBucketRequestPayment returns who pays for requests.
func (s *Service) GetBucketRequestPayment(ctx context.Context, in *awss3.GetBucketRequestPaymentInput) (*awss3.GetBucketRequestPaymentOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	return &awss3.GetBucketRequestPaymentOutput{Payer: cmp.Or(s3types.Payer(b.Payer), s3types.PayerBucketOwner)}, nil
}

// The configurations below cannot be set. These operations respond as AWS does for buckets without them.

// GetBucketReplication answers that a bucket is not replicated.
func (s *Service) GetBucketReplication(ctx context.Context, in *awss3.GetBucketReplicationInput) (*awss3.GetBucketReplicationOutput, error) {
	if _, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner); err != nil {
		return nil, err
	}
	return nil, notFound("ReplicationConfigurationNotFoundError", "The replication configuration was not found").With("BucketName", *in.Bucket)
}

// GetBucketNotificationConfiguration answers that a bucket sends no notifications.
func (s *Service) GetBucketNotificationConfiguration(ctx context.Context, in *awss3.GetBucketNotificationConfigurationInput) (*awss3.GetBucketNotificationConfigurationOutput, error) {
	if _, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner); err != nil {
		return nil, err
	}
	return &awss3.GetBucketNotificationConfigurationOutput{}, nil
}
