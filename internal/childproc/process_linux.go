package childproc

import "syscall"

// sysProcAttr puts the child into a process group of its own, so that a Ctrl-C meant for the parent does not reach
// it, and makes the kernel kill it when the parent dies. Closing the pipe ends it too, unless the child hangs. The
// signal is sent when the parent's *thread* ends, see Supervisor.runOnce.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}
