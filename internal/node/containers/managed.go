package containers

import (
	"context"
	"encoding/json"
	"net/netip"
	"strings"

	"github.com/drydock-dev/drydock/internal/node/containers/launch"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// startManaged starts what nodes of EKS Auto Mode have instead of the pods of add-ons: the driver of volumes, kube-proxy, and
// CoreDNS at the address of the cluster's DNS service. They use the kubelet's token, and AmazonEKSAutoNodePolicy has what they
// read. kube-proxy is not allowed ServiceCIDRs, and must not be: with them it drops what goes to addresses of the range that no
// Service has, such as that of CoreDNS.
// https://docs.aws.amazon.com/eks/latest/userguide/auto-networking.html
func (i *instance) startManaged(ctx context.Context, cfg *userdata.Config, nodeName string) error {
	proxy, err := proxyConfig(nodeName, "0.0.0.0")
	if err != nil {
		return err
	}
	programs := map[string][]byte{launch.VolumeDriver: nil, launch.KubeProxy: proxy}
	var at []netip.Addr
	var bind []string
	for _, text := range clusterDNS(cfg) {
		if a, err := netip.ParseAddr(text); err == nil {
			at, bind = append(at, a.WithZone("")), append(bind, a.WithZone("").String())
		}
	}
	if len(at) > 0 {
		programs[launch.CoreDNS], err = json.Marshal(launch.DNS{Addresses: at, Corefile: corefile(bind)})
		if err != nil {
			return err
		}
	}
	for mode, config := range programs {
		if err := i.machine.StartProgram(ctx, mode, config); err != nil {
			return err
		}
	}
	return nil
}

// proxyConfig returns the configuration of kube-proxy, which serves its health and metrics at an address.
func proxyConfig(nodeName, address string) ([]byte, error) {
	return json.Marshal(map[string]any{
		"apiVersion": "kubeproxy.config.k8s.io/v1alpha1", "kind": "KubeProxyConfiguration", "mode": "nftables",
		"bindAddress": "0.0.0.0", "healthzBindAddress": address + ":10256", "metricsBindAddress": address + ":10249",
		"hostnameOverride": nodeName, "clientConnection": map[string]any{"kubeconfig": filesDir + "/kubeconfig"},
	})
}

// corefile returns the configuration of CoreDNS for pods of one node: that of the add-on, without ports that pods in the
// node's network could want.
func corefile(bind []string) string {
	return `.:53 {
    bind ` + strings.Join(bind, " ") + `
    errors
    kubernetes cluster.local in-addr.arpa ip6.arpa {
        kubeconfig ` + filesDir + `/kubeconfig
        pods insecure
        fallthrough in-addr.arpa ip6.arpa
    }
    forward . /etc/resolv.conf
    cache 30
    loadbalance
}
`
}
