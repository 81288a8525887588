package storage

import (
	"cmp"
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// encryptionDefaults has one record per account and region.
var encryptionDefaults = store.NewCollection[encryptionRecord]("ec2", "ebs-encryption")

const encryptionID = "default"

// awsManagedKey is the key that encrypts volumes unless the user chooses another.
const awsManagedKey = "alias/aws/ebs"

// An encryptionRecord says how new volumes are encrypted.
// https://docs.aws.amazon.com/ebs/latest/userguide/encryption-by-default.html
type encryptionRecord struct {
	Enabled bool   `json:",omitempty"`
	KeyARN  string `json:",omitempty"` // empty for the AWS managed key
}

func encryptionOf(r store.Reader, sc resource.Scope) (encryptionRecord, error) {
	d, err := encryptionDefaults.Get(r, sc.Key(encryptionID))
	return d, store.IgnoreNotFound(err)
}

// apply applies the defaults to a new volume.
func (d encryptionRecord) apply(v *Spec) {
	if v.Encrypted = v.Encrypted || d.Enabled; v.Encrypted {
		v.KMSKeyID = cmp.Or(v.KMSKeyID, d.KeyARN)
	}
}

func (s *Service) changeEncryption(ctx context.Context, dryRun *bool, fn func(*encryptionRecord)) error {
	key := resource.ScopeOf(ctx).Key(encryptionID)
	return s.Update(ctx, dryRun, func(tx *store.Tx) error {
		d, err := encryptionOf(tx, resource.KeyScope(key))
		if err != nil {
			return err
		}
		fn(&d)
		return encryptionDefaults.Put(tx, key, d)
	})
}

// EnableEbsEncryptionByDefault encrypts all volumes that are created from now on.
func (s *Service) EnableEbsEncryptionByDefault(ctx context.Context, in *awsec2.EnableEbsEncryptionByDefaultInput) (*awsec2.EnableEbsEncryptionByDefaultOutput, error) {
	err := s.changeEncryption(ctx, in.DryRun, func(d *encryptionRecord) { d.Enabled = true })
	return &awsec2.EnableEbsEncryptionByDefaultOutput{EbsEncryptionByDefault: aws.Bool(true)}, err
}

// DisableEbsEncryptionByDefault encrypts only the volumes whose request says so.
func (s *Service) DisableEbsEncryptionByDefault(ctx context.Context, in *awsec2.DisableEbsEncryptionByDefaultInput) (*awsec2.DisableEbsEncryptionByDefaultOutput, error) {
	err := s.changeEncryption(ctx, in.DryRun, func(d *encryptionRecord) { d.Enabled = false })
	return &awsec2.DisableEbsEncryptionByDefaultOutput{EbsEncryptionByDefault: aws.Bool(false)}, err
}

// GetEbsEncryptionByDefault says whether new volumes are encrypted.
func (s *Service) GetEbsEncryptionByDefault(ctx context.Context, in *awsec2.GetEbsEncryptionByDefaultInput) (*awsec2.GetEbsEncryptionByDefaultOutput, error) {
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	d, err := encryptionOf(s.Store, resource.ScopeOf(ctx))
	return &awsec2.GetEbsEncryptionByDefaultOutput{EbsEncryptionByDefault: &d.Enabled}, err
}

// GetEbsDefaultKmsKeyId returns the key of encrypted volumes whose request names none.
func (s *Service) GetEbsDefaultKmsKeyId(ctx context.Context, in *awsec2.GetEbsDefaultKmsKeyIdInput) (*awsec2.GetEbsDefaultKmsKeyIdOutput, error) {
	if err := resource.CheckDryRun(in.DryRun); err != nil {
		return nil, err
	}
	d, err := encryptionOf(s.Store, resource.ScopeOf(ctx))
	return &awsec2.GetEbsDefaultKmsKeyIdOutput{KmsKeyId: aws.String(cmp.Or(d.KeyARN, awsManagedKey))}, err
}

// ModifyEbsDefaultKmsKeyId sets the key of encrypted volumes whose request names none.
func (s *Service) ModifyEbsDefaultKmsKeyId(ctx context.Context, in *awsec2.ModifyEbsDefaultKmsKeyIdInput) (*awsec2.ModifyEbsDefaultKmsKeyIdOutput, error) {
	sc, key := resource.ScopeOf(ctx), aws.ToString(in.KmsKeyId)
	switch {
	case strings.HasPrefix(key, "arn:"):
	case strings.HasPrefix(key, "alias/"):
		key = arn.New("kms", sc.Region, sc.Account, key)
	default:
		key = arn.New("kms", sc.Region, sc.Account, "key/"+key)
	}
	err := s.changeEncryption(ctx, in.DryRun, func(d *encryptionRecord) { d.KeyARN = key })
	return &awsec2.ModifyEbsDefaultKmsKeyIdOutput{KmsKeyId: &key}, err
}

// ResetEbsDefaultKmsKeyId makes the AWS managed key the default again.
func (s *Service) ResetEbsDefaultKmsKeyId(ctx context.Context, in *awsec2.ResetEbsDefaultKmsKeyIdInput) (*awsec2.ResetEbsDefaultKmsKeyIdOutput, error) {
	err := s.changeEncryption(ctx, in.DryRun, func(d *encryptionRecord) { d.KeyARN = "" })
	return &awsec2.ResetEbsDefaultKmsKeyIdOutput{KmsKeyId: aws.String(awsManagedKey)}, err
}
