package sandbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"runtime/debug"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/guest/awscli"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// Limits of a script within its process. Infinite recursion overflows the stack, as it does in bash.
// The memory has room for several copies of the largest disk (package simulated).
const (
	maxStack  = 16 << 20
	maxMemory = 768 << 20
)

// Main is the child's main function: it runs one script after another until its parent closes the connection.
func Main(ctx context.Context, env childproc.Env) int {
	debug.SetMaxStack(maxStack)
	debug.SetMemoryLimit(maxMemory / 2)
	if err := childproc.LimitMemory(maxMemory); err != nil {
		fmt.Fprintln(os.Stderr, "limiting memory:", err)
		return 1
	}
	c := &child{env: env}
	for {
		b, err := env.Receive(ctx)
		if err != nil {
			return 0 // the parent has exited, or no longer needs this child
		}
		m, err := decode(b)
		if err != nil {
			fmt.Fprintln(os.Stderr, "an unexpected message:", err)
			return 1
		}
		if m.Job == nil {
			continue // a leftover for a script that has ended
		}
		if err := c.run(ctx, m.ID, m.Job); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
}

// A pendingCall is a program that the parent is running for the child. It holds what the program has printed since the
// last take, and its answer.
type pendingCall struct {
	changed chan struct{} // has room for one

	mu      sync.Mutex
	printed []byte
	answer  *answerMessage
	lost    bool // too much output is waiting, so the rest is discarded
}

// put never blocks, because the child must keep receiving. It returns true once, when so much output is waiting that the
// program should end.
func (p *pendingCall) put(a *answerMessage) (full bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	switch {
	case !a.More:
		p.answer = a
	case p.lost:
		return false
	case len(p.printed)+len(a.Stdout) > 2*maxProgramOutput:
		p.lost = true
		return true
	default:
		p.printed = append(p.printed, a.Stdout...)
	}
	select {
	case p.changed <- struct{}{}:
	default:
	}
	return false
}

// take returns what has been printed since the last take, and the answer if the program has ended.
func (p *pendingCall) take() (printed []byte, answer *answerMessage) {
	p.mu.Lock()
	defer p.mu.Unlock()
	printed, p.printed = p.printed, nil
	return printed, p.answer
}

type child struct {
	env childproc.Env

	calling sync.Mutex   // while a call is sent
	sent    []vfs.Record // the job's files at the last call
	lost    atomic.Bool  // the parent has none of them

	mu      sync.Mutex
	calls   int64
	pending map[int64]*pendingCall
	slots   chan struct{} // one is held for each program that the parent runs
}

func (c *child) tell(m message) error {
	b, err := encode(m)
	if err != nil {
		return err
	}
	return c.env.Report(b)
}

// run runs a job and passes on the parent's answers while the job runs.
func (c *child) run(ctx context.Context, id int64, job *jobMessage) error {
	files := vfs.New(job.Limits, nil)
	if err := files.Restore(job.Files); err != nil {
		return err
	}
	c.calling.Lock()
	c.sent = job.Files
	c.lost.Store(false)
	c.calling.Unlock()
	c.mu.Lock()
	c.pending, c.slots = map[int64]*pendingCall{}, make(chan struct{}, maxPrograms) // answers for earlier scripts are dropped
	c.mu.Unlock()
	ctx, cancel := context.WithCancel(ctx)
	ended := make(chan *endMessage, 1)
	stdin, typed := io.Reader(bytes.NewReader(job.Stdin)), make(chan *inputMessage, 1)
	if job.Terminal {
		stdin = &typist{ctx: ctx, typed: typed, want: func() error { return c.tell(message{ID: id, Want: true}) }}
	}
	go func() {
		defer cancel()
		res, err := shell.Run(ctx, shell.Job{
			FS: files, Script: job.Script, Name: job.Name, Args: job.Args, Env: job.Env, Dir: job.Dir, User: job.User, Host: job.Host,
			Stdin: stdin, Stdout: output{c, id, false}, Stderr: output{c, id, true},
			Outside: func(ctx context.Context, call *shell.Call) (int, bool) {
				return c.outside(ctx, id, files, call)
			},
			MaxCommands: job.MaxCommands, Patience: job.Patience, Programs: job.Programs,
			Terminal: job.Terminal, State: job.State,
		})
		ended <- &endMessage{Status: res.Status, Unknown: res.Unknown, Killed: errors.Is(err, shell.ErrTooManyCommands), Busy: res.Busy, State: res.State, Exited: res.Exited, Login: res.Login}
	}()
	for {
		b, err := c.env.Receive(ctx)
		if err != nil {
			break // the script has ended
		}
		m, err := decode(b)
		if err != nil {
			cancel()
			return fmt.Errorf("an unexpected message: %w", err)
		}
		if m.ID == id && m.Cancel {
			cancel()
		}
		if m.ID == id && m.Input != nil {
			select {
			case typed <- m.Input:
			default: // no program has asked for input
			}
		}
		if m.Answer == nil {
			continue
		}
		if m.ID == id && m.Answer.Lost {
			c.lost.Store(true)
		}
		c.mu.Lock()
		call, ok := c.pending[m.Answer.ID]
		if !m.Answer.More {
			delete(c.pending, m.Answer.ID)
		}
		c.mu.Unlock()
		if !ok {
			continue
		}
		if call.put(m.Answer) {
			go c.drop(id, m.Answer.ID) // sending may block while the parent is busy
		}
		if !m.Answer.More {
			<-c.slots
		}
	}
	end := <-ended
	end.Changes = vfs.Diff(job.Files, files.Image())
	c.calling.Lock()
	c.sent = nil
	c.calling.Unlock()
	return c.tell(message{ID: id, End: end})
}

// call sends a call with what has changed in the files since the last one.
func (c *child) call(job int64, files *vfs.FS, m *callMessage) error {
	c.calling.Lock()
	defer c.calling.Unlock()
	if m.All = c.lost.Swap(false); m.All {
		c.sent = nil
	}
	now := files.Image()
	m.Changes = vfs.Diff(c.sent, now)
	if err := c.tell(message{ID: job, Call: m}); err != nil {
		c.lost.Store(true)
		return err
	}
	c.sent = now
	return nil
}

// outside asks the parent to run a program.
func (c *child) outside(ctx context.Context, job int64, files *vfs.FS, call *shell.Call) (int, bool) {
	in := call.Stdin
	_, terminal := in.(*typist)
	if terminal {
		in = nil // programs that the parent runs read only pipes
	}
	var read bytes.Buffer
	if in != nil {
		in = io.TeeReader(in, &read)
	}
	stdin, err := ReadInput(in)
	long := errors.Is(err, errLongInput) // the program fails if it reads that far
	if err != nil && !long {
		fmt.Fprintf(call.Stderr, "%s: %v\n", call.Args[0], err)
		return 1, true
	}
	args, finish := call.Args, (func([]byte) int)(nil)
	if path.Base(args[0]) == "aws" {
		args, finish = awscli.Front(call)
	}
	select {
	case c.slots <- struct{}{}: // held until the answer arrives, even if nothing waits for it any more
	case <-ctx.Done():
		return 1, true
	}
	pending := &pendingCall{changed: make(chan struct{}, 1)}
	c.mu.Lock()
	c.calls++
	id := c.calls
	c.pending[id] = pending
	c.mu.Unlock()
	if err := c.call(job, files, &callMessage{
		ID: id, Args: args, Env: call.Environ(), Dir: call.Dir, User: call.User, Stdin: stdin, Long: long, Terminal: terminal,
	}); err != nil {
		c.mu.Lock()
		delete(c.pending, id)
		c.mu.Unlock()
		<-c.slots
		fmt.Fprintf(call.Stderr, "%s: %v\n", call.Args[0], err)
		return 1, true
	}
	printing := true
	for {
		select {
		case <-pending.changed:
		case <-ctx.Done():
			c.drop(job, id)
			return 1, true
		}
		printed, a := pending.take()
		if printing && len(printed) > 0 {
			if _, err := call.Stdout.Write(printed); err != nil {
				printing = false
				c.drop(job, id)
			}
		}
		if a == nil {
			continue
		}
		if err := files.Apply(a.Changes); err != nil {
			fmt.Fprintln(call.Stderr, err)
		}
		_, _ = call.Stderr.Write(a.Stderr) // the reader may be closed
		if finish != nil && a.Found && a.Status == 0 {
			return finish(a.Stdout), true
		}
		_, _ = call.Stdout.Write(a.Stdout)
		if !a.Found && read.Len() > 0 { // a script of that name may read it
			call.Stdin = io.MultiReader(&read, call.Stdin)
		}
		return a.Status, a.Found
	}
}

// drop tells the parent that the output of a program is no longer read.
func (c *child) drop(job, id int64) {
	_ = c.tell(message{ID: job, Drop: id}) // if the parent is gone, so is the program
}

var errLongInput = errors.New("on simulated machines, the standard input must not be longer than 1 MiB")

// ReadInput reads the standard input of a program that runs in another process, at most 1 MiB: it returns an error if there is
// more. r may be nil.
func ReadInput(r io.Reader) ([]byte, error) {
	if r == nil {
		return nil, nil
	}
	b, err := io.ReadAll(io.LimitReader(r, maxStdin+1))
	if err == nil && len(b) > maxStdin {
		return b[:maxStdin], errLongInput
	}
	return b, err
}

// An output sends what is written to it to the parent.
type output struct {
	c   *child
	job int64
	err bool
}

// maxOutput bounds what one message has of it, in bytes: a program may write all of a large file at once.
const maxOutput = 64 << 10

func (o output) Write(p []byte) (n int, err error) {
	for part := range slices.Chunk(p, maxOutput) {
		if err := o.c.tell(message{ID: o.job, Output: &outputMessage{Text: part, Err: o.err}}); err != nil {
			return n, err
		}
		n += len(part)
	}
	return n, nil
}

// A typist lets the programs of a job read the terminal. Each Read asks the parent for the next input.
type typist struct {
	ctx   context.Context
	want  func() error
	typed chan *inputMessage

	mu   sync.Mutex
	rest []byte
}

func (t *typist) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.rest) == 0 {
		if err := t.want(); err != nil {
			return 0, err
		}
		select {
		case in := <-t.typed:
			if in.EOF {
				return 0, io.EOF
			}
			t.rest = in.Text
		case <-t.ctx.Done():
			return 0, io.EOF
		}
	}
	n := copy(p, t.rest)
	t.rest = t.rest[n:]
	return n, nil
}
