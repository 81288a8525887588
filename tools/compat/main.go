// Compat writes docs/compatibility.md to standard output or, with the argument "types",
// docs/cloudformation.md. It uses the same tables as the AWS API server.
package main

import (
	"fmt"
	"os"

	"github.com/drydock-dev/drydock/internal/app"
)

func main() {
	write := app.WriteCompatibility
	if len(os.Args) > 1 && os.Args[1] == "types" {
		write = app.WriteStackTypes
	}
	if err := write(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
}
