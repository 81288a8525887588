package karpenter

import (
	"encoding/json"
	"hash/fnv"
	"strconv"

	"github.com/awslabs/operatorpkg/status"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drydock-dev/drydock/internal/automode"
)

// Names of EKS Auto Mode in the Kubernetes API.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-pool.html
const (
	group = "eks.amazonaws.com"

	labelNodeClass = group + "/nodeclass"
	labelCompute   = group + "/compute-type"
	labelManagedBy = "app.kubernetes.io/managed-by"
	finalizer      = group + "/termination"

	annotationHash        = group + "/nodeclass-hash"
	annotationHashVersion = group + "/nodeclass-hash-version"
	hashVersion           = "v2"
	// defaultNodeClass is the name of the NodeClass of the built-in node pools.
	defaultNodeClass = "default"
	validated        = "ValidationSucceeded"
)

var groupVersion = schema.GroupVersion{Group: group, Version: "v1"}

// A NodeClass is a NodeClass object of EKS Auto Mode.
type NodeClass struct {
	metav1.TypeMeta   `json:",inline"`
	metav1.ObjectMeta `json:"metadata,omitzero"`

	Spec   automode.NodeClassSpec `json:"spec"`
	Status NodeClassStatus        `json:"status,omitzero"`
}

// NodeClassStatus is what a NodeClass resolves to.
type NodeClassStatus struct {
	Subnets         []automode.Subnet        `json:"subnets,omitempty"`
	SecurityGroups  []automode.SecurityGroup `json:"securityGroups,omitempty"`
	InstanceProfile string                   `json:"instanceProfile,omitempty"`
	Conditions      []status.Condition       `json:"conditions,omitempty"`
}

// A NodeClassList is a list of NodeClasses.
type NodeClassList struct {
	metav1.TypeMeta `json:",inline"`
	metav1.ListMeta `json:"metadata,omitzero"`
	Items           []NodeClass `json:"items"`
}

var _ status.Object = (*NodeClass)(nil)

// GetConditions implements status.Object.
func (n *NodeClass) GetConditions() []status.Condition { return n.Status.Conditions }

// SetConditions implements status.Object.
func (n *NodeClass) SetConditions(c []status.Condition) { n.Status.Conditions = c }

// StatusConditions implements status.Object.
func (n *NodeClass) StatusConditions(opts ...status.ForOption) status.ConditionSet {
	return status.NewReadyConditions(automode.SubnetsReady, automode.SecurityGroupsReady, automode.InstanceProfileReady, validated).For(n, opts...)
}

// DeepCopyObject implements runtime.Object.
func (n *NodeClass) DeepCopyObject() runtime.Object { return deepCopy(n) }

// DeepCopyObject implements runtime.Object.
func (l *NodeClassList) DeepCopyObject() runtime.Object { return deepCopy(l) }

// deepCopy copies an object by encoding it. There are few NodeClasses.
func deepCopy[T any](from *T) *T {
	to := new(T)
	b, err := json.Marshal(from)
	if err == nil {
		err = json.Unmarshal(b, to)
	}
	if err != nil {
		panic(err) // the types above always encode
	}
	return to
}

// hash identifies the part of the spec whose change makes nodes drift: selectors are compared by what they select.
func (n *NodeClass) hash() string {
	spec := n.Spec
	spec.SubnetSelectorTerms, spec.SecurityGroupSelectorTerms = nil, nil
	b, err := json.Marshal(spec)
	if err != nil {
		panic(err) // the spec always encodes
	}
	h := fnv.New64a()
	_, _ = h.Write(b)
	return strconv.FormatUint(h.Sum64(), 10)
}

// unsupported names the settings that would be ignored.
func (n *NodeClass) unsupported() []string {
	s := &n.Spec
	a := s.AdvancedNetworking
	if a == nil {
		a = &automode.AdvancedNetworking{}
	}
	var out []string
	for _, f := range []struct {
		name string
		set  bool
	}{
		{"podSubnetSelectorTerms", s.PodSubnetSelectorTerms != nil}, {"podSecurityGroupSelectorTerms", s.PodSecurityGroupSelectorTerms != nil},
		{"capacityReservationSelectorTerms", s.CapacityReservationSelectorTerms != nil}, {"advancedSecurity", s.AdvancedSecurity != nil},
		{"certificateBundles", s.CertificateBundles != nil}, {"advancedNetworking.ipv4PrefixSize=32", a.IPv4PrefixSize == "32"},
		{"advancedNetworking.httpsProxy", a.HTTPSProxy != ""}, {"networkPolicy=DefaultDeny", s.NetworkPolicy == "DefaultDeny"},
		{"networkPolicyEventLogs=Enabled", s.NetworkPolicyEventLogs == "Enabled"}, {"snatPolicy=Disabled", s.SNATPolicy == "Disabled"},
	} {
		if f.set {
			out = append(out, f.name)
		}
	}
	return out
}

// asked returns the NodeClass as EKS gets it.
func (n *NodeClass) asked() *automode.NodeClass {
	return &automode.NodeClass{Name: n.Name, NodeClassSpec: n.Spec}
}
