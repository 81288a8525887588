package s3_test

import (
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/service/s3"
	"github.com/drydock-dev/drydock/internal/testkit"
)

const lockedText = "Access Denied because object protected by object lock."

func wantNil(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Error(err)
	}
}

// lockedBucket creates a bucket with Object Lock in a new account.
func (w *world) lockedBucket(t testing.TB) *client {
	t.Helper()
	account := w.Account(t)
	c := &client{awss3.NewFromConfig(w.AWSConfig(account), usual), t, w, account, aws.String("locked-" + account)}
	testkit.Must(c.CreateBucket(t.Context(), &awss3.CreateBucketInput{Bucket: c.bucket, ObjectLockEnabledForBucket: aws.Bool(true)}))(t)
	return c
}

func (c *client) head(key string) *awss3.HeadObjectOutput {
	c.t.Helper()
	return testkit.Must(c.HeadObject(c.t.Context(), &awss3.HeadObjectInput{Bucket: c.bucket, Key: &key}))(c.t)
}

func (c *client) remove(key string, version *string, bypass *bool) error {
	_, err := c.DeleteObject(c.t.Context(), &awss3.DeleteObjectInput{Bucket: c.bucket, Key: &key, VersionId: version, BypassGovernanceRetention: bypass})
	return err
}

func (c *client) retain(key string, mode s3types.ObjectLockRetentionMode, until *time.Time, bypass *bool) error {
	_, err := c.PutObjectRetention(c.t.Context(), &awss3.PutObjectRetentionInput{
		Bucket: c.bucket, Key: &key, Retention: &s3types.ObjectLockRetention{Mode: mode, RetainUntilDate: until}, BypassGovernanceRetention: bypass,
	})
	return err
}

func (c *client) hold(key string, status s3types.ObjectLockLegalHoldStatus) error {
	_, err := c.PutObjectLegalHold(c.t.Context(), &awss3.PutObjectLegalHoldInput{Bucket: c.bucket, Key: &key, LegalHold: &s3types.ObjectLockLegalHold{Status: status}})
	return err
}

