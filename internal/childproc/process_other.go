//go:build !linux

package childproc

import "syscall"

// sysProcAttr puts the child into a process group of its own, so that a Ctrl-C
// meant for the parent does not reach it.
func sysProcAttr() *syscall.SysProcAttr {
	return &syscall.SysProcAttr{Setpgid: true}
}
