package cluster

import (
	"slices"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// A fieldUse is an object with a field that the API servers of the previous version drop from new objects.
type fieldUse struct{ uri, path string }

// The paths of the resources that are made from templates.
const (
	podsURI         = "/api/v1/pods"
	volumeClaimsURI = "/api/v1/persistentvolumeclaims"
	claimsURI       = "/apis/resource.k8s.io/v1/resourceclaims"
	replicaSetsURI  = "/apis/apps/v1/replicasets"
	jobsURI         = "/apis/batch/v1/jobs"
)

// alike are fields with the same fields: what is new in the first is new in the second, too.
var alike = []struct{ of, field, like string }{
	{podsURI, "spec.containers[].", "spec.initContainers[]."},
	{podsURI, "spec.containers[].", ephemeralContainers},
	{claimsURI, "spec.devices.requests[].exactly.", "spec.devices.requests[].firstAvailable[]."},
}

const ephemeralContainers = "spec.ephemeralContainers[]."

// templates are where resources have templates of others. Pods are templates of volume claims themselves, so those come first.
var templates = []struct{ of, in, at string }{
	{volumeClaimsURI, podsURI, "spec.volumes[].ephemeral.volumeClaimTemplate."},
	{volumeClaimsURI, "/apis/apps/v1/statefulsets", "spec.volumeClaimTemplates[]."},
	{claimsURI, "/apis/resource.k8s.io/v1/resourceclaimtemplates", "spec."},
	{podsURI, "/api/v1/podtemplates", "template."},
	{podsURI, "/api/v1/replicationcontrollers", "spec.template."},
	{podsURI, "/apis/apps/v1/daemonsets", "spec.template."},
	{podsURI, "/apis/apps/v1/deployments", "spec.template."},
	{podsURI, replicaSetsURI, "spec.template."},
	{podsURI, "/apis/apps/v1/statefulsets", "spec.template."},
	{podsURI, "/apis/batch/v1/cronjobs", "spec.jobTemplate.spec.template."},
	{podsURI, jobsURI, "spec.template."},
}

// makers lists, by resource, the controllers whose templates are checked instead of the objects that they create. Objects of other
// controllers are checked themselves, such as the ReplicaSets of Argo Rollouts.
var makers = map[string][]string{
	podsURI:        {"v1 ReplicationController", "apps/v1 DaemonSet", "apps/v1 ReplicaSet", "apps/v1 StatefulSet", "batch/v1 Job"},
	claimsURI:      {"v1 Pod"},
	replicaSetsURI: {"apps/v1 Deployment"},
	jobsURI:        {"batch/v1 CronJob"},
}

// pathsOf returns the paths to fields in all resources that have them, by resource. Each field is a resource and a
// path.
func pathsOf(fields []string) map[string][]string {
	paths := map[string][]string{}
	for _, f := range fields {
		resource, path, _ := strings.Cut(f, " ")
		paths[resource] = append(paths[resource], path)
		for _, a := range alike {
			if rest, ok := strings.CutPrefix(path, a.field); ok && resource == a.of {
				paths[resource] = append(paths[resource], a.like+rest)
			}
		}
	}
	for _, t := range templates {
		for _, path := range paths[t.of] {
			paths[t.in] = append(paths[t.in], t.at+path)
		}
	}
	return paths
}

// usesOf returns which objects of a resource have which fields. Of objects that are made from a template, only what the template
// cannot have is checked: ephemeral containers.
func usesOf(resource string, list []unstructured.Unstructured, paths []string) (found []fieldUse) {
	for i := range list {
		o := &list[i]
		owner := metav1.GetControllerOf(o)
		made := owner != nil && slices.Contains(makers[resource], owner.APIVersion+" "+owner.Kind)
		for _, path := range paths {
			if made && !strings.HasPrefix(path, ephemeralContainers) {
				continue
			}
			if has(o.Object, strings.Split(path, ".")) {
				found = append(found, fieldUse{uriOf(resourceAt(resource), o.GetNamespace(), o.GetName()), path})
			}
		}
	}
	return found
}

// has reports whether a path of fields leads to a value that is set, in any element of lists, which end in [].
func has(v any, path []string) bool {
	if len(path) == 0 {
		switch v := v.(type) {
		case nil:
			return false
		case bool: // false may be a default
			return v
		case map[string]any:
			return len(v) > 0
		case []any:
			return len(v) > 0
		}
		return true
	}
	m, ok := v.(map[string]any)
	if !ok {
		return false
	}
	key, many := strings.CutSuffix(path[0], "[]")
	if !many {
		return has(m[key], path[1:])
	}
	list, _ := m[key].([]any)
	return slices.ContainsFunc(list, func(v any) bool { return has(v, path[1:]) })
}

var (
	nodesResource = corev1.SchemeGroupVersion.WithResource("nodes")
	podsResource  = corev1.SchemeGroupVersion.WithResource("pods")
)

// resourceAt returns the resource at a path such as /apis/resource.k8s.io/v1/resourceclaims or /api/v1/pods.
func resourceAt(uri string) schema.GroupVersionResource {
	parts := strings.Split(uri, "/")
	if parts[1] == "api" {
		return schema.GroupVersionResource{Version: parts[2], Resource: parts[3]}
	}
	return schema.GroupVersionResource{Group: parts[2], Version: parts[3], Resource: parts[4]}
}

// uriOf returns the path of an object.
func uriOf(r schema.GroupVersionResource, namespace, name string) string {
	uri := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		uri = "/api/" + r.Version
	}
	if namespace != "" {
		uri += "/namespaces/" + namespace
	}
	return uri + "/" + r.Resource + "/" + name
}

// detailOf returns the detail of an insight about an object.
func detailOf(r schema.GroupVersionResource, namespace, name string) ekstypes.InsightResourceDetail {
	uri := uriOf(r, namespace, name)
	return ekstypes.InsightResourceDetail{KubernetesResourceUri: &uri}
}
