package sandbox

import "golang.org/x/sys/unix"

// limitMemory bounds the memory that the process may write to. An allocation beyond the limit ends the process.
func limitMemory(bytes uint64) error {
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes})
}
