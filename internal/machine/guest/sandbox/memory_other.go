//go:build !linux

package sandbox

// limitMemory does nothing: other systems have no limit that Go's runtime can work with.
func limitMemory(uint64) error { return nil }
