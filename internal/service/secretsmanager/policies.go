package secretsmanager

import (
	"context"
	"crypto/rand"
	"math/big"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awssm "github.com/aws/aws-sdk-go-v2/service/secretsmanager"
	smtypes "github.com/aws/aws-sdk-go-v2/service/secretsmanager/types"

	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// checkPolicy parses a resource policy. broad means that it allows access to everyone without a condition.
func checkPolicy(text string) (broad bool, err error) {
	doc, err := policy.Parse(policy.Resource, text)
	if err != nil {
		return false, errPolicySyntax()
	}
	for _, st := range doc.Statements {
		if !st.Deny && st.Principals != nil && st.Principals.All && len(st.Conditions) == 0 {
			return true, nil
		}
	}
	return false, nil
}

// PutResourcePolicy sets a secret's resource policy.
func (s *Service) PutResourcePolicy(ctx context.Context, in *awssm.PutResourcePolicyInput) (*awssm.PutResourcePolicyOutput, error) {
	broad, err := checkPolicy(*in.ResourcePolicy)
	if err == nil && broad && aws.ToBool(in.BlockPublicPolicy) {
		err = errPublicPolicy()
	}
	if err != nil {
		return nil, err
	}
	rec, sc, err := s.change(ctx, in.SecretId, false, func(_ *store.Tx, _ scope, r *secretRecord) error {
		r.Policy = *in.ResourcePolicy
		return nil
	})
	return &awssm.PutResourcePolicyOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name}, err
}

// GetResourcePolicy returns a secret's resource policy, if it has one.
func (s *Service) GetResourcePolicy(ctx context.Context, in *awssm.GetResourcePolicyInput) (*awssm.GetResourcePolicyOutput, error) {
	rec, sc, err := s.find(ctx, in.SecretId)
	return &awssm.GetResourcePolicyOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name, ResourcePolicy: some(rec.Policy)}, err
}

// DeleteResourcePolicy removes a secret's resource policy.
func (s *Service) DeleteResourcePolicy(ctx context.Context, in *awssm.DeleteResourcePolicyInput) (*awssm.DeleteResourcePolicyOutput, error) {
	rec, sc, err := s.change(ctx, in.SecretId, false, func(_ *store.Tx, _ scope, r *secretRecord) error {
		r.Policy = ""
		return nil
	})
	return &awssm.DeleteResourcePolicyOutput{ARN: aws.String(sc.arn(&rec)), Name: &rec.Name}, err
}

// ValidateResourcePolicy reports what is wrong with a policy.
func (s *Service) ValidateResourcePolicy(_ context.Context, in *awssm.ValidateResourcePolicyInput) (*awssm.ValidateResourcePolicyOutput, error) {
	out := &awssm.ValidateResourcePolicyOutput{ValidationErrors: []smtypes.ValidationErrorsEntry{}}
	broad, err := checkPolicy(*in.ResourcePolicy)
	if err != nil {
		return nil, err
	}
	if broad {
		out.ValidationErrors = append(out.ValidationErrors, smtypes.ValidationErrorsEntry{CheckName: aws.String("BLOCK_PUBLIC_POLICY"), ErrorMessage: aws.String("The resource policy allows broad access to the secret.")})
	}
	out.PolicyValidationPassed = !broad
	return out, nil
}

// The characters of passwords. https://docs.aws.amazon.com/secretsmanager/latest/apireference/API_GetRandomPassword.html
const (
	lowercase   = "abcdefghijklmnopqrstuvwxyz"
	uppercase   = "ABCDEFGHIJKLMNOPQRSTUVWXYZ"
	digits      = "0123456789"
	punctuation = "!\"#$%&'()*+,-./:;<=>?@[\\]^_`{|}~"
)

// GetRandomPassword generates a password.
func (s *Service) GetRandomPassword(_ context.Context, in *awssm.GetRandomPasswordInput) (*awssm.GetRandomPasswordOutput, error) {
	var kinds []string
	for _, k := range []struct {
		characters string
		without    bool
	}{{lowercase, aws.ToBool(in.ExcludeLowercase)}, {uppercase, aws.ToBool(in.ExcludeUppercase)}, {digits, aws.ToBool(in.ExcludeNumbers)}, {punctuation, aws.ToBool(in.ExcludePunctuation)}, {" ", !aws.ToBool(in.IncludeSpace)}} {
		left := strings.Map(func(r rune) rune {
			if strings.ContainsRune(aws.ToString(in.ExcludeCharacters), r) {
				return -1
			}
			return r
		}, k.characters)
		if !k.without && left != "" {
			kinds = append(kinds, left)
		}
	}
	length := 32
	if in.PasswordLength != nil {
		length = int(*in.PasswordLength)
	}
	each := in.RequireEachIncludedType == nil || *in.RequireEachIncludedType
	switch {
	case len(kinds) == 0:
		return nil, errPassword()
	case each && length < len(kinds):
		return nil, errPasswordLength()
	}
	from := func(n int) int {
		i, _ := rand.Int(rand.Reader, big.NewInt(int64(n))) // never fails
		return int(i.Int64())
	}
	pick := func(set string) byte { return set[from(len(set))] }
	var out []byte
	if each {
		for _, k := range kinds {
			out = append(out, pick(k))
		}
	}
	for all := strings.Join(kinds, ""); len(out) < length; {
		out = append(out, pick(all))
	}
	for i := len(out) - 1; i > 0; i-- {
		j := from(i + 1)
		out[i], out[j] = out[j], out[i]
	}
	return &awssm.GetRandomPasswordOutput{RandomPassword: aws.String(string(out))}, nil
}
