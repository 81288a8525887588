package sandbox

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// Config says how a Pool's children are started.
type Config struct {
	// Executable is the program to run as a child. Empty means this program.
	Executable string
	// Args come before the arguments that make the program a child.
	Args []string
	// Size is how many scripts may run at once, each in its own process. 0 means several per processor, because many
	// scripts only wait, but at most maxScripts.
	Size int
	// Timeout is how long a script may take; 0 means two minutes.
	Timeout time.Duration
}

// A Pool runs scripts in child processes, which it reuses.
type Pool struct {
	cfg              Config
	slots, terminals chan struct{}

	jobs   atomic.Int64
	mu     sync.Mutex
	idle   []*childproc.Worker
	closed bool
	runs   sync.WaitGroup
	large  sync.Mutex          // of alone
	kept   *vfs.Budget         // bytes of files that are here for running scripts and programs
	frames *semaphore.Weighted // bytes of large messages that arrive
}

// The files that this process holds for all running scripts and programs together, besides the machines' disks, are bounded in
// bytes. A script has a copy of its machine's files here, as of its last call, and so has each program. Every copy has ownCopy
// bytes for itself, so that small machines do not suffer from large ones, and maxKept is for what they all have beyond that. If no
// more can be held, programs do not start, and those that run find the disk full.
const (
	ownCopy = 2 << 20
	maxKept = 512 << 20
)

// maxFrames bounds the large messages from scripts that arrive at once, in bytes. Each waits for its turn: nothing that takes
// place before such a message has been handled waits for a program.
const maxFrames = 160 << 20

// alone waits until no other large message is encoded or decoded, which takes several times its memory. Size is that of the
// message, in bytes. Nothing that runs until done waits for a program, so programs may wait for each other: encoding and
// decoding wait for nothing, and a job is also sent until then, but to a child that has nothing else to do than to receive it.
func (p *Pool) alone(size int64) (done func()) {
	if !isLarge(size) {
		return func() {}
	}
	p.large.Lock()
	return p.large.Unlock
}

// isLarge reports whether a message is larger than the disk of a machine that uses nothing of the machines' common budget.
func isLarge(size int64) bool { return size > vfs.DefaultLimits.Bytes }

// maxIdle is how many idle children are kept.
const maxIdle = 2

// maxTotal bounds the memory of all processes of a pool together, in bytes, even if hostile user data and users take as much
// as they can. The kernel limits each process to maxMemory (childproc.LimitMemory), so bounding their number is enough. A
// third of them is for scripts, because open terminals must not keep machines from booting, and the rest for the jobs of
// terminals. Further ones wait for their turn.
const (
	maxTotal     = 24 << 30
	maxScripts   = maxTotal / 3 / maxMemory
	maxTerminals = maxTotal/maxMemory - maxScripts
)

// maxTerminal is how long a job of a terminal may take.
const maxTerminal = 20 * time.Minute

// ErrKilled says that a script's process died: the script used too much memory, or recursed without end.
var ErrKilled = errors.New("the script was killed")

// ErrTimeout says that a script took too long.
var ErrTimeout = errors.New("the script was killed: it took too long")

// NewPool returns a pool. It starts no process before the first Run.
func NewPool(cfg Config) *Pool {
	if cfg.Size == 0 {
		cfg.Size = min(4*runtime.GOMAXPROCS(0), maxScripts)
	}
	if cfg.Timeout == 0 {
		cfg.Timeout = 2 * time.Minute
	}
	return &Pool{
		cfg: cfg, slots: make(chan struct{}, cfg.Size), terminals: make(chan struct{}, maxTerminals),
		kept: vfs.NewBudget(maxKept), frames: semaphore.NewWeighted(maxFrames),
	}
}

// Close ends all children. Running scripts are only killed when the ctx of their Run ends.
func (p *Pool) Close() {
	p.mu.Lock()
	p.closed = true
	idle := p.idle
	p.idle = nil
	p.mu.Unlock()
	for _, w := range idle {
		w.Kill()
	}
	p.runs.Wait()
}

