package sts

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	ststypes "github.com/aws/aws-sdk-go-v2/service/sts/types"

	"github.com/drydock-dev/drydock/internal/policy"
)

// checks collects the constraints of the API model that a request breaks; STS
// reports them together.
type checks struct{ failed []string }

func (c *checks) err() error {
	if len(c.failed) > 0 {
		return constraints(c.failed)
	}
	return nil
}

func (c *checks) fail(value, field, constraint string) {
	c.failed = append(c.failed, fmt.Sprintf("Value '%s' at '%s' failed to satisfy constraint: %s", value, field, constraint))
}

// role checks what all ways to assume a role take.
func (c *checks) role(roleARN, sessionName string, seconds *int32) {
	c.text("roleArn", roleARN, 20, 2048, nil, "")
	c.text("roleSessionName", sessionName, 2, 64, sessionNameRE, `[\w+=,.@-]*`)
	c.between("durationSeconds", seconds, 900, 43200)
}

// secret checks the length of what must not be repeated in an answer.
func (c *checks) secret(field, value string, least, most int) {
	switch n := len(value); {
	case n < least:
		c.fail("***", field, "Member must have length greater than or equal to "+strconv.Itoa(least))
	case n > most:
		c.fail("***", field, "Member must have length less than or equal to "+strconv.Itoa(most))
	}
}

// text checks a string's length and, unless re is nil, its characters.
func (c *checks) text(field, value string, least, most int, re *regexp.Regexp, pattern string) {
	switch n := utf8.RuneCountInString(value); {
	case n < least:
		c.fail(value, field, "Member must have length greater than or equal to "+strconv.Itoa(least))
	case n > most:
		c.fail(value, field, "Member must have length less than or equal to "+strconv.Itoa(most))
	}
	if re != nil && !re.MatchString(value) {
		c.fail(value, field, "Member must satisfy regular expression pattern: "+pattern)
	}
}

func (c *checks) between(field string, value *int32, least, most int32) {
	switch {
	case value == nil:
	case *value < least:
		c.fail(strconv.Itoa(int(*value)), field, "Member must have value greater than or equal to "+strconv.Itoa(int(least)))
	case *value > most:
		c.fail(strconv.Itoa(int(*value)), field, "Member must have value less than or equal to "+strconv.Itoa(int(most)))
	}
}

var (
	sessionNameRE = regexp.MustCompile(`^[\w+=,.@-]*$`)
	externalIDRE  = regexp.MustCompile(`^[\w+=,.@:/-]*$`)
	accessKeyRE   = regexp.MustCompile(`^\w*$`)
	tagKeyRE      = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]+$`)
	tagValueRE    = regexp.MustCompile(`^[\p{L}\p{Z}\p{N}_.:/=+\-@]*$`)
)

// tagKeyText is tagKeyRE as the API model writes it.
const tagKeyText = `[\p{L}\p{Z}\p{N}_.:/=+\-@]+`

const (
	maxSessionPolicies = 10
	maxSessionTags     = 50
	// maxSessionBytes limits the session policy's plain text; what AWS limits
	// besides is its packed form with ARNs and tags, by a method it keeps secret.
	maxSessionBytes = 2048
)

// session checks what narrows and describes a session.
func (c *checks) session(document *string, arns []ststypes.PolicyDescriptorType, tags []ststypes.Tag) SessionOptions {
	var opts SessionOptions
	if document != nil {
		c.text("policy", *document, 1, 1<<18, nil, "")
		opts.Policies = []string{*document}
	}
	for _, a := range arns {
		if a.Arn != nil {
			c.text("policyArns.member.arn", *a.Arn, 20, 2048, nil, "")
			opts.PolicyARNs = append(opts.PolicyARNs, *a.Arn)
		}
	}
	if len(tags) > maxSessionTags {
		c.fail("["+strconv.Itoa(len(tags))+" tags]", "tags", "Member must have length less than or equal to "+strconv.Itoa(maxSessionTags))
	}
	for i, t := range tags {
		at := "tags." + strconv.Itoa(i+1) + ".member."
		c.text(at+"key", *t.Key, 1, 128, tagKeyRE, tagKeyText)
		c.text(at+"value", *t.Value, 0, 256, tagValueRE, `[\p{L}\p{Z}\p{N}_.:/=+\-@]*`)
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
// exist. Only who may have the session is told.
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