// [recorded] test_s3, TestS3ObjectLockRetention
func TestRetention(t *testing.T) {
	w := newWorld(t, options{})
	c := w.lockedBucket(t)
	ctx := t.Context()
	now := w.clock.Now()
	in := func(d time.Duration) *time.Time { return aws.Time(now.Add(d).UTC().Truncate(time.Second)) }
	yes := aws.Bool(true)

	v := c.put("k", "x").VersionId
	_, err := c.GetObjectRetention(ctx, &awss3.GetObjectRetentionInput{Bucket: c.bucket, Key: aws.String("k"), VersionId: v})
	testkit.WantError(t, err, "NoSuchObjectLockConfiguration", "The specified object does not have a ObjectLock configuration")
	testkit.WantError(t, c.retain("k", "GOVERNANCE", nil, yes), "MalformedXML", "")
	testkit.WantError(t, c.retain("none", "GOVERNANCE", in(time.Hour), nil), "NoSuchKey", "The specified key does not exist.")
	wantNil(t, c.retain("k", "GOVERNANCE", in(time.Hour), nil))
	if got := testkit.Must(c.GetObjectRetention(ctx, &awss3.GetObjectRetentionInput{Bucket: c.bucket, Key: aws.String("k")}))(t).Retention; got.Mode != "GOVERNANCE" || !got.RetainUntilDate.Equal(*in(time.Hour)) {
		t.Errorf("retention %+v", got)
	}
	if h := c.head("k"); h.ObjectLockMode != "GOVERNANCE" || h.ObjectLockRetainUntilDate == nil || h.ObjectLockLegalHoldStatus != "" {
		t.Errorf("head %+v", h)
	}
	for name, err := range map[string]error{
		"shorter":  c.retain("k", "GOVERNANCE", in(time.Minute), nil),
		"none":     c.retain("k", "", nil, nil),
		"deletion": c.remove("k", v, nil),
	} {
		t.Run(name, func(t *testing.T) { testkit.WantError(t, err, "AccessDenied", lockedText) })
	}
	testkit.WantError(t, c.retain("k", "GOVERNANCE", aws.Time(time.Date(2020, 1, 1, 0, 0, 0, 0, time.UTC)), nil), "InvalidArgument", "The retain until date must be in the future!")
	testkit.WantError(t, c.retain("k", "BAD-VALUE", in(time.Hour), nil), "MalformedXML", "")
	wantNil(t, c.retain("k", "GOVERNANCE", in(2*time.Hour), nil))

	// A delete marker may hide the version. It has no lock itself.
	marker := testkit.Must(c.DeleteObject(ctx, &awss3.DeleteObjectInput{Bucket: c.bucket, Key: aws.String("k")}))(t)
	if !*marker.DeleteMarker {
		t.Errorf("deletion %+v", marker)
	}
	_, err = c.GetObjectRetention(ctx, &awss3.GetObjectRetentionInput{Bucket: c.bucket, Key: aws.String("k"), VersionId: marker.VersionId})
	testkit.WantError(t, err, "MethodNotAllowed", "")
	wantNil(t, c.remove("k", marker.VersionId, nil))

	wantNil(t, c.retain("k", "", nil, yes))
	wantNil(t, c.retain("k", "COMPLIANCE", in(time.Hour), nil))
	for name, err := range map[string]error{
		"shorter":  c.retain("k", "COMPLIANCE", in(time.Minute), yes),
		"weaker":   c.retain("k", "GOVERNANCE", in(3*time.Hour), yes),
		"none":     c.retain("k", "", nil, yes),
		"deletion": c.remove("k", v, yes),
	} {
		t.Run("compliance "+name, func(t *testing.T) { testkit.WantError(t, err, "AccessDenied", lockedText) })
	}
	out := testkit.Must(c.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: c.bucket, Delete: &s3types.Delete{Objects: []s3types.ObjectIdentifier{{Key: aws.String("k"), VersionId: v}}}}))(t)
	if len(out.Errors) != 1 || *out.Errors[0].Code != "AccessDenied" || *out.Errors[0].Message != lockedText || *out.Errors[0].VersionId != *v {
		t.Errorf("%+v", out)
	}
	w.clock.Step(time.Hour)
	wantNil(t, c.remove("k", v, nil))

	plain := w.bucket(t)
	plain.put("k", "x")
	testkit.WantError(t, plain.retain("k", "GOVERNANCE", in(2*time.Hour), nil), "InvalidRequest", "Bucket is missing Object Lock Configuration")
	testkit.WantError(t, plain.hold("k", "ON"), "InvalidRequest", "Bucket is missing Object Lock Configuration")
	testkit.WantError(t, plain.remove("k", nil, aws.Bool(false)), "InvalidArgument", "x-amz-bypass-governance-retention is only applicable to Object Lock enabled buckets.")
}

// [recorded] test_s3, TestS3ObjectLockLegalHold
func TestLegalHold(t *testing.T) {
	w := newWorld(t, options{})
	c := w.lockedBucket(t)
	ctx := t.Context()
	v := c.put("k", "x").VersionId
	get := &awss3.GetObjectLegalHoldInput{Bucket: c.bucket, Key: aws.String("k")}
	_, err := c.GetObjectLegalHold(ctx, get)
	testkit.WantError(t, err, "NoSuchObjectLockConfiguration", "")
	testkit.WantError(t, c.hold("none", "ON"), "NoSuchKey", "")
	testkit.WantError(t, c.hold("k", ""), "MalformedXML", "")
	wantNil(t, c.hold("k", "ON"))
	testkit.WantError(t, c.remove("k", v, nil), "AccessDenied", lockedText)
	testkit.WantError(t, c.remove("k", v, aws.Bool(true)), "AccessDenied", lockedText)
	if h := c.head("k"); h.ObjectLockLegalHoldStatus != "ON" || h.ObjectLockMode != "" {
		t.Errorf("head %+v", h)
	}
	wantNil(t, c.hold("k", "OFF"))
	if got := testkit.Must(c.GetObjectLegalHold(ctx, get))(t).LegalHold.Status; got != "OFF" {
		t.Errorf("legal hold %s", got)
	}
	wantNil(t, c.remove("k", v, nil))
}

