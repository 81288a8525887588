package sts

import (
	"strings"

	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drydock-dev/drydock/internal/policy"
)

const (
	maxSessionPolicies = 10
	maxSessionTags     = 50
	// maxSessionBytes limits the size of the session policies in plaintext. AWS also limits their
	// packed size, including ARNs and tags, but does not publish how it is computed.
	maxSessionBytes = 2048
)

// session returns the options of a session with a policy document, managed policies and tags.
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

// checkSession validates a session's policies and tags.
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

// checkSessionPolicies returns an error if a managed policy of a session of account does not exist.
// Only callers that are allowed to have the session get this error.
func (s *Service) checkSessionPolicies(account string, opts SessionOptions) error {
	for _, a := range opts.PolicyARNs {
		if !s.dir.PolicyExists(account, a) {
			return noSuchSessionPolicy(a)
		}
	}
	return nil
}

// packedSize returns how much of the size limit a session's policies and tags use, in percent, or
// nil if there are none.
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
