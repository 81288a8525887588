package reachtest

import (
	"math/rand/v2"
	"net/netip"

	"github.com/drydock-dev/drydock/internal/reach"
)

// A Service is a Kubernetes Service of type NodePort with one endpoint, by TCP.
type Service struct {
	ClusterIP netip.AddrPort
	NodePort  uint16
	Endpoint  netip.AddrPort
	// On is the interface of the machine with the endpoint.
	On string
	// Local says that externalTrafficPolicy is Local.
	Local bool
}

// services draws Services with endpoints at the addresses of machines and of their pods.
func services(r *rand.Rand, w *World) []Service {
	var out []Service
	for i := range 6 {
		on := w.Get(Pick(r, w.Sources...)).(*reach.Interface)
		at := []netip.Addr{on.Addresses[0].Private}
		for _, a := range on.Addresses[1:] {
			if a.Private.Is4() {
				at = append(at, a.Private)
			}
		}
		for _, p := range on.Prefixes {
			at = append(at, p.Addr().Next())
		}
		out = append(out, Service{
			ClusterIP: netip.AddrPortFrom(netip.AddrFrom4([4]byte{172, 20, 0, byte(10 + i)}), 80), NodePort: uint16(30000 + i),
			Endpoint: netip.AddrPortFrom(Pick(r, at...), Pick(r, uint16(22), 443, 1024, 50000)), On: on.ID, Local: r.IntN(2) == 0,
		})
	}
	return out
}

// CheckService returns the verdict on a connection to a Service: to its cluster IP, or to the node port of the machine that has an
// interface, at an address. Package reach knows no Services, and the network sees none: kube-proxy changes a packet's destination on a
// machine. From a machine to a cluster IP, that is before the network decides, so the verdict is that about the endpoint. A node port
// is a port of its machine. If the endpoint is elsewhere, the machine opens a connection of its own to it, unless the policy is
// Local: then the machine drops the packet, and the second result is false.
func (w *World) CheckService(s Service, from reach.Endpoint, node string, at netip.Addr, source reach.Ports) (*reach.Verdict, bool) {
	endpoint := reach.Flow{From: from, To: reach.Addr(s.Endpoint.Addr()), Protocol: reach.TCP, Port: s.Endpoint.Port(), SourcePorts: source}
	if node == "" {
		v := w.Check(endpoint)
		return v, v.Reachable
	}
	v := w.Check(reach.Flow{From: from, To: reach.Addr(at), Protocol: reach.TCP, Port: s.NodePort, SourcePorts: source})
	switch {
	case !v.Reachable || node == s.On:
		return v, v.Reachable
	case s.Local:
		return v, false
	}
	endpoint.From = reach.At(node)
	v = w.Check(endpoint)
	return v, v.Reachable
}
