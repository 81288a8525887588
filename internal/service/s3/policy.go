package s3

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"net/netip"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/policy"
)

// maxPolicy is the maximum size of a bucket policy.
// https://docs.aws.amazon.com/general/latest/gr/s3.html
const maxPolicy = 20 << 10

// A statement has the elements of a policy statement that S3 itself checks.
type statement struct {
	Effect                            string
	Principal, NotPrincipal, Resource any
	NotResource                       any
	Condition                         map[string]map[string]any
}

func statements(text string) []statement {
	var doc struct{ Statement json.RawMessage }
	var list []statement
	if json.Unmarshal([]byte(text), &doc) != nil {
		return nil
	}
	if json.Unmarshal(doc.Statement, &list) != nil {
		list = make([]statement, 1)
		_ = json.Unmarshal(doc.Statement, &list[0]) // checked by package policy
	}
	return list
}

// texts returns the strings in a policy element, which is a string or a list of strings.
func texts(v any) (out []string) {
	switch v := v.(type) {
	case string:
		return []string{v}
	case []any:
		for _, e := range v {
			out = append(out, texts(e)...)
		}
	}
	return out
}

// fixed are the condition keys with which a statement for everyone does not count as public.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html
var fixed = []string{
	"aws:sourceip", "aws:sourcearn", "aws:sourcevpc", "aws:sourcevpce", "aws:sourceowner", "aws:sourceaccount", "aws:userid", "aws:principalarn",
	"aws:principalaccount", "aws:principalorgid", "s3:x-amz-server-side-encryption-aws-kms-key-id", "s3:dataaccesspointarn", "s3:dataaccesspointaccount",
}

// public reports whether a bucket policy allows anything to everyone.
func public(text string) bool {
	for _, st := range statements(text) {
		everybody := st.NotPrincipal != nil
		for _, p := range texts(st.Principal) {
			everybody = everybody || p == "*"
		}
		if m, ok := st.Principal.(map[string]any); ok {
			for _, p := range texts(m["AWS"]) {
				everybody = everybody || p == "*"
			}
		}
		if st.Effect == "Allow" && everybody && !restricted(st) {
			return true
		}
	}
	return false
}

// restricted reports whether a condition restricts the statement to fixed callers or networks.
func restricted(st statement) bool {
	for operator, keys := range st.Condition {
		if strings.Contains(operator, "Not") || strings.HasPrefix(operator, "ForAll") || strings.HasSuffix(operator, "IfExists") || operator == "Null" {
			continue
		}
		for key, values := range keys {
			for _, f := range fixed {
				wild := false
				for _, v := range texts(values) {
					wild = wild || strings.ContainsAny(v, "*?$") || wide(v)
				}
				if strings.EqualFold(key, f) && !wild {
					return true
				}
			}
		}
	}
	return false
}

// wide reports whether a value is a range of addresses that S3 takes for public: broader than /8, and than /32 of IPv6.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html#access-control-block-public-access-policy-status
func wide(value string) bool {
	p, err := netip.ParsePrefix(value)
	if err != nil {
		return false
	}
	bits, narrow := p.Bits(), 32
	if p.Addr().Is4In6() {
		bits -= 96
	}
	if p.Addr().Unmap().Is4() {
		narrow = 8
	}
	return bits < narrow
}

// PutBucketPolicy sets the policy of a bucket.
func (s *Service) PutBucketPolicy(ctx context.Context, in *awss3.PutBucketPolicyInput) (*awss3.PutBucketPolicyOutput, error) {
	text := aws.ToString(in.Policy)
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	if len(text) > maxPolicy {
		return nil, errMalformedPolicy("Policy exceeds the maximum allowed document size.")
	}
	if !json.Valid([]byte(text)) {
		return nil, errMalformedPolicy("Policies must be valid JSON and the first byte must be '{'")
	}
	var fields map[string]json.RawMessage
	if err := json.Unmarshal([]byte(text), &fields); err == nil && fields["Statement"] == nil {
		return nil, errMalformedPolicy("Missing required field Statement") // [recorded] test_s3_api, test_bucket_policy_exc
	}
	if _, err := policy.Parse(policy.Resource, text); err != nil {
		bad := (*policy.MalformedError)(nil)
		if errors.As(err, &bad) {
			return nil, errMalformedPolicy(bad.Error())
		}
		return nil, err
	}
	for _, st := range statements(text) {
		for _, r := range append(texts(st.Resource), texts(st.NotResource)...) {
			name, _, _ := strings.Cut(strings.TrimPrefix(r, "arn:aws:s3:::"), "/")
			if r != "*" && name != b.Name && !(strings.HasPrefix(r, "arn:aws:s3:::") && strings.ContainsAny(name, "*?")) {
				return nil, errMalformedPolicy("Policy has invalid resource")
			}
		}
	}
	if p := b.PublicAccess; p != nil && aws.ToBool(p.BlockPublicPolicy) && public(text) {
		return nil, awserr.New("AccessDenied", "User: "+awsapi.CallFrom(ctx).Principal.ARN+" is not authorized to perform: s3:PutBucketPolicy on resource: \""+b.arn()+
			"\" because public policies are prevented by the BlockPublicPolicy setting in S3 Block Public Access.").WithStatus(http.StatusForbidden)
	}
	return &awss3.PutBucketPolicyOutput{}, s.change(ctx, in.Bucket, nil, func(b *bucketRecord) error {
		b.Policy = text
		return nil
	})
}

