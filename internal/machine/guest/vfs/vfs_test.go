package vfs_test

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"sync"
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

// TestBudget checks that file systems share what they have beyond their own limits.
func TestBudget(t *testing.T) {
	budget := vfs.NewBudget(100)
	shared := func() *vfs.FS {
		f := vfs.New(vfs.Limits{Bytes: 10, Files: 5}, nil)
		f.Share(budget, 90)
		return f
	}
	f, g := shared(), shared()
	write := func(f *vfs.FS, name string, size int, want error) {
		t.Helper()
		if err := f.WriteFile(name, make([]byte, size), 0o644); !errors.Is(err, want) {
			t.Errorf("%d bytes: %v, want %v", size, err, want)
		}
	}
	write(f, "/a", 91, syscall.ENOSPC)
	write(f, "/a", 90, nil) // 80 of the budget
	write(g, "/a", 31, syscall.ENOSPC)
	write(g, "/a", 30, nil)
	if n := g.Limits().Bytes; n != 30 {
		t.Errorf("a limit of %d bytes", n)
	}
	if err := f.Truncate("/a", 50); err != nil {
		t.Fatal(err)
	}
	if n := g.Limits().Bytes; n != 70 {
		t.Errorf("a limit of %d bytes", n)
	}
	write(g, "/a", 70, nil)
	if err := g.Remove("/a"); err != nil {
		t.Fatal(err)
	}
	image := f.Image()
	f.Release()
	f.Release()
	write(g, "/a", 90, nil)
	h := shared()
	if err := h.Restore(image); err != nil { // 40 more than the budget has
		t.Fatal(err)
	}
	write(h, "/b", 1, syscall.ENOSPC)
	g.Release()
	write(h, "/b", 1, nil)
	if n := h.Limits().Bytes; n != 90 {
		t.Errorf("a limit of %d bytes", n)
	}
}

// TestImagesDoNotChange writes in every way to files whose content an image has.
func TestImagesDoNotChange(t *testing.T) {
	f := vfs.New(vfs.DefaultLimits, nil)
	if err := f.WriteFile("/f", []byte("before"), 0o644); err != nil {
		t.Fatal(err)
	}
	at := func(f *vfs.FS) error {
		w, err := f.Open("/f", os.O_RDWR, 0)
		if err == nil {
			_, err = w.(io.WriterAt).WriteAt([]byte("AFTER"), 1)
		}
		return err
	}
	open := func(flags int) func(*vfs.FS) error {
		return func(f *vfs.FS) error {
			w, err := f.Open("/f", flags|os.O_WRONLY, 0)
			if err == nil {
				_, err = w.Write([]byte("AFTER"))
			}
			return err
		}
	}
	for i, change := range []func(*vfs.FS) error{
		at, open(0), open(os.O_APPEND), open(os.O_TRUNC),
		func(f *vfs.FS) error { return f.Truncate("/f", 3) },
		func(f *vfs.FS) error { return f.Truncate("/f", 9) },
		func(f *vfs.FS) error { return f.WriteFile("/f", []byte("AFTER!"), 0o644) },
	} {
		image := f.Image()
		g, h := vfs.New(vfs.DefaultLimits, nil), vfs.New(vfs.DefaultLimits, nil)
		if err := errors.Join(g.Restore(image), h.Restore(image), change(g), open(os.O_APPEND)(g), open(os.O_APPEND)(h)); err != nil {
			t.Fatal(err)
		}
		if b, err := h.ReadFile("/f"); err != nil || string(b) != "beforeAFTER" {
			t.Errorf("change %d: another file system has %q, %v", i, b, err)
		}
		if b, err := f.ReadFile("/f"); err != nil || string(b) != "before" || string(image[1].Data) != "before" {
			t.Errorf("change %d: the first file system has %q, %v, and the image %q", i, b, err, image[1].Data)
		}
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

// TestApplyMakesRoomFirst applies changes to a file system that has no room for both the old and the new.
func TestApplyMakesRoomFirst(t *testing.T) {
	full := vfs.Limits{Bytes: 100, Files: 10}
	a, b := vfs.New(full, nil), vfs.New(full, nil)
	for _, name := range []string{"/y", "/z"} {
		if err := a.WriteFile(name, []byte(strings.Repeat(name[1:], 40)), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	before := a.Image()
	data := []byte(strings.Repeat("a", 90))
	if err := errors.Join(b.Restore(before), a.Truncate("/z", 0), a.Remove("/y"), a.Mkdir("/y", 0o755), a.WriteFile("/a", data, 0o600)); err != nil {
		t.Fatal(err)
	}
	changes := vfs.Diff(before, a.Image())
	if err := b.Apply(changes); err != nil {
		t.Error(err)
	}
	if left := vfs.Diff(a.Image(), b.Image()); len(left) > 0 || b.Used() != 90 {
		t.Errorf("%d bytes; still different: %+v", b.Used(), left)
	}
	// The file systems share what they have, but not what they write.
	w, err := b.Open("/a", os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := w.Write([]byte("B")); err != nil {
		t.Fatal(err)
	}
	if got, err := a.ReadFile("/a"); err != nil || string(got) != string(data) {
		t.Errorf("%q, %v", got, err)
	}
	// What does not fit is an error, and the file stays as it is.
	if err := b.Apply([]vfs.Change{{Record: vfs.Record{Path: "/a", Mode: 0o644, Data: make([]byte, 101)}}}); !errors.Is(err, syscall.ENOSPC) {
		t.Error(err)
	}
	if got, err := b.ReadFile("/a"); err != nil || string(got) != "B"+string(data[1:]) {
		t.Errorf("%q, %v", got, err)
	}
}

// TestSnapshot checks that a copy always has room for its image, whatever happens to the file system in the meantime.
func TestSnapshot(t *testing.T) {
	budget := vfs.NewBudget(100)
	f, g := vfs.New(vfs.Limits{Bytes: 10, Files: 5}, nil), vfs.New(vfs.Limits{Bytes: 10, Files: 5}, nil)
	f.Share(budget, 90)
	g.Share(budget, 90)
	stop := make(chan struct{})
	var writers sync.WaitGroup
	for _, w := range []*vfs.FS{f, g, g} { // when one has 90 bytes, the other must have less
		writers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					_ = errors.Join(w.WriteFile("/a", make([]byte, 90), 0o644), w.Remove("/a")) // there may be no room
				}
			}
		})
	}
	for range 100000 {
		image, limits := f.Snapshot()
		if err := vfs.New(limits, nil).Restore(image); err != nil {
			t.Error(err)
			break
		}
	}
	close(stop)
	writers.Wait()
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
