package ssm

import (
	"context"
	"encoding/base64"
	"encoding/binary"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"
	ssmtypes "github.com/aws/aws-sdk-go-v2/service/ssm/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// KMS are the operations that Parameter Store calls on its caller's behalf, with the caller's
// permissions.
// https://docs.aws.amazon.com/kms/latest/developerguide/services-parameter-store.html
type KMS interface {
	Encrypt(context.Context, *awskms.EncryptInput) (*awskms.EncryptOutput, error)
	Decrypt(context.Context, *awskms.DecryptInput) (*awskms.DecryptOutput, error)
	GenerateDataKey(context.Context, *awskms.GenerateDataKeyInput) (*awskms.GenerateDataKeyOutput, error)
}

// maxDirect is the maximum size that KMS itself encrypts, in bytes.
const maxDirect = 4096

// A sealedValue is a value encrypted with KMS.
type sealedValue struct {
	value, keyID string
	envelope     bool
}

// context returns the encryption context that binds a ciphertext to its parameter.
func (sc scope) context(name string) map[string]string {
	return map[string]string{"PARAMETER_ARN": sc.arn(name)}
}

// sealWithKMS encrypts the value in a request with the key in the request or with AWS's, which KMS
// creates on first use. It returns nil if the parameter is not a SecureString. Standard parameters
// are encrypted by KMS, advanced ones with a data key from KMS.
func (s *Service) sealWithKMS(ctx context.Context, sc scope, in *awsssm.PutParameterInput) (*sealedValue, error) {
	keyID := aws.ToString(in.KeyId)
	if ownedByAWS(sc, in.KeyId) {
		if s.kms == nil {
			return nil, nil
		}
		keyID = defaultKey
	}
	kind := string(in.Type)
	if kind == "" {
		old, err := parameters.Get(s.store, sc.Key(*in.Name))
		if err != nil {
			return nil, nil //nolint:nilerr // what is wrong, PutParameter says
		}
		kind = old.Type
	}
	if kind != string(ssmtypes.ParameterTypeSecureString) {
		return nil, nil
	}
	if s.kms == nil {
		return nil, errOtherKey(keyID)
	}
	out := &sealedValue{keyID: keyID}
	requestID := awsapi.CallFrom(ctx).RequestID
	if out.envelope = in.Tier == ssmtypes.ParameterTierAdvanced || len(*in.Value) > maxDirect; !out.envelope {
		sealed, err := s.kms.Encrypt(ctx, &awskms.EncryptInput{KeyId: &keyID, Plaintext: []byte(*in.Value), EncryptionContext: sc.context(*in.Name)})
		if err != nil {
			return nil, errKMS(requestID, err)
		}
		out.value = base64.StdEncoding.EncodeToString(sealed.CiphertextBlob)
		return out, nil
	}
	key, err := s.kms.GenerateDataKey(ctx, &awskms.GenerateDataKeyInput{KeyId: &keyID, KeySpec: kmstypes.DataKeySpecAes256, EncryptionContext: sc.context(*in.Name)})
	if err != nil {
		return nil, errKMS(requestID, err)
	}
	aead, err := newAEAD(key.Plaintext)
	if err != nil {
		return nil, fmt.Errorf("sealing %s: %w", *in.Name, err)
	}
	raw := binary.BigEndian.AppendUint16(nil, uint16(len(key.CiphertextBlob)))
	raw = append(append(raw, key.CiphertextBlob...), aead.Seal(nil, nil, []byte(*in.Value), []byte(sc.arn(*in.Name)))...)
	out.value = base64.StdEncoding.EncodeToString(raw)
	return out, nil
}

// revealWithKMS is reveal for values encrypted by sealWithKMS.
func (s *Service) revealWithKMS(ctx context.Context, sc scope, p parameterRecord) (parameterRecord, error) {
	if s.kms == nil {
		return p, errOtherKey(p.KeyID)
	}
	raw, err := base64.StdEncoding.DecodeString(p.Value)
	if err != nil {
		return p, fmt.Errorf("unsealing %s: %w", p.Name, err)
	}
	ciphertext, sealed := raw, []byte(nil)
	if p.Envelope {
		if len(raw) < 2 || len(raw)-2 < int(binary.BigEndian.Uint16(raw)) {
			return p, fmt.Errorf("unsealing %s: it is too short", p.Name)
		}
		n := 2 + int(binary.BigEndian.Uint16(raw))
		ciphertext, sealed = raw[2:n], raw[n:]
	}
	out, err := s.kms.Decrypt(ctx, &awskms.DecryptInput{CiphertextBlob: ciphertext, EncryptionContext: sc.context(p.Name)})
	if err != nil {
		return p, errKMS(awsapi.CallFrom(ctx).RequestID, err)
	}
	clear := out.Plaintext
	if p.Envelope {
		aead, err := newAEAD(clear)
		if err != nil {
			return p, fmt.Errorf("unsealing %s: %w", p.Name, err)
		}
		if clear, err = aead.Open(nil, nil, sealed, []byte(sc.arn(p.Name))); err != nil {
			return p, fmt.Errorf("unsealing %s: %w", p.Name, err)
		}
	}
	p.Value = string(clear)
	return p, nil
}
