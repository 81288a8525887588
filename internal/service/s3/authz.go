package s3

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// The resource types of the authorization reference.
const (
	bucketType = "bucket"
	objectType = "object"
)

// Authz provides package authz with the owners and policies of buckets.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// HoldsPolicies implements authz.PolicyHolder: bucket policies apply even to the account's root.
func (resolver) HoldsPolicies() {}

// toOthers is the policy that RestrictPublicBuckets adds to a public one: "any denial resulting from the
// RestrictPublicBuckets setting is explicit".
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/troubleshoot-403-errors.html#access-denied-bpa
var toOthers = &policy.Document{Version: policy.Version2012, Statements: []policy.Statement{
	{Deny: true, Principals: &policy.Principals{All: true}, Actions: []string{"s3:*"}, Resources: []string{"*"}},
}}

// versionID returns the ID of a version of an object for Resource. A name of a bucket has no colon.
func versionID(version, id string) string {
	if version == "" || !validVersion(version) {
		return id // the handler refuses a version that S3 has not made
	}
	return version + ":" + id
}

// Resource implements authz.Resolver. A bucket is identified by its name or ARN, an object by BUCKET/KEY, and a version
// of an object by VERSION:BUCKET/KEY.
func (r resolver) Resource(ctx context.Context, account, region, _, id string) (authz.Resource, bool) {
	version, object, ok := strings.Cut(id, ":")
	if ok && validVersion(version) {
		id = object
	} else {
		version = ""
	}
	id = strings.TrimPrefix(id, "arn:aws:s3:::")
	name, key, _ := strings.Cut(id, "/")
	b, err := r.s.lookup(r.s.store, account, region, name)
	if err != nil {
		return authz.Resource{ARN: bucketARN(id)}, false
	}
	out := authz.Resource{ARN: bucketARN(id), Account: b.key.Account, Keys: map[string][]string{"s3:resourceaccount": {b.key.Account}}}
	add := func(what string, doc *policy.Document) {
		out.AccountPolicies = append(out.AccountPolicies, policy.Source{Name: what + " of " + b.arn(), Document: doc})
	}
	call := awsapi.CallFrom(ctx)
	if b.Policy != "" {
		add("bucket policy", r.s.docs.Get(b.Policy))
		if p := b.PublicAccess; p != nil && aws.ToBool(p.RestrictPublicBuckets) && call.Account != b.key.Account && call.Principal.Type != awsapi.AWSService && public(b.Policy) {
			add("RestrictPublicBuckets", toOthers)
		}
	}
	if granted := r.s.allowed(call, &b, key, version); len(granted) > 0 {
		add("ACLs", &policy.Document{Version: policy.Version2012, Statements: granted})
	}
	return out, true
}

// versionActions maps operations to their actions on a specific version, where these differ from those on the current
// version.
var versionActions = map[string]string{
	"GetObject": "GetObjectVersion", "HeadObject": "GetObjectVersion", "DeleteObject": "DeleteObjectVersion",
	"GetObjectTagging": "GetObjectVersionTagging", "PutObjectTagging": "PutObjectVersionTagging", "DeleteObjectTagging": "DeleteObjectVersionTagging",
	"GetObjectAcl": "GetObjectVersionAcl", "PutObjectAcl": "PutObjectVersionAcl", "GetObjectAttributes": "GetObjectVersionAttributes",
}