// A request's headers lock the new version; otherwise the default retention does. Copies do not inherit locks.
func TestLockOfNewVersions(t *testing.T) {
	w := newWorld(t, options{})
	c := w.lockedBucket(t)
	ctx := t.Context()
	until := aws.Time(w.clock.Now().Add(10 * time.Minute).UTC().Truncate(time.Second))
	put := func(c *client, edit func(*awss3.PutObjectInput)) error {
		in := &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("k"), Body: strings.NewReader("x")}
		edit(in)
		_, err := c.PutObject(ctx, in)
		return err
	}
	locked := func(in *awss3.PutObjectInput) { in.ObjectLockMode, in.ObjectLockRetainUntilDate = "GOVERNANCE", until }
	both := "x-amz-object-lock-retain-until-date and x-amz-object-lock-mode must both be supplied"
	testkit.WantError(t, put(c, func(in *awss3.PutObjectInput) { in.ObjectLockMode = "GOVERNANCE" }), "InvalidArgument", both)
	testkit.WantError(t, put(c, func(in *awss3.PutObjectInput) { in.ObjectLockRetainUntilDate = until }), "InvalidArgument", both)
	testkit.WantError(t, put(c, func(in *awss3.PutObjectInput) { locked(in); in.ObjectLockMode = "BAD-VALUE" }), "InvalidArgument", "Unknown wormMode directive.")
	_, err := c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: c.bucket, Key: aws.String("k"), ObjectLockMode: "BAD-VALUE", ObjectLockRetainUntilDate: until})
	testkit.WantError(t, err, "InvalidArgument", "Unknown wormMode directive.")
	plain := w.bucket(t)
	testkit.WantError(t, put(plain, locked), "InvalidRequest", "Bucket is missing Object Lock Configuration")

	wantNil(t, put(c, func(in *awss3.PutObjectInput) { locked(in); in.ObjectLockLegalHoldStatus = "ON" }))
	if h := c.head("k"); h.ObjectLockMode != "GOVERNANCE" || !h.ObjectLockRetainUntilDate.Equal(*until) || h.ObjectLockLegalHoldStatus != "ON" {
		t.Errorf("head %+v", h)
	}
	source := aws.String(*c.bucket + "/k")
	testkit.Must(c.CopyObject(ctx, &awss3.CopyObjectInput{Bucket: c.bucket, Key: aws.String("copy"), CopySource: source}))(t)
	if h := c.head("copy"); h.ObjectLockMode != "" || h.ObjectLockLegalHoldStatus != "" {
		t.Errorf("head of the copy %+v", h)
	}

	testkit.Must(c.PutObjectLockConfiguration(ctx, &awss3.PutObjectLockConfigurationInput{Bucket: c.bucket, ObjectLockConfiguration: &s3types.ObjectLockConfiguration{
		ObjectLockEnabled: "Enabled", Rule: &s3types.ObjectLockRule{DefaultRetention: &s3types.DefaultRetention{Mode: "COMPLIANCE", Days: aws.Int32(1)}},
	}}))(t)
	wantNil(t, put(c, func(*awss3.PutObjectInput) {}))
	if h := c.head("k"); h.ObjectLockMode != "COMPLIANCE" || !h.ObjectLockRetainUntilDate.Equal(h.LastModified.AddDate(0, 0, 1)) {
		t.Errorf("head %+v", h)
	}
	wantNil(t, put(c, locked))
	if h := c.head("k"); h.ObjectLockMode != "GOVERNANCE" || !h.ObjectLockRetainUntilDate.Equal(*until) {
		t.Errorf("head %+v", h)
	}
	u := testkit.Must(c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: c.bucket, Key: aws.String("parts"), ObjectLockLegalHoldStatus: "ON"}))(t).UploadId
	part := testkit.Must(c.UploadPart(ctx, &awss3.UploadPartInput{Bucket: c.bucket, Key: aws.String("parts"), UploadId: u, PartNumber: aws.Int32(1), Body: strings.NewReader("x")}))(t)
	testkit.Must(c.CompleteMultipartUpload(ctx, &awss3.CompleteMultipartUploadInput{Bucket: c.bucket, Key: aws.String("parts"), UploadId: u, MultipartUpload: &s3types.CompletedMultipartUpload{
		Parts: []s3types.CompletedPart{{PartNumber: aws.Int32(1), ETag: part.ETag}},
	}}))(t)
	if h := c.head("parts"); h.ObjectLockMode != "COMPLIANCE" || h.ObjectLockLegalHoldStatus != "ON" {
		t.Errorf("head of the upload %+v", h)
	}
}