// Run is shell.Run in a child process. When Run returns, Job.FS contains what the script has changed. Job.Outside
// runs in this process, on a copy of the script's files.
func (p *Pool) Run(ctx context.Context, job shell.Job) (shell.Result, error) {
	p.runs.Add(1)
	defer p.runs.Done()
	slots := p.slots
	if job.Terminal {
		slots = p.terminals
	}
	select {
	case slots <- struct{}{}:
		defer func() { <-slots }()
	case <-job.Interrupt:
		return shell.Result{Status: 130}, nil
	case <-ctx.Done():
		return shell.Result{}, ctx.Err()
	}
	for {
		w, used, err := p.worker()
		if err != nil {
			return shell.Result{}, fmt.Errorf("starting a process for scripts: %w", err)
		}
		c := &conversation{pool: p, w: w, job: job, id: p.jobs.Add(1), answering: semaphore.NewWeighted(maxPrograms)}
		res, err := c.run(ctx)
		if c.clean && ctx.Err() == nil {
			p.put(w)
			return res, err
		}
		w.Kill()
		if used && !c.heard && ctx.Err() == nil {
			continue // it had died since its last script
		}
		return res, err
	}
}

// worker returns a child, and whether it has run scripts before.
func (p *Pool) worker() (w *childproc.Worker, used bool, err error) {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return nil, false, errors.New("the pool is closed")
	}
	if n := len(p.idle); n > 0 {
		w := p.idle[n-1]
		p.idle = p.idle[:n-1]
		p.mu.Unlock()
		return w, true, nil
	}
	p.mu.Unlock()
	w, err = childproc.StartWorker(childproc.WorkerSpec{
		Mode: Mode, Executable: p.cfg.Executable, Args: p.cfg.Args,
		Env: []string{"TMPDIR=/dev/null/none", "GOMAXPROCS=2", "GOTRACEBACK=none", "PATH=" + os.DevNull},
	})
	return w, false, err
}

func (p *Pool) put(w *childproc.Worker) {
	p.mu.Lock()
	if !p.closed && len(p.idle) < maxIdle {
		p.idle = append(p.idle, w)
		w = nil
	}
	p.mu.Unlock()
	if w != nil {
		w.Kill()
	}
}

// A conversation is the exchange with one child about one script.
type conversation struct {
	pool *Pool
	w    *childproc.Worker
	job  shell.Job
	id   int64

	heard bool // the child has sent something
	clean bool // the child may run another script

	files  *vfs.FS // the job's files as of the child's last call, or nil if there was no memory for them
	limits vfs.Limits
	forget func()

	stopping sync.Mutex // of the fields below
	stopped  bool       // the job is to be stopped
	arriving bool       // a large message arrives, so the process continues until then

	answering *semaphore.Weighted // 1 is held while a large answer is sent
	deaf      bool                // such an answer was not received in time
}

// receipt is how long the next message waits until the child has received large answers.
const receipt = time.Second

// awaitReceipt waits until the child has received the large answers that are being sent: their files may make room for those that
// it sends. A child whose script has ended sends without receiving, so the wait is bounded, and further messages do not wait for
// the same answers.
func (c *conversation) awaitReceipt(ctx context.Context) {
	received := c.answering.TryAcquire(maxPrograms)
	if !received && !c.deaf {
		ctx, cancel := context.WithTimeout(ctx, receipt)
		defer cancel()
		received = c.answering.Acquire(ctx, maxPrograms) == nil
	}
	if received {
		c.answering.Release(maxPrograms)
	}
	c.deaf = !received
}

// pause stops the job, or lets it continue.
func (c *conversation) pause(stop bool) {
	c.stopping.Lock()
	defer c.stopping.Unlock()
	if c.stopped = stop; !c.arriving {
		c.w.Pause(stop)
	}
}

// arrive says whether a large message arrives. Such a message holds up those of other machines, so the process of a stopped job
// continues to send it.
func (c *conversation) arrive(begins bool) {
	c.stopping.Lock()
	defer c.stopping.Unlock()
	if c.arriving = begins; c.stopped {
		c.w.Pause(!begins)
	}
}

func (c *conversation) send(m message) error {
	m.ID = c.id
	var size int64
	if m.Answer != nil {
		size = sizeOfChanges(m.Answer.Changes)
	}
	done := c.pool.alone(size)
	b, err := encode(m)
	done() // before sending, because a stopped child does not receive
	if err != nil {
		return err
	}
	return c.w.Send(b)
}

// grace is how long a script that took too long has to report its changes.
const grace = 3 * time.Second

