package s3_test

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// withACLs turns the ACLs of a bucket on, as they were for new buckets before April 2023.
func (c *client) withACLs() {
	c.t.Helper()
	testkit.Must(c.DeletePublicAccessBlock(c.t.Context(), &awss3.DeletePublicAccessBlockInput{Bucket: c.bucket}))(c.t)
	c.own(s3types.ObjectOwnershipBucketOwnerPreferred)
}

func (c *client) own(by s3types.ObjectOwnership) {
	c.t.Helper()
	testkit.Must(c.PutBucketOwnershipControls(c.t.Context(), &awss3.PutBucketOwnershipControlsInput{Bucket: c.bucket, OwnershipControls: &s3types.OwnershipControls{Rules: []s3types.OwnershipControlsRule{{ObjectOwnership: by}}}}))(c.t)
}

func (c *client) acl() (out []string) {
	c.t.Helper()
	got := testkit.Must(c.GetBucketAcl(c.t.Context(), &awss3.GetBucketAclInput{Bucket: c.bucket}))(c.t)
	return described(got.Owner, got.Grants)
}

func described(owner *s3types.Owner, grants []s3types.Grant) (out []string) {
	for _, g := range grants {
		who := aws.ToString(g.Grantee.URI)
		if who = who[strings.LastIndex(who, "/")+1:]; aws.ToString(g.Grantee.ID) == *owner.ID {
			who = "owner"
		}
		out = append(out, who+" "+string(g.Permission))
	}
	slices.Sort(out)
	return out
}

// Canned ACLs have the grants that S3's documentation lists.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/acl-overview.html#canned-acl
func TestCannedACLs(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	c.withACLs()
	for acl, want := range map[s3types.BucketCannedACL][]string{
		"private":            {"owner FULL_CONTROL"},
		"public-read":        {"AllUsers READ", "owner FULL_CONTROL"},
		"public-read-write":  {"AllUsers READ", "AllUsers WRITE", "owner FULL_CONTROL"},
		"authenticated-read": {"AuthenticatedUsers READ", "owner FULL_CONTROL"},
		"log-delivery-write": {"LogDelivery READ_ACP", "LogDelivery WRITE", "owner FULL_CONTROL"},
	} {
		testkit.Must(c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, ACL: acl}))(t)
		if got := c.acl(); !slices.Equal(got, want) {
			t.Errorf("%s: grants %q, want %q", acl, got, want)
		}
	}
	owner := testkit.Must(c.GetBucketAcl(ctx, &awss3.GetBucketAclInput{Bucket: c.bucket}))(t).Owner
	grantee := &s3types.Grantee{Type: "CanonicalUser", ID: owner.ID}
	testkit.Must(c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, AccessControlPolicy: &s3types.AccessControlPolicy{Owner: owner, Grants: []s3types.Grant{
		{Grantee: grantee, Permission: "FULL_CONTROL"}, {Grantee: grantee, Permission: "WRITE"},
	}}}))(t)
	if got, want := c.acl(), []string{"owner FULL_CONTROL", "owner WRITE"}; !slices.Equal(got, want) {
		t.Errorf("grants %q, want %q", got, want)
	}
	testkit.Must(c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, GrantRead: aws.String(`uri="http://acs.amazonaws.com/groups/s3/LogDelivery", id="` + *owner.ID + `"`)}))(t)
	if got, want := c.acl(), []string{"LogDelivery READ", "owner READ"}; !slices.Equal(got, want) {
		t.Errorf("grants %q, want %q", got, want)
	}
	_, err := c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, GrantRead: aws.String(`id="me"`)})
	wantError(t, err, "InvalidArgument", "Invalid id")
	_, err = c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, GrantRead: aws.String(`uri="everybody"`)})
	wantError(t, err, "InvalidArgument", "Invalid group uri")
	_, err = c.PutBucketOwnershipControls(ctx, &awss3.PutBucketOwnershipControlsInput{Bucket: c.bucket, OwnershipControls: &s3types.OwnershipControls{Rules: []s3types.OwnershipControlsRule{{ObjectOwnership: "BucketOwnerEnforced"}}}})
	wantError(t, err, "InvalidBucketAclWithObjectOwnership", "Bucket cannot have ACLs set with ObjectOwnership's BucketOwnerEnforced setting")
}

