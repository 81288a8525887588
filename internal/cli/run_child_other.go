//go:build !linux

package cli

import "syscall"

// withParent: a child outlives a parent that is killed.
func withParent(*syscall.SysProcAttr) {}
