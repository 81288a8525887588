package iam

import (
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/catalog/managedpolicies"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/policy"
	"github.com/drydock-dev/drydock/internal/store"
)

// An ownerKind has the differences between users, groups and roles as owners of policies.
type ownerKind struct {
	word        string // as in "The role policy with name …"
	quota       string // as in PoliciesPerRole
	inlineBytes int    // of all inline policies together, not counting white space
}

// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_iam-quotas.html
var (
	ofUser  = ownerKind{"user", "User", 2048}
	ofGroup = ownerKind{"group", "Group", 5120}
	ofRole  = ownerKind{"role", "Role", 10240}
)

const (
	maxAttached    = 10
	maxPolicyBytes = 6144
	maxTrustBytes  = 2048
)

// newIdentity returns a new identity, the common part of users, groups and roles.
func (s *Service) newIdentity(prefix, name string, path *string, tags []iamtypes.Tag) (identity, error) {
	t, err := newTags(tags)
	if err != nil {
		return identity{}, err
	}
	return identity{Name: name, Path: pathOr(path), ID: ids.IAM(prefix), Created: s.now(), Tags: t}, nil
}

func pathOr(path *string) string {
	if path == nil {
		return "/"
	}
	return *path
}

// now returns the time in IAM's precision: seconds.
func (s *Service) now() time.Time { return s.clock.Now().UTC().Truncate(time.Second) }

// putInline sets an inline policy.
func (id *identity) putInline(k ownerKind, name, document string) error {
	if _, err := policy.Parse(policy.Identity, document); err != nil {
		return malformedDocument(err)
	}
	if id.Inline == nil {
		id.Inline = map[string]string{}
	}
	id.Inline[name] = document
	total := 0
	for _, d := range id.Inline {
		total += policy.Size(d)
	}
	if total > k.inlineBytes {
		return inlinePoliciesTooLarge(k.inlineBytes, k.word, id.Name)
	}
	return nil
}

func (id *identity) deleteInline(k ownerKind, name string) error {
	if _, ok := id.Inline[name]; !ok {
		return noSuchInlinePolicy(k.word, name)
	}
	delete(id.Inline, name)
	return nil
}

func (id *identity) inline(k ownerKind, name string) (document *string, err error) {
	d, ok := id.Inline[name]
	if !ok {
		return nil, noSuchInlinePolicy(k.word, name)
	}
	return escaped(d), nil
}

func (id *identity) inlineNames() []string {
	names := make([]string, 0, len(id.Inline))
	for n := range id.Inline {
		names = append(names, n)
	}
	slices.Sort(names)
	return names
}

// attach attaches a managed policy. It does nothing if the policy is already attached.
func (id *identity) attach(tx store.Reader, k ownerKind, account, arn string) error {
	if err := checkManaged(tx, account, arn, notAttachable); err != nil {
		return err
	}
	if slices.Contains(id.Attached, arn) {
		return nil
	}
	if len(id.Attached) >= maxAttached {
		return quotaExceeded("PoliciesPer"+k.quota, maxAttached)
	}
	id.Attached = append(id.Attached, arn)
	return nil
}

func (id *identity) detach(arn string) error {
	i := slices.Index(id.Attached, arn)
	if i < 0 {
		return noSuchPolicy(arn)
	}
	id.Attached = slices.Delete(id.Attached, i, i+1)
	return nil
}

// setBoundary sets a managed policy as the permissions boundary.
func (id *identity) setBoundary(tx store.Reader, account, arn string) error {
	if err := checkManaged(tx, account, arn, noSuchBoundary); err != nil {
		return err
	}
	id.Boundary = arn
	return nil
}

// checkManaged returns an error unless arn names an AWS-managed policy or one of the account's.
func checkManaged(r store.Reader, account, arn string, missing func(arn string) error) error {
	owner, path, name, ok := arnName(arn, "policy")
	if !ok {
		return invalidPolicyARN(arn)
	}
	if owner == managedpolicies.Account {
		if _, ok := managedpolicies.Get(arn); !ok {
			return missing(arn)
		}
		return nil
	}
	p, err := policies.Get(r, nameKey(account, name))
	if errors.Is(err, store.ErrNotFound) || err == nil && (owner != account || p.Path != path) {
		return missing(arn)
	}
	return err
}

func (id *identity) boundary() *iamtypes.AttachedPermissionsBoundary {
	if id.Boundary == "" {
		return nil
	}
	return &iamtypes.AttachedPermissionsBoundary{
		PermissionsBoundaryArn: aws.String(id.Boundary),
		// "This data type can only have a value of Policy", and AWS answers that, not the value of the enumeration.
		// https://docs.aws.amazon.com/IAM/latest/APIReference/API_AttachedPermissionsBoundary.html
		PermissionsBoundaryType: "Policy",
	}
}

// attached returns the attached managed policies, sorted by ARN.
func (id *identity) attached(pathPrefix *string) []iamtypes.AttachedPolicy {
	out := []iamtypes.AttachedPolicy{}
	for _, a := range slices.Sorted(slices.Values(id.Attached)) {
		_, path, name, _ := arnName(a, "policy")
		if hasPathPrefix(path, pathPrefix) {
			out = append(out, iamtypes.AttachedPolicy{PolicyArn: &a, PolicyName: &name})
		}
	}
	return out
}

// escaped percent-encodes a document by RFC 3986, as IAM returns documents.
func escaped(document string) *string {
	const hex = "0123456789ABCDEF"
	var b strings.Builder
	for _, c := range []byte(document) {
		switch {
		case 'a' <= c && c <= 'z', 'A' <= c && c <= 'Z', '0' <= c && c <= '9', strings.IndexByte("-_.~", c) >= 0:
			b.WriteByte(c)
		default:
			b.Write([]byte{'%', hex[c>>4], hex[c&15]})
		}
	}
	out := b.String()
	return &out
}
