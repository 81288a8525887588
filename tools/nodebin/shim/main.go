//go:build linux

// Shim is containerd's shim for runc. It is separate from Drydock's own binary because one runs for each pod: as a mode
// of that binary, it would take three times the memory and nine times as long to start.
package main

import (
	"context"

	"github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/manager"
	_ "github.com/containerd/containerd/v2/cmd/containerd-shim-runc-v2/task/plugin"
	"github.com/containerd/containerd/v2/pkg/shim"
)

func main() {
	shim.RunShim(context.Background(), manager.NewShimManager("io.containerd.runc.v2"))
}
