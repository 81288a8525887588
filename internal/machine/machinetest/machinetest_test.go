package machinetest

import (
	"bytes"
	"context"
	"io/fs"
	"path"
	"slices"
	"sync"
	"testing"
	"testing/fstest"

	"github.com/drydock-dev/drydock/internal/machine"
)

// A shelf is a minimal runtime: its machines have files and do nothing. That it passes shows that the contract
// requires nothing that only simulated machines have.
type shelf struct {
	disks *sync.Map // by instance ID

	mu     sync.Mutex
	on     map[string]*box
	closed bool
}

func (s *shelf) Name() string { return "shelf" }

func (s *shelf) Start(_ context.Context, in machine.Instance) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return machine.ErrShutdown
	}
	if s.on[in.ID] == nil {
		s.boot(in, nil)
	}
	return nil
}

func (s *shelf) boot(in machine.Instance, console []byte) {
	disk, _ := s.disks.LoadOrStore(in.ID, fstest.MapFS{"etc/passwd": {Data: []byte("root:x:0:0::/root:/bin/sh\n")}, "srv": {Mode: fs.ModeDir | 0o755}})
	b := &box{Unsupported: machine.Unsupported{ID: in.ID, Reason: "it is a box"}, shelf: s, in: in, files: disk.(fstest.MapFS), console: append(bytes.Clone(console), "on\n"...), up: make(chan struct{})}
	close(b.up)
	s.on[in.ID] = b
}

func (s *shelf) Machine(id string) (machine.Machine, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	b, ok := s.on[id]
	return b, ok
}

func (s *shelf) Shutdown(context.Context) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closed, s.on = true, nil
	return nil
}

type box struct {
	machine.Unsupported
	shelf   *shelf
	in      machine.Instance
	files   fstest.MapFS
	console []byte
	up      chan struct{}
}

func (b *box) Instance() machine.Instance       { return b.in }
func (b *box) Abilities() machine.Abilities     { return machine.Abilities{machine.FileAccess} }
func (b *box) Booted() <-chan struct{}          { return b.up }
func (b *box) Console() []byte                  { return b.console }
func (b *box) Files() (machine.Files, error)    { return boxFiles{b}, nil }
func (b *box) off() bool                        { return b.shelf.on[b.in.ID] != b }
func (b *box) Stop(context.Context, bool) error { b.takeOff(func() {}); return nil }

func (b *box) Reboot(context.Context) error {
	if !b.takeOff(func() { b.shelf.boot(b.in, b.console) }) {
		return machine.ErrOff
	}
	return nil
}

func (b *box) takeOff(then func()) bool {
	b.shelf.mu.Lock()
	defer b.shelf.mu.Unlock()
	if b.off() {
		return false
	}
	delete(b.shelf.on, b.in.ID)
	then()
	return true
}

// boxFiles are a box's files. Owners are not kept, nor are modes except a new file's.
type boxFiles struct{ b *box }

func (f boxFiles) do(name string, fn func(files fstest.MapFS, name string) error) error {
	f.b.shelf.mu.Lock()
	defer f.b.shelf.mu.Unlock()
	if f.b.off() {
		return machine.ErrOff
	}
	return fn(f.b.files, name[1:])
}

func (f boxFiles) ReadFile(name string) (data []byte, err error) {
	err = f.do(name, func(files fstest.MapFS, name string) (err error) { data, err = files.ReadFile(name); return err })
	return data, err
}

func (f boxFiles) Stat(name string) (info fs.FileInfo, err error) {
	err = f.do(name, func(files fstest.MapFS, name string) (err error) { info, err = files.Stat(name); return err })
	return info, err
}

func (f boxFiles) ReadDir(name string) (list []fs.DirEntry, err error) {
	err = f.do(name, func(files fstest.MapFS, name string) (err error) { list, err = files.ReadDir(name); return err })
	return list, err
}

func (f boxFiles) WriteFile(name string, data []byte, perm fs.FileMode) error {
	return f.do(name, func(files fstest.MapFS, name string) error {
		if _, err := files.Stat(path.Dir(name)); err != nil {
			return err
		}
		if old := files[name]; old != nil {
			perm = old.Mode
		}
		files[name] = &fstest.MapFile{Data: slices.Clone(data), Mode: perm}
		return nil
	})
}

func (f boxFiles) MkdirAll(name string, perm fs.FileMode) error {
	return f.do(name, func(files fstest.MapFS, name string) error {
		files[name] = &fstest.MapFile{Mode: fs.ModeDir | perm}
		return nil
	})
}

func (f boxFiles) Chown(name string, _, _ int) error {
	return f.do(name, func(files fstest.MapFS, name string) error { _, err := files.Stat(name); return err })
}

func (f boxFiles) Chmod(name string, perm fs.FileMode) error {
	return f.do(name, func(files fstest.MapFS, name string) error { files[name].Mode = perm; return nil })
}

func (f boxFiles) Rename(from, to string) error {
	return f.do(from, func(files fstest.MapFS, name string) error {
		files[to[1:]] = files[name]
		delete(files, name)
		return nil
	})
}

func (f boxFiles) RemoveAll(name string) error {
	return f.do(name, func(files fstest.MapFS, name string) error { delete(files, name); return nil })
}

func TestContract(t *testing.T) {
	disks := &sync.Map{}
	Run(t, World{
		Runtime:  func(*testing.T) machine.Runtime { return &shelf{disks: disks, on: map[string]*box{}} },
		Instance: machine.Instance{ID: "i-1", BootID: "1"},
	})
}
