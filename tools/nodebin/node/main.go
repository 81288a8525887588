//go:build linux

// Node contains the programs of a node that link Kubernetes or containerd: each is this program by another name, or a child mode.
// They are separate from Drydock's own binary, whose preparations for everything it can do would cost each of them 15 MB and a
// tenth of a second.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"

	"github.com/drydock-dev/drydock/internal/node/containers/programs"
)

func main() {
	if run := programs.Command(filepath.Base(os.Args[0])); run != nil {
		os.Exit(run(os.Args[1:]))
	}
	code, ok := programs.Modes().Dispatch(context.Background(), os.Args)
	if !ok {
		fmt.Fprintln(os.Stderr, "drydock-node: this command is for Drydock's own use")
		code = 2
	}
	os.Exit(code)
}
