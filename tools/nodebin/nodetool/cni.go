//go:build linux

package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/vishvananda/netlink"
	"github.com/vishvananda/netns"

	"github.com/drydock-dev/drydock/internal/dialout"
)

// poolDir holds the addresses of the machine's pods. The file addresses lists those that the machine has, each with its
// interface's device, and a file of used, named after an address, holds the container that has it. Without addresses, the VPC CNI
// plugin's daemon does not run.
const poolDir = "/var/lib/drydock/cni"

// gateway is the next hop of every pod, as of pods of the VPC CNI plugin. It exists on no interface: pods have a permanent
// entry for it in their neighbour table.
var gateway = net.IPv4(169, 254, 1, 1)

// cniError is the error of a plugin. https://www.cni.dev/docs/spec/#error
type cniError struct {
	Version string `json:"cniVersion"`
	Code    int    `json:"code"`
	Msg     string `json:"msg"`
}

func cni() {
	out, err := command(os.Getenv("CNI_COMMAND"))
	if err != nil {
		out = cniError{"1.0.0", 100, err.Error()}
	}
	if out != nil {
		_ = json.NewEncoder(os.Stdout).Encode(out) // there is nobody else to report to
	}
	if err != nil {
		os.Exit(1)
	}
}

func command(name string) (any, error) {
	var conf struct {
		// MachineAddress makes the plugin give a machine's only pod the machine's own address and network namespace: see fargate.go.
		MachineAddress string `json:"machineAddress"`
		RuntimeConfig  struct {
			PortMappings []portMapping `json:"portMappings"`
		} `json:"runtimeConfig"`
	}
	if err := json.NewDecoder(io.LimitReader(os.Stdin, 1<<20)).Decode(&conf); err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("reading the configuration: %w", err)
	}
	if conf.MachineAddress != "" {
		switch name {
		case "ADD":
			return share(conf.MachineAddress, os.Getenv("CNI_NETNS"), os.Getenv("CNI_IFNAME"))
		case "DEL":
			return nil, nil // there is nothing of the pod's own
		}
	}
	switch name {
	case "VERSION":
		return map[string]any{"cniVersion": "1.0.0", "supportedVersions": []string{"0.4.0", "1.0.0"}}, nil
	case "ADD":
		return add(os.Getenv("CNI_CONTAINERID"), os.Getenv("CNI_NETNS"), os.Getenv("CNI_IFNAME"), conf.RuntimeConfig.PortMappings)
	case "DEL":
		return nil, del(os.Getenv("CNI_CONTAINERID"))
	case "CHECK", "STATUS", "GC":
		return nil, nil
	}
	return nil, fmt.Errorf("unknown CNI_COMMAND %q", name)
}

// hostName returns the name of the machine's end of a pod's connection.
func hostName(container string) string {
	sum := sha256.Sum256([]byte(container))
	return "eni" + hex.EncodeToString(sum[:])[:11]
}

func add(container, nsPath, ifName string, ports []portMapping) (any, error) {
	address, device, err := assign(container)
	if errors.Is(err, os.ErrNotExist) { // the words of the VPC CNI plugin
		return nil, errors.New(`add cmd: Error received from AddNetwork gRPC call: rpc error: code = Unavailable desc = connection error: desc = "transport: Error while dialing: dial tcp 127.0.0.1:50051: connect: connection refused"`)
	}
	if err != nil {
		return nil, fmt.Errorf("add cmd: failed to assign an IP address to container: %w", err) // the VPC CNI plugin's words
	}
	err = connect(hostName(container), nsPath, ifName, address, device)
	if err == nil {
		err = mapPorts(container, address, ports)
	}
	if err != nil {
		return nil, errors.Join(err, del(container))
	}
	return map[string]any{
		"cniVersion": "1.0.0",
		"interfaces": []any{map[string]any{"name": hostName(container)}, map[string]any{"name": ifName, "sandbox": nsPath}},
		"ips":        []any{map[string]any{"address": address.String() + "/32", "interface": 1}},
	}, nil
}

