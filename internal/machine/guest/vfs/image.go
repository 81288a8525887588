package vfs

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"strings"
	"syscall"
	"time"
)

// A Record is one file of an Image. File systems share its Data, so nothing may change that.
type Record struct {
	Path     string
	Mode     fs.FileMode
	UID, GID int
	ModTime  time.Time
	Data     []byte // of a regular file
	Target   string // of a symbolic link
}

// Image returns everything in the file system, folders before their contents, to send it elsewhere or to store it.
func (f *FS) Image() []Record {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.image()
}

// Snapshot returns what a copy of the file system needs: the results of Image and Limits at one moment. Between two calls, a
// file could be removed and its space given away, and the image would be larger than the limits.
func (f *FS) Snapshot() ([]Record, Limits) {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.image(), f.currentLimits()
}

func (f *FS) image() []Record {
	var out []Record
	var visit func(name string, n *inode)
	visit = func(name string, n *inode) {
		n.shared = true
		out = append(out, Record{name, n.mode, n.uid, n.gid, n.modTime, n.data, n.target})
		for _, base := range slices.Sorted(maps.Keys(n.children)) {
			visit(path.Join(name, base), n.children[base])
		}
	}
	visit("/", f.root)
	return out
}

// Restore replaces everything in the file system by an image. The budget does not limit it, because the image was within it
// once.
func (f *FS) Restore(image []Record) error {
	next := New(Limits{max(f.limits.Bytes, f.most), f.limits.Files}, f.now)
	made := make([]*inode, 0, len(image))
	for _, r := range image {
		at, errno := next.walk(r.Path, false)
		if errno != 0 {
			return fail("restore", r.Path, errno)
		}
		n := &inode{mode: r.Mode, uid: r.UID, gid: r.GID, target: r.Target}
		if r.Mode.IsDir() {
			n.children = map[string]*inode{}
		}
		switch {
		case at.dir == nil:
			n.children = next.root.children
			*next.root = *n
			n = next.root
		case at.node != nil:
			return fmt.Errorf("restoring a file system: %s is there twice", r.Path)
		default:
			if errno = next.add(at, n); errno == 0 && !next.space(int64(len(r.Data))) {
				errno = syscall.ENOSPC
			}
			if errno != 0 {
				return fail("restore", r.Path, errno)
			}
			n.data, n.shared = r.Data, true
		}
		made = append(made, n)
	}
	for i, n := range made { // last, because adding to a folder changes its time
		n.modTime = image[i].ModTime
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.root, f.bytes, f.files = next.root, next.bytes, next.files
	if f.budget != nil {
		over := max(0, f.bytes-f.limits.Bytes)
		f.budget.give(f.borrowed - over)
		f.borrowed = over
	}
	return nil
}

// A Change is one difference between two images.
type Change struct {
	Record
	Removed bool // the path was removed, with everything below it
}

// Diff returns the changes that turn one image into another, in the order in which to apply them.
func Diff(before, after []Record) []Change {
	old := make(map[string]*Record, len(before))
	for i := range before {
		old[before[i].Path] = &before[i]
	}
	kept := make(map[string]bool, len(after))
	var changed []Change
	for _, r := range after {
		kept[r.Path] = true
		if was, ok := old[r.Path]; !ok || !was.same(&r) {
			changed = append(changed, Change{Record: r})
		}
	}
	var out []Change
	gone := "\x00" // the last removed folder
	for _, r := range before {
		if !kept[r.Path] && !strings.HasPrefix(r.Path, gone) {
			out = append(out, Change{Record: Record{Path: r.Path}, Removed: true})
			gone = r.Path + "/"
		}
	}
	return append(out, changed...)
}

func (r *Record) same(o *Record) bool {
	return r.Mode == o.Mode && r.UID == o.UID && r.GID == o.GID && r.Target == o.Target && bytes.Equal(r.Data, o.Data) &&
		(r.Mode.IsDir() || r.ModTime.Equal(o.ModTime)) // a folder's time changes with its contents
}

// Apply applies changes from Diff to whatever is in the file system by now, and shares their Data.
func (f *FS) Apply(changes []Change) error {
	var errs []error
	// What goes or gets smaller makes room for the rest.
	for i := range changes {
		c := &changes[i]
		is, err := f.Lstat(c.Path)
		switch {
		case c.Removed || err == nil && is.Mode()&fs.ModeType != c.Mode&fs.ModeType:
			errs = append(errs, f.RemoveAll(c.Path))
		case err == nil && is.Mode().IsRegular() && is.Size() > int64(len(c.Data)):
			errs = append(errs, f.put(c))
		}
	}
	for i := range changes {
		c := &changes[i]
		switch {
		case c.Removed:
		case c.Mode.IsDir():
			err := f.MkdirAll(c.Path, c.Mode.Perm())
			if err == nil {
				err = f.change("restore", c.Path, c.stamp)
			}
			errs = append(errs, err)
		case c.Mode&fs.ModeSymlink != 0:
			_ = f.Remove(c.Path) // it was replaced
			errs = append(errs, f.Symlink(c.Target, c.Path))
		default:
			errs = append(errs, f.put(c))
		}
	}
	return errors.Join(errs...)
}

// put makes or replaces the regular file of a change.
func (f *FS) put(c *Change) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	n, errno := f.create(c.Path, c.Mode.Perm())
	if errno == 0 && !f.space(int64(len(c.Data)-len(n.data))) {
		errno = syscall.ENOSPC
	}
	if errno != 0 {
		return fail("restore", c.Path, errno)
	}
	n.data, n.shared = c.Data, true
	c.stamp(n)
	return nil
}

// stamp gives a file what the record says about it beyond its contents.
func (r *Record) stamp(n *inode) { n.mode, n.uid, n.gid, n.modTime = r.Mode, r.UID, r.GID, r.ModTime }
