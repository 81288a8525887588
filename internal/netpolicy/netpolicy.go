// Package netpolicy enforces network policies as Amazon EKS does, in two steps. A controller of the control plane resolves each
// NetworkPolicy to a PolicyEndpoint (Resolve), and each ClusterNetworkPolicy to a ClusterPolicyEndpoint (ResolveCluster). These have
// addresses instead of selectors. An agent on each node filters the packets of the node's pods by them (Ruleset).
// https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy.html
//
// The package computes and does nothing else. It may be imported by any package.
package netpolicy

import (
	"cmp"
	"encoding/json"
	"net/netip"
	"slices"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/util/intstr"
)

// A Spec is that of a PolicyEndpoint of networking.k8s.aws/v1alpha1.
type Spec struct {
	PodSelector *metav1.LabelSelector `json:"podSelector,omitempty"`
	PolicyRef   Ref                   `json:"policyRef"`
	// PodIsolation are the directions in which only what is listed may pass.
	PodIsolation         []networkingv1.PolicyType `json:"podIsolation,omitempty"`
	PodSelectorEndpoints []Pod                     `json:"podSelectorEndpoints,omitempty"`
	Ingress              []Endpoint                `json:"ingress,omitempty"`
	Egress               []Endpoint                `json:"egress,omitempty"`
}

// A Ref names a NetworkPolicy.
type Ref struct {
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// A Pod is one that a policy selects.
type Pod struct {
	HostIP    string `json:"hostIP"`
	PodIP     string `json:"podIP"`
	Name      string `json:"name"`
	Namespace string `json:"namespace"`
}

// An Endpoint is an address or a range that may send or receive.
type Endpoint struct {
	CIDR   string   `json:"cidr,omitempty"`
	Except []string `json:"except,omitempty"`
	// Ports are the allowed ports. If empty, all ports are allowed.
	Ports []Port `json:"ports,omitempty"`
}

// A Port is a port or a range. Without a number it is all ports of its protocol.
type Port struct {
	Protocol string `json:"protocol,omitempty"`
	Port     *int32 `json:"port,omitempty"`
	EndPort  *int32 `json:"endPort,omitempty"`
}

// A Cluster is what policies select from.
type Cluster struct {
	Pods       []*corev1.Pod
	Namespaces map[string]*corev1.Namespace

	found map[string][]*corev1.Pod // the pods of each peer by its JSON, unless nil
}

// Resolve returns what a policy means at the moment. Pods of the node's own network, and those without an address, are in no
// policy.
func Resolve(p *networkingv1.NetworkPolicy, c Cluster) (Spec, error) {
	out := Spec{PodSelector: &p.Spec.PodSelector, PolicyRef: Ref{p.Name, p.Namespace}, PodIsolation: p.Spec.PolicyTypes}
	if len(out.PodIsolation) == 0 {
		out.PodIsolation = []networkingv1.PolicyType{networkingv1.PolicyTypeIngress}
		if len(p.Spec.Egress) > 0 {
			out.PodIsolation = append(out.PodIsolation, networkingv1.PolicyTypeEgress)
		}
	}
	selected, err := c.peers(p.Namespace, &networkingv1.NetworkPolicyPeer{PodSelector: &p.Spec.PodSelector})
	if err != nil {
		return out, err
	}
	for _, pod := range selected {
		out.PodSelectorEndpoints = append(out.PodSelectorEndpoints, Pod{pod.Status.HostIP, pod.Status.PodIP, pod.Name, pod.Namespace})
	}
	if slices.Contains(out.PodIsolation, networkingv1.PolicyTypeIngress) {
		for _, r := range p.Spec.Ingress {
			// A named port is one of the pods that receive.
			more, err := c.endpoints(p.Namespace, r.From, r.Ports, func([]*corev1.Pod) []*corev1.Pod { return selected })
			if err != nil {
				return out, err
			}
			out.Ingress = append(out.Ingress, more...)
		}
	}
	if slices.Contains(out.PodIsolation, networkingv1.PolicyTypeEgress) {
		for _, r := range p.Spec.Egress {
			more, err := c.endpoints(p.Namespace, r.To, r.Ports, func(peers []*corev1.Pod) []*corev1.Pod { return peers })
			if err != nil {
				return out, err
			}
			out.Egress = append(out.Egress, more...)
		}
	}
	return out, nil
}

// endpoints returns those of one rule. receivers returns the pods whose named ports count for peers, which are nil for ranges.
func (c Cluster) endpoints(namespace string, peers []networkingv1.NetworkPolicyPeer, ports []networkingv1.NetworkPolicyPort, receivers func([]*corev1.Pod) []*corev1.Pod) ([]Endpoint, error) {
	var out []Endpoint
	add := func(pods []*corev1.Pod, e Endpoint) {
		var ok bool
		if e.Ports, ok = resolvePorts(ports, receivers(pods)); ok {
			out = append(out, e)
		}
	}
	if len(peers) == 0 {
		add(nil, Endpoint{CIDR: "0.0.0.0/0"})
		add(nil, Endpoint{CIDR: "::/0"})
	}
	for i := range peers {
		if b := peers[i].IPBlock; b != nil {
			add(nil, Endpoint{CIDR: b.CIDR, Except: b.Except})
			continue
		}
		pods, err := c.peers(namespace, &peers[i])
		if err != nil {
			return nil, err
		}
		for _, p := range pods {
			add([]*corev1.Pod{p}, Endpoint{CIDR: p.Status.PodIP})
		}
	}
	return out, nil
}

// peers returns the pods that a peer selects, by namespace and name.
func (c Cluster) peers(namespace string, peer *networkingv1.NetworkPolicyPeer) ([]*corev1.Pod, error) {
	if c.found == nil {
		return c.find(namespace, peer)
	}
	raw, err := json.Marshal(peer)
	if err != nil {
		return nil, err
	}
	key := namespace + "/" + string(raw)
	if found, ok := c.found[key]; ok {
		return found, nil
	}
	found, err := c.find(namespace, peer)
	if err == nil {
		c.found[key] = found
	}
	return found, err
}

func (c Cluster) find(namespace string, peer *networkingv1.NetworkPolicyPeer) ([]*corev1.Pod, error) {
	pods, namespaces := labels.Everything(), labels.Everything()
	var err error
	if peer.PodSelector != nil {
		if pods, err = metav1.LabelSelectorAsSelector(peer.PodSelector); err != nil {
			return nil, err
		}
	}
	if peer.NamespaceSelector != nil {
		if namespaces, err = metav1.LabelSelectorAsSelector(peer.NamespaceSelector); err != nil {
			return nil, err
		}
	}
	var out []*corev1.Pod
	for _, p := range c.Pods {
		ended := p.Status.Phase == corev1.PodSucceeded || p.Status.Phase == corev1.PodFailed
		if ended || p.Spec.HostNetwork || p.Status.PodIP == "" || !pods.Matches(labels.Set(p.Labels)) {
			continue
		}
		if peer.NamespaceSelector == nil {
			if p.Namespace != namespace {
				continue
			}
		} else if ns := c.Namespaces[p.Namespace]; ns == nil || !namespaces.Matches(labels.Set(ns.Labels)) {
			continue
		}
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *corev1.Pod) int {
		return cmp.Or(cmp.Compare(a.Namespace, b.Namespace), cmp.Compare(a.Name, b.Name))
	})
	return out, nil
}