// run sends the job and answers the child until it ends.
func (c *conversation) run(ctx context.Context) (shell.Result, error) {
	job := c.job
	var stdin []byte
	timeout := c.pool.cfg.Timeout
	if job.Terminal {
		timeout = maxTerminal
	} else {
		var err error
		if stdin, err = ReadInput(job.Stdin); err != nil {
			return shell.Result{}, err
		}
	}
	limited, cancel := context.WithTimeout(ctx, timeout+grace)
	defer cancel()
	defer context.AfterFunc(limited, c.w.Kill)() // also while a message is being sent
	first, limits := job.FS.Snapshot()
	c.limits, c.forget = limits, func() {}
	defer func() { c.forget() }()
	if err := c.keep(first); err != nil {
		c.clean = true
		if !errors.Is(err, syscall.ENOMEM) {
			return shell.Result{}, fmt.Errorf("copying the files for a script: %w", err)
		}
		if job.Stderr != nil {
			fmt.Fprintf(job.Stderr, "%s: fork: Cannot allocate memory\n", cmp.Or(job.Name, "bash"))
		}
		return shell.Result{Status: 254}, nil
	}
	data, names := sizeOf(first)
	sent := c.pool.alone(data + names)
	err := c.send(message{Job: &jobMessage{
		Files: first, Limits: limits, Script: job.Script, Name: job.Name, Args: job.Args, Env: job.Env,
		Dir: job.Dir, User: job.User, Host: job.Host, Stdin: stdin, MaxCommands: job.MaxCommands, Patience: job.Patience, Programs: job.Programs,
		Terminal: job.Terminal, State: job.State,
	}})
	sent()
	first = nil // the job may have time to replace all of it
	if ctx.Err() != nil {
		return shell.Result{}, ctx.Err()
	} else if err != nil {
		return shell.Result{Status: 137}, fmt.Errorf("%w: %w", ErrKilled, err)
	}
	late := time.AfterFunc(timeout, func() { _ = c.send(message{Cancel: true}) }) // Receive below notices a dead child
	defer late.Stop()
	calls, stopCalls := context.WithCancel(limited)
	var running sync.WaitGroup
	slots := make(chan struct{}, maxPrograms)
	var programs sync.Map // the cancel functions of the running programs, by ID
	defer running.Wait()
	if c, ok := job.Stdin.(io.Closer); ok && job.Terminal {
		defer c.Close() // a program may still be waiting for input
	}
	defer stopCalls()
	if job.Interrupt != nil {
		running.Go(func() {
			for {
				select {
				case pause := <-job.Pause:
					c.pause(pause)
					continue
				case <-job.Interrupt:
					c.pause(false)
					_ = c.send(message{Cancel: true}) // Receive below notices a dead child
				case <-calls.Done():
					c.pause(false) // the process may run another script
				}
				return
			}
		})
	}
	var reading atomic.Bool // whether the terminal is being read; a correct child does not ask again until it has the input
	begin := time.Now()
	tooLate := func() bool { return ctx.Err() == nil && time.Since(begin) >= timeout }
	for {
		held := int64(0) // of the message
		b, err := c.w.ReceiveIf(limited, func(size int) error {
			if !isLarge(int64(size)) {
				return nil
			}
			if err := c.pool.frames.Acquire(limited, min(int64(size), maxFrames)); err != nil {
				return err
			}
			held = min(int64(size), maxFrames)
			c.arrive(true)
			return nil
		})
		if err == nil {
			c.awaitReceipt(limited)
		}
		if held > 0 {
			c.arrive(false)
		}
		handled := func() {
			c.pool.frames.Release(held)
			held = 0
		}
		if err != nil {
			handled()
			if tooLate() {
				return shell.Result{Status: 137}, ErrTimeout
			}
			return shell.Result{Status: 137}, fmt.Errorf("%w: %w", ErrKilled, err)
		}
		c.heard = true
		done := c.pool.alone(int64(len(b)))
		m, err := decode(b)
		b = nil
		var kept error
		if err == nil && m.ID == c.id {
			switch {
			case m.Call != nil:
				kept = c.update(m.Call)
			case m.End != nil:
				kept = job.FS.Apply(m.End.Changes)
			}
		}
		done()
		handled()
		switch {
		case err != nil:
			return shell.Result{Status: 137}, err
		case m.ID != c.id: // a leftover from another script
		case m.Output != nil:
			out := job.Stdout
			if m.Output.Err {
				out = job.Stderr
			}
			if out != nil {
				_, _ = out.Write(m.Output.Text) // the writer is our own
			}
		case m.Want && job.Terminal:
			if !reading.CompareAndSwap(false, true) {
				continue
			}
			running.Go(func() {
				b := make([]byte, 4<<10)
				n, err := job.Stdin.Read(b)
				reading.Store(false)                                                              // before the child can ask again
				_ = c.send(message{Input: &inputMessage{Text: b[:n], EOF: n == 0 && err != nil}}) // as above
			})
		case m.Call != nil:
			select {
			case slots <- struct{}{}:
			default: // the child limits them, too; waiting here would keep us from receiving
				return shell.Result{Status: 137}, fmt.Errorf("%w: more than %d programs at once", ErrKilled, maxPrograms)
			}
			called, cancel := context.WithCancel(calls)
			programs.Store(m.Call.ID, cancel)
			files, forget, err := c.copy()
			lost := c.files == nil
			running.Go(func() {
				defer cancel()
				defer programs.Delete(m.Call.ID)
				a := &answerMessage{ID: m.Call.ID, Status: 126, Found: true, Stderr: []byte(noMemory), Lost: lost}
				switch {
				case err != nil && !errors.Is(err, syscall.ENOMEM):
					a.Stderr = []byte(err.Error() + "\n")
				case err == nil:
					a = answer(called, job, files, limits, m.Call, func(a *answerMessage) error { return c.send(message{Answer: a}) })
				}
				large := isLarge(sizeOfChanges(a.Changes))
				if !large {
					forget()
				}
				<-slots    // before the child learns that it may send the next one
				if large { // a stopped child does not receive, so its files count until then
					if c.answering.Acquire(limited, 1) == nil {
						defer c.answering.Release(1)
					}
					defer forget()
				}
				_ = c.send(message{Answer: a}) // a dead child needs no answer; Receive notices it
			})
		case m.Drop != 0:
			if cancel, ok := programs.Load(m.Drop); ok {
				cancel.(context.CancelFunc)()
			}
		case m.End != nil:
			c.clean = !m.End.Busy && len(slots) == 0 && !tooLate()
			res := shell.Result{Status: m.End.Status, Unknown: m.End.Unknown, State: m.End.State, Exited: m.End.Exited, Login: m.End.Login}
			switch {
			case kept != nil:
				return res, kept
			case tooLate():
				return res, ErrTimeout
			case m.End.Killed:
				return res, shell.ErrTooManyCommands
			}
			return res, nil
		}
	}
}

