package s3

import (
	"cmp"
	"context"
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html
const maxRules = 1000

// PutBucketLifecycleConfiguration sets the lifecycle rules of a bucket. Expirations take effect. Transitions to other
// storage classes are stored and have no effect.
func (s *Service) PutBucketLifecycleConfiguration(ctx context.Context, in *awss3.PutBucketLifecycleConfigurationInput) (*awss3.PutBucketLifecycleConfigurationOutput, error) {
	if in.LifecycleConfiguration == nil || len(in.LifecycleConfiguration.Rules) == 0 || len(in.LifecycleConfiguration.Rules) > maxRules {
		return nil, errMalformedXML()
	}
	rules, ids := in.LifecycleConfiguration.Rules, map[string]bool{}
	for i := range rules {
		r := &rules[i]
		if r.ID == nil || *r.ID == "" {
			r.ID = aws.String(rand.Text())
		}
		if err := checkRule(r); err != nil {
			return nil, err
		}
		if ids[*r.ID] {
			return nil, errArgument("RuleId", *r.ID, "Rule ID must be unique. Found same ID for more than one rule")
		}
		ids[*r.ID] = true
	}
	minimum := cmp.Or(in.TransitionDefaultMinimumObjectSize, s3types.TransitionDefaultMinimumObjectSizeAllStorageClasses128k)
	return &awss3.PutBucketLifecycleConfigurationOutput{TransitionDefaultMinimumObjectSize: minimum},
		s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
			b.Lifecycle, b.MinimumSize = rules, string(minimum)
			return nil
		})
}

func checkRule(r *s3types.LifecycleRule) error {
	positive := func(n *int32, what string) error {
		if n != nil && *n <= 0 {
			return errArgument("Days", fmt.Sprint(*n), "'"+what+"' for action must be a positive integer")
		}
		return nil
	}
	//lint:ignore SA1019 old clients send Prefix
	if r.Status != s3types.ExpirationStatusEnabled && r.Status != s3types.ExpirationStatusDisabled || r.Filter != nil && r.Prefix != nil || r.Filter == nil && r.Prefix == nil {
		return errMalformedXML()
	}
	if r.Expiration == nil && r.NoncurrentVersionExpiration == nil && r.AbortIncompleteMultipartUpload == nil && len(r.Transitions)+len(r.NoncurrentVersionTransitions) == 0 {
		return invalid("InvalidRequest", "At least one action needs to be specified in a rule.")
	}
	if e := r.Expiration; e != nil {
		set := 0
		for _, given := range []bool{e.Days != nil, e.Date != nil, aws.ToBool(e.ExpiredObjectDeleteMarker)} {
			if given {
				set++
			}
		}
		if set > 1 {
			return errMalformedXML()
		}
		if e.Date != nil && !e.Date.Equal(e.Date.UTC().Truncate(24*time.Hour)) {
			return errArgument("Date", e.Date.Format(time.RFC3339), "'Date' must be at midnight GMT")
		}
		if err := positive(e.Days, "Days"); err != nil {
			return err
		}
	}
	if e := r.NoncurrentVersionExpiration; e != nil {
		if err := positive(e.NoncurrentDays, "NoncurrentDays"); err != nil {
			return err
		}
	}
	if a := r.AbortIncompleteMultipartUpload; a != nil {
		return positive(a.DaysAfterInitiation, "DaysAfterInitiation")
	}
	return nil
}

// GetBucketLifecycleConfiguration returns the lifecycle rules of a bucket.
func (s *Service) GetBucketLifecycleConfiguration(ctx context.Context, in *awss3.GetBucketLifecycleConfigurationInput) (*awss3.GetBucketLifecycleConfigurationOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	if len(b.Lifecycle) == 0 {
		return nil, notFound("NoSuchLifecycleConfiguration", "The lifecycle configuration does not exist").With("BucketName", b.Name)
	}
	return &awss3.GetBucketLifecycleConfigurationOutput{Rules: b.Lifecycle, TransitionDefaultMinimumObjectSize: s3types.TransitionDefaultMinimumObjectSize(b.MinimumSize)}, nil
}

// DeleteBucketLifecycle removes the lifecycle rules of a bucket.
func (s *Service) DeleteBucketLifecycle(ctx context.Context, in *awss3.DeleteBucketLifecycleInput) (*awss3.DeleteBucketLifecycleOutput, error) {
	return &awss3.DeleteBucketLifecycleOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		b.Lifecycle, b.MinimumSize = nil, ""
		return nil
	})
}

// applies reports whether a rule is enabled and its filter matches an object.
func applies(r *s3types.LifecycleRule, key string, size int64, tags map[string]string) bool {
	if r.Status != s3types.ExpirationStatusEnabled {
		return false
	}
	//lint:ignore SA1019 old clients send Prefix
	and := s3types.LifecycleRuleAndOperator{Prefix: r.Prefix}
	if f := r.Filter; f != nil {
		and = s3types.LifecycleRuleAndOperator{Prefix: f.Prefix, ObjectSizeGreaterThan: f.ObjectSizeGreaterThan, ObjectSizeLessThan: f.ObjectSizeLessThan}
		if f.Tag != nil {
			and.Tags = []s3types.Tag{*f.Tag}
		}
		if f.And != nil {
			and = *f.And
		}
	}
	for _, t := range and.Tags {
		if v, ok := tags[aws.ToString(t.Key)]; !ok || v != aws.ToString(t.Value) {
			return false
		}
	}
	return strings.HasPrefix(key, aws.ToString(and.Prefix)) && (and.ObjectSizeGreaterThan == nil || size > *and.ObjectSizeGreaterThan) &&
		(and.ObjectSizeLessThan == nil || size < *and.ObjectSizeLessThan)
}

