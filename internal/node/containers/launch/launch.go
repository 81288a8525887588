// Package launch is the interface between the daemon and the programs of a node that runs containers: the child
// modes of containerd and the kubelet, and their configuration. It is a leaf, because the programs take minutes
// to compile.
package launch

import "net/netip"

// The modes. The kubelet has a Kubelet as its configuration, containerd has none.
const (
	Containerd = "containerd"
	KubeletRun = "kubelet"
)

// The modes of nodes of EKS Auto Mode, which have no pods of these add-ons. The driver of volumes has no configuration, kube-proxy
// has a KubeProxyConfiguration as JSON, and CoreDNS a DNS.
const (
	VolumeDriver = "ebs-csi-node"
	KubeProxy    = "kube-proxy"
	CoreDNS      = "coredns"
)

// DNS says where CoreDNS answers and how, as JSON.
type DNS struct {
	// Addresses are added to the machine's loopback interface.
	Addresses []netip.Addr
	Corefile  string
}

// Kubelet says how a kubelet differs from what its files say, as JSON.
type Kubelet struct {
	// Args are command-line arguments.
	Args []string
	// Version is what the node reports, such as v1.33.5-eks-1a2b3c4. VCPU and MemoryBytes are what the machine has,
	// instead of the host's.
	Version     string
	VCPU        int
	MemoryBytes uint64
}

// The files of aws-node on a machine. The daemon writes ReadyFile when the instance has addresses for pods. It contains the node's
// address if machines reach the internet, and is empty otherwise. The container aws-node writes PolicyModeFile, and the agent of
// network policies reads it.
const (
	AWSNodeDir     = "/var/run/aws-node"
	ReadyFile      = AWSNodeDir + "/ready"
	PolicyModeFile = AWSNodeDir + "/network-policy-mode"
)

// ImageDir holds the images of all machines as archives and layers: see package layers. containerd imports each, and then writes
// NAME.done or NAME.error into ImportedDir.
const (
	ImageDir    = "/opt/drydock/images"
	ImportedDir = "/var/lib/drydock/imported"
)
