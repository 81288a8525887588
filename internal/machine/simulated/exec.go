package simulated

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// maxStdin bounds a program's standard input, which is read completely before the program starts.
const maxStdin = 1 << 20

// Exec implements machine.Machine with the shell that also runs user data.
func (c *Computer) Exec(ctx context.Context, cmd machine.Command) (machine.Process, error) {
	if c.image == nil {
		return c.Unsupported.Exec(ctx, cmd)
	}
	if err := c.begin(); err != nil {
		return nil, err
	}
	user := accounts.User{Name: "root", Home: "/root", Shell: "/bin/bash"}
	if u, ok := accounts.FindUser(c.image.FS, cmp.Or(cmd.User, "root")); ok {
		user = u
	} else if cmd.User != "" && cmd.User != "root" {
		c.runs.Done()
		return nil, fmt.Errorf("%w: %s", machine.ErrNoUser, cmd.User)
	}
	p := &process{ended: make(chan struct{})}
	run := func(ctx context.Context) (int, error) { return c.run(ctx, user, cmd) }
	if cmd.Terminal != nil {
		p.terminal = newTerminal(c, &cmd)
		run = func(ctx context.Context) (int, error) { return c.onTerminal(ctx, p.terminal, user, cmd) }
	}
	ctx, p.cancel = context.WithCancelCause(ctx)
	unplug := context.AfterFunc(c.ctx, func() { p.cancel(machine.ErrOff) })
	go func() {
		defer c.runs.Done()
		defer close(p.ended)
		defer unplug()
		p.status, p.err = run(ctx)
		if ctx.Err() != nil {
			p.status, p.err = 0, context.Cause(ctx)
			if s, ok := errors.AsType[signalled](p.err); ok {
				p.status, p.err = 128+int(s), nil
			}
		}
		p.cancel(nil)
	}()
	return p, nil
}

// run runs a program to its end.
func (c *Computer) run(ctx context.Context, user accounts.User, cmd machine.Command) (int, error) {
	args := cmd.Args
	streamed := cmd.Streamed && len(args) > 0 // a shell without arguments reads its commands to the end anyway
	var stdin io.Reader
	var typed *feed
	if streamed {
		typed = newFeed(ctx, stdinOf(cmd))
		stdin = typed
	} else {
		b, err := readAll(ctx, cmd.Stdin)
		if err != nil {
			return 0, err
		}
		stdin = bytes.NewReader(b)
	}
	if len(args) == 0 {
		if base := path.Base(user.Shell); base == "nologin" || base == "false" {
			fmt.Fprintln(orDiscard(cmd.Stdout), "This account is currently not available.")
			return 1, nil
		}
		args = []string{cmp.Or(user.Shell, "/bin/bash"), "-l"}
	}
	job := c.job()
	job.Script, job.Name, job.Args = []byte(`"$@"`), "bash", args
	job.User, job.Dir = user.Name, cmp.Or(cmd.Dir, user.Home)
	job.Env = append(environment(user), cmd.Env...)
	job.Stdin, job.Stdout, job.Stderr = stdin, orDiscard(cmd.Stdout), orDiscard(cmd.Stderr)
	if streamed { // as on a terminal, its programs read only when they need input
		job.Terminal, job.State = true, &shell.State{Dir: job.Dir}
	}
	before := job.FS.Image()
	res, err := c.runJob(ctx, job)
	if len(vfs.Diff(before, job.FS.Image())) > 0 {
		c.volume.touch()
		if err := c.save(); err != nil {
			return 0, fmt.Errorf("saving the root volume: %w", err)
		}
	}
	if err != nil {
		return res.Status, fmt.Errorf("%w: %w", machine.ErrKilled, err)
	}
	if l := res.Login; l != nil { // the program started a shell, which reads the rest of the input: ssh HOST sudo -i < script
		if u, ok := accounts.FindUser(c.image.FS, l.User); ok {
			user = u
		}
		typed.reopen()
		return c.run(ctx, user, machine.Command{Env: l.Env, Dir: l.Dir, Stdin: typed, Stdout: cmd.Stdout, Stderr: cmd.Stderr})
	}
	return res.Status, nil
}

// A feed is the standard input of a program that reads it while it runs. Close abandons a pending Read without losing
// input that arrives later.
type feed struct {
	blocks    chan []byte // closed at the end of the input
	rest      []byte
	abandoned chan struct{}
}

func newFeed(ctx context.Context, r io.Reader) *feed {
	f := &feed{blocks: make(chan []byte), abandoned: make(chan struct{})}
	go func() {
		defer close(f.blocks)
		for {
			b := make([]byte, 4<<10)
			n, err := r.Read(b)
			if n > 0 {
				select {
				case f.blocks <- b[:n]:
				case <-ctx.Done():
					return
				}
			}
			if err != nil {
				return
			}
		}
	}()
	return f
}

// Read implements io.Reader.
func (f *feed) Read(p []byte) (int, error) {
	if len(f.rest) == 0 {
		select {
		case f.rest = <-f.blocks:
		case <-f.abandoned:
		}
		if len(f.rest) == 0 {
			return 0, io.EOF
		}
	}
	n := copy(p, f.rest)
	f.rest = f.rest[n:]
	return n, nil
}

// Close implements io.Closer. No more than one Read may be pending.
func (f *feed) Close() error {
	close(f.abandoned)
	return nil
}

// reopen lets the next program read.
func (f *feed) reopen() { f.abandoned = make(chan struct{}) }

// readAll reads a program's standard input, or as much of it as arrives before ctx ends.
func readAll(ctx context.Context, r io.Reader) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	type result struct {
		data []byte
		err  error
	}
	read := make(chan result, 1)
	go func() {
		data, err := io.ReadAll(io.LimitReader(r, maxStdin+1))
		if err == nil && len(data) > maxStdin {
			err = fmt.Errorf("%w: simulated machines read at most %d bytes of standard input", machine.ErrKilled, maxStdin)
		}
		read <- result{data, err}
	}()
	select {
	case r := <-read:
		return r.data, r.err
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func orDiscard(w io.Writer) io.Writer {
	if w == nil {
		return io.Discard
	}
	return w
}

// process is a running program.
type process struct {
	cancel context.CancelCauseFunc
	ended  chan struct{}
	status int
	// terminal is the terminal that the program runs on, or nil.
	terminal *terminal
	err      error
}

// signalled is the cause of a program's end by the signal with that number.
type signalled int

func (s signalled) Error() string { return fmt.Sprintf("ended by signal %d", int(s)) }

var signals = map[machine.Signal]signalled{
	machine.SIGHUP: 1, machine.SIGINT: 2, machine.SIGQUIT: 3, machine.SIGKILL: 9, machine.SIGTERM: 15,
}

// Wait implements machine.Process.
func (p *process) Wait() (int, error) {
	<-p.ended
	return p.status, p.err
}

// Signal implements machine.Process. Every signal ends a program, because programs cannot catch signals. The exception
// is an interrupt to a shell on a terminal, which ends only the command that the shell runs.
func (p *process) Signal(s machine.Signal) error {
	number, ok := signals[s]
	if !ok {
		return fmt.Errorf("unknown signal %q", s)
	}
	if p.terminal != nil && (s == machine.SIGINT || s == machine.SIGQUIT) {
		p.terminal.stop()
		return nil
	}
	p.cancel(number)
	return nil
}

// Resize implements machine.Process.
func (p *process) Resize(s machine.Size) error {
	if p.terminal != nil {
		p.terminal.resize(s)
	}
	return nil
}
