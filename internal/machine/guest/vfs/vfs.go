// Package vfs is the file system of a simulated machine: a tree in memory with modes, owners and symbolic links,
// bounded in bytes and in files.
//
// Errors are *fs.PathError with the errno that a Linux file system would return, because scripts print their texts
// and users search for them. It checks no permissions: whatever runs on the machines of package node runs as root.
// May be imported by packages under internal/node.
package vfs

import (
	"errors"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"sync"
	"syscall"
	"time"
)

// Limits bound a file system. A full one returns ENOSPC.
type Limits struct {
	Bytes int64 // of all contents together
	Files int   // of all types
}

// DefaultLimits suit machines of which thousands share one process.
var DefaultLimits = Limits{Bytes: 8 << 20, Files: 4096}

const (
	maxName  = 255
	maxPath  = 4096
	maxLinks = 40 // as on Linux
)

// FS is a file system. Its methods may be called concurrently; names are absolute.
type FS struct {
	*tree
	uid, gid int // the owner of new files
}

type tree struct {
	limits Limits
	now    func() time.Time

	mu       sync.RWMutex
	root     *inode
	bytes    int64
	full     bool
	files    int
	budget   *Budget
	most     int64 // the size that it may have with the budget
	borrowed int64 // from the budget
}

type inode struct {
	mode     fs.FileMode // type bits and permissions
	uid, gid int
	modTime  time.Time
	data     []byte            // of a regular file
	shared   bool              // images have data, too, so it must not change
	target   string            // of a symbolic link
	children map[string]*inode // of a folder
}

// New returns an empty file system. now provides the time of changes (nil means time.Now).
func New(limits Limits, now func() time.Time) *FS {
	if now == nil {
		now = time.Now
	}
	return &FS{tree: &tree{limits: limits, now: now, root: &inode{mode: fs.ModeDir | 0o755, modTime: now(), children: map[string]*inode{}}, files: 1}}
}

// As returns the same file system as a user has it: new files belong to that user.
func (f *FS) As(uid, gid int) *FS { return &FS{f.tree, uid, gid} }

// Used returns the total size of the files in bytes.
func (f *FS) Used() int64 {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.bytes
}

// Limits returns the file system's limits.
func (f *FS) Limits() Limits {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.currentLimits()
}

func (f *FS) currentLimits() Limits {
	out := f.limits
	if f.budget != nil {
		out.Bytes = max(out.Bytes, min(f.most, max(out.Bytes, f.bytes)+f.budget.rest()))
	}
	if f.full {
		out.Bytes = f.bytes
	}
	return out
}

// space accounts for a change of the size of all contents, and reports whether there is room for it.
func (f *FS) space(grow int64) bool {
	next := f.bytes + grow
	borrow := max(0, next-f.limits.Bytes) - f.borrowed
	if f.budget == nil {
		borrow = 0
	}
	if grow > 0 && (next > max(f.limits.Bytes, f.most) || borrow > 0 && !f.budget.take(borrow)) {
		return false
	}
	if borrow < 0 {
		f.budget.give(-borrow)
	}
	f.bytes, f.borrowed = next, f.borrowed+borrow
	return true
}

// Fill sets whether the result of Limits leaves no room, so that copies of the file system are full. Writing to the file
// system itself is not affected.
func (f *FS) Fill(full bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.full = full
}

func fail(op, name string, errno syscall.Errno) error {
	return &fs.PathError{Op: op, Path: name, Err: errno}
}

// A place is what a name resolves to: a folder, the last element of the name, and the file there (nil if there is
// none).
type place struct {
	dir  *inode
	base string
	node *inode
}

