package store

import "golang.org/x/sys/unix"

// isTmpfs reports whether dir is in memory.
func isTmpfs(dir string) bool {
	var st unix.Statfs_t
	return unix.Statfs(dir, &st) == nil && int64(st.Type) == unix.TMPFS_MAGIC
}
