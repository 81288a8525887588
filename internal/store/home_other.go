//go:build !linux

package store

// isTmpfs: no tmpfs is known here.
func isTmpfs(string) bool { return false }
