package s3_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func statementFor(effect, action, resource, condition string) string {
	if condition != "" {
		condition = `,"Condition":` + condition
	}
	return `{"Effect":"` + effect + `","Action":"` + action + `","Resource":"` + resource + `"` + condition + `}`
}

func document(statements ...string) string {
	return `{"Version":"2012-10-17","Statement":[` + strings.Join(statements, ",") + `]}`
}

func TestIAM(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	c.put("public/k", "x")
	c.put("k", "x")
	arn := "arn:aws:s3:::" + *c.bucket
	user := c.as(document(
		statementFor("Allow", "s3:GetObject", arn+"/public/*", ""),
		statementFor("Allow", "s3:PutObject", arn+"/*", `{"StringEquals":{"s3:x-amz-server-side-encryption":"AES256"}}`),
		statementFor("Allow", "s3:ListBucket", arn, `{"StringLike":{"s3:prefix":"public/*"}}`),
		statementFor("Allow", "s3:DeleteObject", arn+"/public/*", ""),
	))
	user.want("public/k", "x")
	_, err := user.get("k")
	wantError(t, err, "AccessDenied", `:user/user is not authorized to perform: s3:GetObject on resource: "`+arn+`/k" because no identity-based policy allows the s3:GetObject action`)
	_, err = user.get("public/none")
	wantError(t, err, "AccessDenied", `is not authorized to perform: s3:ListBucket on resource: "`+arn+`"`)
	_, err = user.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: c.bucket})
	wantError(t, err, "AccessDenied", "s3:ListBucket")
	testkit.Must(user.ListObjectsV2(ctx, &awss3.ListObjectsV2Input{Bucket: c.bucket, Prefix: aws.String("public/")}))(t)
	put := &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("new"), Body: strings.NewReader("x")}
	_, err = user.PutObject(ctx, put)
	wantError(t, err, "AccessDenied", "s3:PutObject")
	put.ServerSideEncryption, put.Body = "AES256", strings.NewReader("x")
	testkit.Must(user.PutObject(ctx, put))(t)
	_, err = user.ListBuckets(ctx, nil)
	wantError(t, err, "AccessDenied", "s3:ListAllMyBuckets")
	out := testkit.Must(user.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: c.bucket, Delete: &s3types.Delete{Objects: []s3types.ObjectIdentifier{
		{Key: aws.String("public/k")}, {Key: aws.String("k")},
	}}}))(t)
	if len(out.Deleted) != 1 || len(out.Errors) != 1 || *out.Errors[0].Code != "AccessDenied" || *out.Errors[0].Key != "k" {
		t.Errorf("deleted %+v", out)
	}
	if got := c.keys(); got != "k new" {
		t.Errorf("keys %q", got)
	}
}