// Targets implements authz.Targeter. Every operation concerns a bucket or an object, except ListBuckets.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	name, _ := authz.Named(in, "Bucket")
	key, ofObject := authz.Named(in, "Key")
	if name == "" {
		return nil, false
	}
	t := authz.Target{Type: bucketType, ID: name, Keys: keysOf(call, in)}
	if ofObject {
		t.Type, t.ID = objectType, name+"/"+key
		r.addTags(t.Keys, call, name, key)
	}
	version, _ := authz.Named(in, "VersionId")
	if a := versionActions[call.Operation]; a != "" && version != "" {
		t.Action, t.ID, t.Keys["s3:versionid"] = "s3:"+a, versionID(version, t.ID), []string{version}
	}
	out := []authz.Target{t}
	also := func(action string, needed bool) {
		if needed {
			out = append(out, authz.Target{Action: action, Type: t.Type, ID: t.ID, New: out[0].New, Keys: t.Keys})
		}
	}
	// https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html#using-with-s3-policy-actions-related-to-objects
	object := func(acl s3types.ObjectCannedACL, tagging *string, grants ...*string) {
		also("s3:PutObjectAcl", acl != "" || given(grants))
		also("s3:PutObjectTagging", tagging != nil)
	}
	source := func(text *string) {
		from, key, version, ok := parseCopySource(text)
		if !ok {
			return // the handler refuses it
		}
		t := authz.Target{Action: "s3:GetObject", Type: objectType, ID: from + "/" + key, Keys: keysOf(call, nil)}
		if version != nil {
			t.Action, t.ID = "s3:GetObjectVersion", versionID(*version, t.ID)
		}
		r.addTags(t.Keys, call, from, key)
		out = append(out, t)
	}
	switch in := in.(type) {
	case *awss3.CreateBucketInput:
		// Another account may own a bucket of that name. The policy of that bucket does not apply.
		t.ID = bucketARN(name)
		out[0].ID, out[0].New = t.ID, true
		t.Keys["s3:resourceaccount"] = []string{call.Account}
		// https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html
		also("s3:PutBucketAcl", in.ACL != "" && in.ACL != s3types.BucketCannedACLPrivate || given([]*string{in.GrantFullControl, in.GrantRead, in.GrantReadACP, in.GrantWrite, in.GrantWriteACP}))
		also("s3:PutBucketOwnershipControls", in.ObjectOwnership != "")
	case *awss3.CopyObjectInput:
		source(in.CopySource)
		object(in.ACL, in.Tagging, in.GrantFullControl, in.GrantRead, in.GrantReadACP, in.GrantWriteACP)
	case *awss3.UploadPartCopyInput:
		source(in.CopySource)
	case *awss3.PutObjectInput:
		object(in.ACL, in.Tagging, in.GrantFullControl, in.GrantRead, in.GrantReadACP, in.GrantWriteACP)
	case *awss3.CreateMultipartUploadInput:
		object(in.ACL, in.Tagging, in.GrantFullControl, in.GrantRead, in.GrantReadACP, in.GrantWriteACP)
	case *awss3.GetObjectAttributesInput:
		also("s3:GetObjectVersion", version != "")
		also("s3:GetObject", version == "")
	}
	lockTargets(in, also)
	return out, true
}

// given reports whether a request has one of its members.
func given(members []*string) bool {
	return slices.ContainsFunc(members, func(m *string) bool { return m != nil })
}

// The condition keys whose names end in the key of a tag.
const (
	existingTag = "s3:existingobjecttag/<key>"
	requestTag  = "s3:requestobjecttag/<key>"
)

func setTags(keys map[string][]string, tags map[string]string, key string) {
	authz.SetTags(keys, tags, strings.TrimSuffix(key, "<key>"))
}

// addTags adds condition keys for the tags of an object.
func (r resolver) addTags(keys map[string][]string, call *awsapi.Call, name, key string) {
	b, err := r.s.lookup(r.s.store, call.Account, call.Region, name)
	if err != nil {
		return
	}
	if o, err := b.current(r.s.store, key); err == nil && o != nil {
		setTags(keys, o.Tags, existingTag)
	}
}

