// Package kubectl runs kubectl for a simulated machine, in a process of its own: kubectl takes tens of megabytes, and the
// user's input may make it take more.
//
// The child (package child) has a copy of the machine's files. It cannot open any file, connection or program of the host,
// whatever kubectl's code tries: its limit of open files is zero. It asks this process for what it needs: connections
// through the machine's network, and runs of the machine's own `aws` to get tokens. May be imported by packages under
// internal/node and by internal/compute; cmd/drydock names the child's main function.
package kubectl

import (
	"bytes"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path"
	"slices"
	"sync"
	"time"

	"github.com/xtaci/smux"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/sandbox"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// A Machine is what kubectl sees of the machine it runs on, besides the files.
type Machine struct {
	ID string
	// Dial connects to a host as a program on the machine does.
	Dial func(ctx context.Context, host string, port int) (net.Conn, error)
	// Run runs one of the machine's programs, such as aws.
	Run func(ctx context.Context, c *shell.Call) (status int, found bool)
}

// Config says how a Runner's children are started.
type Config struct {
	// Executable is the program to run as a child, and Args are its first arguments. Empty means this program.
	Executable string
	Args       []string
}

// A Runner runs kubectl. Its methods may be called concurrently.
type Runner struct {
	cfg   Config
	slots chan struct{}

	mu       sync.Mutex
	machines map[string]*turns // by ID, while kubectl runs on them or waits
}

// turns lets the kubectls of one machine wait for each other, so that they do not keep other machines waiting.
type turns struct {
	slots chan struct{}
	users int
}

const (
	maxRunning = 4 // at once on all machines, each with MaxMemory
	maxStreams = 32
	maxTime    = 20 * time.Minute

	maxPerMachine = 2
)

// MaxMemory is how much memory a child may take. The kernel ends a child that wants more.
const MaxMemory = 512 << 20

// New returns a Runner.
func New(cfg Config) *Runner {
	return &Runner{cfg: cfg, slots: make(chan struct{}, maxRunning), machines: map[string]*turns{}}
}

// join returns the turns of a machine. The caller calls leave at its end.
func (r *Runner) join(id string) (slots chan struct{}, leave func()) {
	r.mu.Lock()
	defer r.mu.Unlock()
	t := r.machines[id]
	if t == nil {
		t = &turns{slots: make(chan struct{}, maxPerMachine)}
		r.machines[id] = t
	}
	t.users++
	return t.slots, func() {
		r.mu.Lock()
		defer r.mu.Unlock()
		if t.users--; t.users == 0 {
			delete(r.machines, id)
		}
	}
}

// Run runs kubectl for a call and returns its exit status.
func (r *Runner) Run(ctx context.Context, c *shell.Call, m Machine) int {
	ctx, cancel := context.WithTimeout(ctx, maxTime)
	defer cancel()
	own, leave := r.join(m.ID)
	defer leave()
	for _, slots := range []chan struct{}{own, r.slots} {
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		case <-ctx.Done():
			return 130
		}
	}
	status, err := r.run(ctx, c, m)
	switch {
	case ctx.Err() != nil:
		return 130
	case err != nil:
		fmt.Fprintln(c.Stderr, "Killed")
		return 137
	}
	return status
}

