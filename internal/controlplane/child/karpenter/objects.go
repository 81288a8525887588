package karpenter

import (
	"context"
	_ "embed"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/util/workqueue"
	"sigs.k8s.io/controller-runtime/pkg/builder"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/handler"
	"sigs.k8s.io/controller-runtime/pkg/manager"
	"sigs.k8s.io/controller-runtime/pkg/reconcile"
	"sigs.k8s.io/controller-runtime/pkg/source"
	"sigs.k8s.io/karpenter/pkg/apis"
	karpv1 "sigs.k8s.io/karpenter/pkg/apis/v1"
	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/internal/automode"
)

const (
	fieldManager = "eks"
	// establishing is how long the API server may take to serve new types.
	establishing = time.Minute
)

//go:embed nodeclasses.yaml
var nodeClassCRD []byte

var crds = schema.GroupVersionResource{Group: "apiextensions.k8s.io", Version: "v1", Resource: "customresourcedefinitions"}

// definitions returns the types of EKS Auto Mode's compute: Karpenter's, with EKS's defaults, and NodeClasses.
func definitions() ([]*unstructured.Unstructured, error) {
	var out []*unstructured.Unstructured
	for _, text := range [][]byte{apis.NodePoolCRD, apis.NodeClaimCRD, nodeClassCRD} {
		o := &unstructured.Unstructured{}
		if err := yaml.Unmarshal(text, &o.Object); err != nil {
			return nil, err
		}
		versions, _, err := unstructured.NestedSlice(o.Object, "spec", "versions")
		if err != nil {
			return nil, err
		}
		for _, v := range versions {
			if err := setDefaults(o.GetName(), v.(map[string]any)); err != nil {
				return nil, err
			}
		}
		if err := unstructured.SetNestedSlice(o.Object, versions, "spec", "versions"); err != nil {
			return nil, err
		}
		out = append(out, o)
	}
	return out, nil
}

// setDefaults sets EKS's defaults in a version of a definition: nodes live two weeks, and draining them takes at most a
// day, which a NodeClaim shows even if its NodePool does not say so.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html
func setDefaults(name string, version map[string]any) error {
	spec := []string{"schema", "openAPIV3Schema", "properties", "spec", "properties"}
	switch name {
	case "nodepools.karpenter.sh":
		path := append(slices.Clone(spec), "template", "properties", "spec", "properties", "expireAfter", "default")
		return unstructured.SetNestedField(version, "336h", path...)
	case "nodeclaims.karpenter.sh":
		return unstructured.SetNestedField(version, "24h0m0s", append(slices.Clone(spec), "terminationGracePeriod", "default")...)
	}
	return nil
}

// install creates the types and returns when they are served.
func install(ctx context.Context, rc *rest.Config) error {
	rc = rest.CopyConfig(rc)
	rc.ContentType, rc.AcceptContentTypes, rc.UserAgent = "", "", "eks.amazonaws.com"
	all, err := definitions()
	if err != nil {
		return err
	}
	dyn, err := dynamic.NewForConfig(rc)
	if err != nil {
		return err
	}
	for _, o := range all {
		if _, err := dyn.Resource(crds).Apply(ctx, o.GetName(), o, metav1.ApplyOptions{FieldManager: fieldManager, Force: true}); err != nil {
			return fmt.Errorf("installing %s: %w", o.GetName(), err)
		}
	}
	for _, o := range all {
		err := wait.PollUntilContextTimeout(ctx, 20*time.Millisecond, establishing, true, func(ctx context.Context) (bool, error) {
			got, err := dyn.Resource(crds).Get(ctx, o.GetName(), metav1.GetOptions{})
			return err == nil && established(got), nil
		})
		if err != nil {
			return fmt.Errorf("waiting for %s: %w", o.GetName(), err)
		}
	}
	return nil
}

func established(o *unstructured.Unstructured) bool {
	conditions, _, _ := unstructured.NestedSlice(o.Object, "status", "conditions")
	return slices.ContainsFunc(conditions, func(c any) bool {
		m, ok := c.(map[string]any)
		return ok && m["type"] == "Established" && m["status"] == "True"
	})
}

// The built-in node pools.
const (
	poolGeneral = "general-purpose"
	poolSystem  = "system"
)

