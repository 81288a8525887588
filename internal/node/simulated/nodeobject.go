package simulated

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

const (
	networkNotReady = "container runtime network not ready: NetworkReady=false reason:NetworkPluginNotReady message:Network plugin returns error: cni plugin not initialized"
	labelZoneID     = "topology.k8s.aws/zone-id"
	annotationNode  = "volumes.kubernetes.io/controller-managed-attach-detach"
	annotationIP    = "alpha.kubernetes.io/provided-node-ip"
)

// nodeObject returns the Node as it is registered, in one piece: what the kubelet reports on EKS and what the cloud
// controller manager adds a second later (addresses, zone, region, instance type).
//
// AWS deviation: the taint node.cloudprovider.kubernetes.io/uninitialized, which keeps pods away for that second, is
// therefore not set.
func nodeObject(in machine.Instance, cfg *userdata.Config, name string, sz size, now time.Time) *corev1.Node {
	n := &corev1.Node{
		TypeMeta: metav1.TypeMeta{APIVersion: "v1", Kind: "Node"},
		ObjectMeta: metav1.ObjectMeta{
			Name:        name,
			Labels:      map[string]string{},
			Annotations: map[string]string{annotationNode: "true", annotationIP: hostIP(in, cfg).String()},
		},
		Spec: corev1.NodeSpec{
			ProviderID: "aws:///" + in.AvailabilityZone + "/" + in.ID,
			Taints:     cfg.Taints,
		},
		Status: corev1.NodeStatus{
			Capacity: sz.capacity, Allocatable: sz.allocatable,
			Addresses:       nodeAddresses(in, cfg, name),
			Conditions:      nodeConditions(false, false, networkNotReady, now, now),
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			NodeInfo:        nodeInfo(in),
			Features:        &corev1.NodeFeatures{SupplementalGroupsPolicy: ptr(true)},
		},
	}
	if cfg.ProviderID != "" {
		n.Spec.ProviderID = cfg.ProviderID
	}
	arch := goArch(in.Image.Architecture)
	for k, v := range map[string]string{
		corev1.LabelHostname:                name,
		corev1.LabelOSStable:                "linux",
		corev1.LabelArchStable:              arch,
		"beta.kubernetes.io/os":             "linux",
		"beta.kubernetes.io/arch":           arch,
		corev1.LabelInstanceType:            in.Type.Name,
		corev1.LabelInstanceTypeStable:      in.Type.Name,
		corev1.LabelTopologyZone:            in.AvailabilityZone,
		corev1.LabelTopologyRegion:          in.Region,
		corev1.LabelFailureDomainBetaZone:   in.AvailabilityZone,
		corev1.LabelFailureDomainBetaRegion: in.Region,
		labelZoneID:                         in.ZoneID,
	} {
		if v != "" {
			n.Labels[k] = v
		}
	}
	for k, v := range cfg.Labels {
		n.Labels[k] = v
	}
	return n
}

// hostIP returns the node's address of the cluster's family, or the zero Addr.
func hostIP(in machine.Instance, cfg *userdata.Config) netip.Addr {
	if cfg.IPv6() {
		return in.IPv6
	}
	return in.PrivateIP
}

// nodeAddresses returns the node's addresses of the cluster's family: EKS sets NodeIPFamilies of the cloud controller
// manager to it.
func nodeAddresses(in machine.Instance, cfg *userdata.Config, name string) []corev1.NodeAddress {
	out := []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: hostIP(in, cfg).String()}}
	if in.PublicIP.IsValid() && !cfg.IPv6() {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeExternalIP, Address: in.PublicIP.String()})
	}
	if in.PrivateDNSName != "" {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeInternalDNS, Address: in.PrivateDNSName})
	}
	out = append(out, corev1.NodeAddress{Type: corev1.NodeHostName, Address: name})
	if in.PublicDNSName != "" {
		out = append(out, corev1.NodeAddress{Type: corev1.NodeExternalDNS, Address: in.PublicDNSName})
	}
	return out
}