// after returns the first midnight (UTC) that is at least the given number of days after t.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/intro-lifecycle-rules.html#intro-lifecycle-rules-number-of-days
func after(t time.Time, days int32) time.Time {
	return t.UTC().AddDate(0, 0, int(days)).Add(24*time.Hour - time.Nanosecond).Truncate(24 * time.Hour)
}

// expiry returns when the current version expires, and by which rule.
func (b *bucketRecord) expiry(o *objectRecord) (at time.Time, rule string) {
	for i := range b.Lifecycle {
		r := &b.Lifecycle[i]
		if r.Expiration == nil || !applies(r, o.Key, o.Size, o.Tags) {
			continue
		}
		var t time.Time
		switch e := r.Expiration; {
		case e.Days != nil:
			t = after(o.Modified, *e.Days)
		case e.Date != nil:
			t = *e.Date
		default:
			continue
		}
		if at.IsZero() || t.Before(at) {
			at, rule = t, *r.ID
		}
	}
	return at, rule
}

// expiration returns an object's x-amz-expiration header, or nil if the object does not expire.
func (b *bucketRecord) expiration(o *objectRecord) *string {
	at, rule := b.expiry(o)
	if at.IsZero() {
		return nil
	}
	return aws.String(fmt.Sprintf(`expiry-date="%s", rule-id="%s"`, at.Format(http.TimeFormat), rule))
}

// expire removes what has expired under the rules of its bucket.
func (s *Service) expire(ctx context.Context) {
	for _, item := range buckets.All(s.store, store.Scope{}) {
		b := bucket{item.Value, item.Key}
		if len(b.Lifecycle) == 0 {
			continue
		}
		if err := s.expireIn(ctx, &b); err != nil && ctx.Err() == nil {
			s.log.ErrorContext(ctx, "cannot apply the lifecycle rules of a bucket; they are tried again later", "bucket", b.Name, "err", err)
		}
	}
}

func (s *Service) expireIn(ctx context.Context, b *bucket) error {
	now := s.clock.Now()
	// newer is the version that replaced the one passed to the function. rank is the number of noncurrent versions that
	// are newer than it.
	var newer *objectRecord
	rank := int32(0)
	var failed error
	s.allVersions(b, "", "", func(o *objectRecord, latest bool) bool {
		match := quoted(o.ETag)
		switch {
		case latest && o.Marker:
			if len(noncurrent.All(s.store, b.noncurrentOf(o.Key))) == 0 && b.removesMarkers(o) {
				_, failed = s.remove(ctx, b, o.Key, &o.Version, nil, false)
			}
		case latest:
			if at, _ := b.expiry(o); !at.IsZero() && !now.Before(at) {
				_, failed = s.remove(ctx, b, o.Key, nil, match, false)
			}
		case newer != nil && newer.Key == o.Key && !o.Lock.protects(now, false) && b.expiredNoncurrent(o, newer.Modified, rank, now):
			_, failed = s.remove(ctx, b, o.Key, &o.Version, nil, false)
		}
		rank++
		if latest {
			rank = 0
		}
		newer = o
		return failed == nil && ctx.Err() == nil
	})
	if failed != nil {
		return failed
	}
	for _, u := range uploads.All(s.store, b.all("")) {
		for i := range b.Lifecycle {
			r := &b.Lifecycle[i]
			if a := r.AbortIncompleteMultipartUpload; a != nil && a.DaysAfterInitiation != nil && applies(r, u.Value.Key, 0, nil) && !now.Before(after(u.Value.Initiated, *a.DaysAfterInitiation)) {
				if err := s.removeUpload(ctx, b, u.Value.ID); err != nil {
					return err
				}
				break
			}
		}
	}
	return nil
}

// removesMarkers reports whether a rule removes a delete marker that has no other versions.
func (b *bucketRecord) removesMarkers(o *objectRecord) bool {
	for i := range b.Lifecycle {
		if r := &b.Lifecycle[i]; r.Expiration != nil && (aws.ToBool(r.Expiration.ExpiredObjectDeleteMarker) || r.Expiration.Days != nil) && applies(r, o.Key, 0, nil) {
			return true
		}
	}
	return false
}

// expiredNoncurrent reports whether a version that became noncurrent at since has expired. rank is the number of newer
// noncurrent versions.
func (b *bucketRecord) expiredNoncurrent(o *objectRecord, since time.Time, rank int32, now time.Time) bool {
	for i := range b.Lifecycle {
		r := &b.Lifecycle[i]
		e := r.NoncurrentVersionExpiration
		if e != nil && e.NoncurrentDays != nil && rank >= aws.ToInt32(e.NewerNoncurrentVersions) && applies(r, o.Key, o.Size, o.Tags) && !now.Before(after(since, *e.NoncurrentDays)) {
			return true
		}
	}
	return false
}
