package simulated

import (
	"bytes"
	"encoding/gob"
	"io/fs"
	"sync"
	"syscall"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// The files of a machine are in memory. A machine has vfs.DefaultLimits for itself, and up to maxDisk bytes as long as all
// machines together have at most maxDisks bytes beyond their own. The processes that run scripts hold several copies of a file
// that is being written, so a larger disk would need larger ones.
const (
	maxDisk  = 80 << 20
	maxDisks = 512 << 20
)

// A disk is the stored content of a machine's root volume.
type disk struct {
	// BootID is the EC2 boot that wrote it, and Reboots is how often the machine has rebooted since. After a restart
	// of the daemon, a machine that never stopped finds its own values here.
	BootID  string
	Reboots int
	Files   []vfs.Record
}

// A volume is the state of a machine's disk.
type volume struct {
	mu      sync.Mutex
	written bool // something wrote to the disk, so its contents are kept
}

func (v *volume) touch() {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.written = true
}

// load restores the contents of the machine's root volume, or those of the snapshot that the volume was created from.
// first means that the machine has never booted, and resumed that it continues after a restart of the daemon.
func (c *Computer) load() (first, resumed bool, err error) {
	if c.before != nil { // after a reboot
		return false, false, c.image.FS.Restore(c.before)
	}
	if c.rt.cfg.Disks == nil {
		return true, false, nil
	}
	data, ok, err := c.rt.cfg.Disks.Load(c.in.ID)
	if !ok && err == nil && c.in.RootSnapshot != "" {
		first = true
		data, ok, err = c.rt.cfg.Disks.Load(c.in.RootSnapshot)
	}
	if err != nil || !ok {
		return true, false, err
	}
	var d disk
	if err := gob.NewDecoder(bytes.NewReader(data)).Decode(&d); err != nil {
		return false, false, err
	}
	if resumed = d.BootID == c.in.BootID; resumed {
		c.reboots = d.Reboots
	}
	if len(d.Files) == 0 {
		return first, resumed, nil
	}
	c.volume.touch()
	return first, resumed, c.image.FS.Restore(d.Files)
}

// groupTag marks the instances of Auto Scaling groups, which are never started again.
const groupTag = "aws:autoscaling:groupName"

// save stores the disk. A machine whose disk was not written to is the same after every boot, so only the fact that
// it has booted is stored: changed user data must not run at its next start.
func (c *Computer) save() error {
	c.volume.mu.Lock()
	defer c.volume.mu.Unlock()
	if c.rt.cfg.Disks == nil || !c.volume.written && c.in.Tags[groupTag] != "" {
		return nil
	}
	d := disk{BootID: c.in.BootID, Reboots: c.reboots}
	if c.volume.written {
		d.Files = c.image.FS.Image()
	}
	var b bytes.Buffer
	if err := gob.NewEncoder(&b).Encode(d); err != nil {
		return err
	}
	return c.rt.cfg.Disks.Save(c.in.ID, b.Bytes())
}

// Files implements machine.Machine.
func (c *Computer) Files() (machine.Files, error) {
	if c.image == nil {
		return c.Unsupported.Files()
	}
	return files{c}, nil
}

// files are a machine's files as seen from outside; whatever is written is stored.
type files struct{ c *Computer }

func (f files) read(do func(*vfs.FS) error) error {
	if err := f.c.begin(); err != nil {
		return err
	}
	defer f.c.runs.Done()
	return do(f.c.image.FS)
}

func (f files) write(do func(*vfs.FS) error) error {
	return f.read(func(fs *vfs.FS) error {
		if err := do(fs); err != nil {
			return err
		}
		f.c.volume.touch()
		return f.c.save()
	})
}

func (f files) ReadFile(name string) (data []byte, err error) {
	err = f.read(func(v *vfs.FS) (err error) { data, err = v.ReadFile(name); return err })
	return data, err
}

func (f files) Stat(name string) (info fs.FileInfo, err error) {
	err = f.read(func(v *vfs.FS) (err error) { info, err = v.Stat(name); return err })
	return info, err
}

func (f files) ReadDir(name string) (list []fs.DirEntry, err error) {
	err = f.read(func(v *vfs.FS) (err error) { list, err = v.ReadDir(name); return err })
	return list, err
}

func (f files) WriteFile(name string, data []byte, perm fs.FileMode) error {
	if len(data) > 0 && f.c.full() {
		return &fs.PathError{Op: "write", Path: name, Err: syscall.ENOSPC}
	}
	return f.write(func(v *vfs.FS) error { return v.WriteFile(name, data, perm) })
}

func (f files) MkdirAll(name string, perm fs.FileMode) error {
	return f.write(func(v *vfs.FS) error { return v.MkdirAll(name, perm) })
}

func (f files) Chown(name string, uid, gid int) error {
	return f.write(func(v *vfs.FS) error { return v.Chown(name, uid, gid) })
}

func (f files) Chmod(name string, perm fs.FileMode) error {
	return f.write(func(v *vfs.FS) error { return v.Chmod(name, perm) })
}

func (f files) Rename(from, to string) error {
	return f.write(func(v *vfs.FS) error { return v.Rename(from, to) })
}

func (f files) RemoveAll(name string) error {
	return f.write(func(v *vfs.FS) error { return v.RemoveAll(name) })
}