// [recorded] test_s3_api, TestS3ObjectLock
func TestLockConfiguration(t *testing.T) {
	w := newWorld(t, options{})
	ctx := t.Context()
	set := func(c *client, config *s3types.ObjectLockConfiguration) error {
		_, err := c.PutObjectLockConfiguration(ctx, &awss3.PutObjectLockConfigurationInput{Bucket: c.bucket, ObjectLockConfiguration: config})
		return err
	}
	version := func(c *client, status s3types.BucketVersioningStatus) error {
		_, err := c.PutBucketVersioning(ctx, &awss3.PutBucketVersioningInput{Bucket: c.bucket, VersioningConfiguration: &s3types.VersioningConfiguration{Status: status}})
		return err
	}
	get := func(c *client) *s3types.ObjectLockConfiguration {
		t.Helper()
		return testkit.Must(c.GetObjectLockConfiguration(ctx, &awss3.GetObjectLockConfigurationInput{Bucket: c.bucket}))(t).ObjectLockConfiguration
	}
	on := &s3types.ObjectLockConfiguration{ObjectLockEnabled: "Enabled"}
	c := w.bucket(t)
	const versioning = "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration"
	testkit.WantError(t, set(c, on), "InvalidBucketState", versioning)
	wantNil(t, version(c, "Suspended"))
	testkit.WantError(t, set(c, on), "InvalidBucketState", versioning)
	wantNil(t, version(c, "Enabled"))
	wantNil(t, set(c, on))
	if got := get(c); got.ObjectLockEnabled != "Enabled" || got.Rule != nil {
		t.Errorf("configuration %+v", got)
	}
	testkit.WantError(t, version(c, "Suspended"), "InvalidBucketState", "An Object Lock configuration is present on this bucket, so the versioning state cannot be changed.")
	wantNil(t, version(c, "Enabled"))

	rule := func(d *s3types.DefaultRetention) *s3types.ObjectLockConfiguration {
		return &s3types.ObjectLockConfiguration{ObjectLockEnabled: "Enabled", Rule: &s3types.ObjectLockRule{DefaultRetention: d}}
	}
	for name, bad := range map[string]*s3types.ObjectLockConfiguration{
		"not enabled":     {Rule: rule(&s3types.DefaultRetention{Mode: "GOVERNANCE", Days: aws.Int32(1)}).Rule},
		"empty":           {},
		"empty rule":      rule(nil),
		"empty retention": rule(&s3types.DefaultRetention{}),
		"no days":         rule(&s3types.DefaultRetention{Mode: "GOVERNANCE"}),
		"bad mode":        rule(&s3types.DefaultRetention{Mode: "BAD-VALUE", Days: aws.Int32(1)}),
		"both":            rule(&s3types.DefaultRetention{Mode: "GOVERNANCE", Days: aws.Int32(1), Years: aws.Int32(1)}),
	} {
		t.Run(name, func(t *testing.T) { testkit.WantError(t, set(c, bad), "MalformedXML", "") })
	}
	testkit.WantError(t, set(c, rule(&s3types.DefaultRetention{Mode: "GOVERNANCE", Days: aws.Int32(0)})), "InvalidRetentionPeriod", "")
	testkit.WantError(t, set(c, rule(&s3types.DefaultRetention{Mode: "GOVERNANCE", Years: aws.Int32(101)})), "InvalidRetentionPeriod", "")
	wantNil(t, set(c, rule(&s3types.DefaultRetention{Mode: "GOVERNANCE", Years: aws.Int32(2)})))
	if got := get(c).Rule.DefaultRetention; got.Mode != "GOVERNANCE" || *got.Years != 2 || got.Days != nil {
		t.Errorf("default retention %+v", got)
	}

	locked := w.lockedBucket(t)
	if got := get(locked); got.ObjectLockEnabled != "Enabled" || got.Rule != nil {
		t.Errorf("configuration of a new bucket %+v", got)
	}
	if got := testkit.Must(locked.GetBucketVersioning(ctx, &awss3.GetBucketVersioningInput{Bucket: locked.bucket}))(t).Status; got != "Enabled" {
		t.Errorf("versioning %s", got)
	}
}

