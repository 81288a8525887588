package sts

import (
	"strings"

	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drydock-dev/drydock/internal/policy"
)

const (
	maxSessionPolicies = 10
	maxSessionTags     = 50
	// maxSessionBytes limits the session policy's plain text; what AWS limits
	// besides is its packed form with ARNs and tags, by a method it keeps secret.
	maxSessionBytes = 2048
)

// session is what narrows and describes a session.
func session(document *string, arns []ststypes.PolicyDescriptorType, tags []ststypes.Tag) SessionOptions {
	var opts SessionOptions
	if document != nil {
		opts.Policies = []string{*document}
	}
	for _, a := range arns {
		if a.Arn != nil {
			opts.PolicyARNs = append(opts.PolicyARNs, *a.Arn)
		}
	}
	for _, t := range tags {
		if opts.Tags == nil {
			opts.Tags = map[string]string{}
		}
		opts.Tags[*t.Key] = *t.Value
	}
	return opts
}

// checkSession judges a session's policies and tags.
func checkSession(opts SessionOptions, tags []ststypes.Tag) error {
	for _, doc := range opts.Policies {
		if len(doc) > maxSessionBytes {
			return policyTooLarge(len(doc) * 100 / maxSessionBytes)
		}
		if _, err := policy.Parse(policy.Session, doc); err != nil {
			return malformedDocument(err)
		}
	}
	if len(opts.PolicyARNs) > maxSessionPolicies {
		return tooManyPolicyARNs()
	}
	seen := map[string]bool{}
	for _, t := range tags {
		k := strings.ToLower(*t.Key)
		if seen[k] {
			return duplicateTags()
		}
		seen[k] = true
	}
	return nil
}

// checkSessionPolicies fails unless the managed policies of a session of account
// exist. Only callers that may have the session get these errors.
func (s *Service) checkSessionPolicies(account string, opts SessionOptions) error {
	for _, a := range opts.PolicyARNs {
		if !s.dir.PolicyExists(account, a) {
			return noSuchSessionPolicy(a)
		}
	}
	return nil
}

// packedSize is the share of the limit that a session's policies and tags take,
// in percent; nil when there are none.
func packedSize(opts SessionOptions) *int32 {
	n := 0
	for _, p := range opts.Policies {
		n += len(p)
	}
	for _, a := range opts.PolicyARNs {
		n += len(a)
	}
	for k, v := range opts.Tags {
		n += len(k) + len(v)
	}
	if n == 0 {
		return nil
	}
	percent := int32(n*100/(4*maxSessionBytes)) + 1
	return &percent
}