// recordSize is about what a file takes besides its names and its content, in bytes.
const recordSize = 256

// sizeOf returns the size of an image's files in bytes, and that of everything else in it.
func sizeOf(image []vfs.Record) (data, names int64) {
	for i := range image {
		data += int64(len(image[i].Data))
		names += int64(len(image[i].Path) + len(image[i].Target) + recordSize)
	}
	return data, names
}

func sizeOfChanges(changes []vfs.Change) int64 {
	var n int64
	for i := range changes {
		n += int64(len(changes[i].Data) + len(changes[i].Path) + len(changes[i].Target) + recordSize)
	}
	return n
}

// copyOf returns a file system with an image's files. Until it is forgotten, it may grow as far as the limits and the memory for
// all scripts and programs allow.
func (p *Pool) copyOf(image []vfs.Record, limits vfs.Limits) (files *vfs.FS, forget func(), err error) {
	data, names := sizeOf(image)
	own := max(data+names, ownCopy)
	if !p.kept.Take(own - ownCopy) {
		return nil, func() {}, syscall.ENOMEM
	}
	files = vfs.New(vfs.Limits{Bytes: min(own-names, limits.Bytes), Files: limits.Files}, nil)
	files.Share(p.kept, limits.Bytes)
	forget = func() {
		files.Release()
		p.kept.Give(own - ownCopy)
	}
	if err := files.Restore(image); err != nil {
		forget()
		return nil, func() {}, err
	}
	return files, forget, nil
}

// keep makes an image the job's files.
func (c *conversation) keep(image []vfs.Record) (err error) {
	c.forget()
	c.files, c.forget, err = c.pool.copyOf(image, c.limits)
	return err
}

// update makes the job's files those of a call. If there is no memory for them, they are lost until a call brings all of them.
func (c *conversation) update(m *callMessage) error {
	var err error
	switch {
	case m.All:
		err = c.keep(nil)
	case c.files == nil:
		err = syscall.ENOMEM
	}
	if err == nil {
		err = c.files.Apply(m.Changes)
	}
	if err != nil {
		c.forget()
		c.files, c.forget = nil, func() {}
	}
	m.Changes = nil
	return err
}

// copy returns a copy of the job's files for a program.
func (c *conversation) copy() (files *vfs.FS, forget func(), err error) {
	if c.files == nil {
		return nil, func() {}, syscall.ENOMEM
	}
	return c.pool.copyOf(c.files.Image(), c.limits)
}

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
