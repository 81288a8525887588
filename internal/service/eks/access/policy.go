package access

import (
	"context"
	"regexp"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	authzv1 "k8s.io/api/authorization/v1"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/catalog/accesspolicies"
	"github.com/drydock-dev/drydock/internal/glob"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// ListAccessPolicies returns the available access policies.
func (s *Service) ListAccessPolicies(_ context.Context, in *awseks.ListAccessPoliciesInput) (*awseks.ListAccessPoliciesOutput, error) {
	all, next, err := base.Page(accesspolicies.All(), func(p accesspolicies.Policy) string { return p.Name }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	out := &awseks.ListAccessPoliciesOutput{AccessPolicies: []ekstypes.AccessPolicy{}, NextToken: next}
	for _, p := range all {
		out.AccessPolicies = append(out.AccessPolicies, ekstypes.AccessPolicy{Name: &p.Name, Arn: new(p.ARN())})
	}
	return out, nil
}

var policyARNPattern = regexp.MustCompile(`^arn:[^:]+:eks::aws:cluster-access-policy/.+$`)

// AssociateAccessPolicy adds a policy to an access entry, or changes the scope of one that it has.
// https://docs.aws.amazon.com/eks/latest/userguide/access-policies.html
func (s *Service) AssociateAccessPolicy(ctx context.Context, in *awseks.AssociateAccessPolicyInput) (*awseks.AssociateAccessPolicyOutput, error) {
	key, _, err := s.entriesOf(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	policy, ok := accesspolicies.ByARN(aws.ToString(in.PolicyArn))
	switch {
	case !ok && !policyARNPattern.MatchString(aws.ToString(in.PolicyArn)):
		return nil, errPolicyARN(key.ID)
	case !ok:
		return nil, errNoPolicy()
	case policy.ServiceLinked:
		return nil, errServiceLinkedPolicy(key.ID, *in.PolicyArn)
	case policy.Unpublished != "":
		return nil, awserr.NotImplemented("the access policy " + policy.Name + " (" + policy.Unpublished + ", so it would allow nothing here)")
	}
	if err := checkScope(key.ID, in.AccessScope); err != nil {
		return nil, err
	}
	now := s.Now()
	scope := &ekstypes.AccessScope{Type: in.AccessScope.Type, Namespaces: append([]string{}, in.AccessScope.Namespaces...)}
	out := &awseks.AssociateAccessPolicyOutput{ClusterName: &key.ID, PrincipalArn: in.PrincipalArn}
	err = s.changeEntry(ctx, key, aws.ToString(in.PrincipalArn), func(r *record.AccessEntry) error {
		if typ := *r.Entry.Type; typ != TypeStandard && !nodeTypes()[typ].policies {
			return errNodeEntryPolicy(key.ID)
		}
		i := slices.IndexFunc(r.Policies, func(p ekstypes.AssociatedAccessPolicy) bool { return *p.PolicyArn == *in.PolicyArn })
		if i < 0 {
			i = len(r.Policies)
			r.Policies = append(r.Policies, ekstypes.AssociatedAccessPolicy{PolicyArn: in.PolicyArn, AssociatedAt: &now})
		}
		r.Policies[i].AccessScope, r.Policies[i].ModifiedAt = scope, &now
		out.AssociatedAccessPolicy = &r.Policies[i]
		return nil
	})
	return out, err
}

// DisassociateAccessPolicy removes a policy from an access entry.
func (s *Service) DisassociateAccessPolicy(ctx context.Context, in *awseks.DisassociateAccessPolicyInput) (*awseks.DisassociateAccessPolicyOutput, error) {
	key, _, err := s.entriesOf(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	err = s.changeEntry(ctx, key, aws.ToString(in.PrincipalArn), func(r *record.AccessEntry) error {
		before := len(r.Policies)
		r.Policies = slices.DeleteFunc(r.Policies, func(p ekstypes.AssociatedAccessPolicy) bool { return *p.PolicyArn == aws.ToString(in.PolicyArn) })
		if len(r.Policies) == before {
			return errPolicyNotAssociated(aws.ToString(in.PolicyArn))
		}
		return nil
	})
	return &awseks.DisassociateAccessPolicyOutput{}, err
}

// ListAssociatedAccessPolicies returns an access entry's policies.
func (s *Service) ListAssociatedAccessPolicies(ctx context.Context, in *awseks.ListAssociatedAccessPoliciesInput) (*awseks.ListAssociatedAccessPoliciesOutput, error) {
	key, _, err := s.entriesOf(ctx, in.ClusterName)
	if err != nil {
		return nil, err
	}
	rec, err := record.AccessEntries.Get(s.Store, key.Below(aws.ToString(in.PrincipalArn)))
	if err != nil {
		return nil, store.NotFoundAs(err, errNoEntry())
	}
	sorted := slices.SortedFunc(slices.Values(rec.Policies), func(a, b ekstypes.AssociatedAccessPolicy) int {
		return strings.Compare(*a.PolicyArn, *b.PolicyArn)
	})
	sorted, next, err := base.Page(sorted, func(p ekstypes.AssociatedAccessPolicy) string { return *p.PolicyArn }, in.MaxResults, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awseks.ListAssociatedAccessPoliciesOutput{
		ClusterName: &key.ID, PrincipalArn: rec.Entry.PrincipalArn, NextToken: next,
		AssociatedAccessPolicies: append([]ekstypes.AssociatedAccessPolicy{}, sorted...),
	}, nil
}

// namespacePattern matches a namespace name, possibly with wildcards.
var namespacePattern = regexp.MustCompile(`^[a-z0-9*]([-a-z0-9*]{0,61}[a-z0-9*])?$`)

func checkScope(cluster string, scope *ekstypes.AccessScope) error {
	switch {
	case scope.Type == ekstypes.AccessScopeTypeCluster && len(scope.Namespaces) > 0:
		return errScopeNamespaces(cluster)
	case scope.Type == ekstypes.AccessScopeTypeCluster:
		return nil
	case scope.Type != ekstypes.AccessScopeTypeNamespace:
		return errScope(cluster, "the type must be cluster or namespace")
	case len(scope.Namespaces) == 0:
		return errScopeNoNamespace(cluster)
	}
	for _, ns := range scope.Namespaces {
		if !namespacePattern.MatchString(ns) {
			return errScope(cluster, "the namespace "+ns+" is not valid")
		}
	}
	return nil
}

// Authorize reports whether an EKS access policy of the requester's access entry allows a request,
// and which policy. False means no opinion: RBAC may still allow it. As on EKS, access policies
// create no RBAC objects.
func (s *Service) Authorize(_ context.Context, planeID string, spec authzv1.SubjectAccessReviewSpec) (allowed bool, reason string, err error) {
	if !strings.HasPrefix(spec.UID, "aws-iam-authenticator:") || len(spec.Extra["principalId"]) != 1 {
		return false, "", nil // a service account, a certificate or an impersonated user
	}
	id := spec.Extra["principalId"][0]
	key, rec, err := s.ClusterByPlane(planeID)
	if err != nil || !rec.UsesAPI() {
		return false, "", nil
	}
	for _, e := range record.AccessEntries.All(s.Store, key.AllBelow()) {
		if e.Value.PrincipalID != id || id == "" {
			continue
		}
		for _, a := range e.Value.Policies {
			policy, ok := accesspolicies.ByARN(*a.PolicyArn)
			if ok && policyAllows(policy, a.AccessScope, &spec) {
				return true, "EKS access policy: allowed by " + policy.Name + " of access entry " + *e.Value.Entry.PrincipalArn, nil
			}
		}
	}
	return false, "", nil
}

func policyAllows(p accesspolicies.Policy, scope *ekstypes.AccessScope, spec *authzv1.SubjectAccessReviewSpec) bool {
	whole := scope.Type == ekstypes.AccessScopeTypeCluster
	if a := spec.NonResourceAttributes; a != nil {
		return whole && p.AllowsNonResource(a)
	}
	a := spec.ResourceAttributes
	if a == nil || !p.AllowsResource(a) {
		return false
	}
	return whole || slices.ContainsFunc(scope.Namespaces, func(pattern string) bool { return a.Namespace != "" && glob.Match(pattern, a.Namespace) })
}
