package kms

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// policyName is the name of a key's only policy.
const policyName = "default"

// maxPolicy is the maximum size of a key policy in bytes.
// https://docs.aws.amazon.com/kms/latest/developerguide/resource-limits.html
const maxPolicy = 32768

// defaultPolicy delegates access control to the account's IAM policies.
// https://docs.aws.amazon.com/kms/latest/developerguide/key-policy-default.html
func defaultPolicy(account string) string {
	return `{
  "Version" : "2012-10-17",
  "Id" : "key-default-1",
  "Statement" : [ {
    "Sid" : "Enable IAM User Permissions",
    "Effect" : "Allow",
    "Principal" : {
      "AWS" : "arn:aws:iam::` + account + `:root"
    },
    "Action" : "kms:*",
    "Resource" : "*"
  } ]
}`
}

// checkPolicy checks a new key policy: its syntax, that its principals exist, and that the caller
// could still change it.
// https://docs.aws.amazon.com/kms/latest/APIReference/API_PutKeyPolicy.html
func (s *Service) checkPolicy(ctx context.Context, k *keyRecord, text string, bypass bool) error {
	if len(text) > maxPolicy {
		return errLimit("bytes of a key policy", maxPolicy)
	}
	doc, err := policy.Parse(policy.Key, text)
	if err != nil {
		var malformed *policy.MalformedError
		if errors.As(err, &malformed) {
			return errMalformedPolicy(malformed.Message)
		}
		return err
	}
	for i := range doc.Statements {
		st := &doc.Statements[i]
		if len(st.Resources)+len(st.NotResources) == 0 {
			return errMalformedPolicy("Policy statement must contain resources.") // from memory
		}
		for _, ps := range []*policy.Principals{st.Principals, st.NotPrincipals} {
			if ps == nil || s.cfg.PrincipalExists == nil {
				continue
			}
			for _, name := range ps.AWS {
				if !s.cfg.PrincipalExists(ctx, name) {
					return errPolicyPrincipals()
				}
			}
		}
	}
	if bypass || s.cfg.Allowed == nil {
		return nil
	}
	as := authz.Resource{ARN: k.ARN, Tags: k.Tags, PolicyRequired: true, Policy: &policy.Source{Name: sourceName(k), Document: doc}}
	t := authz.Target{Action: "kms:PutKeyPolicy", Type: "key", Keys: common(awsapi.CallFrom(ctx)), AllKeys: true}
	k.describe(t.Keys)
	if !s.cfg.Allowed(ctx, t, as) {
		return errLockout()
	}
	return nil
}

// sourceName is the name of a key's policy in authorization decisions.
func sourceName(k *keyRecord) string { return "key policy of " + k.ARN }

// checkPolicyName rejects policy names other than policyName.
func checkPolicyName(name *string) error {
	if name != nil && *name != policyName {
		return errNoPolicy()
	}
	return nil
}

// GetKeyPolicy returns a key's policy as it was set.
func (s *Service) GetKeyPolicy(ctx context.Context, in *awskms.GetKeyPolicyInput) (*awskms.GetKeyPolicyOutput, error) {
	rec, _, err := s.findOwn(ctx, s.store, in.KeyId)
	if err == nil {
		err = checkPolicyName(in.PolicyName)
	}
	if err != nil {
		return nil, err
	}
	return &awskms.GetKeyPolicyOutput{Policy: &rec.Policy, PolicyName: aws.String(policyName)}, nil
}

// PutKeyPolicy replaces a key's policy.
func (s *Service) PutKeyPolicy(ctx context.Context, in *awskms.PutKeyPolicyInput) (*awskms.PutKeyPolicyOutput, error) {
	if err := checkPolicyName(in.PolicyName); err != nil {
		return nil, err
	}
	return &awskms.PutKeyPolicyOutput{}, s.change(ctx, in.KeyId, func(k *keyRecord) error {
		if err := s.checkPolicy(ctx, k, aws.ToString(in.Policy), in.BypassPolicyLockoutSafetyCheck); err != nil {
			return err
		}
		k.Policy = *in.Policy
		return nil
	})
}

// ListKeyPolicies lists a key's policies; there is always exactly one.
func (s *Service) ListKeyPolicies(ctx context.Context, in *awskms.ListKeyPoliciesInput) (*awskms.ListKeyPoliciesOutput, error) {
	page, err := newPage(in.Limit, in.Marker, 100)
	if err != nil {
		return nil, err
	}
	if _, _, err := s.findOwn(ctx, s.store, in.KeyId); err != nil {
		return nil, err
	}
	out := &awskms.ListKeyPoliciesOutput{PolicyNames: []string{}}
	if page.After < policyName {
		out.PolicyNames = append(out.PolicyNames, policyName)
	}
	return out, nil
}
