package s3

import (
	"context"
	"net/http"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
)

// Object Lock protects versions of objects from deletion, until a date or as long as a legal hold is on.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html
// The answers are those of LocalStack's recordings: tests/aws/services/s3/test_s3.snapshot.json, TestS3ObjectLockRetention and
// TestS3ObjectLockLegalHold, and test_s3_api.snapshot.json, TestS3ObjectLock.

// A lockRecord is the Object Lock of a version. The zero value does not protect it.
type lockRecord struct {
	Mode  s3types.ObjectLockMode            `json:",omitempty"`
	Until time.Time                         `json:",omitzero"`
	Hold  s3types.ObjectLockLegalHoldStatus `json:",omitempty"`
}

// retained reports whether the retention period has not ended.
func (l *lockRecord) retained(now time.Time) bool { return l.Mode != "" && now.Before(l.Until) }

// protects reports whether the version must not be deleted. bypass says that the caller may delete versions in governance mode.
func (l *lockRecord) protects(now time.Time, bypass bool) bool {
	return l.Hold == s3types.ObjectLockLegalHoldStatusOn || l.retained(now) && !(bypass && l.Mode == s3types.ObjectLockModeGovernance)
}

// retain applies the default retention of a bucket to a new version that has no retention of its own.
func (b *bucketRecord) retain(o *objectRecord) {
	if b.ObjectLock == nil || b.ObjectLock.Rule == nil || o.Marker || o.Lock.Mode != "" {
		return
	}
	d := b.ObjectLock.Rule.DefaultRetention
	o.Lock.Mode = s3types.ObjectLockMode(d.Mode)
	o.Lock.Until = o.Modified.AddDate(int(aws.ToInt32(d.Years)), 0, int(aws.ToInt32(d.Days)))
}

const (
	lockModeHeader  = "x-amz-object-lock-mode"
	lockUntilHeader = "x-amz-object-lock-retain-until-date"
	lockHoldHeader  = "x-amz-object-lock-legal-hold"
)

// newLock returns the lock that a request's headers give a new version.
func (s *Service) newLock(b *bucket, mode s3types.ObjectLockMode, until *time.Time, hold s3types.ObjectLockLegalHoldStatus) (lockRecord, error) {
	const both = lockUntilHeader + " and " + lockModeHeader + " must both be supplied"
	switch {
	case mode == "" && until == nil && hold == "":
		return lockRecord{}, nil
	case mode == "" && until != nil:
		return lockRecord{}, invalid("InvalidArgument", both).With("ArgumentName", lockModeHeader)
	case mode != "" && until == nil:
		return lockRecord{}, invalid("InvalidArgument", both).With("ArgumentName", lockUntilHeader)
	case mode != "" && !validMode(string(mode)):
		return lockRecord{}, errArgument(lockModeHeader, string(mode), "Unknown wormMode directive.")
	case until != nil && !until.After(s.clock.Now()):
		return lockRecord{}, errArgument(lockUntilHeader, until.UTC().Format(time.RFC3339), "The retain until date must be in the future!")
	case hold != "" && hold != s3types.ObjectLockLegalHoldStatusOn && hold != s3types.ObjectLockLegalHoldStatusOff:
		return lockRecord{}, errArgument(lockHoldHeader, string(hold), "Legal Hold must be either of 'ON' or 'OFF'") // from memory
	case b.ObjectLock == nil:
		return lockRecord{}, errNoLock()
	}
	return lockRecord{mode, aws.ToTime(until), hold}, nil
}

func validMode(mode string) bool {
	return mode == string(s3types.ObjectLockModeGovernance) || mode == string(s3types.ObjectLockModeCompliance)
}

func errNoLock() error {
	return invalid("InvalidRequest", "Bucket is missing Object Lock Configuration")
}

func errNeverLocked() error {
	return notFound("NoSuchObjectLockConfiguration", "The specified object does not have a ObjectLock configuration")
}

func errLocked() error {
	return failure(http.StatusForbidden, "AccessDenied", "Access Denied because object protected by object lock.")
}

