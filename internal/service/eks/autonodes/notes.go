package autonodes

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

// The resources of EKS Auto Mode in a cluster.
var (
	NodePools = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodepools"}

	nodeClaimsResource  = schema.GroupVersionResource{Group: "karpenter.sh", Version: "v1", Resource: "nodeclaims"}
	nodeClassesResource = schema.GroupVersionResource{Group: "eks.amazonaws.com", Version: "v1", Resource: "nodeclasses"}
)

// Notes explains what keeps EKS Auto Mode from providing nodes: node classes and node pools that are not ready, and node
// claims that were not launched or have not become nodes.
func Notes(ctx context.Context, objects plane.Objects) ([]string, error) {
	var out []string
	for _, kind := range []struct {
		name     string
		resource schema.GroupVersionResource
	}{{"NodeClass", nodeClassesResource}, {"NodePool", NodePools}, {"NodeClaim", nodeClaimsResource}} {
		all, err := objects.List(ctx, kind.resource)
		if err != nil {
			return nil, fmt.Errorf("listing %s: %w", kind.resource.Resource, err)
		}
		if kind.resource == NodePools && len(all) == 0 {
			out = append(out, "EKS Auto Mode has no node pool, so no pod gets a node: aws eks update-cluster-config --compute-config adds the built-in ones")
		}
		for i := range all {
			if unmet := unmet(&all[i]); unmet != "" {
				out = append(out, fmt.Sprintf("EKS Auto Mode's %s %s is not ready: %s", kind.name, all[i].GetName(), unmet))
			}
		}
	}
	return out, nil
}

// unmet returns the conditions of an object that are not met. Ready only counts if no other one explains it.
func unmet(o *unstructured.Unstructured) string {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions") // of no other form
	var out []string
	ready := ""
	for _, c := range conditions {
		c, _ := c.(map[string]any)
		kind, status := fmt.Sprint(c["type"]), fmt.Sprint(c["status"])
		// These are True only while a node is being disrupted.
		if status == "True" || slices.Contains([]string{"Drifted", "Consolidatable", "Empty", "Expired", "DisruptionReason", "NodeRegistrationHealthy", "InstanceTerminating", "Drained", "VolumesDetached"}, kind) {
			continue
		}
		text := kind
		if m, _ := c["message"].(string); m != "" && m != kind {
			text += ": " + m
		} else if r, _ := c["reason"].(string); r != "" {
			text += ": " + r
		}
		if kind == "Ready" {
			ready = text
			continue
		}
		out = append(out, text)
	}
	if len(out) == 0 {
		return ready
	}
	return strings.Join(out, "; ")
}

// NeverDrifts reports whether a disruption budget of a node pool lets no node be replaced because it has drifted.
func NeverDrifts(pool *unstructured.Unstructured) bool {
	budgets, _, _ := unstructured.NestedSlice(pool.Object, "spec", "disruption", "budgets") // of no other form
	return slices.ContainsFunc(budgets, func(b any) bool {
		budget, _ := b.(map[string]any)
		nodes := fmt.Sprint(budget["nodes"])
		reasons, _ := budget["reasons"].([]any)
		return (nodes == "0" || nodes == "0%") && budget["schedule"] == nil && (len(reasons) == 0 || slices.Contains(reasons, any("Drifted")))
	})
}
