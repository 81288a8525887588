package blobstore

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
)

var here = Place{"000000000000", "s3"}

func open(t *testing.T, cfg Config) *Store {
	t.Helper()
	s, err := Open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func put(t *testing.T, s *Store, p Place, content string) Blob {
	t.Helper()
	b, err := s.Put(p, strings.NewReader(content))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func read(t *testing.T, s *Store, b Blob, offset, length int64) string {
	t.Helper()
	r, err := s.Open(here, b, offset, length)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	got, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return string(got)
}

// files returns the number of files below dir.
func files(t *testing.T, dir string) (n int) {
	t.Helper()
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err == nil && e.Type().IsRegular() && filepath.Base(path) != formatFile {
			n++
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPutAndOpen(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	b := put(t, s, here, "hello, world")
	sum := sha256.Sum256([]byte("hello, world"))
	if b.Size != 12 || b.SHA256 != hex.EncodeToString(sum[:]) {
		t.Errorf("blob %+v", b)
	}
	s = open(t, Config{Dir: dir}) // as after a restart
	for _, c := range []struct {
		offset, length int64
		want           string
	}{{0, -1, "hello, world"}, {0, 12, "hello, world"}, {7, -1, "world"}, {0, 5, "hello"}, {3, 4, "lo, "}, {12, -1, ""}} {
		if got := read(t, s, b, c.offset, c.length); got != c.want {
			t.Errorf("%d bytes at %d: %q, want %q", c.length, c.offset, got, c.want)
		}
	}
	if _, err := s.Open(here, b, 10, 3); err == nil {
		t.Error("opened more than there is")
	}
	if empty := put(t, s, here, ""); read(t, s, empty, 0, -1) != "" {
		t.Error("an empty blob has content")
	}
	if _, err := s.Open(Place{"000000000001", "s3"}, b, 0, -1); !errors.Is(err, ErrNotFound) {
		t.Errorf("another account's blob: %v", err)
	}
}

func TestPlacesAreNames(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir()})
	for _, p := range []Place{{"", "s3"}, {"000000000000", ""}, {"..", "s3"}, {"a/b", "s3"}, {"000000000000", "../s3"}, {tmpDir, "s3"}} {
		if _, err := s.Create(p); err == nil {
			t.Errorf("created a blob in %v", p)
		}
	}
}

func TestDamageIsAnError(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir()})
	b := put(t, s, here, "hello, world")
	if err := os.WriteFile(s.file(here, b.ID), []byte("hello, World"), 0o600); err != nil {
		t.Fatal(err)
	}
	r, err := s.Open(here, b, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if _, err := io.Copy(io.Discard, r); !errors.Is(err, ErrDamaged) {
		t.Errorf("reading a changed blob: %v", err)
	}
	if err := os.Truncate(s.file(here, b.ID), 3); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Open(here, b, 0, 1); !errors.Is(err, ErrDamaged) {
		t.Errorf("opening a shortened blob: %v", err)
	}
}

func TestRoom(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir, Room: 10})
	first := put(t, s, here, "123456")
	if _, err := s.Put(here, strings.NewReader("12345")); !errors.Is(err, ErrFull) {
		t.Errorf("11 of 10 bytes: %v", err)
	}
	put(t, s, Place{"000000000001", "s3"}, "12345") // other accounts have their own
	if got := s.Used(here.Account); got != 6 {
		t.Errorf("a refused write takes %d bytes", got-6)
	}
	s = open(t, Config{Dir: dir, Room: 10})
	if got := s.Used(here.Account); got != 6 {
		t.Errorf("used after a restart: %d", got)
	}
	// Unfinished writes count, so that concurrent writes do not exceed the limit together.
	w, err := s.Create(here)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "1234"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Put(here, strings.NewReader("1")); !errors.Is(err, ErrFull) {
		t.Errorf("while another write takes the rest: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if err := s.Delete(here, first, first, Blob{ID: "none"}); err != nil {
		t.Fatal(err)
	}
	if got := s.Used(here.Account); got != 0 {
		t.Errorf("used after everything was deleted: %d", got)
	}
	put(t, s, here, "1234567890")
}

