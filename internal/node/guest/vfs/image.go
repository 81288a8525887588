package vfs

import (
	"fmt"
	"io/fs"
	"maps"
	"path"
	"slices"
	"time"
)

// A Record is one file of an Image.
type Record struct {
	Path     string
	Mode     fs.FileMode
	UID, GID int
	ModTime  time.Time
	Data     []byte // of a regular file
	Target   string // of a symbolic link
}

// Image returns everything in the file system, folders before what they hold: to
// send it elsewhere, or to keep it.
func (f *FS) Image() []Record {
	f.mu.RLock()
	defer f.mu.RUnlock()
	var out []Record
	var visit func(name string, n *inode)
	visit = func(name string, n *inode) {
		out = append(out, Record{name, n.mode, n.uid, n.gid, n.modTime, slices.Clone(n.data), n.target})
		for _, base := range slices.Sorted(maps.Keys(n.children)) {
			visit(path.Join(name, base), n.children[base])
		}
	}
	visit("/", f.root)
	return out
}

// Restore replaces everything in the file system by an image.
func (f *FS) Restore(image []Record) error {
	next := New(f.limits, f.now)
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
			if errno = next.add(at, n); errno == 0 {
				errno = next.resize(n, int64(len(r.Data)))
			}
			if errno != 0 {
				return fail("restore", r.Path, errno)
			}
			copy(n.data, r.Data)
		}
		made = append(made, n)
	}
	for i, n := range made { // at last: what is added to a folder changes its time
		n.modTime = image[i].ModTime
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.root, f.bytes, f.files = next.root, next.bytes, next.files
	return nil
}