// nodeConditions returns the kubelet's conditions, with its texts. since is when Ready last changed.
func nodeConditions(ready, diskFull bool, problem string, since, now time.Time) []corev1.NodeCondition {
	heartbeat := metav1.NewTime(now)
	quiet := func(t corev1.NodeConditionType, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{
			Type: t, Status: corev1.ConditionFalse, Reason: reason, Message: message,
			LastHeartbeatTime: heartbeat, LastTransitionTime: metav1.NewTime(since),
		}
	}
	r := quiet(corev1.NodeReady, "KubeletNotReady", problem)
	if ready {
		r.Status, r.Reason, r.Message = corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"
	}
	disk := quiet(corev1.NodeDiskPressure, "KubeletHasNoDiskPressure", "kubelet has no disk pressure")
	if diskFull {
		disk.Status, disk.Reason, disk.Message = corev1.ConditionTrue, "KubeletHasDiskPressure", "kubelet has disk pressure"
	}
	return []corev1.NodeCondition{
		quiet(corev1.NodeMemoryPressure, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		disk,
		quiet(corev1.NodePIDPressure, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
		r,
	}
}

// heartbeatPatch returns the status patch of a heartbeat. It reports all conditions each time, because the controller
// manager may have set any of them to Unknown in the meantime. changed lists the conditions that changed since the
// last report.
func heartbeatPatch(ready, diskFull bool, problem string, changed func(corev1.NodeConditionType) bool, now time.Time) ([]byte, error) {
	type condition struct {
		Type               corev1.NodeConditionType `json:"type"`
		Status             corev1.ConditionStatus   `json:"status"`
		Reason             string                   `json:"reason"`
		Message            string                   `json:"message"`
		LastHeartbeatTime  metav1.Time              `json:"lastHeartbeatTime"`
		LastTransitionTime *metav1.Time             `json:"lastTransitionTime,omitempty"`
	}
	var conditions []condition
	for _, c := range nodeConditions(ready, diskFull, problem, now, now) {
		p := condition{Type: c.Type, Status: c.Status, Reason: c.Reason, Message: c.Message, LastHeartbeatTime: c.LastHeartbeatTime}
		if changed(c.Type) {
			p.LastTransitionTime = &c.LastTransitionTime
		}
		conditions = append(conditions, p)
	}
	return json.Marshal(map[string]any{"status": map[string]any{"conditions": conditions}})
}

// nodeInfo describes the machine's software.
func nodeInfo(in machine.Instance) corev1.NodeSystemInfo {
	info := corev1.NodeSystemInfo{
		MachineID:               machineID(in.ID, "machine"),
		SystemUUID:              "ec2" + uuidLike(in.ID, "system")[3:],
		BootID:                  bootID(in),
		OSImage:                 "Amazon Linux 2023.9.20251117",
		KernelVersion:           "6.12.55-74.119.amzn2023." + kernelArch(in.Image.Architecture),
		ContainerRuntimeVersion: "containerd://2.1.4",
		KubeletVersion:          kubeletVersion(in.Image.KubeletVersion),
		OperatingSystem:         "linux",
		Architecture:            goArch(in.Image.Architecture),
	}
	if in.Image.Family == images.AL2 || in.Fargate {
		info.OSImage, info.KernelVersion = "Amazon Linux 2", "5.10.240-238.959.amzn2."+kernelArch(in.Image.Architecture)
		info.ContainerRuntimeVersion = "containerd://1.7.27"
	}
	if in.Image.Family == images.Bottlerocket {
		minor := strings.Join(strings.SplitN(in.Image.KubeletVersion, ".", 3)[:min(2, strings.Count(in.Image.KubeletVersion, ".")+1)], ".")
		info.OSImage = "Bottlerocket OS 1.50.0 (aws-k8s-" + minor + ")"
		if in.Operator != "" { // [seen] in outputs of kubectl get nodes -o wide
			info.OSImage = "Bottlerocket (EKS Auto, Standard) 2026.9.17 (aws-k8s-" + minor + "-standard)"
		}
		info.KernelVersion = "6.12.55"
		info.ContainerRuntimeVersion = "containerd://2.1.4+bottlerocket"
	}
	return info
}

// bootID identifies one boot of one instance. If a node's object has another one, the node has been rebooted.
func bootID(in machine.Instance) string { return uuidLike(in.ID, "boot", in.BootID) }

// kubeletVersion returns the version as EKS's builds report it: v1.36.2-eks-1a2b3c4. The last part is derived from
// the version; AWS's identifies the build.
func kubeletVersion(v string) string {
	sum := sha256.Sum256([]byte("kubelet/" + v))
	return "v" + v + "-eks-" + hex.EncodeToString(sum[:])[:7]
}

// userAgent returns the user agent of a node's kubelet.
func userAgent(in machine.Instance) string {
	v := kubeletVersion(in.Image.KubeletVersion)
	return "kubelet/" + v + " (linux/" + goArch(in.Image.Architecture) + ") kubernetes/" + v[strings.LastIndexByte(v, '-')+1:]
}

func goArch(ec2 string) string {
	if ec2 == "arm64" {
		return "arm64"
	}
	return "amd64"
}

func kernelArch(ec2 string) string {
	if ec2 == "arm64" {
		return "aarch64"
	}
	return "x86_64"
}

func machineID(parts ...string) string { return hexName(parts...)[:32] }

func uuidLike(parts ...string) string {
	h := hexName(parts...)
	return h[:8] + "-" + h[8:12] + "-" + h[12:16] + "-" + h[16:20] + "-" + h[20:32]
}

// nodeName returns the name under which a machine registers.
func nodeName(in machine.Instance, cfg *userdata.Config) string {
	switch {
	case cfg.NodeName != "":
		return strings.ToLower(cfg.NodeName)
	case cfg.InstanceIDNodeName:
		return in.ID
	case in.PrivateDNSName != "":
		return strings.ToLower(in.PrivateDNSName)
	default:
		return privateDNSName(in.PrivateIP, in.Region)
	}
}

// privateDNSName returns EC2's IP-based name. https://docs.aws.amazon.com/vpc/latest/userguide/vpc-dns.html
func privateDNSName(ip netip.Addr, region string) string {
	host := "ip-" + strings.ReplaceAll(ip.String(), ".", "-")
	if region == "us-east-1" {
		return host + ".ec2.internal"
	}
	return host + "." + region + ".compute.internal"
}

// registrationPatch brings the object of an earlier boot up to date: the status, and the labels that the kubelet sets
// by default.
func registrationPatch(want *corev1.Node) ([]byte, error) {
	labels := map[string]string{}
	for _, key := range []string{
		corev1.LabelHostname, corev1.LabelOSStable, corev1.LabelArchStable,
		corev1.LabelInstanceType, corev1.LabelInstanceTypeStable,
		corev1.LabelTopologyZone, corev1.LabelTopologyRegion,
	} {
		if v := want.Labels[key]; v != "" {
			labels[key] = v
		}
	}
	return json.Marshal(map[string]any{
		"metadata": map[string]any{"labels": labels},
		"status":   want.Status,
	})
}