// Lifecycle rules hide locked versions, and remove them only when their locks have ended.
func TestLifecycleOfLockedVersions(t *testing.T) {
	w := newWorld(t, options{})
	c := w.lockedBucket(t)
	ctx := t.Context()
	v := c.put("k", "x").VersionId
	wantNil(t, c.retain("k", "COMPLIANCE", aws.Time(w.clock.Now().AddDate(0, 0, 10)), nil))
	testkit.Must(c.PutBucketLifecycleConfiguration(ctx, &awss3.PutBucketLifecycleConfigurationInput{Bucket: c.bucket, LifecycleConfiguration: &s3types.BucketLifecycleConfiguration{Rules: []s3types.LifecycleRule{{
		Status: "Enabled", Filter: &s3types.LifecycleRuleFilter{}, Expiration: &s3types.LifecycleExpiration{Days: aws.Int32(1)},
		NoncurrentVersionExpiration: &s3types.NoncurrentVersionExpiration{NoncurrentDays: aws.Int32(1)},
	}}}}))(t)
	count := func() (versions, markers int) {
		out := testkit.Must(c.ListObjectVersions(ctx, &awss3.ListObjectVersionsInput{Bucket: c.bucket}))(t)
		return len(out.Versions), len(out.DeleteMarkers)
	}
	w.clock.Step(3 * 24 * time.Hour)
	s3.Expire(w.s3, ctx)
	w.clock.Step(3 * 24 * time.Hour)
	s3.Expire(w.s3, ctx)
	if versions, markers := count(); versions != 1 || markers != 1 {
		t.Errorf("%d versions and %d markers", versions, markers)
	}
	if _, err := c.getWith(&awss3.GetObjectInput{Key: aws.String("k"), VersionId: v}); err != nil {
		t.Error(err)
	}
	w.clock.Step(5 * 24 * time.Hour)
	s3.Expire(w.s3, ctx)
	if versions, _ := count(); versions != 0 {
		t.Errorf("%d versions are left", versions)
	}
}

// Locking a version, bypassing governance mode and seeing locks need permissions of their own.
func TestLockPermissions(t *testing.T) {
	w := newWorld(t, options{})
	root := w.lockedBucket(t)
	ctx := t.Context()
	until := aws.Time(w.clock.Now().Add(48 * time.Hour))
	allow := func(more string) string {
		return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["s3:CreateBucket","s3:PutObject","s3:GetObject","s3:DeleteObjectVersion"],"Resource":"*"}` + more + `]}`
	}
	c := root.as(allow(""))
	put := func(edit func(*awss3.PutObjectInput)) error {
		in := &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("k"), Body: strings.NewReader("x")}
		edit(in)
		_, err := c.PutObject(ctx, in)
		return err
	}
	retain := func(in *awss3.PutObjectInput) { in.ObjectLockMode, in.ObjectLockRetainUntilDate = "GOVERNANCE", until }
	hold := func(in *awss3.PutObjectInput) { in.ObjectLockLegalHoldStatus = "ON" }
	for action, err := range map[string]error{
		"s3:PutObjectRetention": put(retain),
		"s3:PutObjectLegalHold": put(hold),
	} {
		if err == nil || !strings.Contains(err.Error(), "is not authorized to perform: "+action) {
			t.Errorf("%s: %v", action, err)
		}
	}
	v := root.put("k", "x").VersionId
	wantNil(t, root.retain("k", "GOVERNANCE", until, nil))
	if h := c.head("k"); h.ObjectLockMode != "" || h.ObjectLockRetainUntilDate != nil {
		t.Errorf("head %+v", h)
	}
	err := c.remove("k", v, aws.Bool(true))
	if err == nil || !strings.Contains(err.Error(), "is not authorized to perform: s3:BypassGovernanceRetention") {
		t.Error(err)
	}
	out := testkit.Must(c.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: c.bucket, BypassGovernanceRetention: aws.Bool(true), Delete: &s3types.Delete{Objects: []s3types.ObjectIdentifier{{Key: aws.String("k"), VersionId: v}}}}))(t)
	if len(out.Errors) != 1 || !strings.Contains(*out.Errors[0].Message, "s3:BypassGovernanceRetention") {
		t.Errorf("%+v", out)
	}
	c = root.as(allow(`,{"Effect":"Allow","Action":["s3:PutObjectRetention","s3:GetObjectRetention","s3:BypassGovernanceRetention"],"Resource":"*","Condition":{"NumericLessThanIfExists":{"s3:object-lock-remaining-retention-days":"3"}}}`))
	wantNil(t, put(retain))
	until = aws.Time(w.clock.Now().Add(5 * 24 * time.Hour))
	if err := put(retain); err == nil || !strings.Contains(err.Error(), "s3:PutObjectRetention") {
		t.Error(err)
	}
	if h := c.head("k"); h.ObjectLockMode != "GOVERNANCE" {
		t.Errorf("head %+v", h)
	}
	wantNil(t, c.remove("k", v, aws.Bool(true)))
	_, err = c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: aws.String("second-" + root.account), ObjectLockEnabledForBucket: aws.Bool(true)})
	if err == nil || !strings.Contains(err.Error(), "s3:PutBucketObjectLockConfiguration") {
		t.Error(err)
	}
}
