package simulated_test

import (
	"bytes"
	"errors"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

const cni6 = "ENABLE_IPv4=false ENABLE_IPv6=true ENABLE_PREFIX_DELEGATION=true"

// six is an instance of an IPv6 cluster.
func (b *bench) six() machine.Instance {
	in := b.instance()
	in.IPv6 = netip.MustParseAddr("2600:1f10:0:1:4516:2080:7d73:fb01")
	in.UserData = bytes.ReplaceAll(in.UserData, []byte("10.100.0.0/16"), []byte("fd30:3087:b6c2::/108"))
	return in
}

// The node's address, and those of pods, are IPv6. All pods share the one prefix of the primary interface, which stays
// theirs when the daemon is restarted.
func TestIPv6Node(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		b := newBench(t)
		b.cni = cni6
		b.launch(b.six())
		for _, name := range []string{"a", "b"} {
			b.api.bind(nodeName, pod(name))
		}
		after(time.Minute)
		n := b.api.node(nodeName)
		if i := slices.IndexFunc(n.Status.Addresses, func(a corev1.NodeAddress) bool { return a.Type == corev1.NodeInternalIP }); n.Status.Addresses[i].Address != "2600:1f10:0:1:4516:2080:7d73:fb01" {
			t.Errorf("addresses %v", n.Status.Addresses)
		}
		got := map[string]bool{}
		for _, name := range []string{"a", "b"} {
			p := b.api.pod(name)
			got[p.Status.PodIP] = true
			if p.Status.HostIP != "2600:1f10:0:1:4516:2080:7d73:fb01" || p.Status.Phase != corev1.PodRunning {
				t.Errorf("pod %s on %s is %s", name, p.Status.HostIP, p.Status.Phase)
			}
		}
		if !got["2600:1f10:0:1:8001::"] || !got["2600:1f10:0:1:8001::1"] {
			t.Errorf("pods have %v", got)
		}
		if s := b.ec2.shape(); s != "0" {
			t.Errorf("IPv4 addresses for pods: %s", s)
		}
		if e := b.ec2.enis[0]; len(e.Prefixes6) != 1 || e.Tags["node.k8s.amazonaws.com/instance_id"] == "" {
			t.Errorf("interface %+v", e)
		}
	})
}

// What keeps a node of an IPv6 cluster from becoming Ready is reported in the words of its programs.
func TestIPv6NodeThatFails(t *testing.T) {
	for name, tc := range map[string]struct {
		cni    string
		change func(*machine.Instance)
		denied string
		step   string
		text   string
	}{
		"no address":        {cni6, func(in *machine.Instance) { in.IPv6 = netip.Addr{} }, "", node.StepBootstrap, "operation error ec2imds: GetMetadata, http response error StatusCode: 404"},
		"no permission":     {cni6, nil, node.ActionAssignIPv6, node.StepNetwork, "Failed to allocate IPv6 Prefixes to ENI: allocate IPv6 prefix: failed to allocate an IPv6 prefix address: 403"},
		"not Nitro":         {cni6, func(in *machine.Instance) { in.Type.Name = "m4.large" }, "", node.StepNetwork, "Prefix Delegation is not supported on non-nitro instance m4.large. IPv6 is only supported in Prefix delegation Mode."},
		"both families":     {"ENABLE_IPv4=true ENABLE_IPv6=true ENABLE_PREFIX_DELEGATION=true", nil, "", node.StepNetwork, "IPv4 and IPv6 are both enabled. VPC CNI currently does not support dual stack mode"},
		"no family":         {"ENABLE_IPv4=false ENABLE_IPv6=false", nil, "", node.StepNetwork, "IPv4 and IPv6 are both disabled. One of them have to be enabled"},
		"no prefixes":       {"ENABLE_IPv4=false ENABLE_IPv6=true", nil, "", node.StepNetwork, "IPv6 is supported only in Prefix Delegation mode."},
		"custom networking": {cni6 + " AWS_VPC_K8S_CNI_CUSTOM_NETWORK_CFG=true", nil, "", node.StepNetwork, "Custom Networking is not supported in IPv6 mode."},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				b := newBench(t)
				b.cni = tc.cni
				b.call = func(c node.Call) error {
					if c.Action == tc.denied {
						return errors.New("403")
					}
					return nil
				}
				in := b.six()
				if tc.change != nil {
					tc.change(&in)
				}
				b.launch(in)
				after(time.Minute)
				if failed := b.failedSteps(); !slices.ContainsFunc(failed, func(s string) bool { return strings.HasPrefix(s, tc.step+": ") && strings.Contains(s, tc.text) }) {
					t.Errorf("failed steps %q", failed)
				}
				if b.info().Phase == node.PhaseReady {
					t.Error("the node is Ready")
				}
			})
		})
	}
}
