package cli

import "syscall"

// withParent has the kernel kill the child when its parent dies.
func withParent() *syscall.SysProcAttr { return &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
