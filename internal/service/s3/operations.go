package s3

import (
	"github.com/drydock-dev/drydock/internal/awsapi"
)

// Members that several operations have.
const (
	lockMembers      = "ObjectLockLegalHoldStatus ObjectLockMode ObjectLockRetainUntilDate "
	attributeMembers = lockMembers + "CacheControl ContentDisposition ContentEncoding ContentLanguage ContentType Expires Metadata StorageClass Tagging WebsiteRedirectLocation " +
		aclMembers + "BucketKeyEnabled ServerSideEncryption SSEKMSKeyId "
	aclMembers      = "ACL GrantFullControl GrantRead GrantReadACP GrantWriteACP "
	checksumMembers = "ChecksumCRC32 ChecksumCRC32C ChecksumCRC64NVME ChecksumMD5 ChecksumSHA1 ChecksumSHA256 ChecksumSHA512 "
	readMembers     = "Bucket Key VersionId ExpectedBucketOwner RequestPayer ChecksumMode IfMatch IfModifiedSince IfNoneMatch IfUnmodifiedSince PartNumber Range " +
		"ResponseCacheControl ResponseContentDisposition ResponseContentEncoding ResponseContentLanguage ResponseContentType ResponseExpires"
	sourceMembers = "CopySource CopySourceIfMatch CopySourceIfModifiedSince CopySourceIfNoneMatch CopySourceIfUnmodifiedSince ExpectedSourceBucketOwner "
	ofBucket      = "Bucket ExpectedBucketOwner "
	ofObject      = "Bucket Key ExpectedBucketOwner RequestPayer "
	digests       = "ChecksumAlgorithm ContentMD5 "

	exceptEncryption = "ServerSideEncryption other than AES256 and aws:kms"
)