// connect makes the pod's interface and the routes on both sides.
func connect(host, nsPath, ifName string, address net.IP, device string) error {
	ns, err := netns.GetFromPath(nsPath)
	if err != nil {
		return fmt.Errorf("opening the pod's network namespace: %w", err)
	}
	defer ns.Close()
	pod, err := netlink.NewHandleAt(ns)
	if err != nil {
		return err
	}
	defer pod.Close()
	attrs := netlink.NewLinkAttrs()
	attrs.Name, attrs.MTU = host, 9001
	if err := netlink.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: ifName, PeerNamespace: netlink.NsFd(int(ns)), PeerMTU: 9001}); err != nil {
		return fmt.Errorf("adding the interface %s: %w", host, err)
	}
	outer, err := netlink.LinkByName(host)
	if err != nil {
		return err
	}
	inner, err := pod.LinkByName(ifName)
	if err != nil {
		return err
	}
	lo, err := pod.LinkByName("lo")
	if err != nil {
		return err
	}
	one := func(ip net.IP) *net.IPNet { return &net.IPNet{IP: ip, Mask: net.CIDRMask(32, 32)} }
	index := inner.Attrs().Index
	for _, do := range []func() error{
		func() error { return pod.LinkSetUp(lo) },
		func() error { return pod.AddrAdd(inner, &netlink.Addr{IPNet: one(address)}) },
		func() error { return pod.LinkSetUp(inner) },
		func() error { return netlink.LinkSetUp(outer) },
		func() error {
			return pod.RouteAdd(&netlink.Route{LinkIndex: index, Dst: one(gateway), Scope: netlink.SCOPE_LINK})
		},
		func() error { return pod.RouteAdd(&netlink.Route{LinkIndex: index, Gw: gateway}) },
		func() error {
			return pod.NeighSet(&netlink.Neigh{LinkIndex: index, IP: gateway, HardwareAddr: outer.Attrs().HardwareAddr, State: netlink.NUD_PERMANENT, Family: netlink.FAMILY_V4})
		},
		func() error {
			return netlink.RouteReplace(&netlink.Route{LinkIndex: outer.Attrs().Index, Dst: one(address), Scope: netlink.SCOPE_LINK})
		},
		func() error { return leaveBy(device, address) },
	} {
		if err := do(); err != nil {
			return fmt.Errorf("connecting the pod's interface: %w", err)
		}
	}
	return nil
}

// The priorities of routing rules, as the VPC CNI plugin has them: first to a pod, then replies to a node's port, then from a
// pod. fabricTables is added to a device's index to get the routing table by which packets leave by it: see package fabric.
const (
	toPod        = 512
	nodePortMark = 0x80
	marked       = 1024
	fromPod      = 1536
	fabricTables = 100000
)

// leaveBy makes packets of a pod leave the machine by the device that has the pod's address, and packets to a pod stay in the machine.
func leaveBy(device string, address net.IP) error {
	rules := rulesOf(address, 0)[:1]
	if device != "" && device != "eth0" {
		link, err := netlink.LinkByName(device)
		if err != nil {
			return fmt.Errorf("finding %s: %w", device, err)
		}
		rules = rulesOf(address, fabricTables+link.Attrs().Index)
	}
	for _, r := range rules {
		if err := netlink.RuleAdd(r); err != nil && !errors.Is(err, syscall.EEXIST) {
			return fmt.Errorf("adding a routing rule: %w", err)
		}
	}
	return nil
}

// rulesOf returns the routing rules of a pod: to it and from it.
func rulesOf(address net.IP, table int) []*netlink.Rule {
	one := &net.IPNet{IP: address, Mask: net.CIDRMask(32, 32)}
	to, from := netlink.NewRule(), netlink.NewRule()
	to.Family, to.Priority, to.Table, to.Dst = netlink.FAMILY_V4, toPod, syscall.RT_TABLE_MAIN, one
	from.Family, from.Priority, from.Table, from.Src = netlink.FAMILY_V4, fromPod, table, one
	return []*netlink.Rule{to, from}
}

