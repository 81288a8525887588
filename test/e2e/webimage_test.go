package e2e

import (
	"os"
	"os/exec"

	"github.com/rogpeppe/go-internal/testscript"

	"github.com/drydock-dev/drydock/internal/testkit"
)

// webImage FILE NAME writes an archive with an image of testdata/web.
func webImage(ts *testscript.TestScript, _ bool, args []string) {
	b, err := testkit.ImageArchive(args[1], "./testdata/web", ts.Getenv("WORK"))
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}

// programImage FILE NAME PROGRAM writes an archive with an image of a static program that is in the PATH.
func programImage(ts *testscript.TestScript, _ bool, args []string) {
	file, err := exec.LookPath(args[2])
	ts.Check(err)
	b, err := testkit.ProgramImage(args[1], file, "/"+args[2], "")
	ts.Check(err)
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), b, 0o644))
}
