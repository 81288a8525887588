package cluster

import (
	"context"
	"errors"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

// A fieldUse is an object with a field that the API servers of the previous version drop from new objects.
type fieldUse struct{ uri, path string }

// templates are the paths of pod templates in the resources whose controllers make pods from them.
var templates = map[string]string{
	"/apis/apps/v1/daemonsets": "spec.template.", "/apis/apps/v1/deployments": "spec.template.", "/apis/apps/v1/statefulsets": "spec.template.",
	"/apis/batch/v1/cronjobs": "spec.jobTemplate.spec.template.", "/apis/batch/v1/jobs": "spec.template.",
}

// newerFields finds the objects that use fields, of which each is a resource and a path. all is false if there are too many
// objects to look at all of them.
func newerFields(ctx context.Context, objects plane.Objects, fields []string) (found []fieldUse, all bool, err error) {
	const pods = "/api/v1/pods"
	paths := map[string][]string{} // by resource
	for _, f := range fields {
		resource, path, _ := strings.Cut(f, " ")
		paths[resource] = append(paths[resource], path)
		if rest, ok := strings.CutPrefix(path, "spec.containers[]"); ok && resource == pods {
			paths[resource] = append(paths[resource], "spec.initContainers[]"+rest)
		}
	}
	for resource, prefix := range templates {
		for _, path := range paths[pods] {
			paths[resource] = append(paths[resource], prefix+path)
		}
	}
	all = true
	for resource, paths := range paths {
		gvr := resourceAt(resource)
		list, err := objects.List(ctx, gvr)
		switch {
		case errors.Is(err, plane.ErrTooMany):
			all = false
		case err != nil:
			return nil, false, err
		}
		for i := range list {
			o := &list[i]
			if resource == pods && fromTemplate(o) {
				continue
			}
			for _, path := range paths {
				if has(o.Object, strings.Split(path, ".")) {
					found = append(found, fieldUse{uriOf(gvr, o), path})
				}
			}
		}
	}
	slices.SortFunc(found, func(a, b fieldUse) int { return strings.Compare(a.uri+" "+a.path, b.uri+" "+b.path) })
	return found, all, nil
}

// fromTemplate reports whether a pod belongs to an object whose template is checked.
func fromTemplate(pod *unstructured.Unstructured) bool {
	owner := metav1.GetControllerOf(pod)
	return owner != nil && slices.Contains([]string{"DaemonSet", "Job", "ReplicaSet", "StatefulSet"}, owner.Kind)
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

// uriOf returns the path of an object.
func uriOf(r schema.GroupVersionResource, o *unstructured.Unstructured) string {
	uri := "/apis/" + r.Group + "/" + r.Version
	if r.Group == "" {
		uri = "/api/" + r.Version
	}
	if ns := o.GetNamespace(); ns != "" {
		uri += "/namespaces/" + ns
	}
	return uri + "/" + r.Resource + "/" + o.GetName()
}
