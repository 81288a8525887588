package childproc

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"runtime"
	"sync"
	"syscall"
	"time"
)

// A Spec describes a child and how to run it. Mode, Config and LogFile are required.
type Spec struct {
	// Mode is the name in Modes.
	Mode string
	// Executable is the program; by default this one.
	Executable string
	// Args come before the arguments that make the program a child.
	Args []string
	// Env is the child's environment, as "NAME=value"; nil means empty.
	Env []string
	// Dir is the child's working folder.
	Dir string
	// Files returns open files that the child gets as FirstFile and the following ones. Attr changes how the process is
	// made, such as its namespaces. Both are called after Config, and may be nil.
	Files func() []*os.File
	Attr  func(*syscall.SysProcAttr)
	// Config returns the configuration of the next run. If it fails, that counts as a run that ended.
	Config func() ([]byte, error)
	// OnStart and OnExit are called for each run, in this order and never concurrently. In between, OnReport is
	// called for each message from the child. They must not call Stop. Any may be nil.
	OnStart  func(pid int)
	OnReport func(msg []byte)
	OnExit   func(err error)
	// LogFile receives the child's standard output and error. It and LogFile.1 together hold up to twice LogLimit
	// bytes, which is 4 MiB by default.
	LogFile  string
	LogLimit int64
	// StopGrace is how long a child may take to stop before it is killed; by
	// default 5 seconds.
	StopGrace time.Duration
	// MinBackoff is the delay before the first restart, doubled for each further
	// one up to MaxBackoff and reset by a run longer than MaxBackoff. By default
	// 250 ms and 30 s.
	MinBackoff, MaxBackoff time.Duration
	// Log receives messages about starts and ends.
	Log *slog.Logger
}

// A Supervisor keeps one child running.
type Supervisor struct {
	spec   Spec
	cancel context.CancelFunc
	done   chan struct{}

	hard sync.Once
	now  chan struct{} // closed to kill at once

	mu      sync.Mutex
	wake    chan struct{} // closed to end a back-off
	process *os.Process   // nil if no child runs
	last    bool          // the child is not restarted

	sending sync.Mutex
	down    *os.File // nil if no child has its configuration
}

// Supervise starts a child and restarts it whenever it ends, until ctx ends or Stop is called.
func Supervise(ctx context.Context, spec Spec) *Supervisor {
	if spec.LogLimit == 0 {
		spec.LogLimit = 4 << 20
	}
	if spec.StopGrace == 0 {
		spec.StopGrace = 5 * time.Second
	}
	if spec.MinBackoff == 0 {
		spec.MinBackoff = 250 * time.Millisecond
	}
	if spec.MaxBackoff == 0 {
		spec.MaxBackoff = 30 * time.Second
	}
	if spec.Log == nil {
		spec.Log = slog.Default()
	}
	if spec.Env == nil {
		spec.Env = []string{}
	}
	ctx, cancel := context.WithCancel(ctx)
	s := &Supervisor{spec: spec, cancel: cancel, done: make(chan struct{}), now: make(chan struct{}), wake: make(chan struct{})}
	go s.run(ctx)
	return s
}

// Stop ends the child and returns when it has ended. It may be called again.
func (s *Supervisor) Stop() {
	s.cancel()
	<-s.done
}

// Kill is Stop without giving the child time to end by itself.
func (s *Supervisor) Kill() {
	s.hard.Do(func() { close(s.now) })
	s.Stop()
}

// Send sends a message to the running child.
func (s *Supervisor) Send(msg []byte) error {
	s.sending.Lock()
	defer s.sending.Unlock()
	if s.down == nil {
		return errors.New("the child process is not running")
	}
	return writeFrame(s.down, msg)
}

// Retire sends the child a message that makes it end by itself, does not restart it, and returns when it has ended. A
// child that takes longer than grace is killed.
func (s *Supervisor) Retire(msg []byte, grace time.Duration) {
	s.mu.Lock()
	s.last = true
	s.mu.Unlock()
	if err := s.Send(msg); err != nil {
		s.Kill()
		return
	}
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-s.done:
	case <-timer.C:
		s.spec.Log.Warn("child process did not end in time, killing it", "mode", s.spec.Mode)
		s.Kill()
	}
}

// Done returns a channel that is closed when the child has ended for good.
func (s *Supervisor) Done() <-chan struct{} { return s.done }

// RestartNow ends the wait before the next restart, if there is one.
func (s *Supervisor) RestartNow() {
	s.mu.Lock()
	defer s.mu.Unlock()
	close(s.wake)
	s.wake = make(chan struct{})
}