// resolvePorts returns the ports of a rule with numbers for names, or false if there are only names that no pod has.
func resolvePorts(ports []networkingv1.NetworkPolicyPort, pods []*corev1.Pod) ([]Port, bool) {
	var out []Port
	for _, p := range ports {
		protocol := corev1.ProtocolTCP
		if p.Protocol != nil {
			protocol = *p.Protocol
		}
		switch {
		case p.Port == nil:
			out = append(out, Port{Protocol: string(protocol)})
		case p.Port.Type == intstr.Int:
			out = append(out, Port{Protocol: string(protocol), Port: &p.Port.IntVal, EndPort: p.EndPort})
		default:
			var numbers []int32
			for _, pod := range pods {
				for _, k := range pod.Spec.Containers {
					for _, cp := range k.Ports {
						if cp.Name == p.Port.StrVal && cmp.Or(cp.Protocol, corev1.ProtocolTCP) == protocol && !slices.Contains(numbers, cp.ContainerPort) {
							numbers = append(numbers, cp.ContainerPort)
						}
					}
				}
			}
			slices.Sort(numbers)
			for _, n := range numbers {
				out = append(out, Port{Protocol: string(protocol), Port: &n})
			}
		}
	}
	return out, len(out) > 0 || len(ports) == 0
}

// valid returns an IPv4 range in its canonical form, or false. An address is a range of one.
func valid(text string) (netip.Prefix, bool) {
	if a, err := netip.ParseAddr(text); err == nil {
		return netip.PrefixFrom(a, a.BitLen()), a.Is4()
	}
	p, err := netip.ParsePrefix(text)
	return p.Masked(), err == nil && p.Addr().Is4()
}