// GetBucketPolicy returns the policy of a bucket.
func (s *Service) GetBucketPolicy(ctx context.Context, in *awss3.GetBucketPolicyInput) (*awss3.GetBucketPolicyOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err == nil && b.Policy == "" {
		err = errNoPolicy(b.Name)
	}
	if err != nil {
		return nil, err
	}
	return &awss3.GetBucketPolicyOutput{Policy: &b.Policy}, nil
}

func errNoPolicy(name string) error {
	return notFound("NoSuchBucketPolicy", "The bucket policy does not exist").With("BucketName", name)
}

// GetBucketPolicyStatus returns whether the policy of a bucket is public.
func (s *Service) GetBucketPolicyStatus(ctx context.Context, in *awss3.GetBucketPolicyStatusInput) (*awss3.GetBucketPolicyStatusOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err == nil && b.Policy == "" {
		err = errNoPolicy(b.Name)
	}
	if err != nil {
		return nil, err
	}
	return &awss3.GetBucketPolicyStatusOutput{PolicyStatus: &s3types.PolicyStatus{IsPublic: aws.Bool(public(b.Policy))}}, nil
}

// DeleteBucketPolicy removes the policy of a bucket.
func (s *Service) DeleteBucketPolicy(ctx context.Context, in *awss3.DeleteBucketPolicyInput) (*awss3.DeleteBucketPolicyOutput, error) {
	return &awss3.DeleteBucketPolicyOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.Policy = ""
		return nil
	})
}

// PutPublicAccessBlock sets which public access to a bucket is blocked.
func (s *Service) PutPublicAccessBlock(ctx context.Context, in *awss3.PutPublicAccessBlockInput) (*awss3.PutPublicAccessBlockOutput, error) {
	c := *in.PublicAccessBlockConfiguration
	for _, f := range []**bool{&c.BlockPublicAcls, &c.BlockPublicPolicy, &c.IgnorePublicAcls, &c.RestrictPublicBuckets} {
		*f = cmp.Or(*f, aws.Bool(false))
	}
	return &awss3.PutPublicAccessBlockOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.PublicAccess = &c
		return nil
	})
}

// GetPublicAccessBlock returns which public access to a bucket is blocked.
func (s *Service) GetPublicAccessBlock(ctx context.Context, in *awss3.GetPublicAccessBlockInput) (*awss3.GetPublicAccessBlockOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	if b.PublicAccess == nil {
		return nil, notFound("NoSuchPublicAccessBlockConfiguration", "The public access block configuration was not found").With("BucketName", b.Name)
	}
	return &awss3.GetPublicAccessBlockOutput{PublicAccessBlockConfiguration: b.PublicAccess}, nil
}

// DeletePublicAccessBlock unblocks all public access to a bucket.
func (s *Service) DeletePublicAccessBlock(ctx context.Context, in *awss3.DeletePublicAccessBlockInput) (*awss3.DeletePublicAccessBlockOutput, error) {
	return &awss3.DeletePublicAccessBlockOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.PublicAccess = nil
		return nil
	})
}

// enforced is the ownership setting that disables ACLs. New buckets have it by default.
const enforced = string(s3types.ObjectOwnershipBucketOwnerEnforced)

// PutBucketOwnershipControls sets who owns the objects of a bucket.
func (s *Service) PutBucketOwnershipControls(ctx context.Context, in *awss3.PutBucketOwnershipControlsInput) (*awss3.PutBucketOwnershipControlsOutput, error) {
	rules := in.OwnershipControls.Rules
	if len(rules) != 1 {
		return nil, errMalformedXML()
	}
	switch rules[0].ObjectOwnership {
	case s3types.ObjectOwnershipBucketOwnerEnforced, s3types.ObjectOwnershipBucketOwnerPreferred, s3types.ObjectOwnershipObjectWriter:
	default:
		return nil, errMalformedXML()
	}
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	owner := *canonicalID(b.key.Account)
	return &awss3.PutBucketOwnershipControlsOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		if b.Ownership = string(rules[0].ObjectOwnership); b.Ownership == enforced && b.Grants != nil && !ownerOnly(b.Grants, owner) {
			return errACLWithOwnership()
		}
		return nil
	})
}

// GetBucketOwnershipControls returns who owns the objects of a bucket.
func (s *Service) GetBucketOwnershipControls(ctx context.Context, in *awss3.GetBucketOwnershipControlsInput) (*awss3.GetBucketOwnershipControlsOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	if b.Ownership == "" {
		return nil, notFound("OwnershipControlsNotFoundError", "The bucket ownership controls were not found").With("BucketName", b.Name)
	}
	return &awss3.GetBucketOwnershipControlsOutput{OwnershipControls: &s3types.OwnershipControls{Rules: []s3types.OwnershipControlsRule{{ObjectOwnership: s3types.ObjectOwnership(b.Ownership)}}}}, nil
}

// DeleteBucketOwnershipControls removes the ownership setting.
func (s *Service) DeleteBucketOwnershipControls(ctx context.Context, in *awss3.DeleteBucketOwnershipControlsInput) (*awss3.DeleteBucketOwnershipControlsOutput, error) {
	return &awss3.DeleteBucketOwnershipControlsOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.Ownership = ""
		return nil
	})
}