// KillRun kills the running child, if there is one, because it hangs. It is restarted.
func (s *Supervisor) KillRun() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.process != nil {
		_ = s.process.Kill() // it may have just ended
	}
}

func (s *Supervisor) setProcess(p *os.Process) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.process = p
}

// LogTail returns the last lines of a log file, about 4 kB.
func LogTail(path string) string { return tail(path, 4<<10) }

func (s *Supervisor) run(ctx context.Context) {
	defer close(s.done)
	defer s.cancel()
	// Pdeathsig watches the thread that started the child. This thread lives as long as the child may.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()

	backoff := s.spec.MinBackoff
	for ctx.Err() == nil {
		began := time.Now()
		err := s.runOnce(ctx)
		if s.spec.OnExit != nil {
			s.spec.OnExit(err)
		}
		s.mu.Lock()
		wake, last := s.wake, s.last
		s.mu.Unlock()
		if ctx.Err() != nil || last {
			return
		}
		if time.Since(began) > s.spec.MaxBackoff {
			backoff = s.spec.MinBackoff
		}
		s.spec.Log.Warn("child process ended, restarting it", "mode", s.spec.Mode, "err", err, "in", backoff)
		timer := time.NewTimer(backoff)
		select {
		case <-ctx.Done():
		case <-wake:
		case <-timer.C:
		}
		timer.Stop()
		backoff = min(2*backoff, s.spec.MaxBackoff)
	}
}

// runOnce runs the child once and returns why it ended, never nil.
func (s *Supervisor) runOnce(ctx context.Context) error {
	config, err := s.spec.Config()
	if err != nil {
		return fmt.Errorf("preparing: %w", err)
	}
	exe := s.spec.Executable
	if exe == "" {
		if exe, err = os.Executable(); err != nil {
			return err
		}
	}
	logs, err := openLog(s.spec.LogFile, s.spec.LogLimit)
	if err != nil {
		return err
	}
	defer logs.Close()
	downR, downW, err := os.Pipe()
	if err != nil {
		return err
	}
	defer downW.Close()
	upR, upW, err := os.Pipe()
	if err != nil {
		downR.Close()
		return err
	}
	defer upR.Close()

	// CommandContext would kill at once; the code below first asks the child to stop.
	cmd := exec.Command(exe, append(append([]string{}, s.spec.Args...), command, s.spec.Mode)...) //nolint:noctx // see above
	cmd.Dir, cmd.Env = s.spec.Dir, s.spec.Env
	cmd.Stdout, cmd.Stderr = logs, logs
	cmd.ExtraFiles = []*os.File{downR, upW}
	if s.spec.Files != nil {
		cmd.ExtraFiles = append(cmd.ExtraFiles, s.spec.Files()...)
	}
	cmd.SysProcAttr = sysProcAttr()
	if s.spec.Attr != nil {
		s.spec.Attr(cmd.SysProcAttr)
	}
	cmd.WaitDelay = time.Second
	err = cmd.Start()
	downR.Close()
	upW.Close()
	if err != nil {
		return err
	}
	s.setProcess(cmd.Process)
	if s.spec.OnStart != nil {
		s.spec.OnStart(cmd.Process.Pid)
	}

	var helpers sync.WaitGroup
	defer func() {
		helpers.Wait()
		s.sending.Lock()
		s.down = nil
		s.sending.Unlock()
	}()
	gone := make(chan struct{})
	defer close(gone)
	helpers.Go(func() {
		// This closes the pipe, and kills the child if it does not end.
		select {
		case <-gone:
			return
		case <-ctx.Done():
		}
		downW.Close()
		timer := time.NewTimer(s.spec.StopGrace)
		defer timer.Stop()
		select {
		case <-gone:
			return
		case <-s.now:
		case <-timer.C:
			s.spec.Log.Warn("child process did not stop in time, killing it", "mode", s.spec.Mode, "pid", cmd.Process.Pid)
		}
		_ = cmd.Process.Kill()
	})
	reports := make(chan struct{})
	helpers.Go(func() {
		defer close(reports)
		for {
			msg, err := readFrame(upR, nil)
			if err != nil {
				return
			}
			if s.spec.OnReport != nil {
				s.spec.OnReport(msg)
			}
		}
	})
	helpers.Go(func() {
		// This fails if the child ends early; its exit explains more.
		s.sending.Lock()
		defer s.sending.Unlock()
		if writeFrame(downW, config) == nil {
			s.down = downW
		}
	})
	err = cmd.Wait()
	s.setProcess(nil)
	if errors.Is(err, exec.ErrWaitDelay) {
		err = nil
	}
	<-reports
	if err == nil {
		err = errors.New("stopped unexpectedly with exit code 0")
	}
	return err
}
