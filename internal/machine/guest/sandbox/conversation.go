package sandbox

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"golang.org/x/sync/semaphore"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

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
