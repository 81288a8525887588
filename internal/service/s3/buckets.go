package s3

import (
	"cmp"
	"context"
	"errors"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/paging"
	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/catalog/regions"
	"github.com/drydock-dev/drydock/internal/store"
)

// usEast1 is the region whose endpoint also creates buckets in other regions.
const usEast1 = "us-east-1"

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/bucketnamingrules.html
var bucketName = regexp.MustCompile(`^[a-z0-9](?:[a-z0-9.-]{1,61})[a-z0-9]$`)

func validBucketName(name string) bool {
	if !bucketName.MatchString(name) || strings.Contains(name, "..") || strings.Contains(name, ".-") || strings.Contains(name, "-.") {
		return false
	}
	for _, prefix := range []string{"xn--", "sthree-", "amzn-s3-demo-"} {
		if strings.HasPrefix(name, prefix) {
			return false
		}
	}
	for _, suffix := range []string{"-s3alias", "--ol-s3", ".mrap", "--x-s3", "--table-s3"} {
		if strings.HasSuffix(name, suffix) {
			return false
		}
	}
	_, err := netip.ParseAddr(name)
	return err != nil
}

// CreateBucket creates a bucket with the settings that new buckets have had since April 2023: no public access, no
// ACLs, encrypted with S3's own keys.
func (s *Service) CreateBucket(ctx context.Context, in *awss3.CreateBucketInput) (*awss3.CreateBucketOutput, error) {
	call, name := awsapi.CallFrom(ctx), aws.ToString(in.Bucket)
	if !validBucketName(name) {
		return nil, errBucketName(name)
	}
	ownership := cmp.Or(string(in.ObjectOwnership), enforced)
	if !slices.Contains(s3types.ObjectOwnership("").Values(), s3types.ObjectOwnership(ownership)) {
		// [recorded] test_s3_api, test_bucket_ownership_controls_exc
		return nil, invalid("InvalidArgument", "Invalid x-amz-object-ownership header: "+ownership).With("ArgumentName", "x-amz-object-ownership")
	}
	owner := *canonicalID(call.Account)
	grants, err := aclRequest{string(in.ACL), nil, in.GrantFullControl, in.GrantRead, in.GrantReadACP, in.GrantWrite, in.GrantWriteACP}.grants(owner)
	switch {
	case err != nil:
		return nil, err
	case grants != nil && ownership == enforced && !ownerOnly(grants, owner):
		return nil, errACLWithOwnership()
	case publicGrants(grants):
		return nil, invalid("InvalidBucketAclWithBlockPublicAccessError", "Bucket cannot have public ACLs set with BlockPublicAccess enabled")
	}
	rec := bucketRecord{
		Name: name, Created: s.now(), Ownership: ownership, Grants: grants,
		PublicAccess: &s3types.PublicAccessBlockConfiguration{
			BlockPublicAcls: aws.Bool(true), BlockPublicPolicy: aws.Bool(true), IgnorePublicAcls: aws.Bool(true), RestrictPublicBuckets: aws.Bool(true),
		},
	}
	if aws.ToBool(in.ObjectLockEnabledForBucket) {
		rec.Versioning, rec.ObjectLock = versioningOn, &s3types.ObjectLockConfiguration{ObjectLockEnabled: s3types.ObjectLockEnabledEnabled}
	}
	constraint := ""
	if c := in.CreateBucketConfiguration; c != nil {
		constraint = string(c.LocationConstraint)
		var err error
		// [recorded] test_s3_api, test_create_bucket_with_tags_exc
		if rec.Tags, err = tagsOf(c.Tags, maxBucketTags, `User-defined tag keys can't start with "aws:". This prefix is reserved for system tags. Remove "aws:" from your tag keys and try again.`); err != nil {
			return nil, err
		}
	}
	region, err := regionFor(call.Region, constraint)
	if err != nil {
		return nil, err
	}
	key := store.Key{Account: call.Account, Region: region, ID: name}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		old, err := s.lookup(tx, call.Account, region, name)
		switch {
		case err != nil:
			return buckets.Create(tx, key, rec)
		case old.key.Account != call.Account:
			return errBucketExists(name)
		case region == usEast1 && old.key.Region == usEast1 && len(rec.Tags) == 0:
			return nil // for compatibility, creating it again succeeds there, without tags
		}
		return errBucketYours(name)
	})
	out := &awss3.CreateBucketOutput{Location: aws.String("/" + name), BucketArn: aws.String(bucketARN(name))}
	if call.Region != region || region != usEast1 {
		out.Location = aws.String("http://" + name + ".s3.amazonaws.com/")
	}
	return out, err
}

