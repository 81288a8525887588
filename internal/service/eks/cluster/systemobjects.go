package cluster

import (
	"context"
	"fmt"

	"golang.org/x/sync/errgroup"
	rbacv1 "k8s.io/api/rbac/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	typedrbacv1 "k8s.io/client-go/kubernetes/typed/rbac/v1"

	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// systemRoles are the cluster roles that EKS creates, with their subjects. CoreDNS, aws-node and
// kube-proxy bring their own.
func systemRoles() []systemRole {
	rule := func(groups, resources []string, verbs ...string) rbacv1.PolicyRule {
		return rbacv1.PolicyRule{APIGroups: groups, Resources: resources, Verbs: verbs}
	}
	return []systemRole{
		{
			name: "eks:node-bootstrapper",
			rules: []rbacv1.PolicyRule{
				rule([]string{"certificates.k8s.io"}, []string{"certificatesigningrequests/selfnodeserver"}, "create"),
			},
			subjects: []rbacv1.Subject{group("system:bootstrappers"), group("system:nodes")},
		},
		{
			name: "eks:kube-proxy-windows", role: "system:node-proxier",
			subjects: []rbacv1.Subject{group("eks:kube-proxy-windows")},
		},
		{
			name: "eks:kube-proxy-fargate", role: "system:node-proxier",
			subjects: []rbacv1.Subject{group("system:node-proxier")},
		},
		{
			// EKS acts as eks:node-manager when it labels and drains nodes of managed groups and
			// maintains aws-auth.
			name: "eks:node-manager",
			rules: []rbacv1.PolicyRule{
				rule([]string{""}, []string{"pods"}, "get", "list", "watch", "delete"),
				rule([]string{""}, []string{"nodes"}, "get", "list", "watch", "patch"),
				rule([]string{""}, []string{"pods/eviction"}, "create"),
			},
			subjects: []rbacv1.Subject{user("eks:node-manager")},
		},
	}
}

type systemRole struct {
	name     string
	rules    []rbacv1.PolicyRule // nil if the role already exists
	role     string              // the bound cluster role; name if empty
	subjects []rbacv1.Subject
}

func group(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.GroupKind, APIGroup: rbacv1.GroupName, Name: name}
}

func user(name string) rbacv1.Subject {
	return rbacv1.Subject{Kind: rbacv1.UserKind, APIGroup: rbacv1.GroupName, Name: name}
}

// ensureBorn creates everything that a new cluster contains.
func (s *Service) ensureBorn(ctx context.Context, key store.Key, rec record.Cluster, plane record.Plane) error {
	g, ctx := errgroup.WithContext(ctx)
	g.Go(func() error { return s.ensureSystemObjects(ctx, key, plane.ID) })
	g.Go(func() error { return s.ensureEndpoints(ctx, key, rec, plane.ID) })
	g.Go(func() error { return s.addons.ApplySelfManaged(ctx, key, rec, plane) })
	return g.Wait()
}

// ensureSystemObjects creates the objects that every new EKS cluster has.
func (s *Service) ensureSystemObjects(ctx context.Context, cluster store.Key, planeID string) error {
	ses, err := s.Sessions.Open(cluster, planeID)
	if err != nil {
		return err
	}
	rbac := ses.Client.RbacV1()
	g, ctx := errgroup.WithContext(ctx)
	for _, r := range systemRoles() {
		g.Go(func() error { return ensureRole(ctx, rbac, r) })
	}
	return g.Wait()
}

func ensureRole(ctx context.Context, rbac typedrbacv1.RbacV1Interface, r systemRole) error {
	meta := metav1.ObjectMeta{Name: r.name, Labels: map[string]string{"eks.amazonaws.com/component": "node"}}
	if r.rules != nil {
		_, err := rbac.ClusterRoles().Create(ctx, &rbacv1.ClusterRole{ObjectMeta: meta, Rules: r.rules}, metav1.CreateOptions{})
		if err != nil && !apierrors.IsAlreadyExists(err) {
			return fmt.Errorf("creating cluster role %s: %w", r.name, err)
		}
	}
	role := r.role
	if role == "" {
		role = r.name
	}
	_, err := rbac.ClusterRoleBindings().Create(ctx, &rbacv1.ClusterRoleBinding{
		ObjectMeta: meta, Subjects: r.subjects,
		RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "ClusterRole", Name: role},
	}, metav1.CreateOptions{})
	if err != nil && !apierrors.IsAlreadyExists(err) {
		return fmt.Errorf("creating cluster role binding %s: %w", r.name, err)
	}
	return nil
}
