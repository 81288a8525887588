//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// A portMapping leads a port of the machine to one of a pod. https://www.cni.dev/docs/conventions/#dynamic-plugin-specific-fields-capabilities--runtime-configuration
type portMapping struct {
	HostPort      uint16 `json:"hostPort"`
	ContainerPort uint16 `json:"containerPort"`
	Protocol      string `json:"protocol"`
	HostIP        string `json:"hostIP"`
}

// hostPortTable returns the name of the table with a pod's mappings. Each pod has its own, so that it can be deleted at once.
func hostPortTable(container string) string {
	sum := sha256.Sum256([]byte(container))
	return "drydock-hostport-" + hex.EncodeToString(sum[:])[:12]
}

// mapPorts leads ports of the machine to a pod, as the plugin portmap does beside the VPC CNI plugin.
func mapPorts(container string, pod net.IP, mappings []portMapping) error {
	var lead strings.Builder
	for _, m := range mappings {
		proto := strings.ToLower(m.Protocol)
		if m.HostPort == 0 || proto != "tcp" && proto != "udp" && proto != "sctp" {
			continue
		}
		at := "fib daddr type local"
		if ip := net.ParseIP(m.HostIP); ip != nil && !ip.IsUnspecified() {
			if ip.To4() == nil {
				continue // pods have IPv4 addresses
			}
			at = "ip daddr " + ip.String()
		}
		fmt.Fprintf(&lead, "\t\t%s %s dport %d dnat to %s:%d\n", at, proto, m.HostPort, pod, m.ContainerPort)
	}
	if lead.Len() == 0 {
		return nil
	}
	// Connections of the machine to its own loopback address must leave by the pod's device, and come back.
	if err := os.WriteFile("/proc/sys/net/ipv4/conf/"+hostName(container)+"/route_localnet", []byte("1"), 0); err != nil {
		return err
	}
	if err := os.WriteFile(portsFile(container), nil, 0o600); err != nil {
		return err
	}
	table := hostPortTable(container)
	return runNFT(fmt.Sprintf(`add table ip %[1]s
delete table ip %[1]s
table ip %[1]s {
	chain prerouting {
		type nat hook prerouting priority -101;
%[2]s	}
	chain output {
		type nat hook output priority -101;
%[2]s	}
	chain postrouting {
		type nat hook postrouting priority 99;
		ip saddr { 127.0.0.0/8, %[3]s } ip daddr %[3]s masquerade
	}
}
`, table, lead.String(), pod))
}

// portsFile exists if a pod has mappings, so that nft does not run for those that have none.
func portsFile(container string) string { return filepath.Join(poolDir, hostPortTable(container)) }

// unmapPorts deletes a pod's mappings.
func unmapPorts(container string) error {
	table := hostPortTable(container)
	return runNFT(fmt.Sprintf("add table ip %[1]s\ndelete table ip %[1]s\n", table))
}

// runNFT changes the machine's rules, all or none of them.
func runNFT(rules string) error {
	cmd := exec.Command("/opt/drydock/bin/nft", "-f", "-")
	cmd.Stdin = strings.NewReader(rules)
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("changing nftables: %w: %s", err, out)
	}
	return nil
}
