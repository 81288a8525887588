package sandbox

import "golang.org/x/sys/unix"

// limitMemory bounds the memory that the process may write to. What asks for more
// ends it.
func limitMemory(bytes uint64) error {
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes})
}