// Grants stay in their order, and an ACL without grants stays empty.
func TestGrants(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	c.withACLs()
	id := aws.String("id=" + *testkit.Must(c.GetBucketAcl(ctx, &awss3.GetBucketAclInput{Bucket: c.bucket}))(t).Owner.ID)
	testkit.Must(c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, GrantFullControl: id, GrantRead: id, GrantReadACP: id, GrantWrite: id, GrantWriteACP: id}))(t)
	var got []s3types.Permission
	for _, g := range testkit.Must(c.GetBucketAcl(ctx, &awss3.GetBucketAclInput{Bucket: c.bucket}))(t).Grants {
		got = append(got, g.Permission)
	}
	if want := []s3types.Permission{"FULL_CONTROL", "READ", "READ_ACP", "WRITE", "WRITE_ACP"}; !slices.Equal(got, want) {
		t.Errorf("grants %q, want %q", got, want)
	}
	c.put("k", "x")
	none := &s3types.AccessControlPolicy{Owner: testkit.Must(c.GetBucketAcl(ctx, &awss3.GetBucketAclInput{Bucket: c.bucket}))(t).Owner, Grants: []s3types.Grant{}}
	testkit.Must(c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, AccessControlPolicy: none}))(t)
	testkit.Must(c.PutObjectAcl(ctx, &awss3.PutObjectAclInput{Bucket: c.bucket, Key: aws.String("k"), AccessControlPolicy: none}))(t)
	if got := c.acl(); len(got) > 0 {
		t.Errorf("the bucket's ACL has no grants, and shows %q", got)
	}
	if got := testkit.Must(c.GetObjectAcl(ctx, &awss3.GetObjectAclInput{Bucket: c.bucket, Key: aws.String("k")}))(t).Grants; len(got) > 0 {
		t.Errorf("the object's ACL has no grants, and shows %+v", got)
	}
}

// Public ACLs are refused while they are blocked, and are not shown while they are ignored.
func TestBlockedACLs(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	c.withACLs()
	key := aws.String("a/k")
	testkit.Must(c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, ACL: "public-read"}))(t)
	c.putACL(*key, "authenticated-read")
	shown := func() []string {
		got := testkit.Must(c.GetObjectAcl(ctx, &awss3.GetObjectAclInput{Bucket: c.bucket, Key: key}))(t)
		return append(c.acl(), described(got.Owner, got.Grants)...)
	}
	public := []string{"AllUsers READ", "owner FULL_CONTROL", "AuthenticatedUsers READ", "owner FULL_CONTROL"}
	if got := shown(); !slices.Equal(got, public) {
		t.Errorf("grants %q, want %q", got, public)
	}
	block := func(put, use bool) {
		testkit.Must(c.PutPublicAccessBlock(ctx, &awss3.PutPublicAccessBlockInput{Bucket: c.bucket, PublicAccessBlockConfiguration: &s3types.PublicAccessBlockConfiguration{BlockPublicAcls: &put, IgnorePublicAcls: &use}}))(t)
	}
	block(false, true)
	if got, want := shown(), []string{"owner FULL_CONTROL", "owner FULL_CONTROL"}; !slices.Equal(got, want) {
		t.Errorf("grants that are in force: %q, want %q", got, want)
	}
	block(true, false)
	if got := shown(); !slices.Equal(got, public) {
		t.Errorf("grants %q, want %q", got, public)
	}
	for action, call := range map[string]func() error{
		"s3:PutBucketAcl": func() error {
			_, err := c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, ACL: "public-read"})
			return err
		},
		"s3:PutObjectAcl": func() error {
			_, err := c.PutObjectAcl(ctx, &awss3.PutObjectAclInput{Bucket: c.bucket, Key: key, ACL: "public-read"})
			return err
		},
		"s3:PutObject": func() error {
			_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: key, Body: strings.NewReader("x"), ACL: "public-read"})
			return err
		},
		"s3:CopyObject": func() error {
			_, err := c.CopyObject(ctx, &awss3.CopyObjectInput{Bucket: c.bucket, Key: key, CopySource: aws.String(*c.bucket + "/a/k"), StorageClass: "STANDARD_IA", ACL: "public-read"})
			return err
		},
	} {
		resource := "arn:aws:s3:::" + *c.bucket
		if action != "s3:PutBucketAcl" {
			resource += "/a/k"
		}
		want := "User: arn:aws:iam::" + c.account + ":root is not authorized to perform: " + action + " on resource: \"" + resource +
			"\" because public ACLs are prevented by the BlockPublicAcls setting in S3 Block Public Access."
		var got smithy.APIError
		if err := call(); !errors.As(err, &got) || got.ErrorCode() != "AccessDenied" || got.ErrorMessage() != want {
			t.Errorf("%s: got %v, want %s", action, err, want)
		}
	}
}

