package accountnet

import (
	"net/netip"
	"testing"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/drydock-dev/drydock/internal/elbnet"
)

// What a health check finds behind a port, depending on what the cluster says.
func TestHealthCheckAnswers(t *testing.T) {
	ready := func(yes bool) corev1.ConditionStatus {
		if yes {
			return corev1.ConditionTrue
		}
		return corev1.ConditionFalse
	}
	node := func(name, instance, address string, up bool) corev1.Node {
		return corev1.Node{
			ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.NodeSpec{ProviderID: "aws:///us-east-1a/" + instance},
			Status: corev1.NodeStatus{
				Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: ready(up)}},
				Addresses:  []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: address}, {Type: corev1.NodeHostName, Address: name}},
			},
		}
	}
	service := func(name string, port, health int32, local bool) corev1.Service {
		s := corev1.Service{ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name}, Spec: corev1.ServiceSpec{
			Ports: []corev1.ServicePort{{Protocol: corev1.ProtocolTCP, NodePort: port}}, HealthCheckNodePort: health, ExternalTrafficPolicy: corev1.ServiceExternalTrafficPolicyCluster,
		}}
		if local {
			s.Spec.ExternalTrafficPolicy = corev1.ServiceExternalTrafficPolicyLocal
		}
		return s
	}
	endpoints := func(name, node string, up bool) discoveryv1.EndpointSlice {
		return discoveryv1.EndpointSlice{
			ObjectMeta: metav1.ObjectMeta{Namespace: "default", Name: name + "-1", Labels: map[string]string{discoveryv1.LabelServiceName: name}},
			Endpoints:  []discoveryv1.Endpoint{{NodeName: &node, Conditions: discoveryv1.EndpointConditions{Ready: &up}}},
		}
	}
	pod := func(node, address string, up, host bool, ports ...corev1.ContainerPort) corev1.Pod {
		return corev1.Pod{
			Spec: corev1.PodSpec{NodeName: node, HostNetwork: host, Containers: []corev1.Container{{Ports: ports}}},
			Status: corev1.PodStatus{
				Phase: corev1.PodRunning, PodIPs: []corev1.PodIP{{IP: address}}, Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready(up)}},
			},
		}
	}
	w := newWorkloads(
		[]corev1.Node{node("a", "i-a", "10.0.0.1", true), node("b", "i-b", "10.0.0.2", true), node("c", "i-c", "10.0.0.3", false)},
		[]corev1.Service{service("web", 30080, 0, false), service("local", 30081, 32000, true), service("empty", 30082, 0, false)},
		[]discoveryv1.EndpointSlice{endpoints("web", "a", true), endpoints("local", "a", true), endpoints("empty", "a", false)},
		[]corev1.Pod{
			pod("a", "10.0.0.10", true, false), pod("b", "10.0.0.11", false, false),
			pod("a", "10.0.0.1", true, true, corev1.ContainerPort{ContainerPort: 9100}), pod("b", "10.0.0.12", true, false, corev1.ContainerPort{ContainerPort: 80, HostPort: 8080}),
		},
	)
	for _, tt := range []struct {
		what     string
		instance string
		address  string
		port     uint16
		want     elbnet.Finding
		stranger bool
	}{
		{what: "a node port, on the node of the endpoint", instance: "i-a", port: 30080, want: elbnet.Answers},
		{what: "a node port, on another node", instance: "i-b", port: 30080, want: elbnet.Answers},
		{what: "a node port, on a node that is not ready", instance: "i-c", port: 30080, want: elbnet.TimedOut},
		{what: "local traffic, on the node of the endpoint", instance: "i-a", port: 30081, want: elbnet.Answers},
		{what: "local traffic, on another node", instance: "i-b", port: 30081, want: elbnet.TimedOut},
		{what: "local traffic's health, on the node of the endpoint", instance: "i-a", port: 32000, want: elbnet.Answers},
		{what: "local traffic's health, on another node", instance: "i-b", port: 32000, want: elbnet.Refused},
		{what: "a service without ready endpoints", instance: "i-a", port: 30082, want: elbnet.Refused},
		{what: "nobody's port", instance: "i-a", port: 30099, want: elbnet.Refused},
		{what: "kube-proxy's own", instance: "i-a", port: 10256, want: elbnet.Answers},
		{what: "a pod of the host's network", instance: "i-a", port: 9100, want: elbnet.Answers},
		{what: "a host port", instance: "i-b", port: 8080, want: elbnet.Answers},
		{what: "a host port of another node", instance: "i-a", port: 8080, want: elbnet.Refused},
		{what: "a pod", address: "10.0.0.10", port: 80, want: elbnet.Answers},
		{what: "a pod that is not ready", address: "10.0.0.11", port: 80, want: elbnet.Refused},
		{what: "a node by its address", address: "10.0.0.2", port: 30080, want: elbnet.Answers},
		{what: "somebody's address", address: "10.0.0.99", port: 80, stranger: true},
		{what: "an instance that is no node", instance: "i-x", port: 80, stranger: true},
	} {
		p := elbnet.Probe{Instance: tt.instance, Port: tt.port}
		if tt.address != "" {
			p.Address = netip.MustParseAddr(tt.address)
		}
		if got, here := w.answer(p); got != tt.want || here == tt.stranger {
			t.Errorf("%s: %d, here %t; want %d", tt.what, got, here, tt.want)
		}
	}
}