// markConnections lets replies to connections that came to a port of the node leave by the device that they came in by, as the
// VPC CNI plugin does with AWS_VPC_CNI_NODE_PORT_SUPPORT. If the node's address is given, connections of pods to the internet
// leave by the first device, with that address, because only it may have a public one:
// https://docs.aws.amazon.com/eks/latest/userguide/external-snat.html
func markConnections(address netip.Addr) error {
	r := netlink.NewRule()
	mask := uint32(nodePortMark)
	r.Family, r.Priority, r.Table, r.Mark, r.Mask = netlink.FAMILY_V4, marked, syscall.RT_TABLE_MAIN, nodePortMark, &mask
	if err := netlink.RuleAdd(r); err != nil && !errors.Is(err, syscall.EEXIST) {
		return fmt.Errorf("adding a routing rule: %w", err)
	}
	mark, translate := "", ""
	if address.Is4() {
		var special []string
		for _, p := range dialout.Special() {
			special = append(special, p.String())
		}
		outside := fmt.Sprintf("ip daddr != { %s }", strings.Join(special, ", "))
		mark = fmt.Sprintf("iifname \"eni*\" ct state new %s ct mark set ct mark or 0x80", outside)
		translate = fmt.Sprintf(`chain postrouting {
		type nat hook postrouting priority srcnat;
		oifname "eth0" ip saddr != %[1]s %[2]s snat to %[1]s
	}`, address, outside)
	}
	rules := fmt.Sprintf(`add table ip aws-vpc-cni
delete table ip aws-vpc-cni
table ip aws-vpc-cni {
	chain prerouting {
		type filter hook prerouting priority mangle;
		iifname "eth0" fib daddr type local ct mark set ct mark or 0x80
		%s
		iifname "eni*" ct mark and 0x80 == 0x80 meta mark set meta mark or 0x80
	}
	%s
}
`, mark, translate)
	if err := runNFT(rules); err != nil {
		return fmt.Errorf("marking connections to ports of the node: %w", err)
	}
	return nil
}

func del(container string) error {
	if link, err := netlink.LinkByName(hostName(container)); err == nil {
		if err := netlink.LinkDel(link); err != nil {
			return err
		}
	}
	if _, err := os.Stat(portsFile(container)); err == nil {
		// The file goes last: while it is there, containerd's next try unmaps the ports again.
		if err := unmapPorts(container); err != nil {
			return err
		}
		if err := os.Remove(portsFile(container)); err != nil {
			return err
		}
	}
	return release(container)
}

// locked calls a function while no other plugin uses the pool.
func locked(do func() error) error {
	if err := os.MkdirAll(filepath.Join(poolDir, "used"), 0o700); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(poolDir, "lock"), os.O_CREATE|os.O_RDWR, 0o600)
	if err != nil {
		return err
	}
	defer f.Close() // and unlocks it
	if err := syscall.Flock(int(f.Fd()), syscall.LOCK_EX); err != nil {
		return err
	}
	return do()
}

// assign gives an address to a container. It continues after the last one, so that an address rests before it is used
// again.
func assign(container string) (out net.IP, device string, err error) {
	err = locked(func() error {
		b, err := os.ReadFile(filepath.Join(poolDir, "addresses"))
		if err != nil {
			return err
		}
		var all []struct{ Address, Device string }
		if err := json.Unmarshal(b, &all); err != nil {
			return err
		}
		last, _ := os.ReadFile(filepath.Join(poolDir, "last")) // none at first
		start := 0
		for i, a := range all {
			if a.Address == string(last) {
				start = i + 1
			}
		}
		for i := range all {
			a := all[(start+i)%len(all)].Address
			device = all[(start+i)%len(all)].Device
			f, err := os.OpenFile(filepath.Join(poolDir, "used", a), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if errors.Is(err, os.ErrExist) {
				continue
			}
			if err != nil {
				return err
			}
			_, err = f.WriteString(container)
			if err = errors.Join(err, f.Close(), os.WriteFile(filepath.Join(poolDir, "last"), []byte(a), 0o600)); err != nil {
				return err
			}
			if out = net.ParseIP(a).To4(); out == nil {
				return fmt.Errorf("invalid address %q", a)
			}
			return nil
		}
		return errors.New("no address is free")
	})
	return out, device, err
}

func release(container string) error {
	return locked(func() error {
		used, err := os.ReadDir(filepath.Join(poolDir, "used"))
		if err != nil {
			return err
		}
		for _, e := range used {
			file := filepath.Join(poolDir, "used", e.Name())
			if b, err := os.ReadFile(file); err != nil || string(b) != container {
				continue
			}
			if ip := net.ParseIP(e.Name()).To4(); ip != nil {
				for _, r := range rulesOf(ip, 0) {
					_ = netlink.RuleDel(r) // pods with addresses of the first interface have no second one
				}
			}
			return os.Remove(file)
		}
		return nil
	})
}