// Without ACLs, the owner may still send those that say the same: Terraform's aws_s3_bucket_object sends "private".
func TestDisabledACLs(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	put := func(acl s3types.ObjectCannedACL) error {
		_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("k"), Body: strings.NewReader("x"), ACL: acl})
		return err
	}
	for _, acl := range []s3types.ObjectCannedACL{"private", "bucket-owner-full-control"} {
		if err := put(acl); err != nil {
			t.Errorf("%s: %v", acl, err)
		}
	}
	wantError(t, put("public-read"), "AccessControlListNotSupported", "The bucket does not allow ACLs")
	_, err := c.PutObjectAcl(ctx, &awss3.PutObjectAclInput{Bucket: c.bucket, Key: aws.String("k"), ACL: "private"})
	wantError(t, err, "AccessControlListNotSupported", "The bucket does not allow ACLs")
}

// An ACL gives access to everybody with an account, or to one other account, unless public access is blocked.
func TestACLsGiveAccess(t *testing.T) {
	w := newWorld(t, options{})
	c, other, third, ctx := w.bucket(t), w.bucket(t), w.bucket(t), t.Context()
	c.withACLs()
	stranger, theirs := *third, *other
	stranger.bucket, theirs.bucket = c.bucket, c.bucket
	c.put("secret", "x")
	testkit.Must(c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("open"), Body: strings.NewReader("x"), ACL: "public-read"}))(t)
	testkit.Must(c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("members"), Body: strings.NewReader("x"), ACL: "authenticated-read"}))(t)
	stranger.want("open", "x")
	theirs.want("open", "x")
	theirs.want("members", "x")
	_, err := theirs.get("secret")
	wantError(t, err, "AccessDenied", "")
	id := testkit.Must(other.GetBucketAcl(ctx, &awss3.GetBucketAclInput{Bucket: other.bucket}))(t).Owner.ID
	testkit.Must(c.PutObjectAcl(ctx, &awss3.PutObjectAclInput{Bucket: c.bucket, Key: aws.String("secret"), GrantRead: aws.String("id=" + *id)}))(t)
	theirs.want("secret", "x")
	_, err = stranger.get("secret")
	wantError(t, err, "AccessDenied", "")
	_, err = stranger.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: c.bucket})
	wantError(t, err, "AccessDenied", "")
	testkit.Must(c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, ACL: "public-read"}))(t)
	testkit.Must(stranger.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: c.bucket}))(t)
	_, err = stranger.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("new"), Body: strings.NewReader("x")})
	wantError(t, err, "AccessDenied", "")

	// A denial of the bucket's policy counts beside the ACL.
	deny := strings.Replace(statementFor("Deny", "s3:GetObject", "arn:aws:s3:::"+*c.bucket+"/open", ""), `"Action"`, `"Principal":"*","Action"`, 1)
	testkit.Must(c.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: c.bucket, Policy: aws.String(document(deny))}))(t)
	_, err = stranger.get("open")
	wantError(t, err, "AccessDenied", "")
	testkit.Must(c.DeleteBucketPolicy(ctx, &awss3.DeleteBucketPolicyInput{Bucket: c.bucket}))(t)

	block := func(put, use bool) {
		testkit.Must(c.PutPublicAccessBlock(ctx, &awss3.PutPublicAccessBlockInput{Bucket: c.bucket, PublicAccessBlockConfiguration: &s3types.PublicAccessBlockConfiguration{BlockPublicAcls: &put, IgnorePublicAcls: &use}}))(t)
	}
	block(true, false)
	stranger.want("open", "x")
	_, err = c.PutObjectAcl(ctx, &awss3.PutObjectAclInput{Bucket: c.bucket, Key: aws.String("open"), ACL: "public-read"})
	wantError(t, err, "AccessDenied", "because public ACLs are prevented by the BlockPublicAcls setting in S3 Block Public Access")
	block(false, true)
	_, err = stranger.get("open")
	wantError(t, err, "AccessDenied", "")
	theirs.want("secret", "x") // a grant to one account is not public

	// ACLs that are disabled give nothing.
	block(false, false)
	testkit.Must(c.PutBucketAcl(ctx, &awss3.PutBucketAclInput{Bucket: c.bucket, ACL: "private"}))(t)
	c.own("BucketOwnerEnforced")
	_, err = theirs.get("secret")
	wantError(t, err, "AccessDenied", "")
}

