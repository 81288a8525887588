package cli

import (
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"runtime"
	"syscall"

	"golang.org/x/sys/unix"
)

// passedOn are the signals that are passed on to a child.
var passedOn = []os.Signal{syscall.SIGINT, syscall.SIGTERM, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGUSR1, syscall.SIGUSR2}

// child is a program to run, by its path.
func child(path string, args, env []string) *exec.Cmd {
	cmd := exec.Command(path) //nolint:noctx // it ends when it wants to, or by a signal
	cmd.Args, cmd.Env, cmd.SysProcAttr = args, env, &syscall.SysProcAttr{}
	return cmd
}

// runChild runs a program in the place of this process as far as that goes: with its
// streams, signals and exit code. On Linux the program is killed when this process
// dies. Of several ways to start it, the first that the system permits is taken.
func (o *globalOptions) runChild(ways ...*exec.Cmd) error {
	signals := make(chan os.Signal, 16)
	signal.Notify(signals, passedOn...)
	defer signal.Stop(signals)
	// The kernel treats the end of the thread as that of the process.
	runtime.LockOSThread()
	defer runtime.UnlockOSThread()
	cmd, err := o.start(ways)
	if err != nil {
		return &ExitError{126, err}
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	for {
		select {
		case s := <-signals:
			if (s == syscall.SIGINT || s == syscall.SIGQUIT) && inForeground() {
				continue // it came from the keyboard, so the terminal has signalled the child too
			}
			_ = cmd.Process.Signal(s) // the child may have ended
		case err := <-done:
			var exit *exec.ExitError
			if !errors.As(err, &exit) {
				return err
			}
			if ws, ok := exit.Sys().(syscall.WaitStatus); ok && ws.Signaled() {
				return &ExitError{Code: 128 + int(ws.Signal())}
			}
			return &ExitError{Code: exit.ExitCode()}
		}
	}
}

func (o *globalOptions) start(ways []*exec.Cmd) (cmd *exec.Cmd, err error) {
	for _, cmd = range ways {
		cmd.Stdin, cmd.Stdout, cmd.Stderr = o.streams.In, o.streams.Out, o.streams.Err
		withParent(cmd.SysProcAttr)
		if err = cmd.Start(); err == nil {
			break
		}
	}
	return cmd, err
}

// inForeground reports whether this process gets its terminal's signals.
func inForeground() bool {
	tty, err := os.Open("/dev/tty")
	if err != nil {
		return false // there is no terminal
	}
	defer tty.Close()
	group, err := unix.IoctlGetInt(int(tty.Fd()), unix.TIOCGPGRP)
	return err == nil && group == unix.Getpgrp()
}