// deletion returns the targets for deleting one of several objects.
func deletion(call *awsapi.Call, bucket, key string, version *string, bypass bool) []authz.Target {
	t := authz.Target{Action: "s3:DeleteObject", Type: objectType, ID: bucket + "/" + key, Keys: keysOf(call, nil)}
	if version != nil {
		t.Action, t.Keys["s3:versionid"] = "s3:DeleteObjectVersion", []string{*version}
	}
	if bypass {
		return []authz.Target{t, {Action: "s3:BypassGovernanceRetention", Type: t.Type, ID: t.ID, Keys: t.Keys}}
	}
	return []authz.Target{t}
}

// members maps condition keys to the members of requests that hold their values.
var members = map[string]string{
	"s3:prefix": "Prefix", "s3:delimiter": "Delimiter", "s3:max-keys": "MaxKeys", "s3:x-amz-acl": "ACL", "s3:x-amz-storage-class": "StorageClass",
	"s3:x-amz-server-side-encryption": "ServerSideEncryption", "s3:x-amz-server-side-encryption-aws-kms-key-id": "SSEKMSKeyId",
	"s3:x-amz-server-side-encryption-customer-algorithm": "SSECustomerAlgorithm", "s3:x-amz-copy-source": "CopySource",
	"s3:x-amz-metadata-directive": "MetadataDirective", "s3:x-amz-website-redirect-location": "WebsiteRedirectLocation", "s3:x-amz-object-ownership": "ObjectOwnership",
	"s3:x-amz-grant-full-control": "GrantFullControl", "s3:x-amz-grant-read": "GrantRead", "s3:x-amz-grant-read-acp": "GrantReadACP",
	"s3:x-amz-grant-write": "GrantWrite", "s3:x-amz-grant-write-acp": "GrantWriteACP", "s3:if-match": "IfMatch", "s3:if-none-match": "IfNoneMatch",
	"s3:locationconstraint": "CreateBucketConfiguration.LocationConstraint", "s3:versionid": "VersionId",
}

// absent are the condition keys that no request has in Drydock.
var absent = []string{
	"s3:accessgrantsinstancearn", "s3:accesspointnetworkorigin", "s3:dataaccesspointaccount", "s3:dataaccesspointarn", "s3:x-amz-bucket-namespace",
}

