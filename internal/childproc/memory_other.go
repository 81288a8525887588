//go:build !linux

package childproc

// LimitMemory does nothing: other systems have no limit that Go's runtime can work with.
func LimitMemory(uint64) error { return nil }