// AWS returns the service's registration with the AWS API server.
func (s *Service) AWS() awsapi.Service {
	data := func(name, members string) awsapi.Operation {
		return awsapi.Operation{Name: name, Members: members, DataEvent: true}
	}
	except := func(o awsapi.Operation, what string) awsapi.Operation {
		o.Except = what
		return o
	}
	read := func(o awsapi.Operation) awsapi.Operation {
		o.ReadOnly = true
		return o
	}
	return awsapi.Service{
		Name:          "s3",
		Handler:       s,
		Authorization: authorization,
		Anonymous: func(bucket string) (account, region string, ok bool) {
			b, err := s.lookup(s.store, "", "", bucket)
			return b.key.Account, b.key.Region, err == nil
		},
		Operations: []awsapi.Operation{
			{Name: "CreateBucket", Members: aclMembers + "GrantWrite Bucket CreateBucketConfiguration.LocationConstraint CreateBucketConfiguration.Tags ObjectLockEnabledForBucket ObjectOwnership"},
			read(awsapi.Operation{Name: "HeadBucket", Members: ofBucket}),
			{Name: "ListBuckets", Members: "BucketRegion ContinuationToken MaxBuckets Prefix"},
			{Name: "GetBucketLocation", Members: ofBucket},
			{Name: "DeleteBucket", Members: ofBucket},

			except(data("PutObject", ofObject+attributeMembers+checksumMembers+digests+"Body ContentLength IfMatch IfNoneMatch"), exceptEncryption),
			read(data("GetObject", readMembers)),
			read(data("HeadObject", readMembers)),
			except(data("CopyObject", ofObject+attributeMembers+sourceMembers+"ChecksumAlgorithm IfMatch IfNoneMatch MetadataDirective TaggingDirective"), exceptEncryption),
			data("DeleteObject", ofObject+"VersionId IfMatch BypassGovernanceRetention"),
			{Name: "DeleteObjects", Members: ofBucket + "ChecksumAlgorithm RequestPayer BypassGovernanceRetention Delete.Quiet Delete.Objects.Key Delete.Objects.VersionId Delete.Objects.ETag", DataEvent: true, Exempt: true},
			read(data("GetObjectAttributes", ofObject+"ObjectAttributes VersionId")),
			read(data("ListObjectsV2", ofBucket+"ContinuationToken Delimiter EncodingType FetchOwner MaxKeys OptionalObjectAttributes Prefix RequestPayer StartAfter")),
			read(data("ListObjects", ofBucket+"Delimiter EncodingType Marker MaxKeys OptionalObjectAttributes Prefix RequestPayer")),
			read(data("ListObjectVersions", ofBucket+"Delimiter EncodingType KeyMarker MaxKeys OptionalObjectAttributes Prefix RequestPayer VersionIdMarker")),

			except(data("CreateMultipartUpload", ofObject+attributeMembers+"ChecksumAlgorithm ChecksumType"), exceptEncryption),
			data("UploadPart", ofObject+checksumMembers+digests+"Body ContentLength PartNumber UploadId"),
			data("UploadPartCopy", ofObject+sourceMembers+"CopySourceRange PartNumber UploadId"),
			data("CompleteMultipartUpload", ofObject+checksumMembers+"ChecksumType IfMatch IfNoneMatch MpuObjectSize MultipartUpload UploadId"),
			data("AbortMultipartUpload", ofObject+"UploadId"),
			read(data("ListParts", ofObject+"MaxParts PartNumberMarker UploadId")),
			read(data("ListMultipartUploads", ofBucket+"Delimiter EncodingType KeyMarker MaxUploads Prefix RequestPayer UploadIdMarker")),

			{Name: "PutBucketPolicy", Members: ofBucket + digests + "ConfirmRemoveSelfBucketAccess Policy"},
			{Name: "GetBucketPolicy", Members: ofBucket},
			{Name: "GetBucketPolicyStatus", Members: ofBucket},
			{Name: "DeleteBucketPolicy", Members: ofBucket},
			{Name: "PutPublicAccessBlock", Members: ofBucket + digests + "PublicAccessBlockConfiguration"},
			{Name: "GetPublicAccessBlock", Members: ofBucket},
			{Name: "DeletePublicAccessBlock", Members: ofBucket},
			{Name: "PutBucketOwnershipControls", Members: ofBucket + digests + "OwnershipControls"},
			{Name: "GetBucketOwnershipControls", Members: ofBucket},
			{Name: "DeleteBucketOwnershipControls", Members: ofBucket},
			{Name: "PutBucketAcl", Members: ofBucket + digests + aclMembers + "GrantWrite AccessControlPolicy"},
			{Name: "GetBucketAcl", Members: ofBucket},
			data("PutObjectAcl", ofObject+digests+aclMembers+"GrantWrite AccessControlPolicy VersionId"),
			read(data("GetObjectAcl", ofObject+"VersionId")),

			{Name: "PutBucketVersioning", Members: ofBucket + digests + "VersioningConfiguration", Except: "MFADelete Enabled"},
			{Name: "GetBucketVersioning", Members: ofBucket},
			{Name: "PutBucketTagging", Members: ofBucket + digests + "Tagging"},
			{Name: "GetBucketTagging", Members: ofBucket},
			{Name: "DeleteBucketTagging", Members: ofBucket},
			data("PutObjectTagging", ofObject+digests+"Tagging VersionId"),
			read(data("GetObjectTagging", ofObject+"VersionId")),
			data("DeleteObjectTagging", "Bucket Key ExpectedBucketOwner VersionId"),
			{Name: "PutBucketLifecycleConfiguration", Members: ofBucket + "ChecksumAlgorithm LifecycleConfiguration TransitionDefaultMinimumObjectSize"},
			{Name: "GetBucketLifecycleConfiguration", Members: ofBucket},
			{Name: "DeleteBucketLifecycle", Members: ofBucket},
			{Name: "PutBucketEncryption", Members: ofBucket + digests + "ServerSideEncryptionConfiguration"},
			{Name: "GetBucketEncryption", Members: ofBucket},
			{Name: "DeleteBucketEncryption", Members: ofBucket},
			{Name: "PutBucketCors", Members: ofBucket + digests + "CORSConfiguration"},
			{Name: "GetBucketCors", Members: ofBucket},
			{Name: "DeleteBucketCors", Members: ofBucket},
			{Name: "PutBucketWebsite", Members: ofBucket + digests + "WebsiteConfiguration"},
			{Name: "GetBucketWebsite", Members: ofBucket},
			{Name: "DeleteBucketWebsite", Members: ofBucket},
			{Name: "PutBucketLogging", Members: ofBucket + digests + "BucketLoggingStatus"},
			{Name: "GetBucketLogging", Members: ofBucket},
			{Name: "PutBucketAccelerateConfiguration", Members: ofBucket + "AccelerateConfiguration ChecksumAlgorithm"},
			{Name: "GetBucketAccelerateConfiguration", Members: ofBucket + "RequestPayer"},
			{Name: "PutBucketRequestPayment", Members: ofBucket + digests + "RequestPaymentConfiguration"},
			{Name: "GetBucketRequestPayment", Members: ofBucket},
			{Name: "GetBucketReplication", Members: ofBucket},
			{Name: "PutObjectLockConfiguration", Members: ofBucket + digests + "ObjectLockConfiguration RequestPayer Token"},
			{Name: "GetObjectLockConfiguration", Members: ofBucket},
			data("PutObjectRetention", ofObject+digests+"BypassGovernanceRetention Retention VersionId"),
			read(data("GetObjectRetention", ofObject+"VersionId")),
			data("PutObjectLegalHold", ofObject+digests+"LegalHold VersionId"),
			read(data("GetObjectLegalHold", ofObject+"VersionId")),
			{Name: "GetBucketNotificationConfiguration", Members: ofBucket},
		},
		Refused: []awsapi.Refusal{
			{Operations: "PutBucketReplication DeleteBucketReplication", Why: "buckets are not replicated"},
			{Operations: "PutBucketNotificationConfiguration", Why: "buckets send no notifications"},
			{Operations: "RestoreObject SelectObjectContent GetObjectTorrent", Why: "there are no archives and no queries on objects"},
		},
	}
}
