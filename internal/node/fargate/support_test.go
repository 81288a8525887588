package fargate

import (
	"errors"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func TestUnsupported(t *testing.T) {
	yes := true
	privileged := &corev1.SecurityContext{Privileged: &yes}
	claim := func(name string) corev1.Volume {
		return corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: name}}}
	}
	bound := corev1.PersistentVolumeClaimStatus{Phase: corev1.ClaimBound}
	csi := func(driver string) *corev1.PersistentVolume {
		return &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-1"}, Spec: corev1.PersistentVolumeSpec{PersistentVolumeSource: corev1.PersistentVolumeSource{CSI: &corev1.CSIPersistentVolumeSource{Driver: driver}}}}
	}
	lookUp := func(_, name string) (*corev1.PersistentVolumeClaim, *corev1.PersistentVolume, error) {
		pvc := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Status: bound}
		switch name {
		case "efs":
			return pvc, csi("efs.csi.aws.com"), nil
		case "ebs":
			return pvc, csi("ebs.csi.aws.com"), nil
		case "local":
			return pvc, &corev1.PersistentVolume{ObjectMeta: metav1.ObjectMeta{Name: "pv-2"}}, nil
		case "pending":
			pvc.Status.Phase = corev1.ClaimPending
			return pvc, nil, nil
		}
		return nil, nil, errors.New(`persistentvolumeclaims "none" not found`)
	}
	for _, tc := range []struct {
		name    string
		change  func(*corev1.Pod)
		want    string
		claimed bool
	}{
		{name: "plain", change: func(*corev1.Pod) {}},
		{name: "what is fine", change: func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{
				{Name: "a", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}},
				{Name: "b", VolumeSource: corev1.VolumeSource{Projected: &corev1.ProjectedVolumeSource{}}},
				claim("efs"),
			}
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 80}}
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"NET_BIND_SERVICE"}}}
		}},
		{name: "privileged", change: func(p *corev1.Pod) { p.Spec.Containers[0].SecurityContext = privileged }, want: "invalid SecurityContext fields: Privileged"},
		{name: "privileged twice", change: func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = privileged
			p.Spec.InitContainers = []corev1.Container{{Name: "i", SecurityContext: privileged}}
		}, want: "invalid SecurityContext fields: Privileged,Privileged"},
		{name: "escalation", change: func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{AllowPrivilegeEscalation: &yes}
		}, want: "invalid SecurityContext fields: AllowPrivilegeEscalation"},
		{name: "capabilities", change: func(p *corev1.Pod) {
			p.Spec.Containers[0].SecurityContext = &corev1.SecurityContext{Capabilities: &corev1.Capabilities{Add: []corev1.Capability{"CAP_CHOWN", "CHOWN", "SYS_ADMIN"}}}
		}, want: "invalid SecurityContext fields: Capabilities added: CAP_CHOWN, SYS_ADMIN"},
		{name: "the EFS driver", change: func(p *corev1.Pod) {
			p.Spec.HostNetwork = true
			p.Spec.Containers[0].SecurityContext = privileged
			p.Spec.Containers[0].Ports = []corev1.ContainerPort{{HostPort: 9809}}
		}, want: "fields not supported: HostNetwork, invalid SecurityContext fields: Privileged, port contains HostIP or HostPort"},
		{name: "host namespaces", change: func(p *corev1.Pod) { p.Spec.HostNetwork, p.Spec.HostPID, p.Spec.HostIPC = true, true, true }, want: "fields not supported: HostNetwork, HostPID, HostIPC"},
		{name: "hostPath", change: func(p *corev1.Pod) {
			p.Spec.Volumes = []corev1.Volume{{Name: "docker", VolumeSource: corev1.VolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/"}}}}
		}, want: "volumes not supported: docker is of an unsupported volume Type"},
		{name: "EBS", change: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{claim("ebs")} }, want: "volumes not supported: data not supported because: PVC ebs bound to invalid PV pv-1 with CSI Driver: ebs.csi.aws.com", claimed: true},
		{name: "no driver", change: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{claim("local")} }, want: "volumes not supported: data not supported because: PVC local bound to invalid PV pv-2 with nil CSI spec", claimed: true},
		{name: "not bound", change: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{claim("pending")} }, want: "volumes not supported: data not supported because: PVC pending not bound", claimed: true},
		{name: "no claim", change: func(p *corev1.Pod) { p.Spec.Volumes = []corev1.Volume{claim("none")} }, want: `volumes not supported: data not supported because: persistentvolumeclaims "none" not found`, claimed: true},
		{name: "block device", change: func(p *corev1.Pod) {
			p.Spec.Containers[0].VolumeDevices = []corev1.VolumeDevice{{Name: "x"}}
		}, want: "volumeDevices not supported"},
		{name: "GPU", change: func(p *corev1.Pod) {
			p.Spec.Containers[0].Resources.Requests = corev1.ResourceList{"nvidia.com/gpu": resource.MustParse("1"), corev1.ResourceCPU: resource.MustParse("1")}
		}, want: "resources not supported: nvidia.com/gpu"},
		{name: "DaemonSet", change: func(p *corev1.Pod) {
			p.OwnerReferences = []metav1.OwnerReference{{Kind: "DaemonSet", Name: "agent"}}
		}, want: "DaemonSet not supported"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			pod := &corev1.Pod{Spec: corev1.PodSpec{Containers: []corev1.Container{{Name: "c"}}}}
			tc.change(pod)
			want := tc.want
			if want != "" {
				want = "Pod not supported on Fargate: " + want
			}
			if got, claimed := unsupported(pod, lookUp); got != want || claimed != tc.claimed {
				t.Errorf("unsupported = %q, %t\nwant %q, %t", got, claimed, want, tc.claimed)
			}
		})
	}
}
