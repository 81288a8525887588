package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

func newFS(t *testing.T) *vfs.FS {
	t.Helper()
	f := vfs.New(vfs.DefaultLimits, nil)
	for _, err := range []error{
		f.MkdirAll("/etc/eks", 0o755),
		f.WriteFile("/etc/eks/bootstrap.sh", []byte("#!/bin/bash\n"), 0o755),
		f.Symlink("eks/bootstrap.sh", "/etc/boot"),
		f.Symlink("/etc", "/config"),
		f.Symlink("loop", "/loop"),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	return f
}

func TestErrorsAreThoseOfLinux(t *testing.T) {
	f := newFS(t)
	_, read := f.ReadFile("/etc")
	_, missing := f.ReadFile("/etc/none")
	_, below := f.ReadFile("/etc/eks/bootstrap.sh/x")
	_, loop := f.ReadFile("/loop")
	_, list := f.ReadDir("/etc/boot")
	for _, tc := range []struct {
		name string
		err  error
		want syscall.Errno
	}{
		{"a folder read", read, syscall.EISDIR},
		{"nothing there", missing, syscall.ENOENT},
		{"a file used as a folder", below, syscall.ENOTDIR},
		{"a link to itself", loop, syscall.ELOOP},
		{"a file listed", list, syscall.ENOTDIR},
		{"a folder made again", f.Mkdir("/etc", 0o755), syscall.EEXIST},
		{"a folder in nothing", f.Mkdir("/a/b", 0o755), syscall.ENOENT},
		{"a full folder removed", f.Remove("/etc"), syscall.ENOTEMPTY},
		{"the root removed", f.RemoveAll("/"), syscall.EBUSY},
		{"a folder moved into itself", f.Rename("/etc", "/etc/eks/etc"), syscall.EINVAL},
		{"a folder overwritten", f.WriteFile("/etc", nil, 0o644), syscall.EISDIR},
	} {
		if !errors.Is(tc.err, tc.want) {
			t.Errorf("%s: %v, want %v", tc.name, tc.err, tc.want)
		}
	}
}

func TestLinksAreFollowed(t *testing.T) {
	f := newFS(t)
	for _, name := range []string{"/etc/boot", "/config/boot", "/config/../etc/eks/../boot", "/config/eks/bootstrap.sh"} {
		if b, err := f.ReadFile(name); err != nil || string(b) != "#!/bin/bash\n" {
			t.Errorf("%s: %q, %v", name, b, err)
		}
	}
	if i, err := f.Lstat("/etc/boot"); err != nil || i.Mode()&fs.ModeSymlink == 0 {
		t.Errorf("lstat: %v, %v", i, err)
	}
}

func TestLimits(t *testing.T) {
	f := vfs.New(vfs.Limits{Bytes: 100, Files: 5}, nil)
	w, err := f.Open("/big", os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write(make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("x")); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("byte 101: %v", err)
	}
	if err := f.Remove("/big"); err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		if err := f.WriteFile(fmt.Sprint("/", i), make([]byte, 20), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Mkdir("/more", 0o755); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("file 6: %v", err)
	}
}

func TestImage(t *testing.T) {
	f := newFS(t)
	if err := f.Chown("/etc/eks", 1000, 1000); err != nil {
		t.Fatal(err)
	}
	g := vfs.New(vfs.DefaultLimits, func() time.Time { return time.Unix(0, 0) })
	if err := g.Restore(f.Image()); err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(f.Image(), g.Image()); diff != "" {
		t.Error(diff)
	}
	small := vfs.New(vfs.Limits{Bytes: 3, Files: 100}, nil)
	if err := small.Restore(f.Image()); !errors.Is(err, syscall.ENOSPC) {
		t.Errorf("an image that is too large: %v", err)
	}
}

func TestOpenFlags(t *testing.T) {
	f := newFS(t)
	w, err := f.Open("/log", os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o644)
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []string{"one\n", "two\n"} {
		if _, err := io.WriteString(w, s); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := w.Read(make([]byte, 1)); !errors.Is(err, syscall.EBADF) {
		t.Errorf("reading what is open for writing: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := f.Open("/log", os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644); !errors.Is(err, syscall.EEXIST) {
		t.Errorf("O_EXCL: %v", err)
	}
	r, err := f.Open("/log", os.O_RDONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if b, err := io.ReadAll(r); err != nil || string(b) != "one\ntwo\n" {
		t.Errorf("%q, %v", b, err)
	}
}

func TestDiffAndApply(t *testing.T) {
	a, b := newFS(t), newFS(t)
	if err := b.Restore(a.Image()); err != nil {
		t.Fatal(err)
	}
	before := a.Image()
	for _, err := range []error{
		a.RemoveAll("/etc/eks"),
		a.WriteFile("/etc/new", []byte("x"), 0o600),
		a.Remove("/config"),
		a.Mkdir("/config", 0o755),
		a.WriteFile("/config/f", nil, 0o644),
		b.WriteFile("/etc/meanwhile", []byte("kept"), 0o644),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	changes := vfs.Diff(before, a.Image())
	if err := b.Apply(changes); err != nil {
		t.Fatal(err)
	}
	if got, err := b.ReadFile("/etc/meanwhile"); err != nil || string(got) != "kept" {
		t.Errorf("%q, %v", got, err)
	}
	if err := b.Remove("/etc/meanwhile"); err != nil {
		t.Fatal(err)
	}
	if left := vfs.Diff(a.Image(), b.Image()); len(left) > 0 {
		t.Errorf("still different: %+v", left)
	}
	if same := vfs.Diff(before, before); len(same) > 0 {
		t.Errorf("different from itself: %+v", same)
	}
}

// Creating a tree as deep as paths allow costs one walk for each folder, not one for each parent of each folder.
func TestDeepTrees(t *testing.T) {
	deep := vfs.New(vfs.DefaultLimits, nil)
	if err := deep.MkdirAll(strings.Repeat("/d", 2048), 0o700); err != nil {
		t.Fatal(err)
	}
	image := deep.Image()
	done := make(chan error, 1)
	go func() {
		f := vfs.New(vfs.DefaultLimits, nil)
		err := f.Apply(vfs.Diff(f.Image(), image))
		if left := vfs.Diff(f.Image(), image); err == nil && len(left) > 0 {
			err = fmt.Errorf("%d files differ", len(left))
		}
		done <- err
	}()
	select {
	case err := <-done:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(20 * time.Second): // of which it uses one hundredth
		t.Error("a deep tree is not applied within 20 s")
	}
}
