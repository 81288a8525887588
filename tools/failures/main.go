// Command failures writes docs/failures from the table in internal/failures.
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"github.com/drydock-dev/drydock/internal/failures"
)

func main() {
	if err := run("docs/failures"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// run replaces the pages in a folder.
func run(dir string) error {
	if err := os.RemoveAll(dir); err != nil {
		return err
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	for name, text := range failures.Pages() {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	return nil
}
