package netpolicy

import (
	"cmp"
	"encoding/json"
	"errors"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// The tiers of ClusterNetworkPolicies. Rules of the tier Admin come before NetworkPolicies, those of the tier Baseline after them.
const (
	Admin    = "Admin"
	Baseline = "Baseline"
)

// An Action is what a rule of a ClusterNetworkPolicy does with a connection.
type Action string

// Pass leaves the decision to what comes after the tier.
const (
	Accept Action = "Accept"
	Deny   Action = "Deny"
	Pass   Action = "Pass"
)

// A ClusterPolicy is the specification of a ClusterNetworkPolicy of networking.k8s.aws/v1alpha1.
// https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy.html
type ClusterPolicy struct {
	Tier string `json:"tier"`
	// Priority is from 0 to 1000. Lower numbers come first.
	Priority int32         `json:"priority"`
	Subject  ClusterPeer   `json:"subject"`
	Ingress  []ClusterRule `json:"ingress,omitempty"`
	Egress   []ClusterRule `json:"egress,omitempty"`
}

// A ClusterRule has From for ingress and To for egress.
type ClusterRule struct {
	Action Action        `json:"action"`
	From   []ClusterPeer `json:"from,omitempty"`
	To     []ClusterPeer `json:"to,omitempty"`
	// Ports are the ports of the receivers. If empty, the rule is for all ports.
	Ports []ClusterPort `json:"ports,omitempty"`
}

// A ClusterPeer has one of its members. Subjects and those who send have Namespaces or Pods.
type ClusterPeer struct {
	Namespaces  *metav1.LabelSelector `json:"namespaces,omitempty"`
	Pods        *NamespacedPods       `json:"pods,omitempty"`
	Networks    []string              `json:"networks,omitempty"`
	DomainNames []string              `json:"domainNames,omitempty"`
}

// NamespacedPods are pods of some namespaces.
type NamespacedPods struct {
	NamespaceSelector metav1.LabelSelector `json:"namespaceSelector"`
	PodSelector       metav1.LabelSelector `json:"podSelector"`
}

// A ClusterPort has one of its members, but the API allows none or several, too.
type ClusterPort struct {
	PortNumber *struct {
		Protocol corev1.Protocol `json:"protocol"`
		Port     int32           `json:"port"`
	} `json:"portNumber,omitempty"`
	PortRange *struct {
		Protocol corev1.Protocol `json:"protocol,omitempty"`
		Start    int32           `json:"start"`
		End      int32           `json:"end"`
	} `json:"portRange,omitempty"`
	NamedPort *string `json:"namedPort,omitempty"`
}

// A ClusterSpec is that of a ClusterPolicyEndpoint of networking.k8s.aws/v1alpha1.
type ClusterSpec struct {
	PolicyRef ClusterRef `json:"policyRef"`
	Tier      string     `json:"tier"`
	Priority  int32      `json:"priority"`
	// Subject is the policy's.
	Subject              ClusterPeer       `json:"subject"`
	PodSelectorEndpoints []Pod             `json:"podSelectorEndpoints,omitempty"`
	Ingress              []ClusterEndpoint `json:"ingress,omitempty"`
	Egress               []ClusterEndpoint `json:"egress,omitempty"`
}

// A ClusterRef names a ClusterNetworkPolicy.
type ClusterRef struct {
	Name string `json:"name"`
}

// A ClusterEndpoint is an address or a range, and what happens to connections with it. As with the VPC CNI, nothing on nodes
// knows the addresses of domain names, so such rules do nothing.
type ClusterEndpoint struct {
	CIDR       string `json:"cidr,omitempty"`
	Ports      []Port `json:"ports,omitempty"`
	DomainName string `json:"domainName,omitempty"`
	Action     Action `json:"action"`
}

// ResolveCluster returns what a ClusterNetworkPolicy means at the moment. As in Resolve, pods of the node's own network, and those
// without an address, are in no policy.
func ResolveCluster(name string, p ClusterPolicy, c Cluster) (ClusterSpec, error) {
	out := ClusterSpec{PolicyRef: ClusterRef{name}, Tier: p.Tier, Priority: p.Priority, Subject: p.Subject}
	c.found = map[string][]*corev1.Pod{}
	peer, ok := p.Subject.pods()
	if !ok {
		return out, nil
	}
	subjects, err := c.peers("", &peer)
	if err != nil {
		return out, err
	}
	for _, pod := range subjects {
		out.PodSelectorEndpoints = append(out.PodSelectorEndpoints, Pod{pod.Status.HostIP, pod.Status.PodIP, pod.Name, pod.Namespace})
	}
	// A named port is one of the pods that receive.
	size := 0
	out.Ingress, err = c.clusterEndpoints(p.Ingress, &size, func([]*corev1.Pod) []*corev1.Pod { return subjects })
	if err != nil {
		return out, err
	}
	out.Egress, err = c.clusterEndpoints(p.Egress, &size, func(peers []*corev1.Pod) []*corev1.Pod { return peers })
	return out, err
}

// maxSize is the largest size of a policy's endpoints in bytes: etcd's default limit for a request, so larger objects cannot be
// stored.
const maxSize = 3 << 19

// ErrTooLarge is the error of a policy whose endpoints cannot be stored.
var ErrTooLarge = errors.New("the policy resolves to more than 1.5 MiB of addresses and ports: reduce its rules or the pods that they select")

// clusterEndpoints returns the endpoints of rules, each once, and adds their size to size.
func (c Cluster) clusterEndpoints(rules []ClusterRule, size *int, receivers func([]*corev1.Pod) []*corev1.Pod) ([]ClusterEndpoint, error) {
	var out []ClusterEndpoint
	seen := map[string]bool{}
	// once returns the size of a value, or 0 if it has been seen before.
	once := func(v any) (int, error) {
		raw, err := json.Marshal(v)
		if err != nil || seen[string(raw)] {
			return 0, err
		}
		seen[string(raw)] = true
		return len(raw), nil
	}
	add := func(e ClusterEndpoint) error {
		n, err := once(e)
		if err != nil || n == 0 {
			return err
		}
		if *size += n; *size > maxSize {
			return ErrTooLarge
		}
		out = append(out, e)
		return nil
	}
	for _, r := range rules {
		var ports []networkingv1.NetworkPolicyPort
		for _, p := range r.Ports {
			ports = append(ports, p.ports()...)
		}
		for _, peer := range slices.Concat(r.From, r.To) {
			if n, err := once([]any{r.Action, r.Ports, peer}); err != nil {
				return nil, err
			} else if n == 0 {
				continue
			}
			for _, name := range peer.DomainNames {
				if numbers, ok := resolvePorts(ports, nil); ok {
					if err := add(ClusterEndpoint{DomainName: name, Ports: numbers, Action: r.Action}); err != nil {
						return nil, err
					}
				}
			}
			var peers []networkingv1.NetworkPolicyPeer
			for _, n := range peer.Networks {
				peers = append(peers, networkingv1.NetworkPolicyPeer{IPBlock: &networkingv1.IPBlock{CIDR: n}})
			}
			if p, ok := peer.pods(); ok {
				peers = append(peers, p)
			}
			if len(peers) == 0 {
				continue // for Kubernetes, no peers would be all
			}
			found, err := c.endpoints("", peers, ports, receivers)
			if err != nil {
				return nil, err
			}
			for _, e := range found {
				if err := add(ClusterEndpoint{CIDR: e.CIDR, Ports: e.Ports, Action: r.Action}); err != nil {
					return nil, err
				}
			}
		}
	}
	return out, nil
}

// pods returns the pods of a peer, or false if the peer does not select pods.
func (p ClusterPeer) pods() (networkingv1.NetworkPolicyPeer, bool) {
	switch {
	case p.Namespaces != nil:
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: p.Namespaces}, true
	case p.Pods != nil:
		return networkingv1.NetworkPolicyPeer{NamespaceSelector: &p.Pods.NamespaceSelector, PodSelector: &p.Pods.PodSelector}, true
	}
	return networkingv1.NetworkPolicyPeer{}, false
}

