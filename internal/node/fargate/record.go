package fargate

import (
	"crypto/sha256"
	"encoding/hex"
	"net/netip"
	"strings"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/catalog/fargatesizes"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/store"
)

// machines are the existing and planned machines, by CLUSTER/POD UID.
var machines = store.NewCollection[podMachine]("fargate", "machine", store.Same, store.Same, store.Same) // version 2 has IPv6, 3 Runtime, 4 Logging

// A machine is one attempt to run a pod. It is recorded before anything is created for it.
type podMachine struct {
	// UID identifies the attempt. It is also the token with which its interface is created.
	UID            string
	PodUID         types.UID
	Namespace, Pod string
	Profile        string
	RoleARN        string
	Subnet         string
	Groups         []string
	Size           fargatesizes.Size
	DiskGiB        int
	KubeletVersion string
	IPv6           bool `json:",omitempty"` // of an IPv6 cluster
	// Runtime runs the machine for as long as it exists. Empty means simulated.
	Runtime string `json:",omitempty"`
	// Logging has the data of the ConfigMap aws-logging, if the pod's logs are sent.
	Logging map[string]string `json:",omitempty"`
	Since   time.Time
	// These are facts about the interface, empty until it is created.
	Interface, VPC, Zone string
	Address              netip.Addr `json:",omitzero"`
	Address6             netip.Addr `json:",omitzero"`
}

// Count returns how many machines a profile has in a cluster, including those that are being removed.
func Count(st *store.Store, account, region, cluster, profile string) int {
	n := 0
	for _, m := range machines.All(st, store.Scope{Account: account, Region: region, Prefix: cluster + "/"}) {
		if m.Value.Profile == profile {
			n++
		}
	}
	return n
}

// Clusters returns the clusters that have machines. The keys' IDs are the clusters' names.
func Clusters(st *store.Store) map[store.Key]bool {
	out := map[store.Key]bool{}
	for _, m := range machines.All(st, store.Scope{}) {
		k := m.Key
		k.ID, _, _ = strings.Cut(k.ID, "/")
		out[k] = true
	}
	return out
}

func (s *Scheduler) key(uid types.UID) store.Key {
	return store.Key{Account: s.cfg.Account, Region: s.cfg.Region, ID: s.cfg.Cluster + "/" + string(uid)}
}

func (s *Scheduler) all() store.Scope {
	return store.Scope{Account: s.cfg.Account, Region: s.cfg.Region, Prefix: s.cfg.Cluster + "/"}
}

// hostName returns EC2's IP-based name, as in service/ec2.
// https://docs.aws.amazon.com/vpc/latest/userguide/vpc-dns.html
func (m *podMachine) hostName(region string) string {
	domain := region + ".compute.internal"
	if region == "us-east-1" {
		domain = "ec2.internal"
	}
	return "ip-" + strings.ReplaceAll(m.Address.String(), ".", "-") + "." + domain
}

func (m *podMachine) nodeName(region string) string { return "fargate-" + m.hostName(region) }

// providerID returns aws:///ZONE/10 digits-32 digits/NODE, as seen on AWS.
func (m *podMachine) providerID(region string) string {
	sum := sha256.Sum256([]byte(m.UID))
	h := hex.EncodeToString(sum[:])
	return "aws:///" + m.Zone + "/" + h[:10] + "-" + h[10:42] + "/" + m.nodeName(region)
}

// Capacity returns the machine for a pod. It is larger than what the pod gets, because the kubelet and the system
// need some of it. On AWS, too, "the reported node size is often larger than the Pod's capacity".
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-pod-configuration.html#fargate-cpu-and-memory
func Capacity(s fargatesizes.Size) (vcpu int, memoryMiB int64) {
	return max(2, int(s.MilliCPU+999)/1000+1), max(4096, s.MemoryMiB+s.MemoryMiB/32+2048)
}

// instance returns the machine as its runtime starts it.
func (s *Scheduler) instance(m *podMachine, c Cluster) node.Fargate {
	vcpu, memory := Capacity(m.Size)
	return node.Fargate{
		Instance: machine.Instance{
			Account: s.cfg.Account, Region: s.cfg.Region, ID: m.Interface, BootID: m.UID,
			Type:    instancetypes.Type{VCPU: vcpu, MemoryMiB: memory},
			Image:   images.Image{Architecture: "x86_64", KubeletVersion: m.KubeletVersion},
			DiskGiB: int32(m.DiskGiB), AvailabilityZone: m.Zone, VPCID: m.VPC, SubnetID: m.Subnet, PrivateIP: m.Address, IPv6: m.Address6,
			PrivateDNSName: m.hostName(s.cfg.Region), RoleARN: m.RoleARN, LaunchTime: m.Since,
			Fargate: true, MilliCPU: m.Size.MilliCPU, MemoryMiB: m.Size.MemoryMiB,
		},
		Runtime: m.Runtime, Namespace: m.Namespace, Pod: m.Pod, PodUID: string(m.PodUID), Logging: m.Logging, ClusterName: s.cfg.Cluster, Profile: m.Profile, Cluster: c.ClusterInfo, NodeName: m.nodeName(s.cfg.Region), ProviderID: m.providerID(s.cfg.Region),
		Labels: map[string]string{labelComputeType: computeTypeFargate, corev1.LabelHostname: m.hostName(s.cfg.Region)},
		Taints: []corev1.Taint{{Key: labelComputeType, Value: computeTypeFargate, Effect: corev1.TaintEffectNoSchedule}},
	}
}

// A PodMachine is the machine of a pod.
type PodMachine struct {
	ID      string // its network interface, by which the runtime identifies the machine
	RoleARN string // of the profile
	Runtime string // see node.Fargate
}

// Of returns the machine of a pod, and whether the pod has one.
func Of(st *store.Store, account, region, cluster string, pod types.UID) (PodMachine, bool) {
	m, err := machines.Get(st, store.Key{Account: account, Region: region, ID: cluster + "/" + string(pod)})
	return PodMachine{ID: m.Interface, RoleARN: m.RoleARN, Runtime: m.Runtime}, err == nil && m.Interface != ""
}
