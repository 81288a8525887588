package addons

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/yaml"
)

// makers are the values that create or remove objects, or change several fields, by the first word of a Setting's As;
// argument is the rest.
var makers = map[string]func(objects []*unstructured.Unstructured, s Setting, argument string, value any) ([]*unstructured.Unstructured, error){
	"add":         addManifest,
	"autoScaling": startScaling,
	"budget":      budget,
	"eniConfigs":  eniConfigs,
	"monitors":    monitors,
	"replicas":    replicas,
	"tracing":     tracing,
}

// addManifest adds the objects of a manifest if the value is true.
func addManifest(objects []*unstructured.Unstructured, _ Setting, manifest string, value any) ([]*unstructured.Unstructured, error) {
	if on, _ := value.(bool); !on {
		return objects, nil
	}
	return append(objects, objectsOf(strings.NewReplacer(), manifest)...), nil
}

// An AutoScaling is the range in which CoreDNS is scaled.
// https://docs.aws.amazon.com/eks/latest/userguide/coredns-autoscaling.html
type AutoScaling struct {
	// Object is the Deployment, KIND/NAME.
	Object   string
	Min, Max int
}

// The limits of both counts.
const minScaled, maxScaled = 2, 1000

// Scales reports whether EKS scales the add-on if it has these values.
func (a *AddOn) Scales() bool {
	return slices.ContainsFunc(a.Settings, func(s Setting) bool { return s.As == "autoScaling" })
}

// AutoScaling returns how EKS scales the add-on with these values, or false if it does not.
func (a *AddOn) AutoScaling(values map[string]any) (AutoScaling, bool) {
	for _, s := range a.Settings {
		if s.As == "autoScaling" {
			v, _, _ := unstructured.NestedMap(values, s.Value) // the schema has checked its type
			return scalingOf(s, v)
		}
	}
	return AutoScaling{}, false
}

func scalingOf(s Setting, v map[string]any) (AutoScaling, bool) {
	number := func(name string, or int) int {
		if n, ok := v[name].(int64); ok {
			return int(n)
		}
		return or
	}
	on, _ := v["enabled"].(bool)
	low := number("minReplicas", minScaled)
	return AutoScaling{Object: s.Object, Min: low, Max: max(low, number("maxReplicas", maxScaled))}, on
}

// Clamp returns the nearest allowed count.
func (s AutoScaling) Clamp(n int) int { return min(max(n, s.Min), s.Max) }

// startScaling sets the initial count of what is scaled.
func startScaling(objects []*unstructured.Unstructured, s Setting, _ string, value any) ([]*unstructured.Unstructured, error) {
	v, _ := value.(map[string]any)
	scaling, on := scalingOf(s, v)
	i := indexObject(objects, s.Object)
	if !on || i < 0 {
		return objects, nil
	}
	n, _, err := unstructured.NestedInt64(objects[i].Object, "spec", "replicas")
	if err != nil {
		return nil, err
	}
	return objects, unstructured.SetNestedField(objects[i].Object, int64(scaling.Clamp(int(n))), "spec", "replicas")
}

// budget changes or removes a PodDisruptionBudget, which has one of two limits.
func budget(objects []*unstructured.Unstructured, s Setting, _ string, value any) ([]*unstructured.Unstructured, error) {
	v, _ := value.(map[string]any)
	i := indexObject(objects, s.Object)
	if i < 0 {
		return nil, fmt.Errorf("there is no %s", s.Object)
	}
	if on, ok := v["enabled"].(bool); ok && !on {
		return slices.Delete(objects, i, i+1), nil
	}
	spec, ok := objects[i].Object["spec"].(map[string]any)
	if !ok {
		return nil, fmt.Errorf("%s has no spec", s.Object)
	}
	if v["minAvailable"] != nil || v["maxUnavailable"] != nil {
		delete(spec, "minAvailable")
		delete(spec, "maxUnavailable")
	}
	for _, field := range []string{"minAvailable", "maxUnavailable", "unhealthyPodEvictionPolicy"} {
		if v[field] != nil {
			spec[field] = v[field]
		}
	}
	return objects, nil
}

