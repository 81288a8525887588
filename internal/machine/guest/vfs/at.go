package vfs

import (
	"io"
	"io/fs"
	"math"
	"os"
	"syscall"
	"time"
)

// ReadAt implements io.ReaderAt.
func (o *file) ReadAt(p []byte, off int64) (int, error) {
	o.fs.mu.RLock()
	defer o.fs.mu.RUnlock()
	switch {
	case o.flag&os.O_WRONLY != 0:
		return 0, fail("read", o.name, syscall.EBADF)
	case off < 0:
		return 0, fail("read", o.name, syscall.EINVAL)
	case off >= int64(len(o.node.data)):
		return 0, io.EOF
	}
	n := copy(p, o.node.data[off:])
	if n < len(p) {
		return n, io.EOF
	}
	return n, nil
}

// WriteAt implements io.WriterAt.
func (o *file) WriteAt(p []byte, off int64) (int, error) {
	if o.flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		return 0, fail("write", o.name, syscall.EBADF)
	}
	if off < 0 || off > math.MaxInt64-int64(len(p)) {
		return 0, fail("write", o.name, syscall.EINVAL)
	}
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if end := off + int64(len(p)); end > int64(len(o.node.data)) {
		if errno := o.fs.resize(o.node, end); errno != 0 {
			return 0, fail("write", o.name, errno)
		}
	}
	return copy(o.node.own()[off:], p), nil
}

func (null) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (null) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }

// Truncate sets the size of a regular file.
func (f *FS) Truncate(name string, size int64) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, errno := f.find(name, true)
	switch {
	case errno != 0:
	case n.mode.IsDir():
		errno = syscall.EISDIR
	case size < 0:
		errno = syscall.EINVAL
	default:
		errno = f.resize(n, size)
	}
	if errno != 0 {
		return fail("truncate", name, errno)
	}
	return nil
}

// Chtime sets the modification time of a file.
func (f *FS) Chtime(name string, t time.Time) error {
	return f.change("chtimes", name, func(n *inode) { n.modTime = t })
}

// Null describes /dev/null, which has no inode.
func Null() fs.FileInfo {
	return &Info{name: "null", mode: fs.ModeDevice | fs.ModeCharDevice | 0o666}
}
