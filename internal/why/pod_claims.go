package why

import (
	"cmp"
	"encoding/json"
	"fmt"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// unbound reports whether the scheduler waits for volumes of the pod's claims, and explains why: the scheduler only
// mentions claims in general, and nothing at all while a provisioner is working.
func (c *podChain) unbound(message string) bool {
	about := strings.Contains(message, "PersistentVolumeClaim") || strings.Contains(message, "persistent volumes to bind") || strings.Contains(message, "binding volumes")
	var claims, lines []string
	var unbound []*corev1.PersistentVolumeClaim
	var volumes []*corev1.PersistentVolume
	var changes []advice.Change
	var commands []string
	for i := range c.facts.Unbound {
		u := &c.facts.Unbound[i]
		if !about && (message != "" || !u.Selected) {
			continue
		}
		claims = append(claims, c.pod.Namespace+"/"+u.Claim.Name)
		lines = append(lines, claimText(u))
		unbound, volumes = append(unbound, u.Claim), append(volumes, volumeFor(u.Claim))
		changes = append(changes, advice.Change{Kind: advice.CreateObject, Resource: "persistentvolume for " + c.pod.Namespace + "/" + u.Claim.Name})
		commands = append(commands, created(volumes[len(volumes)-1]))
	}
	if len(claims) == 0 {
		return false
	}
	lines = append(lines,
		"Drydock does not provision volumes for claims: nodes are simulated, and the pods of CSI drivers run nothing.",
		"Create a PersistentVolume for the claim, or use an emptyDir instead of the claim.")
	c.fail(podScheduling, cmp.Or(message, "the scheduler is waiting for a volume"), &api.Reason{
		By: node.ByKubernetes, Code: "UnboundPersistentVolumeClaim", Component: "PersistentVolumeClaim " + strings.Join(claims, ", "), Text: strings.Join(lines, "\n"),
		Fixes: advice.Try(c.bindable(unbound, volumes), changes, commands...),
	})
	return true
}

func claimText(u *eks.UnboundClaim) string {
	class := ""
	if u.Claim.Spec.StorageClassName != nil {
		class = *u.Claim.Spec.StorageClassName
	}
	switch {
	case class == "":
		return "claim " + u.Claim.Name + " is not bound: it has no storage class"
	case u.Class == nil:
		return fmt.Sprintf("claim %s is not bound: there is no storage class %s", u.Claim.Name, class)
	}
	return fmt.Sprintf("claim %s is not bound: its storage class %s leaves it to provisioner %s", u.Claim.Name, class, u.Class.Provisioner)
}

// volumeFor returns a volume for this claim only.
func volumeFor(claim *corev1.PersistentVolumeClaim) *corev1.PersistentVolume {
	class := ""
	if claim.Spec.StorageClassName != nil {
		class = *claim.Spec.StorageClassName
	}
	return &corev1.PersistentVolume{
		TypeMeta:   metav1.TypeMeta{APIVersion: "v1", Kind: "PersistentVolume"},
		ObjectMeta: metav1.ObjectMeta{Name: claim.Namespace + "-" + claim.Name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity: corev1.ResourceList{corev1.ResourceStorage: claim.Spec.Resources.Requests[corev1.ResourceStorage]}, AccessModes: claim.Spec.AccessModes,
			VolumeMode: claim.Spec.VolumeMode, StorageClassName: class,
			ClaimRef:               &corev1.ObjectReference{Namespace: claim.Namespace, Name: claim.Name},
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/mnt/" + claim.Name}},
		},
	}
}

// created returns the command that creates a volume.
func created(v *corev1.PersistentVolume) string {
	b, err := json.Marshal(struct {
		metav1.TypeMeta
		Metadata map[string]string           `json:"metadata"`
		Spec     corev1.PersistentVolumeSpec `json:"spec"`
	}{v.TypeMeta, map[string]string{"name": v.Name}, v.Spec})
	if err != nil { // names and quantities always encode
		panic(err)
	}
	return "echo '" + string(b) + "' | kubectl create -f -"
}