func regionFor(endpoint, constraint string) (string, error) {
	given := constraint
	if constraint == "EU" {
		constraint = "eu-west-1"
	}
	switch {
	case constraint == "" && endpoint == usEast1:
		return usEast1, nil
	case constraint == "":
		return "", errLocation("")
	case constraint == endpoint && endpoint != usEast1:
		return endpoint, nil
	}
	// [recorded] test_s3, test_create_bucket_with_eu_location_constraint_raises, test_create_bucket_with_invalid_location_constraint
	if endpoint != usEast1 {
		return "", errLocation(given)
	}
	if _, known := regions.Lookup(constraint); !known || constraint == usEast1 {
		return "", errBadLocation(constraint)
	}
	return constraint, nil
}

// HeadBucket reports whether the bucket exists.
func (s *Service) HeadBucket(ctx context.Context, in *awss3.HeadBucketInput) (*awss3.HeadBucketOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	return &awss3.HeadBucketOutput{
		BucketRegion: &b.key.Region, AccessPointAlias: aws.Bool(false), BucketArn: aws.String(b.arn()),
	}, nil
}

// GetBucketLocation returns the region of the bucket. It can be called in any region.
func (s *Service) GetBucketLocation(ctx context.Context, in *awss3.GetBucketLocationInput) (*awss3.GetBucketLocationOutput, error) {
	call := awsapi.CallFrom(ctx)
	b, err := s.lookup(s.store, call.Account, call.Region, aws.ToString(in.Bucket))
	if err != nil {
		return nil, err
	}
	out := &awss3.GetBucketLocationOutput{}
	if b.key.Region != usEast1 { // which is the empty location
		out.LocationConstraint = s3types.BucketLocationConstraint(b.key.Region)
	}
	return out, nil
}

// ListBuckets lists the account's buckets in all regions.
func (s *Service) ListBuckets(ctx context.Context, in *awss3.ListBucketsInput) (*awss3.ListBucketsOutput, error) {
	rules := paging.Rules{BadToken: func(string) error {
		return errArgument("continuation-token", aws.ToString(in.ContinuationToken), "The continuation token provided is incorrect")
	}}
	page, err := rules.Start(in.MaxBuckets, in.ContinuationToken)
	if err != nil {
		return nil, err
	}
	account := awsapi.CallFrom(ctx).Account
	all := buckets.All(s.store, store.Scope{Account: account})
	slices.SortFunc(all, func(a, b store.Item[bucketRecord]) int { return strings.Compare(a.Key.ID, b.Key.ID) })
	out := &awss3.ListBucketsOutput{Buckets: []s3types.Bucket{}, Owner: &s3types.Owner{ID: canonicalID(account)}, Prefix: in.Prefix}
	for _, b := range all {
		if b.Key.ID <= page.After || !strings.HasPrefix(b.Key.ID, aws.ToString(in.Prefix)) || in.BucketRegion != nil && *in.BucketRegion != b.Key.Region {
			continue
		}
		if page.Full() {
			break
		}
		one := s3types.Bucket{Name: &b.Key.ID, CreationDate: &b.Value.Created, BucketArn: aws.String(bucketARN(b.Key.ID))}
		// "If the request contains at least one valid parameter, it is included in the response."
		// https://docs.aws.amazon.com/AmazonS3/latest/API/API_Bucket.html
		if in.MaxBuckets != nil || in.Prefix != nil || in.ContinuationToken != nil || in.BucketRegion != nil {
			one.BucketRegion = &b.Key.Region
		}
		out.Buckets = append(out.Buckets, one)
		page.Add(b.Key.ID)
	}
	out.ContinuationToken = page.Next()
	return out, nil
}

