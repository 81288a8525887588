package e2e

import (
	"os"

	"github.com/google/go-containerregistry/cmd/crane/cmd"
)

// crane is the registry client of that name, in this binary, so that scripts need not have it installed.
func crane() {
	if err := cmd.Root.Execute(); err != nil {
		os.Exit(1)
	}
}
