package vfs

import (
	"io"
	"io/fs"
	"os"
	"sync"
	"syscall"
)

// Open opens a file with the flags of package os. /dev/null always exists.
func (f *FS) Open(name string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error) {
	if name == "/dev/null" {
		return null{}, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	writes := flag&(os.O_WRONLY|os.O_RDWR) != 0
	at, errno := f.walk(name, true)
	n := at.node
	switch {
	case errno != 0:
	case n == nil && flag&os.O_CREATE == 0:
		errno = syscall.ENOENT
	case n == nil:
		n, errno = f.create(name, perm)
	case flag&os.O_CREATE != 0 && flag&os.O_EXCL != 0:
		errno = syscall.EEXIST
	case n.mode.IsDir() && writes:
		errno = syscall.EISDIR
	case flag&os.O_TRUNC != 0 && writes:
		errno = f.resize(n, 0)
	}
	if errno != 0 {
		return nil, fail("open", name, errno)
	}
	return &file{fs: f, name: name, node: n, flag: flag}, nil
}

// A file is an open file.
type file struct {
	fs   *FS
	name string
	node *inode
	flag int

	mu     sync.Mutex
	at     int64
	closed bool
}

func (o *file) Read(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, fs.ErrClosed
	}
	o.fs.mu.RLock()
	defer o.fs.mu.RUnlock()
	switch {
	case o.node.mode.IsDir():
		return 0, fail("read", o.name, syscall.EISDIR)
	case o.flag&os.O_WRONLY != 0:
		return 0, fail("read", o.name, syscall.EBADF)
	case o.at >= int64(len(o.node.data)):
		return 0, io.EOF
	}
	n := copy(p, o.node.data[o.at:])
	o.at += int64(n)
	return n, nil
}

func (o *file) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return 0, fs.ErrClosed
	}
	if o.flag&(os.O_WRONLY|os.O_RDWR) == 0 {
		return 0, fail("write", o.name, syscall.EBADF)
	}
	o.fs.mu.Lock()
	defer o.fs.mu.Unlock()
	if o.flag&os.O_APPEND != 0 {
		o.at = int64(len(o.node.data))
	}
	if end := o.at + int64(len(p)); end > int64(len(o.node.data)) {
		if errno := o.fs.resize(o.node, end); errno != 0 {
			return 0, fail("write", o.name, errno)
		}
	}
	n := copy(o.node.own()[o.at:], p)
	o.at += int64(n)
	return n, nil
}

func (o *file) Close() error {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closed {
		return fs.ErrClosed
	}
	o.closed = true
	return nil
}

// null is /dev/null.
type null struct{}

func (null) Read([]byte) (int, error)    { return 0, io.EOF }
func (null) Write(p []byte) (int, error) { return len(p), nil }
func (null) Close() error                { return nil }