// builtIn returns the default NodeClass and the built-in node pools that are enabled.
// https://docs.aws.amazon.com/eks/latest/userguide/set-builtin-node-pools.html
func builtIn(s automode.Setting) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	object := func(version, kind, name string, spec map[string]any) {
		out = append(out, &unstructured.Unstructured{Object: map[string]any{
			"apiVersion": version, "kind": kind,
			"metadata": map[string]any{"name": name, "labels": map[string]any{labelManagedBy: "eks"}},
			"spec":     spec,
		}})
	}
	if s.NodeRole == "" {
		return nil
	}
	var subnets []any
	for _, id := range s.Subnets {
		subnets = append(subnets, map[string]any{"id": id})
	}
	object(groupVersion.String(), "NodeClass", defaultNodeClass, map[string]any{
		"role": s.NodeRole, "subnetSelectorTerms": subnets, "securityGroupSelectorTerms": []any{map[string]any{"id": s.SecurityGroup}},
		"ephemeralStorage": map[string]any{"size": "80Gi", "iops": int64(3000), "throughput": int64(125)},
		"networkPolicy":    "DefaultAllow", "networkPolicyEventLogs": "Disabled", "snatPolicy": "Random",
	})
	for _, name := range s.NodePools {
		archs := []any{karpv1.ArchitectureAmd64}
		if name == poolSystem {
			archs = append(archs, karpv1.ArchitectureArm64)
		}
		in := func(key string, values ...any) any {
			return map[string]any{"key": key, "operator": string(corev1.NodeSelectorOpIn), "values": values}
		}
		spec := map[string]any{
			"expireAfter": "336h", "terminationGracePeriod": "24h0m0s",
			"nodeClassRef": map[string]any{"group": group, "kind": "NodeClass", "name": defaultNodeClass},
			"requirements": []any{
				in(karpv1.CapacityTypeLabelKey, karpv1.CapacityTypeOnDemand),
				in(group+"/instance-category", "c", "m", "r"),
				map[string]any{"key": group + "/instance-generation", "operator": string(corev1.NodeSelectorOpGt), "values": []any{"4"}},
				in(corev1.LabelArchStable, archs...),
				in(corev1.LabelOSStable, string(corev1.Linux)),
			},
		}
		if name == poolSystem {
			spec["taints"] = []any{map[string]any{"key": "CriticalAddonsOnly", "effect": string(corev1.TaintEffectNoSchedule)}}
		}
		object("karpenter.sh/v1", "NodePool", name, map[string]any{
			"disruption": map[string]any{
				"budgets": []any{map[string]any{"nodes": "10%"}}, "consolidateAfter": "30s", "consolidationPolicy": "WhenEmptyOrUnderutilized",
			},
			"template": map[string]any{"metadata": map[string]any{}, "spec": spec},
		})
	}
	return out
}

// builtIns keeps the built-in objects as EKS defines them, and deletes those that have been disabled.
type builtIns struct {
	provider *provider
	client   client.Client
}

// Register implements controller.Controller of Karpenter.
func (c *builtIns) Register(_ context.Context, m manager.Manager) error {
	one := handler.EnqueueRequestsFromMapFunc(func(_ context.Context, o client.Object) []reconcile.Request {
		if o.GetLabels()[labelManagedBy] != "eks" && o.GetName() != defaultNodeClass && o.GetName() != poolGeneral && o.GetName() != poolSystem {
			return nil
		}
		return []reconcile.Request{{}}
	})
	start := source.Func(func(_ context.Context, q workqueue.TypedRateLimitingInterface[reconcile.Request]) error {
		q.Add(reconcile.Request{})
		return nil
	})
	return builder.ControllerManagedBy(m).Named("builtin").Watches(&karpv1.NodePool{}, one).Watches(&NodeClass{}, one).WatchesRawSource(start).Complete(c)
}

// Reconcile implements reconcile.Reconciler.
func (c *builtIns) Reconcile(ctx context.Context, _ reconcile.Request) (reconcile.Result, error) {
	if err := c.provider.stillEnabled(ctx); err != nil {
		return reconcile.Result{}, err
	}
	want := builtIn(c.provider.cfg.Setting)
	for _, o := range want {
		if err := c.client.Apply(ctx, client.ApplyConfigurationFromUnstructured(o), client.ForceOwnership, client.FieldOwner(fieldManager)); err != nil {
			return reconcile.Result{}, fmt.Errorf("applying %s %s: %w", o.GetKind(), o.GetName(), err)
		}
	}
	wanted := func(kind, name string) bool {
		return slices.ContainsFunc(want, func(o *unstructured.Unstructured) bool { return o.GetKind() == kind && o.GetName() == name })
	}
	var pools karpv1.NodePoolList
	if err := c.client.List(ctx, &pools, client.MatchingLabels{labelManagedBy: "eks"}); err != nil {
		return reconcile.Result{}, err
	}
	for i := range pools.Items {
		if p := &pools.Items[i]; p.DeletionTimestamp == nil && !wanted("NodePool", p.Name) {
			if err := c.client.Delete(ctx, p); client.IgnoreNotFound(err) != nil {
				return reconcile.Result{}, err
			}
		}
	}
	return reconcile.Result{}, nil
}