// Whoever creates something with an ACL needs the permission to set ACLs as well.
func TestACLsNeedPermission(t *testing.T) {
	c, ctx := newWorld(t, options{}).bucket(t), t.Context()
	c.withACLs()
	c.put("source", "x")
	key, id := aws.String("k"), testkit.Must(c.GetBucketAcl(ctx, &awss3.GetBucketAclInput{Bucket: c.bucket}))(t).Owner.ID
	grant, source := aws.String("id="+*id), aws.String(*c.bucket+"/source")
	name := func(n string) *string { return aws.String(*c.bucket + "-" + n) }
	actions := []string{"s3:CreateBucket", "s3:PutObject", "s3:GetObject"}
	allow := func(more ...string) string {
		return `{"Version":"2012-10-17","Statement":{"Effect":"Allow","Resource":"*","Action":["` + strings.Join(append(slices.Clone(actions), more...), `","`) + `"]}}`
	}
	user, users := c.as(allow()), awsiam.NewFromConfig(c.w.AWSConfig(c.account))
	may := func(more ...string) {
		testkit.Must(users.PutUserPolicy(ctx, &awsiam.PutUserPolicyInput{UserName: aws.String("user"), PolicyName: aws.String("p"), PolicyDocument: aws.String(allow(more...))}))(t)
	}
	for _, tt := range []struct {
		name, action string
		call         func(*client) error
	}{
		{"PutObject", "s3:PutObjectAcl", func(c *client) error {
			_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: key, ACL: "bucket-owner-full-control", Body: strings.NewReader("x")})
			return err
		}},
		{"PutObject with a grant", "s3:PutObjectAcl", func(c *client) error {
			_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: key, GrantRead: grant, Body: strings.NewReader("x")})
			return err
		}},
		{"PutObject without an ACL", "", func(c *client) error {
			_, err := c.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: key, Body: strings.NewReader("x")})
			return err
		}},
		{"CopyObject", "s3:PutObjectAcl", func(c *client) error {
			_, err := c.CopyObject(ctx, &awss3.CopyObjectInput{Bucket: c.bucket, Key: key, CopySource: source, ACL: "public-read"})
			return err
		}},
		{"CopyObject with a grant", "s3:PutObjectAcl", func(c *client) error {
			_, err := c.CopyObject(ctx, &awss3.CopyObjectInput{Bucket: c.bucket, Key: key, CopySource: source, GrantFullControl: grant})
			return err
		}},
		{"CreateMultipartUpload", "s3:PutObjectAcl", func(c *client) error {
			_, err := c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: c.bucket, Key: key, ACL: "public-read"})
			return err
		}},
		{"CreateMultipartUpload with a grant", "s3:PutObjectAcl", func(c *client) error {
			_, err := c.CreateMultipartUpload(ctx, &awss3.CreateMultipartUploadInput{Bucket: c.bucket, Key: key, GrantReadACP: grant})
			return err
		}},
		{"CreateBucket with a grant", "s3:PutBucketAcl", func(c *client) error {
			_, err := c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: name("grant"), GrantFullControl: grant})
			return err
		}},
		{"CreateBucket, private", "", func(c *client) error {
			_, err := c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: name("private"), ACL: "private"})
			return err
		}},
		{"CreateBucket with an ownership", "s3:PutBucketOwnershipControls", func(c *client) error {
			_, err := c.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: name("owned"), ObjectOwnership: "BucketOwnerPreferred"})
			return err
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			may()
			if tt.action != "" {
				wantError(t, tt.call(user), "AccessDenied", "because no identity-based policy allows the "+tt.action+" action")
				may(tt.action)
			}
			if err := tt.call(user); err != nil {
				t.Error(err)
			}
		})
	}
	may("s3:PutBucketOwnershipControls")
	_, err := user.CreateBucket(ctx, &awss3.CreateBucketInput{Bucket: name("read"), ACL: "authenticated-read", ObjectOwnership: "ObjectWriter"})
	wantError(t, err, "AccessDenied", "s3:PutBucketAcl")
}