// ports returns all members. As with EKS's controller, a rule whose ports have no members is for all ports.
func (p ClusterPort) ports() []networkingv1.NetworkPolicyPort {
	var out []networkingv1.NetworkPolicyPort
	add := func(protocol *corev1.Protocol, port intstr.IntOrString, end *int32) {
		out = append(out, networkingv1.NetworkPolicyPort{Protocol: protocol, Port: &port, EndPort: end})
	}
	if n := p.PortNumber; n != nil {
		add(&n.Protocol, intstr.FromInt32(n.Port), nil)
	}
	if r := p.PortRange; r != nil {
		add(&r.Protocol, intstr.FromInt32(r.Start), &r.End)
	}
	if p.NamedPort != nil {
		add(nil, intstr.FromString(*p.NamedPort), nil)
	}
	return out
}

// A clusterRule is one rule of a ClusterPolicyEndpoint.
type clusterRule struct {
	policy *ClusterSpec
	on     Endpoint
	action Action
}

// ordered returns the rules of a tier for pods that the policies select, in the order in which EKS's agent decides: by priority, and
// in one priority Deny before Accept before Pass. The order of rules in a policy does not count.
// https://github.com/aws/aws-network-policy-agent/blob/main/pkg/ebpf/c/tc.v4ingress.bpf.c
func ordered(policies []*ClusterSpec, tier string, direction networkingv1.PolicyType) []clusterRule {
	var out []clusterRule
	for _, s := range policies {
		if s.Tier != tier {
			continue
		}
		endpoints := s.Egress
		if direction == networkingv1.PolicyTypeIngress {
			endpoints = s.Ingress
		}
		for _, e := range endpoints {
			out = append(out, clusterRule{s, Endpoint{CIDR: e.CIDR, Ports: knownProtocols(e.Ports)}, e.Action})
		}
	}
	slices.SortStableFunc(out, func(a, b clusterRule) int {
		return cmp.Or(cmp.Compare(a.policy.Priority, b.policy.Priority), cmp.Compare(a.action.rank(), b.action.rank()))
	})
	return out
}

// knownProtocols returns ports with TCP in place of protocols that EKS's agent does not know, as the agent reads them. The API
// accepts any text.
func knownProtocols(ports []Port) []Port {
	out := slices.Clone(ports)
	for i := range out {
		if p := corev1.Protocol(out[i].Protocol); p != corev1.ProtocolUDP && p != corev1.ProtocolSCTP {
			out[i].Protocol = string(corev1.ProtocolTCP)
		}
	}
	return out
}

// rank orders actions. One that is not valid does what Pass does.
func (a Action) rank() int {
	switch a {
	case Deny:
		return 0
	case Accept:
		return 1
	}
	return 2
}
