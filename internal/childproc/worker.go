package childproc

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
)

// A WorkerSpec describes a child. Mode is required.
type WorkerSpec struct {
	// Mode is the name in Modes.
	Mode string
	// Executable is the program; by default this one.
	Executable string
	// Args come before the arguments that make the program a child.
	Args []string
	// Env is the child's environment, as "NAME=value".
	Env []string
	// Config is the child's configuration.
	Config []byte
	// Files are open files that the child gets as FirstFile and the following ones. Attr is that of Spec.
	Files []*os.File
	Attr  func(*syscall.SysProcAttr)
	// Output receives the child's standard output and error. Their beginning is also in the error when the child ends. It
	// may be nil.
	Output io.Writer
}

// A Worker is a child that exchanges messages with its parent. It is not restarted when it ends.
type Worker struct {
	down *os.File
	up   *os.File
	send sync.Mutex

	process *os.Process
	done    chan struct{}
	err     error // why it ended; read after done
	kill    sync.Once
}

// maxWorkerLog is how much of a worker's standard error is included in the error when it ends.
const maxWorkerLog = 4 << 10

// StartWorker starts a child, which ends by Kill, with its parent, or by itself.
func StartWorker(spec WorkerSpec) (*Worker, error) {
	exe := spec.Executable
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return nil, err
		}
	}
	downR, downW, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	upR, upW, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(err, downR.Close(), downW.Close())
	}
	log := &head{limit: maxWorkerLog}
	cmd := exec.Command(exe, append(append([]string{}, spec.Args...), command, spec.Mode)...) //nolint:noctx // Kill ends it
	cmd.Env = append([]string{}, spec.Env...)
	cmd.Stdout, cmd.Stderr = log, log
	if spec.Output != nil {
		out := io.MultiWriter(log, spec.Output)
		cmd.Stdout, cmd.Stderr = out, out
	}
	cmd.ExtraFiles = append([]*os.File{downR, upW}, spec.Files...)
	cmd.SysProcAttr = sysProcAttr()
	if spec.Attr != nil {
		spec.Attr(cmd.SysProcAttr)
	}
	w := &Worker{down: downW, up: upR, done: make(chan struct{})}
	started := make(chan error)
	go func() {
		// Pdeathsig watches the thread that started the child, so it must live as long.
		runtime.LockOSThread()
		defer runtime.UnlockOSThread()
		err := cmd.Start()
		_, _ = downR.Close(), upW.Close() // the child has its own copies
		started <- err
		if err != nil {
			return
		}
		defer close(w.done)
		if err := cmd.Wait(); err != nil {
			w.err = fmt.Errorf("%w: %s", err, log.text())
		}
	}()
	if err := <-started; err != nil {
		return nil, errors.Join(err, downW.Close(), upR.Close())
	}
	w.process = cmd.Process
	if err := w.Send(spec.Config); err != nil {
		w.Kill()
		return nil, err
	}
	return w, nil
}

// Send sends a message. It may be called concurrently.
func (w *Worker) Send(msg []byte) error {
	w.send.Lock()
	defer w.send.Unlock()
	return writeFrame(w.down, msg)
}

// Receive waits for the child's next message. If ctx ends, it kills the child.
func (w *Worker) Receive(ctx context.Context) ([]byte, error) { return w.ReceiveIf(ctx, nil) }

// errRefused says that a message was not admitted.
var errRefused = errors.New("a message of the child was refused")

// ReceiveIf is Receive with a function that is called with the size of the message before there is memory for it. If it returns
// an error, so does ReceiveIf, and nothing more can be received.
func (w *Worker) ReceiveIf(ctx context.Context, admit func(size int) error) ([]byte, error) {
	stop := context.AfterFunc(ctx, func() { _ = w.process.Kill() })
	defer stop()
	if ask := admit; ask != nil {
		admit = func(size int) error {
			if err := ask(size); err != nil {
				return fmt.Errorf("%w: %w", errRefused, err)
			}
			return nil
		}
	}
	msg, err := readFrame(w.up, admit)
	if err == nil || errors.Is(err, errRefused) {
		return msg, err
	}
	<-w.done // only the child closes the pipe
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if w.err != nil {
		return nil, fmt.Errorf("the child ended: %w", w.err)
	}
	return nil, fmt.Errorf("the child ended: %w", err)
}

// Done returns a channel that is closed when the child has ended.
func (w *Worker) Done() <-chan struct{} { return w.done }

// PID is the child's process ID.
func (w *Worker) PID() int { return w.process.Pid }

// Pause stops the child's process, or lets it continue. It does nothing if the child has ended.
func (w *Worker) Pause(stop bool) {
	signal := syscall.SIGCONT
	if stop {
		signal = syscall.SIGSTOP
	}
	_ = w.process.Signal(signal)
}

// Kill ends the child and returns when it has ended.
func (w *Worker) Kill() {
	w.kill.Do(func() {
		_ = w.process.Kill()
		<-w.done
		_, _ = w.down.Close(), w.up.Close()
	})
	<-w.done
}

// A head keeps the beginning of what is written to it.
type head struct {
	limit int
	mu    sync.Mutex
	buf   bytes.Buffer
}

func (h *head) Write(p []byte) (int, error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.buf.Write(p[:min(len(p), h.limit-h.buf.Len())])
	return len(p), nil
}

func (h *head) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.buf.String()
}
