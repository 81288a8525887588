package fargate

import (
	"fmt"
	"slices"
	"strings"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/catalog/fargatesizes"
)

// Why Fargate does not run a pod, as the reason of the pod's condition PodScheduled. Both are quoted in public
// issues: aws/eks-distro-prow-jobs#11, and the first in build logs.
const (
	ReasonUnsupported = "POD_UNSUPPORTED_ON_FARGATE"
	ReasonTooLarge    = "POD_CPU_MEM_EXCEEDS_MAX_FARGATE_SIZE"
	textTooLarge      = "Your pod's cpu/memory requirements exceed the max Fargate configuration"
	// The others are from memory.
	ReasonStorage   = "POD_EPHEMERAL_STORAGE_EXCEEDS_MAX_FARGATE_SIZE"
	textStorage     = "Your pod's ephemeral storage requirements exceed the max Fargate configuration"
	ReasonGroups    = "INVALID_SECURITY_GROUPS"
	ReasonBlocked   = "FARGATE_PROFILE_BLOCKED"
	ReasonNoAddress = "INSUFFICIENT_FREE_ADDRESSES"
	ReasonRefused   = "NETWORK_INTERFACE_REFUSED"
)

// claims returns the claim of a pod's volume and the volume that it is bound to, or an error if either does not
// exist.
type claims func(namespace, name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error)

// unsupported says why Fargate cannot run a pod, in the words of its scheduler, or returns "" if it can. claimed says
// that the reason is in a claim, which may change.
//
// Quoted in public issues: kubernetes-sigs/aws-efs-csi-driver#589 (fields, Privileged, HostPort),
// kubernetes/ingress-nginx#4888 (AllowPrivilegeEscalation), frappe/helm#182 (Capabilities), freegroup/kube-s3#14 and
// pachyderm/pachyderm#4522 (volumes). https://docs.aws.amazon.com/eks/latest/userguide/fargate.html
func unsupported(pod *corev1.Pod, lookUp claims) (why string, claimed bool) {
	var parts []string
	if slices.ContainsFunc(pod.OwnerReferences, func(o metav1.OwnerReference) bool { return o.Kind == "DaemonSet" }) {
		parts = append(parts, "DaemonSet not supported")
	}
	if fields := hostFields(&pod.Spec); len(fields) > 0 {
		parts = append(parts, "fields not supported: "+strings.Join(fields, ", "))
	}
	var contexts []string
	var ports, devices bool
	for _, cs := range [][]corev1.Container{pod.Spec.InitContainers, pod.Spec.Containers} {
		for i := range cs {
			c := &cs[i]
			if bad := securityFields(c.SecurityContext); bad != "" {
				contexts = append(contexts, bad)
			}
			ports = ports || slices.ContainsFunc(c.Ports, func(p corev1.ContainerPort) bool { return p.HostPort != 0 || p.HostIP != "" })
			devices = devices || len(c.VolumeDevices) > 0
		}
	}
	if len(contexts) > 0 {
		parts = append(parts, "invalid SecurityContext fields: "+strings.Join(contexts, ","))
	}
	volumes, claimed := volumeFaults(pod, lookUp)
	if len(volumes) > 0 {
		parts = append(parts, "volumes not supported: "+strings.Join(volumes, ", "))
	}
	if devices {
		parts = append(parts, "volumeDevices not supported")
	}
	if ports {
		parts = append(parts, "port contains HostIP or HostPort")
	}
	if r := extendedResources(&pod.Spec); len(r) > 0 {
		parts = append(parts, "resources not supported: "+strings.Join(r, ", ")) // from memory
	}
	if len(parts) == 0 {
		return "", false
	}
	return "Pod not supported on Fargate: " + strings.Join(parts, ", "), claimed
}

func hostFields(spec *corev1.PodSpec) []string {
	var out []string
	if spec.HostNetwork {
		out = append(out, "HostNetwork")
	}
	if spec.HostPID {
		out = append(out, "HostPID")
	}
	if spec.HostIPC {
		out = append(out, "HostIPC")
	}
	return out
}

// capabilities are those that containers may add: containerd's defaults.
// https://github.com/containerd/containerd/blob/main/pkg/oci/spec.go
var capabilities = []string{
	"AUDIT_WRITE", "CHOWN", "DAC_OVERRIDE", "FOWNER", "FSETID", "KILL", "MKNOD", "NET_BIND_SERVICE", "NET_RAW",
	"SETFCAP", "SETGID", "SETPCAP", "SETUID", "SYS_CHROOT",
}

func securityFields(sc *corev1.SecurityContext) string {
	if sc == nil {
		return ""
	}
	var out []string
	if sc.Capabilities != nil {
		var added []string
		for _, c := range sc.Capabilities.Add {
			if !slices.Contains(capabilities, string(c)) {
				added = append(added, string(c))
			}
		}
		if len(added) > 0 {
			out = append(out, "Capabilities added: "+strings.Join(added, ", "))
		}
	}
	if sc.AllowPrivilegeEscalation != nil && *sc.AllowPrivilegeEscalation {
		out = append(out, "AllowPrivilegeEscalation")
	}
	if sc.Privileged != nil && *sc.Privileged {
		out = append(out, "Privileged")
	}
	return strings.Join(out, ", ")
}

// efsDriver is the only driver whose volumes Fargate mounts.
// https://docs.aws.amazon.com/eks/latest/userguide/efs-csi.html
const efsDriver = "efs.csi.aws.com"

func volumeFaults(pod *corev1.Pod, lookUp claims) (faults []string, claimed bool) {
	for i := range pod.Spec.Volumes {
		v := &pod.Spec.Volumes[i]
		switch {
		case v.PersistentVolumeClaim != nil:
			if why := claimFault(pod.Namespace, v.PersistentVolumeClaim.ClaimName, lookUp); why != "" {
				faults, claimed = append(faults, v.Name+" not supported because: "+why), true
			}
		case v.EmptyDir == nil && v.Secret == nil && v.ConfigMap == nil && v.Projected == nil && v.DownwardAPI == nil && v.NFS == nil:
			faults = append(faults, v.Name+" is of an unsupported volume Type")
		}
	}
	return faults, claimed
}

func claimFault(namespace, name string, lookUp claims) string {
	pvc, pv, err := lookUp(namespace, name)
	switch {
	case err != nil:
		return err.Error()
	case pvc.Status.Phase != corev1.ClaimBound || pv == nil:
		return fmt.Sprintf("PVC %s not bound", name)
	case pv.Spec.CSI == nil:
		return fmt.Sprintf("PVC %s bound to invalid PV %s with nil CSI spec", name, pv.Name)
	case pv.Spec.CSI.Driver != efsDriver:
		return fmt.Sprintf("PVC %s bound to invalid PV %s with CSI Driver: %s", name, pv.Name, pv.Spec.CSI.Driver)
	}
	return ""
}

// extendedResources are resources that a Fargate machine does not have: GPUs and similar devices. Kubernetes's own
// resources have no slash in their names.
func extendedResources(spec *corev1.PodSpec) []string {
	var out []string
	for _, cs := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range cs {
			for name, q := range cs[i].Resources.Requests {
				if strings.Contains(string(name), "/") && !q.IsZero() && !slices.Contains(out, string(name)) {
					out = append(out, string(name))
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// size returns the combination for a pod, or false if none is large enough.
func size(pod *corev1.Pod) (fargatesizes.Size, bool) { return fargatesizes.For(&pod.Spec) }
