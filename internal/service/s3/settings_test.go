package s3_test

import (
	"net/http"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/service/s3"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// Terraform's aws_s3_bucket reads these settings, also from a bucket for which none of them was set.
func TestUnsetConfiguration(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	for name, tt := range map[string]struct {
		call func() (any, error)
		code string
	}{
		"policy": {func() (any, error) { return c.GetBucketPolicy(ctx, &awss3.GetBucketPolicyInput{Bucket: c.bucket}) }, "NoSuchBucketPolicy"},
		"policy status": {func() (any, error) {
			return c.GetBucketPolicyStatus(ctx, &awss3.GetBucketPolicyStatusInput{Bucket: c.bucket})
		}, "NoSuchBucketPolicy"},
		"tags":    {func() (any, error) { return c.GetBucketTagging(ctx, &awss3.GetBucketTaggingInput{Bucket: c.bucket}) }, "NoSuchTagSet"},
		"cors":    {func() (any, error) { return c.GetBucketCors(ctx, &awss3.GetBucketCorsInput{Bucket: c.bucket}) }, "NoSuchCORSConfiguration"},
		"website": {func() (any, error) { return c.GetBucketWebsite(ctx, &awss3.GetBucketWebsiteInput{Bucket: c.bucket}) }, "NoSuchWebsiteConfiguration"},
		"lifecycle": {func() (any, error) {
			return c.GetBucketLifecycleConfiguration(ctx, &awss3.GetBucketLifecycleConfigurationInput{Bucket: c.bucket})
		}, "NoSuchLifecycleConfiguration"},
		"replication": {func() (any, error) {
			return c.GetBucketReplication(ctx, &awss3.GetBucketReplicationInput{Bucket: c.bucket})
		}, "ReplicationConfigurationNotFoundError"},
		"object lock": {func() (any, error) {
			return c.GetObjectLockConfiguration(ctx, &awss3.GetObjectLockConfigurationInput{Bucket: c.bucket})
		}, "ObjectLockConfigurationNotFoundError"},
		"versioning": {func() (any, error) {
			return c.GetBucketVersioning(ctx, &awss3.GetBucketVersioningInput{Bucket: c.bucket})
		}, ""},
		"logging": {func() (any, error) { return c.GetBucketLogging(ctx, &awss3.GetBucketLoggingInput{Bucket: c.bucket}) }, ""},
		"acceleration": {func() (any, error) {
			return c.GetBucketAccelerateConfiguration(ctx, &awss3.GetBucketAccelerateConfigurationInput{Bucket: c.bucket})
		}, ""},
		"notification": {func() (any, error) {
			return c.GetBucketNotificationConfiguration(ctx, &awss3.GetBucketNotificationConfigurationInput{Bucket: c.bucket})
		}, ""},
	} {
		_, err := tt.call()
		if tt.code != "" {
			wantError(t, err, tt.code, "")
			if status(err) != http.StatusNotFound {
				t.Errorf("%s: status %d", name, status(err))
			}
		} else if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got := testkit.Must(c.GetBucketRequestPayment(ctx, &awss3.GetBucketRequestPaymentInput{Bucket: c.bucket}))(t); got.Payer != "BucketOwner" {
		t.Errorf("payer %s", got.Payer)
	}
	if got := testkit.Must(c.GetBucketEncryption(ctx, &awss3.GetBucketEncryptionInput{Bucket: c.bucket}))(t); got.ServerSideEncryptionConfiguration.Rules[0].ApplyServerSideEncryptionByDefault.SSEAlgorithm != "AES256" {
		t.Errorf("encryption %+v", got)
	}
	if got := testkit.Must(c.GetPublicAccessBlock(ctx, &awss3.GetPublicAccessBlockInput{Bucket: c.bucket}))(t); !*got.PublicAccessBlockConfiguration.BlockPublicPolicy {
		t.Errorf("public access block %+v", got)
	}
	if got := testkit.Must(c.GetBucketOwnershipControls(ctx, &awss3.GetBucketOwnershipControlsInput{Bucket: c.bucket}))(t); got.OwnershipControls.Rules[0].ObjectOwnership != "BucketOwnerEnforced" {
		t.Errorf("ownership %+v", got)
	}
	if got := testkit.Must(c.GetBucketAcl(ctx, &awss3.GetBucketAclInput{Bucket: c.bucket}))(t); len(got.Grants) != 1 || got.Grants[0].Permission != "FULL_CONTROL" || *got.Owner.ID != *got.Grants[0].Grantee.ID {
		t.Errorf("ACL %+v", got)
	}
	_, err := c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, ACL: "private"})
	wantError(t, err, "AccessControlListNotSupported", "The bucket does not allow ACLs")
}

