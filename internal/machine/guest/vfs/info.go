package vfs

import (
	"io/fs"
	"syscall"
	"time"
)

// Info is what Stat returns.
type Info struct {
	name     string
	size     int64
	mode     fs.FileMode
	modTime  time.Time
	UID, GID int
}

func describe(name string, n *inode) *Info {
	size := int64(len(n.data) + len(n.target))
	if n.mode.IsDir() {
		size = 4096
	}
	return &Info{name: name, size: size, mode: n.mode, modTime: n.modTime, UID: n.uid, GID: n.gid}
}

// Name implements fs.FileInfo, as do the methods below.
func (i *Info) Name() string       { return i.name }
func (i *Info) Size() int64        { return i.size }
func (i *Info) Mode() fs.FileMode  { return i.mode }
func (i *Info) ModTime() time.Time { return i.modTime }
func (i *Info) IsDir() bool        { return i.mode.IsDir() }
func (i *Info) Sys() any {
	return &syscall.Stat_t{Uid: uint32(i.UID), Gid: uint32(i.GID)} // test -O needs it
}
