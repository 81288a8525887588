package cli

import "syscall"

// withParent has the kernel kill the child when its parent dies.
func withParent(child *syscall.SysProcAttr) { child.Pdeathsig = syscall.SIGKILL }
