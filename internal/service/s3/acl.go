package s3

import (
	"context"
	"net/http"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// The groups to which an ACL can give access.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/acl-overview.html#specifying-grantee-predefined-groups
const (
	everybody     = "http://acs.amazonaws.com/groups/global/AllUsers"
	authenticated = "http://acs.amazonaws.com/groups/global/AuthenticatedUsers"
	logDelivery   = "http://acs.amazonaws.com/groups/s3/LogDelivery"
)

// ec2User is the canonical user ID of EC2, to which aws-exec-read gives access.
const ec2User = "6aa5a366c34c1cbe25dc49211496e913e0351eb0e8c37aa3477e40942ec6b97c"

// maxGrants is the maximum number of grants in an ACL.
const maxGrants = 100

const ownerFullControl = string(s3types.ObjectCannedACLBucketOwnerFullControl)

// An aclRequest is an ACL in one of the forms in which a request can specify it.
type aclRequest struct {
	canned                               string
	policy                               *s3types.AccessControlPolicy
	full, read, readACP, write, writeACP *string
}

func group(uri string, permissions ...s3types.Permission) (out []s3types.Grant) {
	for _, p := range permissions {
		out = append(out, s3types.Grant{Grantee: &s3types.Grantee{Type: s3types.TypeGroup, URI: &uri}, Permission: p})
	}
	return out
}

func user(id string, p s3types.Permission) s3types.Grant {
	return s3types.Grant{Grantee: &s3types.Grantee{Type: s3types.TypeCanonicalUser, ID: &id}, Permission: p}
}

// grants returns the grants of a request, or nil if it has no ACL. Objects belong to the owner of their bucket.
func (r aclRequest) grants(owner string) ([]s3types.Grant, error) {
	headers := slices.DeleteFunc(r.headers(), func(h grantHeader) bool { return h.text == nil })
	if r.policy == nil && r.canned == "" && len(headers) == 0 {
		return nil, nil
	}
	if r.canned != "" && len(headers) > 0 {
		return nil, invalid("InvalidRequest", "Specifying both Canned ACLs and Header Grants is not allowed")
	}
	if r.policy != nil {
		if r.canned != "" || len(headers) > 0 {
			return nil, invalid("UnexpectedContent", "This request does not support content")
		}
		if r.policy.Owner != nil && aws.ToString(r.policy.Owner.ID) != owner {
			return nil, errAccessDenied()
		}
		return checkGrants(r.policy.Grants)
	}
	own := []s3types.Grant{user(owner, s3types.PermissionFullControl)}
	switch r.canned {
	case "":
		var out []s3types.Grant
		for _, h := range headers {
			list, err := parseGrantees(*h.text, h.permission)
			if err != nil {
				return nil, err
			}
			out = append(out, list...)
		}
		return checkGrants(out)
	case "private", ownerFullControl, "bucket-owner-read":
		return own, nil
	case "public-read":
		return append(own, group(everybody, s3types.PermissionRead)...), nil
	case "public-read-write":
		return append(own, group(everybody, s3types.PermissionRead, s3types.PermissionWrite)...), nil
	case "authenticated-read":
		return append(own, group(authenticated, s3types.PermissionRead)...), nil
	case "log-delivery-write":
		return append(own, group(logDelivery, s3types.PermissionWrite, s3types.PermissionReadAcp)...), nil
	case "aws-exec-read":
		return append(own, user(ec2User, s3types.PermissionRead)), nil
	}
	return nil, errArgument("x-amz-acl", r.canned, "")
}

// A grantHeader is a header such as x-amz-grant-read. Its text is nil if the request lacks it.
type grantHeader struct {
	permission s3types.Permission
	text       *string
}

func (r aclRequest) headers() []grantHeader {
	return []grantHeader{
		{s3types.PermissionFullControl, r.full}, {s3types.PermissionRead, r.read}, {s3types.PermissionReadAcp, r.readACP},
		{s3types.PermissionWrite, r.write}, {s3types.PermissionWriteAcp, r.writeACP},
	}
}

// parseGrantees parses a header such as x-amz-grant-read: id="ID", uri="URI".
func parseGrantees(text string, p s3types.Permission) (out []s3types.Grant, err error) {
	for one := range strings.SplitSeq(text, ",") {
		kind, value, _ := strings.Cut(strings.TrimSpace(one), "=")
		value = strings.Trim(value, `"`)
		switch strings.ToLower(kind) {
		case "id":
			out = append(out, user(value, p))
		case "uri":
			out = append(out, group(value, p)...)
		case "emailaddress":
			out = append(out, s3types.Grant{Grantee: &s3types.Grantee{Type: s3types.TypeAmazonCustomerByEmail, EmailAddress: &value}, Permission: p})
		default:
			return nil, errArgument("x-amz-grant-"+strings.ToLower(strings.ReplaceAll(string(p), "_", "-")), text, "Argument format not recognized")
		}
	}
	return out, nil
}

var canonicalForm = regexp.MustCompile(`^[0-9a-f]{64}$`)

// checkGrants returns the grants as S3 shows them.
// AWS deviation: every well-formed canonical user ID is accepted; AWS refuses those of accounts that do not exist.
func checkGrants(list []s3types.Grant) ([]s3types.Grant, error) {
	if len(list) > maxGrants {
		return nil, errMalformedACL()
	}
	out := []s3types.Grant{}
	for _, g := range list {
		if g.Grantee == nil || !slices.Contains(g.Permission.Values(), g.Permission) {
			return nil, errMalformedACL()
		}
		switch g.Grantee.Type {
		case s3types.TypeCanonicalUser:
			id := aws.ToString(g.Grantee.ID)
			if !canonicalForm.MatchString(id) {
				return nil, errArgument("CanonicalUser/ID", id, "Invalid id")
			}
			out = append(out, user(id, g.Permission))
		case s3types.TypeGroup:
			uri := aws.ToString(g.Grantee.URI)
			if uri != everybody && uri != authenticated && uri != logDelivery {
				return nil, errArgument("Group/URI", uri, "Invalid group uri")
			}
			out = append(out, group(uri, g.Permission)...)
		case s3types.TypeAmazonCustomerByEmail:
			// S3 has not accepted e-mail addresses of grantees since October 2025.
			// https://docs.aws.amazon.com/AmazonS3/latest/userguide/acl-overview.html#specifying-grantee
			return nil, invalid("UnresolvableGrantByEmailAddress", "The e-mail address you provided does not match any account on record.").With("EmailAddress", aws.ToString(g.Grantee.EmailAddress))
		default:
			return nil, errMalformedACL()
		}
	}
	return out, nil
}

// publicGrants reports whether an ACL gives access to everybody or to all AWS accounts.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html#access-control-block-public-access-policy-status
func publicGrants(list []s3types.Grant) bool { return slices.ContainsFunc(list, publicGrant) }

func publicGrant(g s3types.Grant) bool {
	uri := aws.ToString(g.Grantee.URI)
	return uri == everybody || uri == authenticated
}

// ownerOnly reports whether an ACL gives full control to the owner, and nothing to others.
func ownerOnly(list []s3types.Grant, owner string) bool {
	full := false
	for _, g := range list {
		if aws.ToString(g.Grantee.ID) != owner {
			return false
		}
		full = full || g.Permission == s3types.PermissionFullControl
	}
	return full
}

// newACL returns the grants for a new object. If ACLs are disabled, only those are accepted that give full control to
// the bucket's owner; "private" does so if the bucket's owner makes the request.
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_PutObject.html
func (b *bucket) newACL(ctx context.Context, action, key string, r aclRequest) ([]s3types.Grant, error) {
	call, owner := awsapi.CallFrom(ctx), *canonicalID(b.key.Account)
	list, err := r.grants(owner)
	if err != nil || list == nil {
		return nil, err
	}
	if b.Ownership == enforced && (!ownerOnly(list, owner) || call.Account != b.key.Account && r.canned != "" && r.canned != ownerFullControl) {
		return nil, errACL()
	}
	return list, b.checkPublic(call, action, key, list)
}

// changedACL returns the grants of a request that replaces an ACL: of the bucket, or of the object with the given key.
func (b *bucket) changedACL(ctx context.Context, action, key string, r aclRequest) ([]s3types.Grant, error) {
	owner := *canonicalID(b.key.Account)
	list, err := r.grants(owner)
	switch {
	case err != nil:
		return nil, err
	case b.Ownership == enforced && (!ownerOnly(list, owner) || r.canned == "private"):
		return nil, errACL()
	case list == nil:
		return nil, invalid("MissingSecurityHeader", "Your request was missing a required header").With("MissingHeaderName", "x-amz-acl")
	}
	return list, b.checkPublic(awsapi.CallFrom(ctx), action, key, list)
}

// checkPublic refuses a public ACL while those are blocked. The action is the operation's name, also of CopyObject.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/troubleshoot-403-errors.html#access-denied-bpa
func (b *bucket) checkPublic(call *awsapi.Call, action, key string, list []s3types.Grant) error {
	if p := b.PublicAccess; p == nil || !aws.ToBool(p.BlockPublicAcls) || !publicGrants(list) {
		return nil
	}
	resource := b.arn()
	if key != "" {
		resource += "/" + key
	}
	return awserr.New("AccessDenied", "User: "+call.Principal.ARN+" is not authorized to perform: "+action+" on resource: \""+resource+
		"\" because public ACLs are prevented by the BlockPublicAcls setting in S3 Block Public Access.").WithStatus(http.StatusForbidden)
}

// effective returns the grants of an ACL that are in force.
func (b *bucket) effective(list []s3types.Grant) []s3types.Grant {
	if p := b.PublicAccess; p == nil || !aws.ToBool(p.IgnorePublicAcls) {
		return list
	}
	return slices.DeleteFunc(slices.Clone(list), publicGrant)
}

// shownACL returns the owner and the grants of a bucket or an object: those that are in force. Without ACLs the owner
// has full control.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/access-control-block-public-access.html#access-control-block-public-access-options
func (b *bucket) shownACL(list []s3types.Grant) (*s3types.Owner, []s3types.Grant) {
	id := canonicalID(b.key.Account)
	if list == nil || b.Ownership == enforced {
		list = []s3types.Grant{user(*id, s3types.PermissionFullControl)}
	}
	return &s3types.Owner{ID: id}, b.effective(list)
}

// What the permissions of an ACL allow: on a bucket, on an object, and on a version of an object.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/acl-overview.html#acl-access-policy-permission-mapping
var (
	bucketPermissions = map[s3types.Permission][]string{
		s3types.PermissionRead:     {"s3:ListBucket", "s3:ListBucketVersions", "s3:ListBucketMultipartUploads"},
		s3types.PermissionWrite:    {"s3:PutObject"},
		s3types.PermissionReadAcp:  {"s3:GetBucketAcl"},
		s3types.PermissionWriteAcp: {"s3:PutBucketAcl"},
	}
	objectPermissions = map[s3types.Permission][]string{
		s3types.PermissionRead:     {"s3:GetObject"},
		s3types.PermissionReadAcp:  {"s3:GetObjectAcl"},
		s3types.PermissionWriteAcp: {"s3:PutObjectAcl"},
	}
	versionPermissions = map[s3types.Permission][]string{
		s3types.PermissionRead:     {"s3:GetObjectVersion"},
		s3types.PermissionReadAcp:  {"s3:GetObjectVersionAcl"},
		s3types.PermissionWriteAcp: {"s3:PutObjectVersionAcl"},
	}
)

// statementsOf returns what an ACL allows the caller, as statements of a policy.
func statementsOf(call *awsapi.Call, b *bucket, list []s3types.Grant, allow map[s3types.Permission][]string) (out []policy.Statement) {
	for _, g := range b.effective(list) {
		who := &policy.Principals{All: true}
		switch {
		case g.Grantee.Type == s3types.TypeCanonicalUser:
			if call.Account == b.key.Account || aws.ToString(g.Grantee.ID) != *canonicalID(call.Account) {
				continue // the owner needs no ACL
			}
			who = &policy.Principals{AWS: []string{call.Account}}
		case *g.Grantee.URI == logDelivery, *g.Grantee.URI == authenticated && call.Principal.Type == awsapi.AnonymousCaller:
			continue
		}
		actions := allow[g.Permission]
		if g.Permission == s3types.PermissionFullControl {
			for _, p := range g.Permission.Values() {
				actions = append(actions, allow[p]...)
			}
		}
		if len(actions) > 0 {
			out = append(out, policy.Statement{Principals: who, Actions: actions, Resources: []string{b.arn(), b.arn() + "/*"}})
		}
	}
	return out
}

// allowed returns what the ACLs of the bucket and of an object, or of a version of it, allow the caller.
func (s *Service) allowed(call *awsapi.Call, b *bucket, key, version string) []policy.Statement {
	if b.Ownership == enforced {
		return nil
	}
	out := statementsOf(call, b, b.Grants, bucketPermissions)
	switch {
	case key == "":
	case version != "":
		if o, _, err := b.find(s.store, key, version); err == nil {
			out = append(out, statementsOf(call, b, o.Grants, versionPermissions)...)
		}
	default:
		if o, err := b.current(s.store, key); err == nil && o != nil {
			out = append(out, statementsOf(call, b, o.Grants, objectPermissions)...)
		}
	}
	return out
}

// GetBucketAcl returns the ACL of a bucket.
func (s *Service) GetBucketAcl(ctx context.Context, in *awss3.GetBucketAclInput) (*awss3.GetBucketAclOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	owner, grants := b.shownACL(b.Grants)
	return &awss3.GetBucketAclOutput{Owner: owner, Grants: grants}, nil
}

// PutBucketAcl replaces the ACL of a bucket.
func (s *Service) PutBucketAcl(ctx context.Context, in *awss3.PutBucketAclInput) (*awss3.PutBucketAclOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	list, err := b.changedACL(ctx, "s3:PutBucketAcl", "", aclRequest{string(in.ACL), in.AccessControlPolicy, in.GrantFullControl, in.GrantRead, in.GrantReadACP, in.GrantWrite, in.GrantWriteACP})
	if err != nil {
		return nil, err
	}
	return &awss3.PutBucketAclOutput{}, s.change(ctx, in.Bucket, nil, func(b *bucketRecord) error {
		b.Grants = list
		return nil
	})
}

// GetObjectAcl returns the ACL of an object.
func (s *Service) GetObjectAcl(ctx context.Context, in *awss3.GetObjectAclInput) (*awss3.GetObjectAclOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	o, err := s.version(ctx, &b, aws.ToString(in.Key), in.VersionId)
	if err != nil {
		return nil, err
	}
	owner, grants := b.shownACL(o.Grants)
	return &awss3.GetObjectAclOutput{Owner: owner, Grants: grants}, nil
}

// PutObjectAcl replaces the ACL of an object.
func (s *Service) PutObjectAcl(ctx context.Context, in *awss3.PutObjectAclInput) (*awss3.PutObjectAclOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	list, err := b.changedACL(ctx, "s3:PutObjectAcl", aws.ToString(in.Key), aclRequest{string(in.ACL), in.AccessControlPolicy, in.GrantFullControl, in.GrantRead, in.GrantReadACP, in.GrantWrite, in.GrantWriteACP})
	if err != nil {
		return nil, err
	}
	o, err := s.version(ctx, &b, aws.ToString(in.Key), in.VersionId)
	if err != nil {
		return nil, err
	}
	_, err = s.changeVersion(ctx, &b, o, func(o *objectRecord) error {
		o.Grants = list
		return nil
	})
	return &awss3.PutObjectAclOutput{}, err
}

// changeVersion changes the record of a version, and returns its ID for a response.
func (s *Service) changeVersion(ctx context.Context, b *bucket, o *objectRecord, change func(*objectRecord) error) (*string, error) {
	return b.shownVersion(o), s.store.Update(ctx, func(tx *store.Tx) error {
		_, at, err := b.find(tx, o.Key, o.Version)
		if err != nil {
			return err
		}
		list := objects
		if at != b.objectKey(o.Key) {
			list = noncurrent
		}
		return list.Update(tx, at, change)
	})
}