// Settings are returned after they were set, and no longer after they were deleted.
func TestSettings(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	tags := &s3types.Tagging{TagSet: []s3types.Tag{{Key: aws.String("a"), Value: aws.String("1")}, {Key: aws.String("b"), Value: aws.String("2")}}}
	diff := func(what string, want, got any) {
		t.Helper()
		if d := cmp.Diff(want, got, cmp.Exporter(func(reflect.Type) bool { return true })); d != "" {
			t.Errorf("%s (-want +got):\n%s", what, d)
		}
	}
	testkit.Must(c.PutBucketTagging(ctx, &awss3.PutBucketTaggingInput{Bucket: c.bucket, Tagging: tags}))(t)
	diff("tags", tags.TagSet, testkit.Must(c.GetBucketTagging(ctx, &awss3.GetBucketTaggingInput{Bucket: c.bucket}))(t).TagSet)
	testkit.Must(c.DeleteBucketTagging(ctx, &awss3.DeleteBucketTaggingInput{Bucket: c.bucket}))(t)
	_, err := c.GetBucketTagging(ctx, &awss3.GetBucketTaggingInput{Bucket: c.bucket})
	wantError(t, err, "NoSuchTagSet", "The TagSet does not exist")

	// MFA delete is returned if it was ever set.
	testkit.Must(c.PutBucketVersioning(ctx, &awss3.PutBucketVersioningInput{Bucket: c.bucket, VersioningConfiguration: &s3types.VersioningConfiguration{Status: "Enabled", MFADelete: "Disabled"}}))(t)
	testkit.Must(c.PutBucketVersioning(ctx, &awss3.PutBucketVersioningInput{Bucket: c.bucket, VersioningConfiguration: &s3types.VersioningConfiguration{Status: "Suspended"}}))(t)
	if got := testkit.Must(c.GetBucketVersioning(ctx, &awss3.GetBucketVersioningInput{Bucket: c.bucket}))(t); got.Status != "Suspended" || got.MFADelete != "Disabled" {
		t.Errorf("versioning %s, MFA delete %q", got.Status, got.MFADelete)
	}

	rules := []s3types.CORSRule{{AllowedMethods: []string{"GET"}, AllowedOrigins: []string{"*"}, MaxAgeSeconds: aws.Int32(30)}}
	testkit.Must(c.PutBucketCors(ctx, &awss3.PutBucketCorsInput{Bucket: c.bucket, CORSConfiguration: &s3types.CORSConfiguration{CORSRules: rules}}))(t)
	diff("CORS", rules, testkit.Must(c.GetBucketCors(ctx, &awss3.GetBucketCorsInput{Bucket: c.bucket}))(t).CORSRules)

	encryption := &s3types.ServerSideEncryptionConfiguration{Rules: []s3types.ServerSideEncryptionRule{{
		ApplyServerSideEncryptionByDefault: &s3types.ServerSideEncryptionByDefault{SSEAlgorithm: "AES256"}, BucketKeyEnabled: aws.Bool(true),
	}}}
	testkit.Must(c.PutBucketEncryption(ctx, &awss3.PutBucketEncryptionInput{Bucket: c.bucket, ServerSideEncryptionConfiguration: encryption}))(t)
	diff("encryption", encryption, testkit.Must(c.GetBucketEncryption(ctx, &awss3.GetBucketEncryptionInput{Bucket: c.bucket}))(t).ServerSideEncryptionConfiguration)

	website := &s3types.WebsiteConfiguration{IndexDocument: &s3types.IndexDocument{Suffix: aws.String("index.html")}}
	testkit.Must(c.PutBucketWebsite(ctx, &awss3.PutBucketWebsiteInput{Bucket: c.bucket, WebsiteConfiguration: website}))(t)
	diff("website", website.IndexDocument, testkit.Must(c.GetBucketWebsite(ctx, &awss3.GetBucketWebsiteInput{Bucket: c.bucket}))(t).IndexDocument)

	logging := &s3types.LoggingEnabled{TargetBucket: c.bucket, TargetPrefix: aws.String("logs/")}
	testkit.Must(c.PutBucketLogging(ctx, &awss3.PutBucketLoggingInput{Bucket: c.bucket, BucketLoggingStatus: &s3types.BucketLoggingStatus{LoggingEnabled: logging}}))(t)
	diff("logging", logging, testkit.Must(c.GetBucketLogging(ctx, &awss3.GetBucketLoggingInput{Bucket: c.bucket}))(t).LoggingEnabled)

	block := &s3types.PublicAccessBlockConfiguration{BlockPublicAcls: aws.Bool(true)}
	testkit.Must(c.PutPublicAccessBlock(ctx, &awss3.PutPublicAccessBlockInput{Bucket: c.bucket, PublicAccessBlockConfiguration: block}))(t)
	if got := testkit.Must(c.GetPublicAccessBlock(ctx, &awss3.GetPublicAccessBlockInput{Bucket: c.bucket}))(t).PublicAccessBlockConfiguration; !*got.BlockPublicAcls || *got.BlockPublicPolicy {
		t.Errorf("public access block %+v", got)
	}
	testkit.Must(c.DeletePublicAccessBlock(ctx, &awss3.DeletePublicAccessBlockInput{Bucket: c.bucket}))(t)
	_, err = c.GetPublicAccessBlock(ctx, &awss3.GetPublicAccessBlockInput{Bucket: c.bucket})
	wantError(t, err, "NoSuchPublicAccessBlockConfiguration", "")

	c.put("k", "x")
	testkit.Must(c.PutObjectTagging(ctx, &awss3.PutObjectTaggingInput{Bucket: c.bucket, Key: aws.String("k"), Tagging: tags}))(t)
	diff("object tags", tags.TagSet, testkit.Must(c.GetObjectTagging(ctx, &awss3.GetObjectTaggingInput{Bucket: c.bucket, Key: aws.String("k")}))(t).TagSet)
	attributes := testkit.Must(c.GetObjectAttributes(ctx, &awss3.GetObjectAttributesInput{Bucket: c.bucket, Key: aws.String("k"), ObjectAttributes: []s3types.ObjectAttributes{"ETag", "ObjectSize", "StorageClass"}}))(t)
	if *attributes.ObjectSize != 1 || attributes.StorageClass != "STANDARD" || strings.Contains(*attributes.ETag, `"`) {
		t.Errorf("attributes %+v", attributes)
	}
}