func (c *client) putACL(key string, acl s3types.ObjectCannedACL) *awss3.PutObjectOutput {
	c.t.Helper()
	return testkit.Must(c.PutObject(c.t.Context(), &awss3.PutObjectInput{Bucket: c.bucket, Key: &key, Body: strings.NewReader("x"), ACL: acl}))(c.t)
}

// An ACL concerns one version of an object.
func TestACLsOfVersions(t *testing.T) {
	w := newWorld(t, options{})
	c, other, ctx := w.bucket(t), w.bucket(t), t.Context()
	c.withACLs()
	c.version("Enabled")
	stranger := *other
	stranger.bucket = c.bucket
	private, public := c.putACL("k", "private"), c.putACL("k", "public-read")
	stranger.want("k", "x")
	read := func(version *string) error {
		_, err := stranger.getWith(&awss3.GetObjectInput{Key: aws.String("k"), VersionId: version})
		return err
	}
	copied := func(version *string) error {
		_, err := other.CopyObject(ctx, &awss3.CopyObjectInput{Bucket: other.bucket, Key: aws.String("k"), CopySource: aws.String(*c.bucket + "/k?versionId=" + *version)})
		return err
	}
	for _, get := range []func(*string) error{read, copied} {
		wantError(t, get(private.VersionId), "AccessDenied", "")
		if err := get(public.VersionId); err != nil {
			t.Errorf("the public version: %v", err)
		}
	}
	c.putACL("k", "private")
	_, err := stranger.get("k")
	wantError(t, err, "AccessDenied", "")
	if err := read(public.VersionId); err != nil {
		t.Errorf("the public version, which is not current: %v", err)
	}
	wantError(t, read(aws.String("none")), "AccessDenied", "")
}

// RestrictPublicBuckets refuses other accounts whatever an ACL allows them, and the policy's denials stay in force.
func TestRestrictPublicBuckets(t *testing.T) {
	w := newWorld(t, options{})
	c, other, ctx := w.bucket(t), w.bucket(t), t.Context()
	c.withACLs()
	theirs := *other
	theirs.bucket = c.bucket
	c.putACL("open", "public-read")
	c.putACL("denied", "public-read")
	arn := "arn:aws:s3:::" + *c.bucket
	everybody := func(statement string) string {
		return strings.Replace(statement, `"Action"`, `"Principal":"*","Action"`, 1)
	}
	text := document(everybody(statementFor("Deny", "s3:GetObject", arn+"/denied", "")), everybody(statementFor("Allow", "s3:GetObject", arn+"/*", "")))
	testkit.Must(c.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: c.bucket, Policy: &text}))(t)
	refused := func(c *client, key string) {
		t.Helper()
		_, err := c.get(key)
		wantError(t, err, "AccessDenied", "with an explicit deny in a resource-based policy")
	}
	theirs.want("open", "x")
	refused(&theirs, "denied")

	// The decision names the statement of the policy as it was set.
	stored, _ := w.s3.Authz().Resource(awsapi.WithCall(ctx, &awsapi.Call{Account: other.account}), other.account, testkit.Region, "object", *c.bucket+"/denied")
	d := policy.Evaluate(policy.Request{
		Action: "s3:GetObject", Resource: stored.ARN, ResourceAccount: c.account, Principal: policy.Principal{Account: other.account, ARN: "arn:aws:iam::" + other.account + ":root"},
	}, policy.Policies{Resource: stored.AccountPolicies})
	if len(d.Matched) != 1 || d.Matched[0].Source != "bucket policy of "+arn || d.Matched[0].Index != 0 || d.Matched[0].Start.Line != 1 {
		t.Errorf("decided by %+v", d.Matched)
	}

	testkit.Must(c.PutPublicAccessBlock(ctx, &awss3.PutPublicAccessBlockInput{Bucket: c.bucket, PublicAccessBlockConfiguration: &s3types.PublicAccessBlockConfiguration{RestrictPublicBuckets: aws.Bool(true)}}))(t)
	refused(&theirs, "open")
	refused(&theirs, "denied")
	c.want("open", "x")
	refused(c, "denied")
}
