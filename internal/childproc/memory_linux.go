package childproc

import "golang.org/x/sys/unix"

// LimitMemory bounds the memory that this process may write to. An allocation beyond the limit ends the process.
func LimitMemory(bytes uint64) error {
	return unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: bytes, Max: bytes})
}
