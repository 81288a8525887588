package programs

import (
	"encoding/json"
	"fmt"
	"net"
	"os"
	"syscall"

	"github.com/vishvananda/netlink"

	"github.com/drydock-dev/drydock/internal/catalog/addonimages"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// The programs that nodes of EKS Auto Mode have instead of the pods of add-ons.

// runVolumeDriver runs the driver of volumes, which registers itself with the kubelet.
func runVolumeDriver() error {
	const name, kubelet = "ebs.csi.eks.amazonaws.com", "/var/lib/kubelet"
	dir := kubelet + "/plugins/" + name
	if err := os.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	return become("aws-ebs-csi-driver", "node", "--driver-name="+name, "--topology=eks.amazonaws.com/compute-type=auto",
		"--endpoint=unix:"+dir+"/csi.sock", "--plugin-registration-path="+kubelet+"/plugins_registry")
}

// runManagedKubeProxy runs kube-proxy with a configuration.
func runManagedKubeProxy(config []byte) int {
	const file = "/var/lib/drydock/kube-proxy.json"
	if err := os.WriteFile(file, config, 0o600); err != nil {
		return code(err)
	}
	return runKubeProxy([]string{"--config=" + file})
}

// runManagedDNS runs CoreDNS at addresses that it first gives to the machine.
func runManagedDNS(config []byte) error {
	var cfg launch.DNS
	if err := json.Unmarshal(config, &cfg); err != nil {
		return err
	}
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, a := range cfg.Addresses {
		if err := netlink.AddrReplace(lo, &netlink.Addr{IPNet: &net.IPNet{IP: a.AsSlice(), Mask: net.CIDRMask(a.BitLen(), a.BitLen())}}); err != nil {
			return fmt.Errorf("the address %s: %w", a, err)
		}
	}
	const file = "/var/lib/drydock/Corefile"
	if err := os.WriteFile(file, []byte(cfg.Corefile), 0o600); err != nil {
		return err
	}
	return become("coredns", "-conf", file)
}

// become makes this process one of the node's programs. It returns only if that fails.
func become(program string, args ...string) error {
	file := addonimages.Programs + "/" + program
	return fmt.Errorf("%s: %w", file, syscall.Exec(file, append([]string{program}, args...), os.Environ()))
}