// replicas sets a Deployment's replicas and, if there are more than two, its budget.
// https://github.com/kubernetes-sigs/aws-ebs-csi-driver/tree/master/charts/aws-ebs-csi-driver
func replicas(objects []*unstructured.Unstructured, s Setting, budget string, value any) ([]*unstructured.Unstructured, error) {
	i, j := indexObject(objects, s.Object), indexObject(objects, budget)
	if i < 0 || j < 0 {
		return nil, fmt.Errorf("there is no %s or no %s", s.Object, budget)
	}
	if n, _ := value.(int64); n > 2 {
		unstructured.RemoveNestedField(objects[j].Object, "spec", "maxUnavailable")
		if err := unstructured.SetNestedField(objects[j].Object, int64(2), "spec", "minAvailable"); err != nil {
			return nil, err
		}
	}
	return objects, unstructured.SetNestedField(objects[i].Object, value, "spec", "replicas")
}

// eniConfigs adds the ENIConfigs of custom networking, one per zone. They are in the cluster's region, because an
// ENIConfig names none. https://docs.aws.amazon.com/eks/latest/userguide/cni-custom-network-tutorial.html
func eniConfigs(objects []*unstructured.Unstructured, _ Setting, _ string, value any) ([]*unstructured.Unstructured, error) {
	v, _ := value.(map[string]any)
	if create, _ := v["create"].(bool); !create {
		return objects, nil
	}
	subnets, _ := v["subnets"].(map[string]any)
	for _, name := range slices.Sorted(maps.Keys(subnets)) {
		subnet, _ := subnets[name].(map[string]any)
		spec := map[string]any{"subnet": subnet["id"]}
		if groups, _ := subnet["securityGroups"].([]any); len(groups) > 0 {
			spec["securityGroups"] = groups
		}
		o := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "crd.k8s.amazonaws.com/v1alpha1", "kind": "ENIConfig", "spec": spec}}
		o.SetName(name)
		objects = append(objects, o)
	}
	return objects, nil
}

// monitors adds the node monitoring agent's configuration, a ConfigMap that its pods read.
// https://github.com/aws/eks-node-monitoring-agent/tree/main/charts/eks-node-monitoring-agent
func monitors(objects []*unstructured.Unstructured, s Setting, name string, value any) ([]*unstructured.Unstructured, error) {
	i := indexObject(objects, s.Object)
	if i < 0 {
		return nil, fmt.Errorf("there is no %s", s.Object)
	}
	if set, _ := value.(map[string]any); len(set) == 0 {
		return objects, nil
	}
	text, err := yaml.Marshal(map[string]any{"monitors": value})
	if err != nil {
		return nil, err
	}
	pods := objects[i]
	config := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "ConfigMap", "data": map[string]any{"config.yaml": string(text)}}}
	config.SetNamespace(pods.GetNamespace())
	config.SetName(name)
	config.SetLabels(pods.GetLabels())
	add := func(path string, item map[string]any) error {
		return edit(pods.Object, strings.Split(path, "."), func(old any) (any, error) {
			list, _ := old.([]any)
			return setNamed(list, item), nil
		})
	}
	if err := add(s.Path+".volumeMounts", map[string]any{"name": "monitor-config", "mountPath": "/etc/nma", "readOnly": true}); err != nil {
		return nil, err
	}
	volume := map[string]any{"name": "monitor-config", "configMap": map[string]any{"name": name, "optional": true}}
	return append(objects, config), add("spec.template.spec.volumes", volume)
}

// tracing makes a container send traces.
func tracing(objects []*unstructured.Unstructured, s Setting, _ string, value any) ([]*unstructured.Unstructured, error) {
	v, ok := value.(map[string]any)
	i := indexObject(objects, s.Object)
	if !ok { // null
		return objects, nil
	}
	if i < 0 {
		return nil, fmt.Errorf("there is no %s", s.Object)
	}
	if err := edit(objects[i].Object, strings.Split(s.Path+".args", "."), func(old any) (any, error) {
		return editors["flag"](old, "--enable-otel-tracing", true)
	}); err != nil {
		return nil, err
	}
	env := map[string]any{}
	for name, variable := range map[string]string{"otelServiceName": "OTEL_SERVICE_NAME", "otelExporterEndpoint": "OTEL_EXPORTER_OTLP_ENDPOINT"} {
		if v[name] != nil {
			env[variable] = v[name]
		}
	}
	return objects, edit(objects[i].Object, strings.Split(s.Path+".env", "."), func(old any) (any, error) { return editors["env"](old, "", env) })
}