// keysOf returns the condition keys of a request.
func keysOf(call *awsapi.Call, in any) map[string][]string {
	keys := map[string][]string{"s3:signatureversion": {"AWS4-HMAC-SHA256"}, "s3:objectcreationoperation": {"true"}, "s3:tlsversion": nil}
	if call.TLS {
		keys["s3:tlsversion"] = []string{"1.3"} // AWS deviation: 1.2 counts as 1.3
	}
	for key, member := range members {
		keys[key] = nil
		if v, _ := authz.Named(in, member); in != nil && v != "" {
			keys[key] = []string{v}
		}
	}
	for _, key := range absent {
		keys[key] = nil
	}
	lockKeys(keys, call.Time, in)
	// https://docs.aws.amazon.com/AmazonS3/latest/API/bucket-policy-s3-sigv4-conditions.html
	keys["s3:authtype"], keys["s3:signatureage"], keys["s3:x-amz-content-sha256"] = []string{"REST-HEADER"}, nil, nil
	switch sig := call.Signature; {
	case call.Principal.Type == awsapi.AnonymousCaller:
		keys["s3:authtype"], keys["s3:signatureversion"] = nil, nil
	case sig.Presigned:
		keys["s3:authtype"], keys["s3:x-amz-content-sha256"] = []string{"REST-QUERY-STRING"}, []string{cmp.Or(sig.Payload, "UNSIGNED-PAYLOAD")}
		keys["s3:signatureage"] = []string{strconv.FormatInt(max(0, call.Time.Sub(sig.At).Milliseconds()), 10)}
	case sig.Payload != "":
		keys["s3:x-amz-content-sha256"] = []string{sig.Payload}
	}
	var tags map[string]string
	if put, ok := in.(*awss3.PutObjectTaggingInput); ok && put.Tagging != nil {
		tags, _ = tagsOf(put.Tagging.TagSet, maxObjectTags, "") // the handler reports the error
	} else if text, _ := authz.Named(in, "Tagging"); text != "" {
		tags, _ = parseTagging(&text)
	}
	keys["s3:requestobjecttagkeys"] = slices.Sorted(maps.Keys(tags))
	setTags(keys, tags, requestTag)
	return keys
}

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Actions: map[string]string{
		// https://docs.aws.amazon.com/AmazonS3/latest/userguide/using-with-s3-policy-actions.html
		"ListObjects":                        "ListBucket",
		"ListObjectsV2":                      "ListBucket",
		"HeadBucket":                         "ListBucket",
		"HeadObject":                         "GetObject",
		"CopyObject":                         "PutObject",
		"CreateMultipartUpload":              "PutObject",
		"UploadPart":                         "PutObject",
		"CompleteMultipartUpload":            "PutObject",
		"ListBuckets":                        "ListAllMyBuckets",
		"DeleteObjects":                      "DeleteObject",
		"UploadPartCopy":                     "PutObject",
		"ListParts":                          "ListMultipartUploadParts",
		"ListMultipartUploads":               "ListBucketMultipartUploads",
		"ListObjectVersions":                 "ListBucketVersions",
		"GetBucketAccelerateConfiguration":   "GetAccelerateConfiguration",
		"PutBucketAccelerateConfiguration":   "PutAccelerateConfiguration",
		"GetBucketCors":                      "GetBucketCORS",
		"PutBucketCors":                      "PutBucketCORS",
		"DeleteBucketCors":                   "PutBucketCORS",
		"GetBucketEncryption":                "GetEncryptionConfiguration",
		"PutBucketEncryption":                "PutEncryptionConfiguration",
		"DeleteBucketEncryption":             "PutEncryptionConfiguration",
		"GetBucketLifecycleConfiguration":    "GetLifecycleConfiguration",
		"PutBucketLifecycleConfiguration":    "PutLifecycleConfiguration",
		"DeleteBucketLifecycle":              "PutLifecycleConfiguration",
		"GetBucketNotificationConfiguration": "GetBucketNotification",
		"GetBucketReplication":               "GetReplicationConfiguration",
		"GetObjectLockConfiguration":         "GetBucketObjectLockConfiguration",
		"PutObjectLockConfiguration":         "PutBucketObjectLockConfiguration",
		"GetPublicAccessBlock":               "GetBucketPublicAccessBlock",
		"PutPublicAccessBlock":               "PutBucketPublicAccessBlock",
		"DeletePublicAccessBlock":            "PutBucketPublicAccessBlock",
		"DeleteBucketTagging":                "PutBucketTagging",
		"DeleteBucketOwnershipControls":      "PutBucketOwnershipControls",
	},
	Members: map[string]string{
		"BucketName": "Bucket",
		"ObjectName": "Key",
	},
	StoredKeys: `accessgrantsinstancearn accesspointnetworkorigin authtype dataaccesspointaccount dataaccesspointarn delimiter
		existingobjecttag/<key> if-match if-none-match locationconstraint max-keys object-lock-legal-hold object-lock-mode
		object-lock-remaining-retention-days object-lock-retain-until-date objectcreationoperation prefix requestobjecttag/<key>
		requestobjecttagkeys resourceaccount signatureage signatureversion tlsversion versionid x-amz-acl x-amz-bucket-namespace x-amz-content-sha256
		x-amz-copy-source x-amz-grant-full-control x-amz-grant-read x-amz-grant-read-acp x-amz-grant-write x-amz-grant-write-acp
		x-amz-metadata-directive x-amz-object-ownership x-amz-server-side-encryption x-amz-server-side-encryption-aws-kms-key-id
		x-amz-server-side-encryption-customer-algorithm x-amz-storage-class x-amz-website-redirect-location`,
	AbsentKeys: "accesspointtag/${tagkey} buckettag/${tagkey}",
}
