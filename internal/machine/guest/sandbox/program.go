package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"slices"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// noMemory is what a program prints that cannot start.
const noMemory = "Cannot allocate memory: the scripts and programs of all simulated machines hold too many files; try again when others have ended\n"

// answer runs a program for the child on a copy of the job's files. more sends output while the program still runs.
func answer(ctx context.Context, job shell.Job, files *vfs.FS, limits vfs.Limits, m *callMessage, more func(*answerMessage) error) *answerMessage {
	a := &answerMessage{ID: m.ID}
	if job.Outside == nil {
		return a
	}
	var stdout, stderr bytes.Buffer
	program := Program{Args: m.Args, Env: m.Env, Dir: m.Dir, User: m.User, Stdin: m.Stdin, Long: m.Long, Terminal: m.Terminal, Files: files.Image(), Limits: limits}
	a.Status, a.Found, a.Changes = program.run(ctx, files, job.Outside, stream{limited{&stdout}, m.ID, more}, limit(&stderr))
	a.Stdout, a.Stderr = stdout.Bytes(), stderr.Bytes()
	return a
}

// A Program is a program that runs in this process for a child, on a copy of the machine's files.
type Program struct {
	Args, Env []string
	Dir, User string
	Stdin     []byte
	Long      bool // reading beyond Stdin fails, because the rest of the standard input is not here
	Terminal  bool // the standard input is the terminal
	Files     []vfs.Record
	Limits    vfs.Limits
}

// Run runs the program by outside, with the rights of its user, and returns what it has changed. Whatever the program does,
// this process continues.
func (p *Program) Run(ctx context.Context, outside func(context.Context, *shell.Call) (int, bool), stdout, stderr io.Writer) (status int, found bool, changes []vfs.Change) {
	files := vfs.New(p.Limits, nil)
	if err := files.Restore(p.Files); err != nil {
		fmt.Fprintln(stderr, err)
		return 1, true, nil
	}
	return p.run(ctx, files, outside, stdout, stderr)
}

// run runs the program on files, which are p.Files.
func (p *Program) run(ctx context.Context, files *vfs.FS, outside func(context.Context, *shell.Call) (int, bool), stdout, stderr io.Writer) (status int, found bool, changes []vfs.Change) {
	size := 0
	for _, s := range slices.Concat(p.Args, p.Env) {
		size += len(s) + 1 + 8 // its terminator and its pointer
	}
	if size > maxArguments || len(p.Args) == 0 {
		fmt.Fprintln(stderr, "Argument list too long")
		return 126, true, nil
	}
	c := shell.NewCall(p.Args, p.Env)
	u, _ := accounts.FindUser(files, p.User) // root's IDs if the user does not exist
	c.FS, c.Dir, c.User = files.As(u.UID, u.GID), p.Dir, p.User
	c.Stdin, c.Stdout, c.Stderr, c.Terminal = bytes.NewReader(p.Stdin), stdout, stderr, p.Terminal
	if p.Long {
		c.Stdin = io.MultiReader(c.Stdin, cutInput{})
	}
	func() {
		defer func() {
			if recover() != nil { // no guest may end the daemon
				fmt.Fprintf(stderr, "%s: Segmentation fault\n", p.Args[0])
				status, found = 139, true
			}
		}()
		status, found = outside(ctx, c)
	}()
	return status, found, vfs.Diff(p.Files, files.Image())
}

// A cutInput is what follows the part of a long standard input that has been sent.
type cutInput struct{}

func (cutInput) Read([]byte) (int, error) { return 0, errLongInput }

// maxArguments bounds the arguments and the environment of a program run for the child, like Linux: execve(2),
// ARG_MAX.
const maxArguments = 2 << 20

// maxPrograms is how many such programs one script may run at once: each needs a copy of the machine's files here.
const maxPrograms = 4

// maxProgramOutput bounds what such a program may print.
const maxProgramOutput = 4 << 20

func limit(b *bytes.Buffer) io.Writer { return limited{b} }

// A stream is the standard output of a program. Flush sends the output so far while the program still runs.
type stream struct {
	limited
	id   int64
	more func(*answerMessage) error
}

// Flush implements shell.Flusher.
func (s stream) Flush() error {
	if s.b.Len() == 0 {
		return nil
	}
	err := s.more(&answerMessage{ID: s.id, More: true, Stdout: bytes.Clone(s.b.Bytes())})
	s.b.Reset()
	return err
}

type limited struct{ b *bytes.Buffer }

func (l limited) Write(p []byte) (int, error) {
	if l.b.Len()+len(p) > maxProgramOutput {
		return 0, io.ErrShortWrite
	}
	return l.b.Write(p)
}