func TestDeleteWhileReading(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir()})
	b := put(t, s, here, "hello")
	r, err := s.Open(here, b, 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := s.Delete(here, b); err != nil {
		t.Fatal(err)
	}
	if got, err := io.ReadAll(r); string(got) != "hello" || err != nil {
		t.Errorf("%q, %v", got, err)
	}
	if _, err := s.Open(here, b, 0, -1); !errors.Is(err, ErrNotFound) {
		t.Errorf("a deleted blob: %v", err)
	}
}

// After a crash, Open removes unfinished writes, and Sweep removes blobs without a record. Sweep spares new blobs,
// whose records may not have been written yet.
func TestCrash(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	kept, lost := put(t, s, here, "kept"), put(t, s, here, "lost")
	layer := put(t, s, Place{here.Account, "ecr"}, "layer")
	w, err := s.Create(here)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := io.WriteString(w, "unfinished"); err != nil {
		t.Fatal(err)
	}
	// The daemon is killed here: nothing is closed.

	s = open(t, Config{Dir: dir})
	if n := files(t, filepath.Join(dir, tmpDir)); n != 0 {
		t.Errorf("%d unfinished writes are left", n)
	}
	fresh := put(t, s, here, "fresh")
	if err := s.Sweep("s3", func(p Place, id string) bool { return p == here && id == kept.ID }); err != nil {
		t.Fatal(err)
	}
	for _, b := range []Blob{kept, fresh} {
		read(t, s, b, 0, -1)
	}
	if _, err := s.Open(here, lost, 0, -1); !errors.Is(err, ErrNotFound) {
		t.Errorf("a blob without a record: %v", err)
	}
	if got, want := s.Used(here.Account), kept.Size+fresh.Size+layer.Size; got != want {
		t.Errorf("used: %d, want %d", got, want)
	}
}

func TestReset(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Config{Dir: dir})
	other := Place{"000000000001", "s3"}
	put(t, s, here, "gone")
	put(t, s, other, "stays")
	w, err := s.Create(here)
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if _, err := io.WriteString(w, "too late"); err != nil {
		t.Fatal(err)
	}
	if err := s.Reset(t.Context(), here.Account); err != nil {
		t.Fatal(err)
	}
	if _, err := w.Commit(); !errors.Is(err, ErrReset) {
		t.Errorf("a write from before the reset: %v", err)
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	if got := s.Used(here.Account); got != 0 {
		t.Errorf("used after the reset: %d", got)
	}
	if got := s.Used(other.Account); got != 5 {
		t.Errorf("the other account has %d of 5 bytes", got)
	}
	put(t, s, here, "again")
	if err := s.Reset(t.Context(), ""); err != nil {
		t.Fatal(err)
	}
	if n := files(t, dir); n != 0 || s.Used(here.Account) != 0 || s.Used(other.Account) != 0 {
		t.Errorf("%d files are left", n)
	}
}

func TestLaterFormatIsRefused(t *testing.T) {
	dir := t.TempDir()
	open(t, Config{Dir: dir})
	if err := os.WriteFile(filepath.Join(dir, formatFile), []byte("2"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Open(Config{Dir: dir}); err == nil || !strings.Contains(err.Error(), "use a later Drydock") {
		t.Errorf("a later format: %v", err)
	}
}

func TestConcurrentWrites(t *testing.T) {
	s := open(t, Config{Dir: t.TempDir(), Ephemeral: true})
	content := bytes.Repeat([]byte("0123456789abcdef"), 4096)
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			b, err := s.Put(here, bytes.NewReader(content))
			if err != nil {
				t.Error(err)
				return
			}
			r, err := s.Open(here, b, 0, -1)
			if err != nil {
				t.Error(err)
				return
			}
			defer r.Close()
			if got, err := io.ReadAll(r); err != nil || !bytes.Equal(got, content) {
				t.Errorf("%d bytes, %v", len(got), err)
			}
			if err := s.Delete(here, b); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	if got := s.Used(here.Account); got != 0 {
		t.Errorf("used: %d", got)
	}
}
