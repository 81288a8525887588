package accesspolicies_test

import (
	"slices"
	"testing"

	authzv1 "k8s.io/api/authorization/v1"

	"github.com/drydock-dev/drydock/internal/catalog/accesspolicies"
)

func TestPoliciesAllowWhatTheirTablesSay(t *testing.T) {
	for _, tt := range []struct {
		policy, verb, group, resource, sub, name string
		want                                     bool
	}{
		{"AmazonEKSClusterAdminPolicy", "delete", "", "nodes", "", "n", true},
		{"AmazonEKSClusterAdminPolicy", "patch", "example.com", "widgets", "status", "w", true},
		{"AmazonEKSAdminPolicy", "create", "rbac.authorization.k8s.io", "rolebindings", "", "", true},
		{"AmazonEKSAdminPolicy", "create", "rbac.authorization.k8s.io", "clusterrolebindings", "", "", false},
		{"AmazonEKSAdminPolicy", "list", "", "nodes", "", "", false},
		{"AmazonEKSEditPolicy", "create", "apps", "deployments", "", "", true},
		{"AmazonEKSEditPolicy", "create", "rbac.authorization.k8s.io", "roles", "", "", false},
		{"AmazonEKSEditPolicy", "get", "", "secrets", "", "s", true},
		{"AmazonEKSViewPolicy", "list", "", "pods", "", "", true},
		{"AmazonEKSViewPolicy", "get", "", "pods", "log", "p", true},
		{"AmazonEKSViewPolicy", "create", "", "pods", "exec", "p", false},
		{"AmazonEKSViewPolicy", "get", "", "secrets", "", "s", false},
		{"AmazonEKSViewPolicy", "delete", "", "pods", "", "p", false},
		{"AmazonEKSViewPolicy", "get", "", "resourcequotas", "status", "q", true},
		{"AmazonEKSAdminViewPolicy", "list", "", "secrets", "", "", true},
		{"AmazonEKSAdminViewPolicy", "update", "", "secrets", "", "s", false},
		{"AmazonEKSSecretReaderPolicy", "get", "", "secrets", "", "s", true},
		{"AmazonEKSSecretReaderPolicy", "get", "", "configmaps", "", "c", false},
		{"AmazonAIOpsAssistantPolicy", "get", "", "pods", "log", "p", true},
		{"AmazonAIOpsAssistantPolicy", "get", "", "secrets", "", "s", false},
		{"AmazonARCRegionSwitchScalingPolicy", "update", "apps", "deployments", "scale", "d", true},
		{"AmazonARCRegionSwitchScalingPolicy", "update", "apps", "deployments", "", "d", false},
		{"AmazonARCRegionSwitchScalingPolicy", "get", "apps", "deployments", "status", "d", true},
		{"AmazonARCRegionSwitchScalingPolicy", "patch", "autoscaling", "horizontalpodautoscalers", "", "h", true},
		{"AmazonEKSClusterInsightsPolicy", "get", "apps", "daemonsets", "", "kube-proxy", true},
		{"AmazonEKSClusterInsightsPolicy", "get", "apps", "daemonsets", "", "other", false},
		{"AmazonEKSSecretAdminPolicy", "delete", "", "secrets", "", "s", true},
		{"AmazonEKSSecretAdminPolicy", "get", "", "configmaps", "", "c", false},
		{"AmazonEKSACKPolicy", "create", "s3.services.k8s.aws", "buckets", "", "", true},
		{"AmazonEKSACKPolicy", "update", "services.k8s.aws", "fieldexports", "status", "f", true},
		{"AmazonEKSACKPolicy", "create", "s3services.k8s.aws", "buckets", "", "", false},
		{"AmazonEKSACKPolicy", "create", "apps", "deployments", "", "", false},
		{"AmazonEKSKROPolicy", "delete", "kro.run", "resourcegraphdefinitions", "", "r", true},
		{"AmazonEKSKROPolicy", "create", "apiextensions.k8s.io", "customresourcedefinitions", "", "", true},
		{"AmazonEKSKROPolicy", "create", "apps", "deployments", "", "", false},
		{"AmazonEKSArgoCDClusterPolicy", "create", "", "namespaces", "", "", true},
		{"AmazonEKSArgoCDClusterPolicy", "patch", "apiextensions.k8s.io", "customresourcedefinitions", "", "applications.argoproj.io", true},
		{"AmazonEKSArgoCDClusterPolicy", "patch", "apiextensions.k8s.io", "customresourcedefinitions", "", "widgets.example.com", false},
		{"AmazonEKSArgoCDPolicy", "update", "argoproj.io", "applications", "status", "a", true},
		{"AmazonEKSArgoCDPolicy", "update", "", "configmaps", "", "c", false},
		{"AmazonEKSAutoNodePolicy", "watch", "discovery.k8s.io", "endpointslices", "", "", true},
		{"AmazonEKSAutoNodePolicy", "get", "", "secrets", "", "s", false},
		{"AmazonEKSComputeClusterPolicy", "create", "", "pods", "eviction", "p", true},
		{"AmazonEKSComputeClusterPolicy", "create", "", "pods", "", "", false},
		{"AmazonEKSComputePolicy", "watch", "coordination.k8s.io", "leases", "", "", true},
		{"AmazonEKSComputePolicy", "update", "coordination.k8s.io", "leases", "", "l", false},
		{"AmazonEKSLoadBalancingClusterPolicy", "patch", "networking.k8s.io", "ingresses", "status", "i", true},
		{"AmazonEKSLoadBalancingClusterPolicy", "create", "networking.k8s.io", "ingressclasses", "", "", false},
		{"AmazonEKSNetworkingClusterPolicy", "delete", "eks.amazonaws.com", "cninodes", "", "n", true},
		{"AmazonEKSBlockStorageClusterPolicy", "delete", "storage.k8s.io", "csidrivers", "", "ebs.csi.eks.amazonaws.com", true},
		{"AmazonEKSBlockStorageClusterPolicy", "delete", "storage.k8s.io", "csidrivers", "", "ebs.csi.aws.com", false},
		{"AmazonSagemakerHyperpodTrainingPolicy", "create", "kubeflow.org", "pytorchjobs", "", "", true},
		{"AmazonSagemakerHyperpodInferencePolicy", "create", "ray.io", "rayjobs", "", "", false},
	} {
		t.Run(tt.policy+" "+tt.verb+" "+tt.resource+"/"+tt.sub, func(t *testing.T) {
			p, ok := accesspolicies.ByARN(accesspolicies.ARN(tt.policy))
			if !ok {
				t.Fatal("no such policy")
			}
			got := p.AllowsResource(&authzv1.ResourceAttributes{Verb: tt.verb, Group: tt.group, Resource: tt.resource, Subresource: tt.sub, Name: tt.name, Namespace: "default"})
			if got != tt.want {
				t.Errorf("allowed = %v, want %v", got, tt.want)
			}
		})
	}
}

