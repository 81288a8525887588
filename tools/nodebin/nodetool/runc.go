//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
)

// realRunc is runc itself, and noLimits exists on machines without cgroup controllers.
const (
	realRunc = "/opt/drydock/bin/runc"
	noLimits = "/opt/drydock/no-limits"
)

func runc() error {
	if slices.Contains(os.Args, "create") {
		if err := adapt(bundle(os.Args)); err != nil {
			return err
		}
	}
	return fmt.Errorf("starting runc: %w", syscall.Exec(realRunc, append([]string{"runc"}, os.Args[1:]...), os.Environ()))
}

// bundle returns the folder with the container's description.
func bundle(args []string) string {
	for i, a := range args {
		if v, ok := strings.CutPrefix(a, "--bundle="); ok {
			return v
		}
		if (a == "--bundle" || a == "-b") && i+1 < len(args) {
			return args[i+1]
		}
	}
	return "."
}

// adapt removes what the kernel refuses in a user namespace: lowering the OOM score and, without controllers, limits.
func adapt(dir string) error {
	file := filepath.Join(dir, "config.json")
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	var spec map[string]any
	if err := json.Unmarshal(b, &spec); err != nil {
		return fmt.Errorf("%s: %w", file, err)
	}
	if p, ok := spec["process"].(map[string]any); ok {
		delete(p, "oomScoreAdj")
	}
	if _, err := os.Stat(noLimits); err == nil {
		if l, ok := spec["linux"].(map[string]any); ok {
			delete(l, "resources")
		}
	}
	if b, err = json.Marshal(spec); err != nil {
		return err
	}
	return os.WriteFile(file, b, 0o600)
}
