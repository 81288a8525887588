package pod

import (
	"context"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
)

// An UnboundClaim is a PersistentVolumeClaim that has no volume.
type UnboundClaim struct {
	Claim *corev1.PersistentVolumeClaim
	// Class is its storage class, or nil: it names none, or one that is not there.
	Class *storagev1.StorageClass
	// Selected says that the scheduler has chosen a node for the pod and waits for a
	// provisioner to make the volume there.
	Selected bool
}

// findUnbound looks the claims up that keep the pod from being bound to a node. The
// scheduler reports the names of missing ones itself.
func (f *Facts) findUnbound(ctx context.Context, client kubernetes.Interface) error {
	if f.Pod.Spec.NodeName != "" {
		return nil
	}
	for i := range f.Pod.Spec.Volumes {
		v := &f.Pod.Spec.Volumes[i]
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = f.Pod.Name + "-" + v.Name // https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming
		default:
			continue
		}
		claim, err := client.CoreV1().PersistentVolumeClaims(f.Pod.Namespace).Get(ctx, name, metav1.GetOptions{})
		if apierrors.IsNotFound(err) || err == nil && claim.Spec.VolumeName != "" {
			continue
		}
		if err != nil {
			return err
		}
		u := UnboundClaim{Claim: claim, Selected: claim.Annotations["volume.kubernetes.io/selected-node"] != ""}
		if class := claim.Spec.StorageClassName; class != nil && *class != "" {
			u.Class, err = client.StorageV1().StorageClasses().Get(ctx, *class, metav1.GetOptions{})
			if apierrors.IsNotFound(err) {
				u.Class = nil
			} else if err != nil {
				return err
			}
		}
		f.Unbound = append(f.Unbound, u)
	}
	return nil
}