func TestLifecycle(t *testing.T) {
	w := newWorld(t, options{})
	c, ctx := w.bucket(t), t.Context()
	c.version("Enabled")
	rules := []s3types.LifecycleRule{
		{ID: aws.String("tmp"), Status: "Enabled", Filter: &s3types.LifecycleRuleFilter{Prefix: aws.String("tmp/")}, Expiration: &s3types.LifecycleExpiration{Days: aws.Int32(1)}},
		{ID: aws.String("old"), Status: "Enabled", Filter: &s3types.LifecycleRuleFilter{}, NoncurrentVersionExpiration: &s3types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(2)},
			AbortIncompleteMultipartUpload: &s3types.AbortIncompleteMultipartUpload{DaysAfterInitiation: aws.Int32(3)}},
		{ID: aws.String("off"), Status: "Disabled", Filter: &s3types.LifecycleRuleFilter{}, Expiration: &s3types.LifecycleExpiration{Days: aws.Int32(1)}},
	}
	put := func(rules ...s3types.LifecycleRule) error {
		_, err := c.PutBucketLifecycleConfiguration(ctx, &awss3.PutBucketLifecycleConfigurationInput{Bucket: c.bucket, LifecycleConfiguration: &s3types.BucketLifecycleConfiguration{Rules: rules}})
		return err
	}
	if err := put(rules...); err != nil {
		t.Fatal(err)
	}
	got := testkit.Must(c.GetBucketLifecycleConfiguration(ctx, &awss3.GetBucketLifecycleConfigurationInput{Bucket: c.bucket}))(t)
	if len(got.Rules) != 3 || *got.Rules[0].Expiration.Days != 1 || got.TransitionDefaultMinimumObjectSize != "all_storage_classes_128K" {
		t.Errorf("rules %+v", got)
	}
	wantError(t, put(s3types.LifecycleRule{Status: "Enabled", Filter: &s3types.LifecycleRuleFilter{}}), "InvalidRequest", "At least one action needs to be specified in a rule.")
	wantError(t, put(rules[0], rules[0]), "InvalidArgument", "Rule ID must be unique.")

	c.put("tmp/k", "1")
	c.put("k", "old")
	c.put("k", "new")
	testkit.Must(c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: c.bucket, Key: aws.String("m")}))(t)
	if head := testkit.Must(c.HeadObject(ctx, &awss3.HeadObjectInput{Bucket: c.bucket, Key: aws.String("tmp/k")}))(t); !strings.Contains(aws.ToString(head.Expiration), `rule-id="tmp"`) {
		t.Errorf("expiration %v", aws.ToString(head.Expiration))
	}
	// state returns the number of current versions, of all versions and markers, and of uploads.
	state := func() [3]int {
		versions := testkit.Must(c.ListObjectVersions(ctx, &awss3.ListObjectVersionsInput{Bucket: c.bucket}))(t)
		uploads := testkit.Must(c.ListMultipartUploads(ctx, &awss3.ListMultipartUploadsInput{Bucket: c.bucket}))(t)
		return [3]int{len(strings.Fields(c.keys())), len(versions.Versions) + len(versions.DeleteMarkers), len(uploads.Uploads)}
	}
	days := func(n int, want [3]int) {
		t.Helper()
		w.clock.Step(time.Duration(n) * 24 * time.Hour)
		s3.Expire(w.s3, ctx)
		if got := state(); got != want {
			t.Errorf("after %d more days: current versions, all versions, uploads %v, want %v", n, got, want)
		}
	}
	days(0, [3]int{2, 3, 1})
	days(2, [3]int{1, 4, 1}) // a marker hides tmp/k
	days(1, [3]int{1, 3, 1}) // the old version of k is gone
	days(1, [3]int{1, 3, 0}) // the upload is gone
	days(3, [3]int{1, 2, 0}) // the version behind the marker is gone
	days(0, [3]int{1, 1, 0}) // and then the marker
}