// walk finds name. follow says whether to follow a symbolic link at its end. The caller holds the lock.
func (f *FS) walk(name string, follow bool) (place, syscall.Errno) {
	if len(name) > maxPath {
		return place{}, syscall.ENAMETOOLONG
	}
	trailing := strings.HasSuffix(name, "/")
	parts := split(name)
	links := 0
	var stack []*inode
	at := place{node: f.root}
	for i := 0; i < len(parts); i++ {
		p := parts[i]
		if len(p) > maxName {
			return place{}, syscall.ENAMETOOLONG
		}
		if at.node == nil {
			return place{}, syscall.ENOENT
		}
		if !at.node.mode.IsDir() {
			return place{}, syscall.ENOTDIR
		}
		if p == ".." {
			if len(stack) > 0 {
				at = place{node: stack[len(stack)-1]}
				stack = stack[:len(stack)-1]
			}
			continue
		}
		child := at.node.children[p]
		last := i == len(parts)-1
		if child != nil && child.mode&fs.ModeSymlink != 0 && (!last || follow || trailing) {
			if links++; links > maxLinks {
				return place{}, syscall.ELOOP
			}
			rest := slices.Concat(split(child.target), parts[i+1:])
			if path.IsAbs(child.target) {
				at, stack = place{node: f.root}, nil
			}
			parts, i = rest, -1
			continue
		}
		stack = append(stack, at.node)
		at = place{dir: at.node, base: p, node: child}
	}
	if trailing && at.node != nil && !at.node.mode.IsDir() {
		return place{}, syscall.ENOTDIR
	}
	return at, 0
}

// find is walk to an existing file.
func (f *FS) find(name string, follow bool) (*inode, syscall.Errno) {
	at, errno := f.walk(name, follow)
	if errno == 0 && at.node == nil {
		errno = syscall.ENOENT
	}
	return at.node, errno
}

func split(name string) []string {
	var out []string
	for p := range strings.SplitSeq(name, "/") {
		if p != "" && p != "." {
			out = append(out, p)
		}
	}
	return out
}

// add puts n at an empty place.
func (f *FS) add(at place, n *inode) syscall.Errno {
	switch {
	case at.dir == nil:
		return syscall.EEXIST // the root
	case f.files >= f.limits.Files:
		return syscall.ENOSPC
	}
	n.modTime = f.now()
	at.dir.children[at.base] = n
	at.dir.modTime = n.modTime
	f.files++
	return 0
}

// resize sets the size of n's content in bytes.
func (f *FS) resize(n *inode, size int64) syscall.Errno {
	grow := size - int64(len(n.data))
	if !f.space(grow) {
		return syscall.ENOSPC
	}
	if grow <= 0 {
		n.data = append([]byte(nil), n.data[:size]...) // a slice of the old content would keep all its memory in use
	} else {
		if n.shared {
			n.data = slices.Clip(n.data) // append copies it
		}
		n.data = append(n.data, make([]byte, grow)...)
	}
	n.shared = false
	n.modTime = f.now()
	return 0
}

// own returns n's content, which only n has from now on, so that it can be changed.
func (n *inode) own() []byte {
	if n.shared {
		n.data, n.shared = slices.Clone(n.data), false
	}
	return n.data
}

// forget frees the space of n and everything below it.
func (f *FS) forget(n *inode) {
	f.files--
	f.space(-int64(len(n.data)))
	for _, c := range n.children {
		f.forget(c)
	}
}

// Mkdir makes a folder.
func (f *FS) Mkdir(name string, perm fs.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, errno := f.walk(name, false)
	if errno == 0 && at.node != nil {
		errno = syscall.EEXIST
	}
	if errno == 0 {
		errno = f.add(at, &inode{mode: fs.ModeDir | perm.Perm(), uid: f.uid, gid: f.gid, children: map[string]*inode{}})
	}
	if errno != 0 {
		return fail("mkdir", name, errno)
	}
	return nil
}

