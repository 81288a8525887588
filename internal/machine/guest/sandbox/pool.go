package sandbox

import (
	"context"
	"errors"
	"fmt"
	"os"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drydock-dev/drydock/internal/childproc"
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