func TestBucketPolicy(t *testing.T) {
	w := newWorld(t, options{})
	c, other, ctx := w.bucket(t), w.bucket(t), t.Context()
	c.put("k", "x")
	arn := "arn:aws:s3:::" + *c.bucket
	set := func(statements ...string) error {
		_, err := c.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: c.bucket, Policy: aws.String(document(statements...))})
		return err
	}
	grant := func(effect, principal, action, resource, condition string) string {
		return strings.Replace(statementFor(effect, action, resource, condition), `"Action"`, `"Principal":`+principal+`,"Action"`, 1)
	}
	theirs := *other
	theirs.bucket = c.bucket
	_, err := theirs.get("k")
	wantError(t, err, "AccessDenied", "")
	if err := set(grant("Allow", `{"AWS":"`+other.account+`"}`, "s3:GetObject", arn+"/*", "")); err != nil {
		t.Fatal(err)
	}
	theirs.want("k", "x")
	_, err = theirs.PutObject(ctx, &awss3.PutObjectInput{Bucket: c.bucket, Key: aws.String("k"), Body: strings.NewReader("y")})
	wantError(t, err, "AccessDenied", "")
	if got := testkit.Must(c.GetBucketPolicy(ctx, &awss3.GetBucketPolicyInput{Bucket: c.bucket}))(t); !strings.Contains(*got.Policy, other.account) {
		t.Errorf("policy %s", *got.Policy)
	}

	// A statement for everyone is refused while public policies are blocked.
	everybody := grant("Allow", `"*"`, "s3:GetObject", arn+"/*", "")
	wantError(t, set(everybody), "AccessDenied", "because public policies are prevented by the BlockPublicPolicy setting in S3 Block Public Access.")
	if err := set(grant("Allow", `"*"`, "s3:GetObject", arn+"/*", `{"StringEquals":{"aws:SourceVpce":"vpce-0123456789abcdef0"}}`)); err != nil {
		t.Errorf("a policy for an endpoint is not public: %v", err)
	}
	for _, wide := range []string{
		strings.Replace(everybody, `"Principal":"*"`, `"NotPrincipal":{"AWS":"arn:aws:iam::`+other.account+`:root"}`, 1),
		grant("Allow", `"*"`, "s3:GetObject", arn+"/*", `{"Null":{"aws:PrincipalArn":"true"}}`),
		grant("Allow", `"*"`, "s3:GetObject", arn+"/*", `{"IpAddress":{"aws:SourceIp":"1.2.3.4/0"}}`),
		grant("Allow", `"*"`, "s3:GetObject", arn+"/*", `{"IpAddress":{"aws:SourceIp":["10.0.0.0/8","0.0.0.0/1"]}}`),
		grant("Allow", `"*"`, "s3:GetObject", arn+"/*", `{"IpAddress":{"aws:SourceIp":"2000::/3"}}`),
		grant("Allow", `"*"`, "s3:GetObject", arn+"/*", `{"IpAddress":{"aws:SourceIp":"::ffff:0.0.0.0/96"}}`),
	} {
		wantError(t, set(wide), "AccessDenied", "because public policies are prevented by the BlockPublicPolicy setting in S3 Block Public Access.")
	}
	if err := set(grant("Allow", `"*"`, "s3:GetObject", arn+"/*", `{"IpAddress":{"aws:SourceIp":["10.0.0.0/8","2001:db8::/32"]}}`)); err != nil {
		t.Errorf("a policy for networks is not public: %v", err)
	}
	block := func(b s3types.PublicAccessBlockConfiguration) {
		testkit.Must(c.PutPublicAccessBlock(ctx, &awss3.PutPublicAccessBlockInput{Bucket: c.bucket, PublicAccessBlockConfiguration: &b}))(t)
	}
	block(s3types.PublicAccessBlockConfiguration{})
	if err := set(everybody); err != nil {
		t.Fatal(err)
	}
	theirs.want("k", "x")
	if got := testkit.Must(c.GetBucketPolicyStatus(ctx, &awss3.GetBucketPolicyStatusInput{Bucket: c.bucket}))(t); !*got.PolicyStatus.IsPublic {
		t.Error("the policy is not public")
	}
	block(s3types.PublicAccessBlockConfiguration{RestrictPublicBuckets: aws.Bool(true)})
	_, err = theirs.get("k")
	wantError(t, err, "AccessDenied", "")

	for _, tt := range []struct{ text, want string }{
		{"no JSON", "Policies must be valid JSON and the first byte must be '{'"},
		{document(grant("Allow", `"*"`, "s3:GetObject", "arn:aws:s3:::another/*", "")), "Policy has invalid resource"},
	} {
		_, err := c.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: c.bucket, Policy: &tt.text})
		wantError(t, err, "MalformedPolicy", tt.want)
	}
	testkit.Must(c.DeleteBucketPolicy(ctx, &awss3.DeleteBucketPolicyInput{Bucket: c.bucket}))(t)
	_, err = c.GetBucketPolicy(ctx, &awss3.GetBucketPolicyInput{Bucket: c.bucket})
	wantError(t, err, "NoSuchBucketPolicy", "The bucket policy does not exist")
}

// A bucket may be restricted to an endpoint, and an endpoint to buckets.
func TestEndpoints(t *testing.T) {
	w := newWorld(t, options{})
	c, ctx := w.bucket(t), t.Context()
	c.put("k", "x")
	user := c.as(document(statementFor("Allow", "s3:*", "*", "")))
	user.want("k", "x")
	arn := "arn:aws:s3:::" + *c.bucket
	deny := strings.Replace(statementFor("Deny", "s3:GetObject", arn+"/*", `{"StringNotEquals":{"aws:SourceVpce":"vpce-0123456789abcdef0"}}`), `"Action"`, `"Principal":"*","Action"`, 1)
	testkit.Must(c.PutBucketPolicy(ctx, &awss3.PutBucketPolicyInput{Bucket: c.bucket, Policy: aws.String(document(deny))}))(t)
	_, err := user.get("k")
	wantError(t, err, "AccessDenied", "with an explicit deny in a resource-based policy")
	_, err = c.get("k")
	wantError(t, err, "AccessDenied", "") // root, too

	any := func(resource string) string {
		return strings.Replace(document(statementFor("Allow", "*", resource, "")), `"Action"`, `"Principal":"*","Action"`, 1)
	}
	w.endpoint = any(arn + "/*")
	user.want("k", "x")
	w.endpoint = any("arn:aws:s3:::another/*")
	_, err = user.get("k")
	wantError(t, err, "AccessDenied", "because no VPC endpoint policy allows the s3:GetObject action")
	out := testkit.Must(user.DeleteObjects(ctx, &awss3.DeleteObjectsInput{Bucket: c.bucket, Delete: &s3types.Delete{Objects: []s3types.ObjectIdentifier{{Key: aws.String("k")}}}}))(t)
	if len(out.Errors) != 1 {
		t.Errorf("an endpoint that does not allow it deletes: %+v", out)
	}
}