// MkdirAll creates a folder and its missing parents.
func (f *FS) MkdirAll(name string, perm fs.FileMode) error {
	if f.ensureDir(name, perm) == nil {
		return nil // no parent is missing: one walk, however deep
	}
	sofar := ""
	for _, p := range split(name) {
		sofar += "/" + p
		if err := f.ensureDir(sofar, perm); errors.Is(err, syscall.EEXIST) {
			return fail("mkdir", name, syscall.ENOTDIR)
		} else if err != nil {
			return err
		}
	}
	return nil
}

// ensureDir creates a folder unless it exists. EEXIST means that something else has its name.
func (f *FS) ensureDir(name string, perm fs.FileMode) error {
	err := f.Mkdir(name, perm)
	if errors.Is(err, syscall.EEXIST) {
		if i, serr := f.Stat(name); serr == nil && i.IsDir() {
			return nil
		}
	}
	return err
}

// ReadFile returns a file's content, which the caller may keep.
func (f *FS) ReadFile(name string) ([]byte, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, errno := f.find(name, true)
	switch {
	case errno != 0:
	case n.mode.IsDir():
		errno = syscall.EISDIR
	default:
		return slices.Clone(n.data), nil
	}
	return nil, fail("open", name, errno)
}

// WriteFile replaces a file's content, creating the file if needed.
func (f *FS) WriteFile(name string, data []byte, perm fs.FileMode) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, errno := f.create(name, perm)
	if errno == 0 {
		errno = f.resize(n, 0)
	}
	if errno == 0 {
		if errno = f.resize(n, int64(len(data))); errno == 0 {
			copy(n.data, data)
		}
	}
	if errno != 0 {
		return fail("open", name, errno)
	}
	return nil
}

// create returns the regular file at name, a new one if there is none.
func (f *FS) create(name string, perm fs.FileMode) (*inode, syscall.Errno) {
	at, errno := f.walk(name, true)
	switch {
	case errno != 0:
		return nil, errno
	case at.node == nil && strings.HasSuffix(name, "/"):
		return nil, syscall.EISDIR
	case at.node == nil:
		n := &inode{mode: perm.Perm(), uid: f.uid, gid: f.gid}
		return n, f.add(at, n)
	case at.node.mode.IsDir():
		return nil, syscall.EISDIR
	}
	return at.node, 0
}

// Symlink makes name a symbolic link to target.
func (f *FS) Symlink(target, name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, errno := f.walk(name, false)
	switch {
	case errno != 0:
	case at.node != nil:
		errno = syscall.EEXIST
	case len(target) > maxPath:
		errno = syscall.ENAMETOOLONG
	default:
		errno = f.add(at, &inode{mode: fs.ModeSymlink | 0o777, uid: f.uid, gid: f.gid, target: target})
	}
	if errno != 0 {
		return fail("symlink", name, errno)
	}
	return nil
}

// Readlink returns the target of a symbolic link.
func (f *FS) Readlink(name string) (string, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, errno := f.find(name, false)
	switch {
	case errno != 0:
	case n.mode&fs.ModeSymlink == 0:
		errno = syscall.EINVAL
	default:
		return n.target, nil
	}
	return "", fail("readlink", name, errno)
}

// Remove removes a file, a link or an empty folder.
func (f *FS) Remove(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, errno := f.walk(name, false)
	switch {
	case errno != 0:
	case at.node == nil:
		errno = syscall.ENOENT
	case at.dir == nil:
		errno = syscall.EBUSY
	case len(at.node.children) > 0:
		errno = syscall.ENOTEMPTY
	default:
		f.drop(at)
		return nil
	}
	return fail("remove", name, errno)
}

// RemoveAll removes whatever is at name, if anything.
func (f *FS) RemoveAll(name string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	at, errno := f.walk(name, false)
	switch {
	case errno == syscall.ENOENT || errno == 0 && at.node == nil:
		return nil
	case errno != 0:
	case at.dir == nil:
		errno = syscall.EBUSY
	default:
		f.drop(at)
		return nil
	}
	return fail("remove", name, errno)
}

