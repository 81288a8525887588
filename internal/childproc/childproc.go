// Package childproc runs this program again as a child that does one job, and
// never outlives its parent.
//
// Parent and child share two pipes: the parent writes the child's configuration
// to the first and then keeps it open, so its end tells the child that the
// parent is gone or wants it to stop; on the second the child reports back.
// Nothing secret is in arguments or environment.
package childproc

import (
	"context"
	"io"
)

// command is the argument that makes the program a child.
const command = "be-child"

// Env is what a child gets from its parent.
type Env struct {
	// Config is the configuration the parent gave.
	Config []byte
	// Report sends one message to the parent.
	Report func([]byte) error
	// Log is standard error; the parent keeps it in the child's log file.
	Log io.Writer
}

// A Main is the main function of a child. ctx ends when the parent wants the
// child to stop or is gone. It returns the exit code.
type Main func(ctx context.Context, env Env) int

// Modes are the kinds of children the program can be, by name. cmd/drydock
// gives them to app.Main, so that nothing else links what children need.
type Modes map[string]Main

// Dispatch runs the mode that args (os.Args) ask for. Call it first in main:
// when ok, exit with code.
func (m Modes) Dispatch(ctx context.Context, args []string) (code int, ok bool) { return 0, false }
