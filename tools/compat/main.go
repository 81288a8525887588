// Compat writes docs/compatibility.md to standard output, from the operation
// tables that the AWS API server itself uses.
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
