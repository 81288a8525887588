package s3

import (
	"net/http"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Unless another source is given, codes, statuses and texts are those of
// https://docs.aws.amazon.com/AmazonS3/latest/API/ErrorResponses.html and those that LocalStack's tests recorded from AWS
// (https://github.com/localstack/localstack, tests/aws/services/s3/*.snapshot.json).

func failure(status int, code, message string) *awserr.Error {
	return awserr.New(code, message).WithStatus(status)
}

func notFound(code, message string) *awserr.Error { return failure(http.StatusNotFound, code, message) }

func conflict(code, message string) *awserr.Error { return failure(http.StatusConflict, code, message) }

func invalid(code, message string) *awserr.Error {
	return failure(http.StatusBadRequest, code, message)
}

func errNoBucket(name string) *awserr.Error {
	return notFound("NoSuchBucket", "The specified bucket does not exist").With("BucketName", name)
}

func errBucketName(name string) *awserr.Error {
	return invalid("InvalidBucketName", "The specified bucket is not valid.").With("BucketName", name)
}

func errBucketExists(name string) *awserr.Error {
	return conflict("BucketAlreadyExists", "The requested bucket name is not available. The bucket namespace is shared by all users of the system. "+
		"Please select a different name and try again.").With("BucketName", name)
}

func errBucketYours(name string) *awserr.Error {
	return conflict("BucketAlreadyOwnedByYou", "Your previous request to create the named bucket succeeded and you already own it.").With("BucketName", name)
}

func errBucketNotEmpty(name string, versioned bool) *awserr.Error {
	text := "The bucket you tried to delete is not empty"
	if versioned {
		text += ". You must delete all versions in the bucket."
	}
	return conflict("BucketNotEmpty", text).With("BucketName", name)
}

func errLocation(constraint string) *awserr.Error {
	if constraint == "" {
		constraint = "unspecified"
	}
	return invalid("IllegalLocationConstraintException", "The "+constraint+" location constraint is incompatible for the region specific endpoint this request was sent to.")
}

func errBadLocation(constraint string) *awserr.Error {
	return invalid("InvalidLocationConstraint", "The specified location-constraint is not valid").With("LocationConstraint", constraint)
}

// errRegion is the error for a request that was signed for a region other than the bucket's. SDKs that do not know the
// bucket's region find it here.
func errRegion(signed, region string) *awserr.Error {
	return invalid("AuthorizationHeaderMalformed", "The authorization header is malformed; the region '"+signed+"' is wrong; expecting '"+region+"'").
		With("Region", region).WithHeader("X-Amz-Bucket-Region", region)
}

func errAccessDenied() *awserr.Error {
	return failure(http.StatusForbidden, "AccessDenied", "Access Denied")
}

func errNoKey(key string) *awserr.Error {
	return notFound("NoSuchKey", "The specified key does not exist.").With("Key", key)
}

func errNoVersion(key, version string) *awserr.Error {
	return notFound("NoSuchVersion", "The specified version does not exist.").With("Key", key).With("VersionId", version)
}

func errBadVersion(version string) *awserr.Error {
	return invalid("InvalidArgument", "Invalid version id specified").With("ArgumentName", "versionId").With("ArgumentValue", version)
}

// errMarker is the error for reading a delete marker by its version ID, and for its tags.
func errMarker(o *objectRecord, method string) *awserr.Error {
	return failure(http.StatusMethodNotAllowed, "MethodNotAllowed", "The specified method is not allowed against this resource.").
		With("Method", method).With("ResourceType", "DeleteMarker").
		WithHeader("X-Amz-Delete-Marker", "true").WithHeader("X-Amz-Version-Id", o.Version).WithHeader("Allow", "DELETE").
		WithHeader("Last-Modified", o.Modified.Format(http.TimeFormat))
}

func errKeyTooLong(n int) *awserr.Error {
	return invalid("KeyTooLongError", "Your key is too long").With("MaxSizeAllowed", strconv.Itoa(maxKey)).With("Size", strconv.Itoa(n))
}

func errArgument(name, value, message string) *awserr.Error {
	return invalid("InvalidArgument", message).With("ArgumentName", name).With("ArgumentValue", value)
}

func errPrecondition(condition string) *awserr.Error {
	return failure(http.StatusPreconditionFailed, "PreconditionFailed", "At least one of the pre-conditions you specified did not hold").With("Condition", condition)
}

func errHeader(name, why string) *awserr.Error {
	return failure(http.StatusNotImplemented, "NotImplemented", "A header you provided implies functionality that is not implemented").
		With("Header", name).With("additionalMessage", why)
}

func errNotModified(o *objectRecord) *awserr.Error {
	return failure(http.StatusNotModified, "NotModified", "Not Modified").
		WithHeader("Etag", `"`+o.ETag+`"`).WithHeader("Last-Modified", o.Modified.Format(http.TimeFormat))
}

func errRange(asked string, size int64) *awserr.Error {
	return failure(http.StatusRequestedRangeNotSatisfiable, "InvalidRange", "The requested range is not satisfiable").
		With("RangeRequested", asked).With("ActualObjectSize", strconv.FormatInt(size, 10))
}

func errPartRange(asked int32, count int) *awserr.Error {
	return failure(http.StatusRequestedRangeNotSatisfiable, "InvalidPartNumber", "The requested partnumber is not satisfiable").
		With("PartNumberRequested", strconv.Itoa(int(asked))).With("ActualPartCount", strconv.Itoa(count))
}

func errIncomplete() *awserr.Error {
	return invalid("IncompleteBody", "The request body terminated unexpectedly")
}

func errTooLarge(size int64) *awserr.Error {
	return invalid("EntityTooLarge", "Your proposed upload exceeds the maximum allowed size").
		With("ProposedSize", strconv.FormatInt(size, 10)).With("MaxSizeAllowed", strconv.FormatInt(maxPut, 10))
}

// errFull is specific to Drydock: AWS has no such limit.
func errFull() *awserr.Error {
	return failure(http.StatusInsufficientStorage, "InsufficientStorage", "What this account stores has taken all the room that Drydock gives an account. Delete objects or images.")
}

func errDigest() *awserr.Error {
	return invalid("BadDigest", "The Content-MD5 you specified did not match what we received.")
}

func errInvalidDigest(md5 string) *awserr.Error {
	return invalid("InvalidDigest", "The Content-MD5 you specified was invalid.").With("Content-MD5", md5)
}

func errChecksum(algorithm string) *awserr.Error {
	return invalid("BadDigest", "The "+algorithm+" you specified did not match the calculated checksum.")
}

func errChecksumCount() *awserr.Error {
	return invalid("InvalidRequest", "Expecting a single x-amz-checksum- header. Multiple checksum Types are not allowed.")
}

func errChecksumValue(algorithm string) *awserr.Error {
	return invalid("InvalidRequest", "Value for x-amz-checksum-"+strings.ToLower(algorithm)+" header is invalid.")
}

func errMetadataTooLarge(size int) *awserr.Error {
	return invalid("MetadataTooLarge", "Your metadata headers exceed the maximum allowed metadata size").
		With("Size", strconv.Itoa(size)).With("MaxSizeAllowed", strconv.Itoa(maxMetadata))
}

func errSelfCopy() *awserr.Error {
	return invalid("InvalidRequest", "This copy request is illegal because it is trying to copy an object to itself without changing the object's metadata, "+
		"storage class, website redirect location or encryption attributes.")
}

func errCopySource() *awserr.Error {
	return invalid("InvalidArgument", "Copy Source must mention the source bucket and key: sourcebucket/sourcekey").
		With("ArgumentName", "x-amz-copy-source").With("ArgumentValue", "x-amz-copy-source")
}

func errCopyTooLarge() *awserr.Error {
	return invalid("InvalidRequest", "The specified copy source is larger than the maximum allowable size for a copy source: 5368709120")
}

func errNoUpload(id string) *awserr.Error {
	return notFound("NoSuchUpload", "The specified upload does not exist. The upload ID may be invalid, or the upload may have been aborted or completed.").With("UploadId", id)
}

func errPartNumber(n int32) *awserr.Error {
	return errArgument("partNumber", strconv.Itoa(int(n)), "Part number must be an integer between 1 and 10000, inclusive")
}

func errInvalidPart(number int32, etag, upload string) *awserr.Error {
	return invalid("InvalidPart", "One or more of the specified parts could not be found.  The part may not have been uploaded, or the specified entity tag may not match the part's entity tag.").
		With("ETag", etag).With("PartNumber", strconv.Itoa(int(number))).With("UploadId", upload)
}

func errPartOrder(upload string) *awserr.Error {
	return invalid("InvalidPartOrder", "The list of parts was not in ascending order. Parts must be ordered by part number.").With("UploadId", upload)
}

func errTooSmall(number int32, etag string, size int64) *awserr.Error {
	return invalid("EntityTooSmall", "Your proposed upload is smaller than the minimum allowed size").
		With("ETag", etag).With("MinSizeAllowed", strconv.Itoa(minPart)).With("PartNumber", strconv.Itoa(int(number))).With("ProposedSize", strconv.FormatInt(size, 10))
}

func errMalformedXML() *awserr.Error {
	return invalid("MalformedXML", "The XML you provided was not well-formed or did not validate against our published schema")
}

func errUploadSize() *awserr.Error {
	return invalid("InvalidRequest", "The provided 'x-amz-mp-object-size' header does not match what was computed.")
}

func errACL() *awserr.Error {
	return invalid("AccessControlListNotSupported", "The bucket does not allow ACLs")
}

func errACLWithOwnership() *awserr.Error {
	return invalid("InvalidBucketAclWithObjectOwnership", "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting")
}

func errMalformedACL() *awserr.Error {
	return invalid("MalformedACLError", "The XML you provided was not well-formed or did not validate against our published schema")
}

// errBypass answers requests to bypass Object Lock in a bucket that does not have it ([recorded] test_s3_api, test_delete_object_with_no_locking).
func errBypass() *awserr.Error {
	return invalid("InvalidArgument", "x-amz-bypass-governance-retention is only applicable to Object Lock enabled buckets.").
		With("ArgumentName", "x-amz-bypass-governance-retention")
}

func errTag(message string) *awserr.Error { return invalid("InvalidTag", message) }

func errMalformedPolicy(message string) *awserr.Error { return invalid("MalformedPolicy", message) }