// DeleteBucket deletes an empty bucket. The bucket may have unfinished uploads, which it removes.
func (s *Service) DeleteBucket(ctx context.Context, in *awss3.DeleteBucketInput) (*awss3.DeleteBucketOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		rec, err := buckets.Get(tx, b.key)
		if err != nil {
			return store.NotFoundAs(err, errNoBucket(b.Name))
		}
		empty := true
		occupied := func(store.Key, objectRecord) bool { empty = false; return false }
		objects.Scan(tx, b.all(""), "", occupied)
		noncurrent.Scan(tx, b.all(""), "", occupied)
		if !empty || len(objects.Unreadable(tx, b.all(""))) > 0 {
			return errBucketNotEmpty(b.Name, rec.Versioning != "")
		}
		buckets.Delete(tx, b.key)
		return nil
	})
	if err != nil {
		return nil, err
	}
	for _, u := range uploads.All(s.store, b.all("")) {
		if err := s.removeUpload(ctx, &b, u.Value.ID); err != nil {
			return nil, err
		}
	}
	return &awss3.DeleteBucketOutput{}, nil
}

// Run removes contents that no record refers to. Then, until ctx ends, it removes what has expired under the rules of
// its bucket.
func (s *Service) Run(ctx context.Context) error {
	if err := s.sweep(ctx); err != nil {
		s.log.ErrorContext(ctx, "cannot remove contents of objects that no longer exist", "err", err)
	}
	t := s.clock.NewTicker(expiryPause)
	defer t.Stop()
	for {
		s.expire(ctx)
		select {
		case <-t.C():
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// expiryPause is the time between two checks for expired objects. S3 checks once a day.
const expiryPause = 10 * time.Minute

// sweep removes parts without an upload and blobs without a record, which a crash may have left.
func (s *Service) sweep(ctx context.Context) error {
	for _, p := range parts.All(s.store, store.Scope{}) {
		owner := p.Key
		owner.ID = owner.ID[:strings.LastIndexByte(owner.ID, '/')]
		if _, err := uploads.Get(s.store, owner); !errors.Is(err, store.ErrNotFound) {
			continue
		}
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			parts.Delete(tx, p.Key)
			return nil
		})
		if err != nil {
			return err
		}
	}
	named := map[blobstore.Place]map[string]bool{}
	name := func(account string, blobs ...blobstore.Blob) {
		p := blobstore.Place{Account: account, Kind: kind}
		if named[p] == nil {
			named[p] = map[string]bool{}
		}
		for _, b := range blobs {
			named[p][b.ID] = true
		}
	}
	// All records are read at one moment, because a part may become an object, and an object a noncurrent version, at any
	// time.
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		if len(objects.Unreadable(tx, store.Scope{}))+len(noncurrent.Unreadable(tx, store.Scope{}))+len(parts.Unreadable(tx, store.Scope{})) > 0 {
			return errors.New("some records of objects are unreadable, so it is unknown which contents they name")
		}
		for _, list := range []store.Collection[objectRecord]{objects, noncurrent} {
			for _, o := range list.All(tx, store.Scope{}) {
				name(o.Key.Account, o.Value.blobs()...)
			}
		}
		for _, p := range parts.All(tx, store.Scope{}) {
			name(p.Key.Account, p.Value.Blob)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.blobs.Sweep(kind, func(p blobstore.Place, id string) bool { return named[p][id] })
}
