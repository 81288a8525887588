//go:build linux

// Node is the programs of a node that link Kubernetes or containerd: each is this program by another name, or a child mode. They
// are apart from Drydock's own binary, because what that one prepares for all it can do takes each of them 15 MB more and a tenth
// of a second.
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