// bypasses returns the value of x-amz-bypass-governance-retention, which only requests to buckets with Object Lock may have.
func (b *bucket) bypasses(given *bool) (bool, error) {
	if given != nil && b.ObjectLock == nil {
		return false, errBypass()
	}
	return aws.ToBool(given), nil
}

// PutObjectLockConfiguration turns on Object Lock, which cannot be turned off, and sets the default retention of new versions.
func (s *Service) PutObjectLockConfiguration(ctx context.Context, in *awss3.PutObjectLockConfigurationInput) (*awss3.PutObjectLockConfigurationOutput, error) {
	c := in.ObjectLockConfiguration
	if c == nil || c.ObjectLockEnabled != s3types.ObjectLockEnabledEnabled {
		return nil, errMalformedXML()
	}
	if c.Rule != nil {
		d := c.Rule.DefaultRetention
		if d == nil || !validMode(string(d.Mode)) || (d.Days == nil) == (d.Years == nil) {
			return nil, errMalformedXML()
		}
		// https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock.html#object-lock-bucket-config; the texts are from memory
		switch n := aws.ToInt32(d.Days) + aws.ToInt32(d.Years); {
		case n <= 0:
			return nil, invalid("InvalidRetentionPeriod", "Default retention period must be a positive integer value.")
		case d.Years != nil && n > 100, n > 36500:
			return nil, invalid("InvalidRetentionPeriod", "Default retention period is too large.")
		}
	}
	return &awss3.PutObjectLockConfigurationOutput{}, s.change(ctx, in.Bucket, in.ExpectedBucketOwner, func(b *bucketRecord) error {
		if b.Versioning != versioningOn {
			return conflict("InvalidBucketState", "Versioning must be 'Enabled' on the bucket to apply a Object Lock configuration")
		}
		b.ObjectLock = c
		return nil
	})
}

// GetObjectLockConfiguration returns whether a bucket has Object Lock, and the default retention.
func (s *Service) GetObjectLockConfiguration(ctx context.Context, in *awss3.GetObjectLockConfigurationInput) (*awss3.GetObjectLockConfigurationOutput, error) {
	b, err := s.bucket(ctx, in.Bucket, in.ExpectedBucketOwner)
	if err != nil {
		return nil, err
	}
	if b.ObjectLock == nil {
		return nil, notFound("ObjectLockConfigurationNotFoundError", "Object Lock configuration does not exist for this bucket").With("BucketName", b.Name)
	}
	return &awss3.GetObjectLockConfigurationOutput{ObjectLockConfiguration: b.ObjectLock}, nil
}

// lockable returns the bucket and the version whose lock a request reads or changes.
func (s *Service) lockable(ctx context.Context, method string, bucketName, owner, key, version *string) (bucket, *objectRecord, error) {
	b, err := s.bucket(ctx, bucketName, owner)
	if err != nil {
		return b, nil, err
	}
	if b.ObjectLock == nil {
		return b, nil, errNoLock()
	}
	o, err := s.tagged(ctx, &b, aws.ToString(key), version, method)
	return b, o, err
}

// PutObjectRetention sets until when a version must not be deleted, or removes its retention.
func (s *Service) PutObjectRetention(ctx context.Context, in *awss3.PutObjectRetentionInput) (*awss3.PutObjectRetentionOutput, error) {
	b, o, err := s.lockable(ctx, http.MethodPut, in.Bucket, in.ExpectedBucketOwner, in.Key, in.VersionId)
	if err != nil {
		return nil, err
	}
	r := s3types.ObjectLockRetention{}
	if in.Retention != nil {
		r = *in.Retention
	}
	switch {
	case r.Mode == "" && r.RetainUntilDate == nil: // removes it
	case !validMode(string(r.Mode)) || r.RetainUntilDate == nil:
		return nil, errMalformedXML()
	case !r.RetainUntilDate.After(s.clock.Now()):
		return nil, errArgument("RetainUntilDate", javaDate(*r.RetainUntilDate), "The retain until date must be in the future!")
	}
	mode, until := s3types.ObjectLockMode(r.Mode), aws.ToTime(r.RetainUntilDate)
	_, err = s.changeVersion(ctx, &b, o, func(o *objectRecord) error {
		if l := &o.Lock; l.retained(s.clock.Now()) && (mode != l.Mode || until.Before(l.Until)) &&
			(l.Mode == s3types.ObjectLockModeCompliance || !aws.ToBool(in.BypassGovernanceRetention)) {
			return errLocked()
		}
		o.Lock.Mode, o.Lock.Until = mode, until
		return nil
	})
	return &awss3.PutObjectRetentionOutput{}, err
}

