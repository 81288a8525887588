package s3

import (
	"strconv"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"
)

// lockKeys sets the condition keys of a request that locks a version.
// https://docs.aws.amazon.com/AmazonS3/latest/userguide/object-lock-managing.html
func lockKeys(keys map[string][]string, now time.Time, in any) {
	var mode, hold string
	var until *time.Time
	switch in := in.(type) {
	case *awss3.PutObjectInput:
		mode, until, hold = string(in.ObjectLockMode), in.ObjectLockRetainUntilDate, string(in.ObjectLockLegalHoldStatus)
	case *awss3.CopyObjectInput:
		mode, until, hold = string(in.ObjectLockMode), in.ObjectLockRetainUntilDate, string(in.ObjectLockLegalHoldStatus)
	case *awss3.CreateMultipartUploadInput:
		mode, until, hold = string(in.ObjectLockMode), in.ObjectLockRetainUntilDate, string(in.ObjectLockLegalHoldStatus)
	case *awss3.PutObjectRetentionInput:
		if r := in.Retention; r != nil {
			mode, until = string(r.Mode), r.RetainUntilDate
		}
	case *awss3.PutObjectLegalHoldInput:
		if in.LegalHold != nil {
			hold = string(in.LegalHold.Status)
		}
	case *awss3.PutObjectLockConfigurationInput:
		if c := in.ObjectLockConfiguration; c != nil && c.Rule != nil && c.Rule.DefaultRetention != nil {
			d := c.Rule.DefaultRetention
			mode = string(d.Mode)
			until = aws.Time(now.AddDate(int(aws.ToInt32(d.Years)), 0, int(aws.ToInt32(d.Days))))
		}
	}
	date, days := "", ""
	if until != nil {
		date, days = until.UTC().Format(time.RFC3339), strconv.Itoa(int(until.Sub(now)/(24*time.Hour)))
	}
	for key, value := range map[string]string{
		"s3:object-lock-mode": mode, "s3:object-lock-legal-hold": hold, "s3:object-lock-retain-until-date": date, "s3:object-lock-remaining-retention-days": days,
	} {
		if keys[key] = nil; value != "" {
			keys[key] = []string{value}
		}
	}
}

// lockTargets calls also with the further actions that a request for Object Lock needs.
func lockTargets(in any, also func(action string, needed bool)) {
	locks := func(mode s3types.ObjectLockMode, until *time.Time, hold s3types.ObjectLockLegalHoldStatus) {
		also("s3:PutObjectRetention", mode != "" || until != nil)
		also("s3:PutObjectLegalHold", hold != "")
	}
	const bypass = "s3:BypassGovernanceRetention"
	switch in := in.(type) {
	case *awss3.CreateBucketInput:
		// https://docs.aws.amazon.com/AmazonS3/latest/API/API_CreateBucket.html
		also("s3:PutBucketObjectLockConfiguration", aws.ToBool(in.ObjectLockEnabledForBucket))
		also("s3:PutBucketVersioning", aws.ToBool(in.ObjectLockEnabledForBucket))
	case *awss3.PutObjectInput:
		locks(in.ObjectLockMode, in.ObjectLockRetainUntilDate, in.ObjectLockLegalHoldStatus)
	case *awss3.CopyObjectInput:
		locks(in.ObjectLockMode, in.ObjectLockRetainUntilDate, in.ObjectLockLegalHoldStatus)
	case *awss3.CreateMultipartUploadInput:
		locks(in.ObjectLockMode, in.ObjectLockRetainUntilDate, in.ObjectLockLegalHoldStatus)
	case *awss3.PutObjectRetentionInput:
		also(bypass, aws.ToBool(in.BypassGovernanceRetention))
	case *awss3.DeleteObjectInput:
		also(bypass, aws.ToBool(in.BypassGovernanceRetention))
	}
}
