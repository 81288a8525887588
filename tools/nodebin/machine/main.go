//go:build linux

// Machine is the first process of a machine that runs containers: package inside.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
)

func main() {
	code, ok := inside.MachineModes().Dispatch(context.Background(), os.Args)
	if !ok {
		fmt.Fprintln(os.Stderr, "drydock-machine: this command is for Drydock's own use")
		code = 2
	}
	os.Exit(code)
}