// Policies grant what AWS publishes about them. Those of which it publishes nothing say so, and grant nothing.
func TestPoliciesWithoutRulesSayWhy(t *testing.T) {
	var unpublished []string
	for _, p := range accesspolicies.All() {
		if p.Unpublished != "" {
			unpublished = append(unpublished, p.Name)
		} else if len(p.Rules) == 0 {
			t.Errorf("%s has neither rules nor a reason for having none", p.Name)
		}
	}
	want := []string{
		"AIDevOpsAgentAccessPolicy", "AWSBackupFullAccessPolicyForBackup", "AWSBackupFullAccessPolicyForRestore", "AmazonEKSBlockStoragePolicy",
		"AmazonEKSComputePolicy", "AmazonEKSLoadBalancingPolicy", "AmazonEKSNetworkingPolicy", "AmazonEKSPodIdentityPolicy", "AmazonEMRJobPolicy",
		"AmazonSagemakerHyperpodClusterPolicy", "AmazonSagemakerHyperpodControllerPolicy", "AmazonSagemakerHyperpodSystemNamespacePolicy",
	}
	if !slices.Equal(unpublished, want) {
		t.Errorf("unpublished: %q, want %q", unpublished, want)
	}
}

func TestOnlyClusterAdminReachesNonResourceURLs(t *testing.T) {
	for _, p := range accesspolicies.All() {
		got := p.AllowsNonResource(&authzv1.NonResourceAttributes{Path: "/metrics", Verb: "get"})
		if want := p.Name == "AmazonEKSClusterAdminPolicy"; got != want {
			t.Errorf("%s: /metrics allowed = %v", p.Name, got)
		}
	}
}

func TestDataIsSortedAndComplete(t *testing.T) {
	var names []string
	for _, p := range accesspolicies.All() {
		names = append(names, p.Name)
		for i, r := range p.Rules {
			if len(r.Verbs) == 0 || len(r.Resources)+len(r.NonResourceURLs) == 0 || len(r.Resources) > 0 && len(r.APIGroups) == 0 {
				t.Errorf("%s: rule %d is incomplete: %+v", p.Name, i, r)
			}
		}
	}
	if !slices.IsSorted(names) || len(names) < 38 {
		t.Errorf("names = %v", names)
	}
	if _, ok := accesspolicies.ByARN("arn:aws:eks::aws:cluster-access-policy/Nope"); ok {
		t.Error("an unknown policy was found")
	}
}
