package store

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

const (
	// maxSocketPath is the longest unix socket path that works everywhere (macOS: 104 with the zero byte).
	maxSocketPath = 100
	// tmpfsFree is how much free space a tmpfs needs to be chosen for an ephemeral store.
	tmpfsFree = 1 << 30
	// tmpPrefix is the name prefix of our temporary folders.
	tmpPrefix = "drydock-store-"
	// abandonedAfter is how old an ephemeral store that no process has open must be to be removed. A younger one may
	// not have been locked yet.
	abandonedAfter = time.Minute
)

// A home is the locked folder of an embedded etcd:
//
//	lock       flocked by the process that has it open; contains its pid
//	etcd/      etcd's data
//	etcd.sock  its socket, unless the path is too long
//	socket     in that case: the path of the socket
type home struct {
	dir    string
	socket string
	lock   *os.File
	remove []string // removed by close
}

func (h *home) data() string { return filepath.Join(h.dir, "etcd") }

// openHome creates and locks the folder.
func openHome(dir string) (*home, error) {
	if dir == "" {
		return nil, errors.New("no data folder: choose one with --data-dir, or use --ephemeral")
	}
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, unusable(dir, err)
	}
	h := &home{dir: dir}
	if err := h.acquire(); err != nil {
		return nil, err
	}
	if err := h.placeSocket(); err != nil {
		_ = h.close()
		return nil, unusable(dir, err)
	}
	return h, nil
}

// unusable turns a file system error into one line.
func unusable(dir string, err error) error {
	var pe *fs.PathError
	if errors.As(err, &pe) {
		err = pe.Err
	}
	hint := "choose another with --data-dir"
	if errors.Is(err, fs.ErrPermission) {
		hint = fmt.Sprintf("give user %d permission to write there, or choose another with --data-dir", os.Getuid())
	}
	return fmt.Errorf("data folder %s cannot be used: %w; %s", dir, err, hint)
}

func (h *home) acquire() error {
	f, err := os.OpenFile(filepath.Join(h.dir, "lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return unusable(h.dir, err)
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		defer f.Close()
		if !errors.Is(err, unix.EWOULDBLOCK) {
			return unusable(h.dir, err)
		}
		holder := ""
		raw := make([]byte, 32)
		if n, _ := f.ReadAt(raw, 0); n > 0 {
			holder = " by process " + strings.TrimSpace(string(raw[:n]))
		}
		return fmt.Errorf("%w%s: %s; stop that Drydock with `drydock down`, or choose another folder with --data-dir",
			ErrInUse, holder, h.dir)
	}
	h.lock = f
	if err := f.Truncate(0); err != nil {
		_ = h.close()
		return unusable(h.dir, err)
	}
	if _, err := f.WriteAt([]byte(strconv.Itoa(os.Getpid())+"\n"), 0); err != nil {
		_ = h.close()
		return unusable(h.dir, err)
	}
	return nil
}

// placeSocket chooses the socket's path: in the folder, or in a private temporary folder if that path would be too
// long.
func (h *home) placeSocket() error {
	note := filepath.Join(h.dir, "socket")
	if old, err := os.ReadFile(note); err == nil {
		removeTemp(string(old)) // left by a crash
		if err := os.Remove(note); err != nil {
			return err
		}
	}
	h.socket = filepath.Join(h.dir, "etcd.sock")
	if len(h.socket) <= maxSocketPath {
		h.remove = append(h.remove, h.socket)
		return nil
	}
	base := os.Getenv("XDG_RUNTIME_DIR")
	if !writable(base) {
		base = os.TempDir()
	}
	tmp, err := os.MkdirTemp(base, tmpPrefix) // MkdirTemp creates it with mode 0700
	if err != nil {
		return err
	}
	h.remove = append(h.remove, tmp, note)
	h.socket = filepath.Join(tmp, "etcd.sock")
	return os.WriteFile(note, []byte(tmp), 0o600)
}

// removeTemp removes one of our temporary folders and nothing else.
func removeTemp(dir string) {
	if filepath.IsAbs(dir) && strings.HasPrefix(filepath.Base(dir), tmpPrefix) {
		_ = os.RemoveAll(dir)
	}
}

func (h *home) close() error {
	var errs []error
	for _, p := range h.remove {
		errs = append(errs, os.RemoveAll(p))
	}
	if h.lock != nil {
		// The file stays: if it were removed, two processes could each lock a file of that name.
		errs = append(errs, h.lock.Close())
	}
	return errors.Join(errs...)
}

// ephemeralHome creates the folder of a store that is thrown away.
func ephemeralHome() (*home, error) {
	base := os.TempDir()
	for _, dir := range []string{"/dev/shm", os.Getenv("XDG_RUNTIME_DIR")} {
		if free, err := freeBytes(dir); err == nil && free >= tmpfsFree && isTmpfs(dir) && writable(dir) {
			base = dir
			break
		}
	}
	sweep(base)
	dir, err := os.MkdirTemp(base, tmpPrefix)
	if err != nil {
		return nil, fmt.Errorf("ephemeral store: %w", err)
	}
	h := &home{dir: dir}
	if err := h.acquire(); err != nil {
		return nil, err
	}
	h.remove = []string{dir}
	if err := h.placeSocket(); err != nil {
		_ = h.close()
		return nil, unusable(dir, err)
	}
	return h, nil
}

// sweep removes ephemeral stores whose process was killed.
func sweep(base string) {
	dirs, _ := filepath.Glob(filepath.Join(base, tmpPrefix+"*"))
	for _, dir := range dirs {
		if st, err := os.Lstat(dir); err != nil || !st.IsDir() || time.Since(st.ModTime()) < abandonedAfter {
			continue
		}
		f, err := os.OpenFile(filepath.Join(dir, "lock"), os.O_RDWR, 0)
		if err != nil {
			continue // it belongs to another user, or holds the socket of a store elsewhere
		}
		if unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB) == nil {
			removeTemp(dir)
		}
		_ = f.Close()
	}
}

func writable(dir string) bool {
	return dir != "" && unix.Access(dir, unix.W_OK|unix.X_OK) == nil
}

// freeBytes returns how much an ordinary user may still write to dir's file system.
func freeBytes(dir string) (int64, error) {
	var st unix.Statfs_t
	if dir == "" {
		return 0, fs.ErrNotExist
	}
	if err := unix.Statfs(dir, &st); err != nil {
		return 0, err
	}
	return int64(st.Bavail) * int64(st.Bsize), nil
}
