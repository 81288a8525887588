//go:build linux

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
)

// ownNetwork is the network namespace of this process, which is the machine's.
const ownNetwork = "/proc/self/ns/net"

// share puts the machine's network namespace in the place of the one that containerd has made for a pod. So does Fargate: a pod
// has the address of its machine, and cannot listen at the kubelet's port.
func share(address, nsPath, ifName string) (any, error) {
	if err := syscall.Unmount(nsPath, syscall.MNT_DETACH); err != nil {
		return nil, fmt.Errorf("releasing the network namespace %s: %w", nsPath, err)
	}
	if err := syscall.Mount(ownNetwork, nsPath, "", syscall.MS_BIND, ""); err != nil {
		return nil, fmt.Errorf("sharing the machine's network namespace: %w", err)
	}
	return map[string]any{
		"cniVersion": "1.0.0",
		"interfaces": []any{map[string]any{"name": ifName, "sandbox": nsPath}},
		"ips":        []any{map[string]any{"address": address + "/32", "interface": 0}},
	}, nil
}

// setNetwork changes the settings of the machine's network that a container's description has, if the container shares it. runc
// refuses to do that.
func setNetwork(spec map[string]any) error {
	l, _ := spec["linux"].(map[string]any)
	settings, _ := l["sysctl"].(map[string]any)
	if !sharesNetwork(l) {
		return nil
	}
	for name, v := range settings {
		value, _ := v.(string)
		if !strings.HasPrefix(name, "net.") && !strings.HasPrefix(name, "net/") {
			continue
		}
		delete(settings, name)
		file := filepath.Join("/proc/sys", filepath.Clean("/"+strings.ReplaceAll(name, ".", "/")))
		if err := os.WriteFile(file, []byte(value), 0); err != nil {
			return fmt.Errorf("setting %s: %w", name, err)
		}
	}
	return nil
}

// sharesNetwork reports whether a container joins the network namespace of this process by its path.
func sharesNetwork(l map[string]any) bool {
	own, err := os.Stat(ownNetwork)
	if err != nil {
		return false
	}
	all, _ := l["namespaces"].([]any)
	for _, n := range all {
		ns, _ := n.(map[string]any)
		path, _ := ns["path"].(string)
		if ns["type"] != "network" || path == "" {
			continue
		}
		st, err := os.Stat(path)
		return err == nil && os.SameFile(own, st)
	}
	return false
}
