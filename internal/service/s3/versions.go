package s3

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"

	"github.com/aws/aws-sdk-go-v2/aws"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	versioningOn        = string(s3types.BucketVersioningStatusEnabled)
	versioningSuspended = string(s3types.BucketVersioningStatusSuspended)
)

// S3 refuses version IDs that it has never made. So a version ID is random text, and then the start of its hash.
const versionRandom, versionHash = 26, 6

func newVersion() string {
	text := rand.Text()[:versionRandom]
	return text + hashOfVersion(text)
}

func hashOfVersion(text string) string {
	sum := sha256.Sum256([]byte(text))
	return base32.StdEncoding.EncodeToString(sum[:])[:versionHash]
}

func validVersion(id string) bool {
	return id == nullVersion || len(id) == versionRandom+versionHash && hashOfVersion(id[:versionRandom]) == id[versionRandom:]
}

// replace makes o the current version of its key, and keeps the previous one if the bucket is versioned. It returns the
// versions that it removed.
func (s *Service) replace(tx *store.Tx, b *bucket, o *objectRecord) ([]objectRecord, error) {
	o.Version, o.Modified, o.Sequence = nullVersion, s.now(), s.clock.Now().UnixNano()
	b.retain(o)
	if b.Versioning == versioningOn {
		o.Version = newVersion()
	}
	old, err := objects.Get(tx, b.objectKey(o.Key))
	if store.IgnoreNotFound(err) != nil {
		return nil, err
	}
	var gone []objectRecord
	switch {
	case err != nil:
	case old.Version == o.Version:
		gone = append(gone, old)
	default:
		o.Sequence = max(o.Sequence, old.Sequence+1)
		if err := noncurrent.Put(tx, b.noncurrentKey(&old), old); err != nil {
			return nil, err
		}
	}
	if o.Version == nullVersion && b.Versioning != "" && len(gone) == 0 {
		// There is at most one null version.
		for _, v := range noncurrent.All(tx, b.noncurrentOf(o.Key)) {
			if v.Value.Version == nullVersion && v.Value.Sequence != old.Sequence {
				noncurrent.Delete(tx, v.Key)
				gone = append(gone, v.Value)
			}
		}
	}
	return gone, objects.Put(tx, b.objectKey(o.Key), *o)
}

// find returns a version of a key, and the key of its record.
func (b *bucket) find(r store.Reader, key, version string) (*objectRecord, store.Key, error) {
	at := b.objectKey(key)
	o, err := objects.Get(r, at)
	if store.IgnoreNotFound(err) != nil {
		return nil, at, err
	}
	if err == nil && o.Version == version {
		return &o, at, nil
	}
	for _, v := range noncurrent.All(r, b.noncurrentOf(key)) {
		if v.Value.Version == version {
			return &v.Value, v.Key, nil
		}
	}
	if !validVersion(version) {
		return nil, at, errBadVersion(version)
	}
	return nil, at, errNoVersion(key, version)
}

// A removal is the result of a deletion: members of its response.
type removal struct {
	marker  *bool
	version *string
}

// remove deletes an object or a version. bypass says that locks in governance mode do not protect the version.
func (s *Service) remove(ctx context.Context, b *bucket, key string, version, match *string, bypass bool) (removal, error) {
	if version != nil && *version != "" {
		return s.removeVersion(ctx, b, key, *version, match, bypass)
	}
	var done removal
	var gone []objectRecord
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		done, gone = removal{}, nil
		rec, err := buckets.Get(tx, b.key)
		if err != nil {
			return store.NotFoundAs(err, errNoBucket(b.Name))
		}
		b.bucketRecord = rec
		old, err := b.current(tx, key)
		if err != nil {
			return err
		}
		if match != nil {
			if err := (conditions{match: match}).check(old, key); err != nil {
				return err
			}
		}
		if b.Versioning == "" {
			if old != nil {
				gone = append(gone, *old)
				objects.Delete(tx, b.objectKey(key))
			}
			return nil
		}
		marker := objectRecord{Key: key, Marker: true}
		gone, err = s.replace(tx, b, &marker)
		done = removal{aws.Bool(true), &marker.Version}
		return err
	})
	s.forgetAll(ctx, b, gone, err)
	return done, err
}

// removeVersion deletes a version permanently. If it is the current one, the newest of the others takes its place.
func (s *Service) removeVersion(ctx context.Context, b *bucket, key, version string, match *string, bypass bool) (removal, error) {
	done := removal{version: &version}
	var gone []objectRecord
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		done.marker, gone = nil, nil
		o, at, err := b.find(tx, key, version)
		if err != nil {
			if awserr.CodeOf(err) == "NoSuchVersion" {
				return nil // as with keys, deleting a version that does not exist succeeds
			}
			return err
		}
		if match != nil {
			if err := (conditions{match: match}).check(o, key); err != nil {
				return err
			}
		}
		if o.Lock.protects(s.clock.Now(), bypass) {
			return errLocked()
		}
		if o.Marker {
			done.marker = aws.Bool(true)
		}
		gone = append(gone, *o)
		if at != b.objectKey(key) {
			noncurrent.Delete(tx, at)
			return nil
		}
		objects.Delete(tx, at)
		for _, next := range noncurrent.All(tx, b.noncurrentOf(key)) {
			noncurrent.Delete(tx, next.Key)
			return objects.Put(tx, at, next.Value)
		}
		return nil
	})
	s.forgetAll(ctx, b, gone, err)
	return done, err
}

// forgetAll removes the contents of removed versions, unless the transaction failed.
func (s *Service) forgetAll(ctx context.Context, b *bucket, gone []objectRecord, err error) {
	for i := range gone {
		if err == nil {
			s.forget(ctx, b.place(), gone[i].blobs())
		}
	}
}
