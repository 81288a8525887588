// Compat writes docs/compatibility.md to standard output. It uses the same operation tables as the AWS API server.
package main

import (
	"fmt"
	"os"

	"github.com/drydock-dev/drydock/internal/app"
)

func main() {
	if err := app.WriteCompatibility(os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "compat:", err)
		os.Exit(1)
	}
}
