package kube

import (
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime/schema"
)

// AnnotationController keeps which custom resource controlled a pod at the source of a twin, as KIND NAME. Pods of twins have no
// owners.
const AnnotationController = "drydock.dev/controller"

// Operated returns the custom resource that owns an object, as KIND NAME, or "" if none does. Only an operator, and no controller of
// Kubernetes, makes such an object again.
func Operated(o metav1.Object) string {
	owners := o.GetOwnerReferences()
	if c := metav1.GetControllerOfNoCopy(o); c != nil {
		owners = []metav1.OwnerReference{*c}
	}
	for _, c := range owners {
		switch gv, _ := schema.ParseGroupVersion(c.APIVersion); gv.Group {
		case corev1.GroupName, "apps", "batch": // the first has Nodes, which own mirror pods
		default:
			return c.Kind + " " + c.Name
		}
	}
	return o.GetAnnotations()[AnnotationController]
}
