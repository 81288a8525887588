package iam

import (
	"context"
	"slices"
	"strings"

	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/policy"
)

// ListPoliciesGrantingServiceAccess lists, for each service, the policies of a user, group or role
// that allow any of its actions. For a user it includes the policies of the user's groups.
// Boundaries and denies are ignored.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_ListPoliciesGrantingServiceAccess.html
func (s *Service) ListPoliciesGrantingServiceAccess(ctx context.Context, in *awsiam.ListPoliciesGrantingServiceAccessInput) (*awsiam.ListPoliciesGrantingServiceAccessOutput, error) {
	e, err := s.entity(awsapi.CallFrom(ctx).Account, *in.Arn)
	if err != nil {
		return nil, err
	}
	var list []iamtypes.ListPoliciesGrantingServiceAccessEntry
	for _, ns := range slices.Compact(slices.Sorted(slices.Values(in.ServiceNamespaces))) {
		entry := iamtypes.ListPoliciesGrantingServiceAccessEntry{ServiceNamespace: &ns, Policies: []iamtypes.PolicyGrantingServiceAccess{}}
		for _, src := range e.policies.Identity {
			if allowsService(src.Document, ns) {
				entry.Policies = append(entry.Policies, outGranting(src.Name))
			}
		}
		list = append(list, entry)
	}
	p, err := paginate(list, func(e iamtypes.ListPoliciesGrantingServiceAccessEntry) string { return *e.ServiceNamespace }, in.Marker, nil)
	if err != nil {
		return nil, err
	}
	return &awsiam.ListPoliciesGrantingServiceAccessOutput{PoliciesGrantingServiceAccess: p.items, IsTruncated: p.truncated, Marker: p.marker}, nil
}

// outGranting describes a policy, given the name of its source: the ARN of a managed policy, or the
// owner's ARN and the name of an inline policy.
func outGranting(source string) iamtypes.PolicyGrantingServiceAccess {
	name := source[strings.LastIndexByte(source, '/')+1:]
	out := iamtypes.PolicyGrantingServiceAccess{PolicyName: &name}
	if strings.Contains(source, ":policy/") {
		out.PolicyType, out.PolicyArn = iamtypes.PolicyTypeManaged, &source
		return out
	}
	owner := source[:len(source)-len(name)-1]
	entity := owner[strings.LastIndexByte(owner, '/')+1:]
	out.PolicyType, out.EntityName = iamtypes.PolicyTypeInline, &entity
	for _, t := range []struct {
		mark string
		typ  iamtypes.PolicyOwnerEntityType
	}{{":user/", iamtypes.PolicyOwnerEntityTypeUser}, {":group/", iamtypes.PolicyOwnerEntityTypeGroup}, {":role/", iamtypes.PolicyOwnerEntityTypeRole}} {
		if strings.Contains(owner, t.mark) {
			out.EntityType = t.typ
		}
	}
	return out
}

// allowsService reports whether a statement of doc allows an action of the service.
func allowsService(doc *policy.Document, namespace string) bool {
	covers := func(action string) bool {
		vendor, _, _ := strings.Cut(action, ":")
		return vendor == "*" || strings.EqualFold(vendor, namespace)
	}
	for i := range doc.Statements {
		st := &doc.Statements[i]
		switch {
		case st.Deny:
		case slices.ContainsFunc(st.Actions, covers):
			return true
		case st.NotActions != nil && !slices.ContainsFunc(st.NotActions, func(a string) bool {
			return a == "*" || covers(a) && strings.HasSuffix(a, ":*")
		}):
			return true
		}
	}
	return false
}
