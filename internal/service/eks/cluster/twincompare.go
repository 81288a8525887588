package cluster

import (
	"context"
	"slices"
	"strings"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// Comparable returns the objects of a resource that a copied cluster has, and those in a list of its source, by
// NAMESPACE/NAME or NAME. They are equal unless someone has changed them on one side. Objects that controllers or the
// control plane make for themselves are left out. mask is called for each object of the copy, and removes what the source's
// list does not have. Comparable changes the list.
func (s *Service) Comparable(ctx context.Context, key store.Key, planeID string, q recording.KubernetesList, source *base.TwinObjects, mask func(kind string, o map[string]any)) (ours, theirs map[string]map[string]any, err error) {
	kind := strings.TrimSuffix(source.Kind, "List")
	ses, err := s.Sessions.Open(key, planeID)
	if err != nil {
		return nil, nil, err
	}
	live, err := ses.Objects.List(ctx, schema.GroupVersionResource{Group: q.Group, Version: q.Version, Resource: q.Resource})
	if err != nil {
		return nil, nil, err
	}
	ours, theirs = map[string]map[string]any{}, map[string]map[string]any{}
	made := map[string]bool{}
	add := func(to map[string]map[string]any, o *unstructured.Unstructured) {
		name := strings.TrimPrefix(o.GetNamespace()+"/"+o.GetName(), "/")
		if metav1.GetControllerOfNoCopy(o) != nil || isOwn(kind, o) {
			made[name] = true
		} else if adapt(kind, o) {
			to[name] = plainObject(o)
		}
	}
	for _, item := range source.Items {
		add(theirs, &unstructured.Unstructured{Object: item})
	}
	for i := range live {
		mask(kind, live[i].Object)
		add(ours, &live[i])
	}
	for name := range made { // copies have no owners
		delete(ours, name)
		delete(theirs, name)
	}
	return ours, theirs, nil
}

// Compared reports whether objects of a resource are compared.
func Compared(q recording.KubernetesList) bool {
	return !slices.Contains(notCompared, q.GroupResource())
}

// notCompared are the resources of which controllers or kubelets make all objects, or change them all the time.
var notCompared = []string{
	"pods", "nodes", "csinodes.storage.k8s.io", "cninodes.vpcresources.k8s.aws", "policyendpoints.networking.k8s.aws", "clusterpolicyendpoints.networking.k8s.aws", "controllerrevisions.apps", "resourceslices.resource.k8s.io",
	"apiservices.apiregistration.k8s.io",
}

// isOwn reports whether an object belongs to a control plane itself, so that each has another one.
func isOwn(kind string, o *unstructured.Unstructured) bool {
	switch kind {
	case "ConfigMap":
		return o.GetName() == "kube-root-ca.crt" || o.GetNamespace() == metav1.NamespaceSystem && o.GetName() == "extension-apiserver-authentication"
	case "ClusterRole", "ClusterRoleBinding", "Role", "RoleBinding": // API servers reconcile theirs when they start
		return o.GetLabels()["kubernetes.io/bootstrapping"] == "rbac-defaults"
	}
	return false
}

// plainObject returns what users wrote of an object that adapt has changed.
func plainObject(o *unstructured.Unstructured) map[string]any {
	notes := o.GetAnnotations()
	for name := range notes {
		if name == "deployment.kubernetes.io/revision" || strings.HasPrefix(name, "pv.kubernetes.io/") || strings.HasPrefix(name, "volume.kubernetes.io/") {
			delete(notes, name)
		}
	}
	o.SetAnnotations(notes)
	for _, member := range []string{"generation", "managedFields", "selfLink", "finalizers"} {
		unstructured.RemoveNestedField(o.Object, "metadata", member)
	}
	delete(o.Object, "kind") // API servers omit these in lists
	delete(o.Object, "apiVersion")
	return o.Object
}
