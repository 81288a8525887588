package access

import (
	"context"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	authzv1 "k8s.io/api/authorization/v1"

	"github.com/drydock-dev/drydock/internal/catalog/accesspolicies"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// Authorize says whether an EKS access policy of the requester's access entry
// allows a request, and which. False means no opinion: RBAC may still allow
// it. Access policies leave no RBAC objects behind, as on EKS.
func (s *Service) Authorize(_ context.Context, planeID string, spec authzv1.SubjectAccessReviewSpec) (allowed bool, reason string, err error) {
	if !strings.HasPrefix(spec.UID, "aws-iam-authenticator:") || len(spec.Extra["principalId"]) != 1 {
		return false, "", nil // service accounts, certificates, impersonated users
	}
	id := spec.Extra["principalId"][0]
	key, rec, err := s.ClusterByPlane(planeID)
	if err != nil || !rec.UsesAPI() {
		return false, "", nil
	}
	for _, e := range record.AccessEntries.All(s.Store, record.AllBelow(key)) {
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
	if whole {
		return true
	}
	for _, pattern := range scope.Namespaces {
		if a.Namespace != "" && wildcard(pattern, a.Namespace) {
			return true
		}
	}
	return false
}

// wildcard reports whether s matches a pattern in which * stands for any text.
func wildcard(pattern, s string) bool {
	parts := strings.Split(pattern, "*")
	if len(parts) == 1 {
		return pattern == s
	}
	s, ok := strings.CutPrefix(s, parts[0])
	if !ok {
		return false
	}
	last := parts[len(parts)-1]
	for _, p := range parts[1 : len(parts)-1] {
		i := strings.Index(s, p)
		if i < 0 {
			return false
		}
		s = s[i+len(p):]
	}
	return strings.HasSuffix(s, last)
}