func (f *FS) drop(at place) {
	f.forget(at.node)
	delete(at.dir.children, at.base)
	at.dir.modTime = f.now()
}

// Rename moves a file, replacing a file at the new name unless it is a folder.
func (f *FS) Rename(from, to string) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	src, errno := f.walk(from, false)
	if errno != 0 || src.node == nil || src.dir == nil {
		return fail("rename", from, orElse(errno, syscall.ENOENT))
	}
	dst, errno := f.walk(to, false)
	switch {
	case errno != 0:
	case dst.dir == nil:
		errno = syscall.EBUSY
	case dst.node == src.node:
		return nil
	case src.node.mode.IsDir() && within(src.node, dst.dir):
		errno = syscall.EINVAL
	case dst.node != nil && dst.node.mode.IsDir() && !src.node.mode.IsDir():
		errno = syscall.EISDIR
	case dst.node != nil && !dst.node.mode.IsDir() && src.node.mode.IsDir():
		errno = syscall.ENOTDIR
	case dst.node != nil && len(dst.node.children) > 0:
		errno = syscall.ENOTEMPTY
	}
	if errno != 0 {
		return fail("rename", to, errno)
	}
	if dst.node != nil {
		f.forget(dst.node)
	}
	delete(src.dir.children, src.base)
	dst.dir.children[dst.base] = src.node
	return nil
}

// within reports whether dir is n or below it.
func within(n, dir *inode) bool {
	if n == dir {
		return true
	}
	for _, c := range n.children {
		if c.mode.IsDir() && within(c, dir) {
			return true
		}
	}
	return false
}

func orElse(errno, other syscall.Errno) syscall.Errno {
	if errno != 0 {
		return errno
	}
	return other
}

// change applies fn to the file at name.
func (f *FS) change(op, name string, fn func(*inode)) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, errno := f.find(name, true)
	if errno != 0 {
		return fail(op, name, errno)
	}
	fn(n)
	return nil
}

// Chmod sets permission bits.
func (f *FS) Chmod(name string, perm fs.FileMode) error {
	return f.change("chmod", name, func(n *inode) { n.mode = n.mode&fs.ModeType | perm&^fs.ModeType })
}

// Chown sets the owner and group; -1 leaves one unchanged.
func (f *FS) Chown(name string, uid, gid int) error {
	return f.change("chown", name, func(n *inode) {
		if n.mode.IsRegular() {
			n.mode &^= fs.ModeSetuid | fs.ModeSetgid // as Linux does, for every user
		}
		if uid >= 0 {
			n.uid = uid
		}
		if gid >= 0 {
			n.gid = gid
		}
	})
}

// Touch sets a file's time to now.
func (f *FS) Touch(name string) error {
	return f.change("touch", name, func(n *inode) { n.modTime = f.now() })
}

// Stat describes what name leads to.
func (f *FS) Stat(name string) (fs.FileInfo, error) { return f.stat("stat", name, true) }

// Lstat is Stat of a symbolic link itself.
func (f *FS) Lstat(name string) (fs.FileInfo, error) { return f.stat("lstat", name, false) }

func (f *FS) stat(op, name string, follow bool) (fs.FileInfo, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, errno := f.find(name, follow)
	if errno != 0 {
		return nil, fail(op, name, errno)
	}
	return describe(path.Base(name), n), nil
}

// ReadDir lists a folder, sorted by name.
func (f *FS) ReadDir(name string) ([]fs.DirEntry, error) {
	f.mu.RLock()
	defer f.mu.RUnlock()
	n, errno := f.find(name, true)
	switch {
	case errno != 0:
	case !n.mode.IsDir():
		errno = syscall.ENOTDIR
	default:
		var out []fs.DirEntry
		for _, base := range slices.Sorted(maps.Keys(n.children)) {
			out = append(out, fs.FileInfoToDirEntry(describe(base, n.children[base])))
		}
		return out, nil
	}
	return nil, fail("open", name, errno)
}
