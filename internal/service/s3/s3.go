// Package s3 implements Amazon S3: buckets, objects and their versions, multipart uploads, and the configuration of
// buckets.
//
// Buckets, objects and uploads are records in the store. Contents are blobs (internal/blobstore) that the records refer
// to. A blob is on disk before its record is written, and is removed after its record.
//
//	PutObject ─► blob ─► object ─► noncurrent, when a newer version replaces it in a versioned bucket
//	UploadPart ─► blob ─► part ─► object, which CompleteMultipartUpload makes from the parts without copying them
//
// Package authz makes access decisions, including bucket policies and the policies of gateway endpoints. Only the
// composition root imports the package.
package s3

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"log/slog"
	"regexp"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what the service needs.
type Config struct {
	Store *store.Store
	Blobs *blobstore.Store
	KMS   KMS
	// Authorize decides about parts of a call that are refused individually (authz.Authorizer.AuthorizeTargets).
	Authorize func(ctx context.Context, call *awsapi.Call, in any, targets ...authz.Target) error
	Clock     clock.WithTicker // nil means the real clock
	Log       *slog.Logger     // nil means slog.Default
}

// Service is Amazon S3.
type Service struct {
	cfg   Config
	store *store.Store
	blobs *blobstore.Store
	clock clock.WithTicker
	log   *slog.Logger
	docs  policy.Documents
}

// New returns the service. Call Run to remove expired objects.
func New(cfg Config) *Service {
	s := &Service{cfg: cfg, store: cfg.Store, blobs: cfg.Blobs, clock: cfg.Clock, log: cfg.Log}
	if s.clock == nil {
		s.clock = clock.RealClock{}
	}
	if s.log == nil {
		s.log = slog.Default()
	}
	return s
}

// Module declares the service to the daemon.
func (s *Service) Module() module.Module {
	return module.Module{Service: s.AWS(), Resolver: s.Authz(), Run: s.Run, Tagging: s.taggable()}
}

// kind is the kind of the service's blobs.
const kind = "s3"

// now returns the time, truncated to seconds as S3 stores it: clients send Last-Modified back as a condition.
func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Second) }

// canonicalID returns the canonical user ID of an account, by which S3 identifies owners.
func canonicalID(account string) *string {
	sum := sha256.Sum256([]byte("canonical user of " + account))
	return aws.String(hex.EncodeToString(sum[:]))
}

// A bucket is a bucket's record and its place in the store.
type bucket struct {
	bucketRecord
	key store.Key
}

func (b *bucket) place() blobstore.Place { return blobstore.Place{Account: b.key.Account, Kind: kind} }

// below returns the key of a record that belongs to the bucket.
func (b *bucket) below(id string) store.Key { return b.key.Below(id) }

// all returns the scope of the bucket's records whose IDs begin with prefix.
func (b *bucket) all(prefix string) store.Scope {
	return store.Scope{Account: b.key.Account, Region: b.key.Region, Prefix: b.key.ID + "/" + prefix}
}

func (b *bucket) arn() string { return bucketARN(b.Name) }

func bucketARN(name string) string { return "arn:aws:s3:::" + name }

// lookup finds a bucket. It may belong to another account, because names are global.
func (s *Service) lookup(r store.Reader, account, region, name string) (bucket, error) {
	key := store.Key{Account: account, Region: region, ID: name}
	if rec, err := buckets.Get(r, key); err == nil {
		return bucket{rec, key}, nil
	}
	for _, b := range buckets.All(r, store.Scope{}) {
		if b.Key.ID == name {
			return bucket{b.Value, b.Key}, nil
		}
	}
	return bucket{}, errNoBucket(name)
}

// Exists reports whether any account has a bucket with a name.
func Exists(r store.Reader, name string) bool {
	for _, b := range buckets.All(r, store.Scope{}) {
		if b.Key.ID == name {
			return true
		}
	}
	return false
}

// bucket finds the bucket of a request. owner is the account that the caller expects to own it, if any.
func (s *Service) bucket(ctx context.Context, name, owner *string) (bucket, error) {
	return s.bucketIn(ctx, s.store, name, owner)
}

func (s *Service) bucketIn(ctx context.Context, r store.Reader, name, owner *string) (bucket, error) {
	call := awsapi.CallFrom(ctx)
	b, err := s.lookup(r, call.Account, call.Region, aws.ToString(name))
	switch {
	case err != nil:
		return b, err
	case owner != nil && !accountForm.MatchString(*owner):
		// [recorded] test_s3, test_get_bucket_policy_invalid_account_id
		return b, invalid("InvalidBucketOwnerAWSAccountID", "The value of the expected bucket owner parameter must be an AWS Account ID... ["+*owner+"]")
	case owner != nil && *owner != b.key.Account:
		return b, errAccessDenied()
	case call.Region != b.key.Region:
		return b, errRegion(call.Region, b.key.Region)
	}
	return b, nil
}

var accountForm = regexp.MustCompile(`^[0-9]{12}$`)

// change changes the record of a request's bucket.
func (s *Service) change(ctx context.Context, name, owner *string, fn func(*bucketRecord) error) error {
	b, err := s.bucket(ctx, name, owner)
	if err != nil {
		return err
	}
	return store.NotFoundAs(buckets.UpdateOne(ctx, s.store, b.key, fn), errNoBucket(*name))
}