// javaDate returns a time as Java's Date shows it in the time zone of S3's errors, without summer time.
func javaDate(t time.Time) string {
	return t.In(time.FixedZone("PST", -8*60*60)).Format("Mon Jan 02 15:04:05 MST 2006")
}

// GetObjectRetention returns until when a version must not be deleted.
func (s *Service) GetObjectRetention(ctx context.Context, in *awss3.GetObjectRetentionInput) (*awss3.GetObjectRetentionOutput, error) {
	_, o, err := s.lockable(ctx, http.MethodGet, in.Bucket, in.ExpectedBucketOwner, in.Key, in.VersionId)
	if err == nil && o.Lock.Mode == "" {
		err = errNeverLocked()
	}
	if err != nil {
		return nil, err
	}
	return &awss3.GetObjectRetentionOutput{Retention: &s3types.ObjectLockRetention{Mode: s3types.ObjectLockRetentionMode(o.Lock.Mode), RetainUntilDate: &o.Lock.Until}}, nil
}

// PutObjectLegalHold sets or removes the legal hold on a version.
func (s *Service) PutObjectLegalHold(ctx context.Context, in *awss3.PutObjectLegalHoldInput) (*awss3.PutObjectLegalHoldOutput, error) {
	b, o, err := s.lockable(ctx, http.MethodPut, in.Bucket, in.ExpectedBucketOwner, in.Key, in.VersionId)
	if err != nil {
		return nil, err
	}
	if h := in.LegalHold; h == nil || h.Status != s3types.ObjectLockLegalHoldStatusOn && h.Status != s3types.ObjectLockLegalHoldStatusOff {
		return nil, errMalformedXML()
	}
	_, err = s.changeVersion(ctx, &b, o, func(o *objectRecord) error {
		o.Lock.Hold = in.LegalHold.Status
		return nil
	})
	return &awss3.PutObjectLegalHoldOutput{}, err
}

// GetObjectLegalHold returns the legal hold on a version.
func (s *Service) GetObjectLegalHold(ctx context.Context, in *awss3.GetObjectLegalHoldInput) (*awss3.GetObjectLegalHoldOutput, error) {
	_, o, err := s.lockable(ctx, http.MethodGet, in.Bucket, in.ExpectedBucketOwner, in.Key, in.VersionId)
	if err == nil && o.Lock.Hold == "" {
		err = errNeverLocked()
	}
	if err != nil {
		return nil, err
	}
	return &awss3.GetObjectLegalHoldOutput{LegalHold: &s3types.ObjectLockLegalHold{Status: o.Lock.Hold}}, nil
}

// showLock adds the lock of a version to the response to a read, as far as the caller may know it.
// https://docs.aws.amazon.com/AmazonS3/latest/API/API_HeadObject.html
func (s *Service) showLock(ctx context.Context, r *read, out *awss3.HeadObjectOutput) error {
	l := &r.object.Lock
	may := func(action string) (bool, error) {
		call := *awsapi.CallFrom(ctx)
		err := refusal(s.cfg.Authorize(ctx, &call, nil, authz.Target{
			Action: action, Type: objectType, ID: versionID(r.object.Version, r.bucket.Name+"/"+r.object.Key), Keys: keysOf(&call, nil),
		}))
		if awserr.CodeOf(err) == "AccessDenied" {
			return false, nil
		}
		return err == nil, err
	}
	if l.Mode != "" {
		ok, err := may("s3:GetObjectRetention")
		if err != nil {
			return err
		}
		if ok {
			out.ObjectLockMode, out.ObjectLockRetainUntilDate = l.Mode, &l.Until
		}
	}
	if l.Hold != "" {
		ok, err := may("s3:GetObjectLegalHold")
		if ok {
			out.ObjectLockLegalHoldStatus = l.Hold
		}
		return err
	}
	return nil
}
