package volumes

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/testkit/needs"
)

// store returns an empty store, or skips the test where volumes cannot be mounted.
func store(t *testing.T) *Store {
	t.Helper()
	err := Usable()
	if os.Geteuid() != 0 {
		err = errors.New("the user is not root")
	}
	if err != nil {
		needs.Missing(t, "volumes need root, mkfs.ext4 and loop devices: %v", err)
	}
	return New(t.TempDir())
}

// mount mounts a volume until the test ends, and returns a path of its root.
func mount(t *testing.T, s *Store, v machine.Volume) (root string, unmount func()) {
	t.Helper()
	f, err := s.Mount(v, "i-1", os.Getuid())
	if err != nil {
		t.Fatal(err)
	}
	at := t.TempDir()
	if err := unix.MoveMount(int(f.Fd()), "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	done := false
	unmount = func() {
		if !done {
			done = true
			if err := unix.Unmount(at, 0); err != nil {
				t.Error(err)
			}
		}
	}
	t.Cleanup(unmount)
	return at, unmount
}

func write(t *testing.T, dir, text string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, "file"), []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

func read(t *testing.T, dir string) string {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, "file"))
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// size returns the size of a mounted file system in MiB.
func size(t *testing.T, dir string) uint64 {
	t.Helper()
	var st unix.Statfs_t
	if err := unix.Statfs(dir, &st); err != nil {
		t.Fatal(err)
	}
	return st.Blocks * uint64(st.Bsize) >> 20
}

func TestVolumesKeepTheirData(t *testing.T) {
	s := store(t)
	v := machine.Volume{ID: "vol-1", SizeGiB: 1}
	dir, unmount := mount(t, s, v)
	write(t, dir, "first")
	again, unmountAgain := mount(t, s, v)
	if got := read(t, again); got != "first" {
		t.Errorf("the second mount has %q", got)
	}
	unmount()
	write(t, again, "second")
	if _, err := s.Mount(v, "i-2", os.Getuid()); err == nil || !strings.Contains(err.Error(), "another machine") {
		t.Errorf("another machine gets it while it is in use: %v", err)
	}

	if err := s.Copy("vol-1", "snap-1"); err != nil { // while it is mounted
		t.Fatal(err)
	}
	write(t, again, "third")
	from, _ := mount(t, s, machine.Volume{ID: "vol-2", SizeGiB: 3, SnapshotID: "snap-1"})
	if got := read(t, from); got != "second" {
		t.Errorf("the snapshot has %q", got)
	}
	if mib := size(t, from); mib < 2800 || mib > 3072 {
		t.Errorf("a volume of 3 GiB has %d MiB", mib)
	}
	for _, from := range []string{"snap-none", "vol-1"} {
		if err := s.Copy(from, "vol-2"); err != nil {
			t.Errorf("copying %s: %v", from, err)
		}
	}
	if got := read(t, from); got != "second" {
		t.Errorf("after a copy to a volume that has data, there is %q", got)
	}
	unmountAgain()
	next, err := s.Mount(v, "i-2", os.Getuid())
	if err != nil {
		t.Fatalf("the next machine: %v", err)
	}
	if err := next.Close(); err != nil {
		t.Error(err)
	}
}

func TestVolumesAreBounded(t *testing.T) {
	s := store(t)
	dir, unmount := mount(t, s, machine.Volume{ID: "vol-1", SizeGiB: 1})
	f, err := os.Create(filepath.Join(dir, "large"))
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 1<<30); !errors.Is(err, unix.ENOSPC) {
		t.Errorf("one GiB more than fits: %v", err)
	}
	larger := machine.Volume{ID: "vol-1", SizeGiB: 2}
	_, again := mount(t, s, larger)
	again()
	if !mayGrow() { // then not while it is mounted
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
		unmount()
		dir, _ = mount(t, s, larger)
		if f, err = os.OpenFile(filepath.Join(dir, "large"), os.O_RDWR, 0); err != nil {
			t.Fatal(err)
		}
		defer f.Close()
	}
	if mib := size(t, dir); mib < 1900 {
		t.Errorf("after growing to 2 GiB, there are %d MiB", mib)
	}
	if err := unix.Fallocate(int(f.Fd()), 0, 0, 1<<30); err != nil {
		t.Errorf("after growing: %v", err)
	}
}

// An image that is larger than its volume stays as it is, and so does its data.
func TestASmallerVolume(t *testing.T) {
	s := store(t)
	dir, unmount := mount(t, s, machine.Volume{ID: "vol-1", SizeGiB: 2})
	write(t, dir, "kept")
	unmount()
	dir, _ = mount(t, s, machine.Volume{ID: "vol-1", SizeGiB: 1})
	if got := read(t, dir); got != "kept" {
		t.Errorf("it has %q", got)
	}
	if mib := size(t, dir); mib < 1900 {
		t.Errorf("there are %d MiB", mib)
	}
}

func TestNothingIsLeft(t *testing.T) {
	s := store(t)
	_, unmount := mount(t, s, machine.Volume{ID: "vol-1", SizeGiB: 1})
	name, _ := s.file("vol-1")
	has := func() bool {
		device, err := attached(name)
		if err != nil {
			t.Fatal(err)
		}
		if device != nil {
			_ = device.Close()
		}
		return device != nil
	}
	if !has() {
		t.Error("a mounted volume has no device")
	}
	unmount()
	for deadline := time.Now().Add(10 * time.Second); has(); { // other programs look at new devices
		if time.Now().After(deadline) {
			t.Fatal("a volume that is not mounted has a device")
		}
	}
	if err := s.Copy("vol-1", "vol-2"); err != nil {
		t.Fatal(err)
	}
	if err := s.Sweep(map[string]bool{"vol-2": true}); err != nil {
		t.Fatal(err)
	}
	if err := s.Remove("vol-2", "vol-2"); err != nil {
		t.Error(err)
	}
	if left, err := os.ReadDir(s.dir); err != nil || len(left) > 0 {
		t.Errorf("left: %v %v", left, err)
	}
}

func TestFrozenVolumesThaw(t *testing.T) {
	s := store(t)
	dir, unmount := mount(t, s, machine.Volume{ID: "vol-1", SizeGiB: 1})
	f, err := os.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := unix.IoctlSetInt(int(f.Fd()), fiFreeze, 0); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if err := New(s.dir).Sweep(map[string]bool{"vol-1": true}); err != nil { // as the next daemon does
		t.Fatal(err)
	}
	write(t, dir, "written")
	unmount()
}

func TestHostileIDs(t *testing.T) {
	s := New(t.TempDir())
	for _, id := range []string{"", "vol-", "vol-../x", "i-1", "snap-1/x", "vol-1.ext4", "vol-1\n"} {
		if err := s.Copy(id, "vol-1"); err == nil || !strings.Contains(err.Error(), "neither") {
			t.Errorf("%q: %v", id, err)
		}
	}
}