func (r *Runner) run(ctx context.Context, c *shell.Call, m Machine) (int, error) {
	job := Job{Args: c.Args[1:], Env: c.Environ(), Dir: c.Dir}
	job.Files, job.Limits = c.FS.Snapshot()
	u, _ := accounts.FindUser(c.FS, c.User) // root's IDs if the user does not exist, as for other programs
	job.UID, job.GID = u.UID, u.GID
	var err error
	if job.Stdin, err = sandbox.ReadInput(c.Stdin); err != nil {
		fmt.Fprintln(c.Stderr, "error:", err)
		return 1, nil
	}
	var config bytes.Buffer
	if err := gob.NewEncoder(&config).Encode(job); err != nil {
		return 1, err
	}
	w, err := childproc.StartWorker(childproc.WorkerSpec{
		Mode: Mode, Executable: r.cfg.Executable, Args: r.cfg.Args, Config: config.Bytes(),
		Env: []string{"TMPDIR=" + os.DevNull, "GOMAXPROCS=2", "GOTRACEBACK=none", "PATH=" + os.DevNull, "TZ=UTC"},
	})
	if err != nil {
		return 1, err
	}
	defer w.Kill()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var streams sync.WaitGroup
	defer streams.Wait()
	mux, err := smux.Server(&Carrier{Message: w.Send, Next: func() ([]byte, error) { return w.Receive(ctx) }, End: cancel}, Streams())
	if err != nil {
		return 1, err
	}
	defer mux.Close()
	defer cancel() // ends the child
	control, err := mux.AcceptStream()
	if err != nil {
		return 1, err
	}
	streams.Go(func() {
		slots := make(chan struct{}, maxStreams)
		for {
			stream, err := mux.AcceptStream()
			if err != nil {
				return
			}
			select {
			case slots <- struct{}{}:
				streams.Go(func() {
					defer func() { <-slots }()
					defer stream.Close()
					serve(ctx, stream, c, job, m)
				})
			default:
				_ = stream.Close()
			}
		}
	})
	for {
		var req Request
		if err := Receive(control, &req); err != nil {
			return 1, err
		}
		if req.End {
			return req.Status, c.FS.Apply(req.Changes)
		}
		out := c.Stdout
		if req.Err {
			out = c.Stderr
		}
		if _, err := out.Write(req.Output); err != nil {
			return 1, err
		}
		if f, ok := out.(shell.Flusher); ok {
			if f.Flush() != nil {
				return 141, nil // SIGPIPE
			}
		}
	}
}

// serve answers one request of the child.
func serve(ctx context.Context, stream *smux.Stream, c *shell.Call, job Job, m Machine) {
	var req Request
	if Receive(stream, &req) != nil {
		return
	}
	if len(req.Run) > 0 {
		_ = Send(stream, runProgram(ctx, c, job, m, req)) // if the child is gone, it needs no answer
		return
	}
	if !req.Dial {
		return
	}
	conn, err := m.Dial(ctx, req.Host, req.Port)
	if err != nil {
		var ne net.Error
		_ = Send(stream, Reply{Error: err.Error(), Timeout: errors.As(err, &ne) && ne.Timeout()}) // as above
		return
	}
	defer conn.Close()
	if Send(stream, Reply{}) != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = io.Copy(conn, stream) // either end may close the connection at any time
		_ = conn.Close()
	}()
	_, _ = io.Copy(stream, conn) // as above
	_ = stream.Close()
	<-done
}

// runProgram runs a program of the machine that prints credentials. Others would run in this process without the limits of
// a child: kubectl itself, for one, could start the next kubectl.
func runProgram(ctx context.Context, c *shell.Call, job Job, m Machine, req Request) Reply {
	if !slices.Contains([]string{"aws", "aws-iam-authenticator"}, path.Base(req.Run[0])) {
		return Reply{Error: "on simulated machines, only aws and aws-iam-authenticator provide credentials, not " + req.Run[0]}
	}
	var stdout, stderr limited
	p := sandbox.Program{Args: req.Run, Env: req.Env, Dir: c.Dir, User: c.User, Files: job.Files, Limits: job.Limits}
	status, found, _ := p.Run(ctx, m.Run, &stdout, &stderr)
	if !found {
		return Reply{Error: NotFound}
	}
	return Reply{Status: status, Stdout: stdout.Bytes(), Stderr: stderr.Bytes()}
}

// limited keeps the beginning of a program's output.
type limited struct{ bytes.Buffer }

func (l *limited) Write(p []byte) (int, error) {
	if l.Len()+len(p) > 1<<20 {
		return 0, io.ErrShortWrite
	}
	return l.Buffer.Write(p)
}
