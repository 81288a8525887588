// Package blobstore stores large contents in the data folder: S3's objects and the layers of images. Each blob is one
// file, and a record in internal/store refers to it. Smaller payloads belong in internal/bytestore.
//
// Blobs are written as streams, are on disk when Commit returns, and never change. After a crash, Open removes
// unfinished writes, and Sweep removes blobs that no record refers to. The total size of an account's blobs is limited.
package blobstore

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"hash"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
)

// ErrNotFound is in the error chain if a blob does not exist.
var ErrNotFound = errors.New("blob not found")

// ErrFull is in the error chain of a write if the account, or the disk, has no room for it.
var ErrFull = errors.New("the account's room for contents in the data folder is full")

// ErrDamaged is in the error chain of a read if a blob differs from what was written.
var ErrDamaged = errors.New("damaged blob")

// ErrReset is returned by Commit if the account was reset since Create.
var ErrReset = errors.New("the account was reset while the blob was written")

// DefaultRoom is the default limit on the total size of an account's blobs, in bytes.
const DefaultRoom = 20 << 30

// Config configures a store.
type Config struct {
	// Dir is the store's folder, which Open creates.
	Dir string
	// Ephemeral says that the store does not sync its files, because they are removed when the program ends.
	Ephemeral bool
	// Room limits the total size of an account's blobs, in bytes; 0 means DefaultRoom.
	Room int64
}

// A Place identifies where the blobs of one service in one account are stored.
type Place struct {
	Account string
	Kind    string // the service: s3
}

// A Blob identifies and describes stored content. It is meant to be part of a record.
type Blob struct {
	ID     string
	Size   int64
	SHA256 string // in hexadecimal
}

// A Store is an open store. Its methods may be called concurrently. Only one Store may use a folder; the caller must
// ensure that.
type Store struct {
	cfg Config

	mu     sync.Mutex
	used   map[string]int64 // bytes by account, including unfinished writes
	resets map[string]int   // how often each account was reset; "" counts resets of all accounts
	old    map[Place][]Blob // blobs that existed when the store was opened and have not been swept
}

// The folder contains unfinished writes in tmp, a file with the format's number, and the blobs as ACCOUNT/KIND/ID.
const (
	tmpDir     = "tmp"
	formatFile = "format"
	format     = "1"
)

// Open opens the store, or creates it, and removes unfinished writes.
func Open(cfg Config) (*Store, error) {
	if cfg.Room == 0 {
		cfg.Room = DefaultRoom
	}
	s := &Store{cfg: cfg, used: map[string]int64{}, resets: map[string]int{}, old: map[Place][]Blob{}}
	if err := os.RemoveAll(s.path(tmpDir)); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(s.path(tmpDir), 0o700); err != nil {
		return nil, err
	}
	switch b, err := os.ReadFile(s.path(formatFile)); {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.WriteFile(s.path(formatFile), []byte(format), 0o600); err != nil {
			return nil, err
		}
	case err != nil:
		return nil, err
	case len(b) > 0 && string(b) != format: // a crash may have left it empty
		return nil, fmt.Errorf("%s has format %s and this Drydock reads format %s; use a later Drydock, or choose another folder with --data-dir", cfg.Dir, b, format)
	}
	return s, s.load()
}

// load finds the existing blobs.
func (s *Store) load() error {
	return filepath.WalkDir(s.cfg.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(s.cfg.Dir, path)
		if err != nil {
			return err
		}
		parts := strings.Split(filepath.ToSlash(rel), "/")
		if len(parts) != 3 || !entry.Type().IsRegular() {
			return nil
		}
		info, err := entry.Info()
		if err != nil {
			return err
		}
		place := Place{parts[0], parts[1]}
		s.used[place.Account] += info.Size()
		s.old[place] = append(s.old[place], Blob{ID: parts[2], Size: info.Size()})
		return nil
	})
}

func (s *Store) path(parts ...string) string {
	return filepath.Join(append([]string{s.cfg.Dir}, parts...)...)
}

func (s *Store) file(p Place, id string) string { return s.path(p.Account, p.Kind, id) }

// Used returns the total size of an account's blobs, in bytes.
func (s *Store) Used(account string) int64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.used[account]
}

// charge adds n bytes to the account's use, or returns ErrFull.
func (s *Store) charge(account string, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > 0 && s.used[account]+n > s.cfg.Room {
		return ErrFull
	}
	s.used[account] += n
	return nil
}

// A Writer writes one blob. It is not safe for concurrent use.
type Writer struct {
	s      *Store
	place  Place
	file   *os.File
	sum    hash.Hash
	size   int64
	resets int
	done   bool
}

// Create starts a blob. The caller must call Commit to keep it, and must call Close in any case.
func (s *Store) Create(p Place) (*Writer, error) {
	if strings.ContainsAny(p.Account+p.Kind, `/\.`) || p.Account == "" || p.Kind == "" || p.Account == tmpDir {
		return nil, fmt.Errorf("blobstore: invalid place %v", p)
	}
	f, err := os.CreateTemp(s.path(tmpDir), "")
	if err != nil {
		return nil, full(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return &Writer{s: s, place: p, file: f, sum: sha256.New(), resets: s.resetsOf(p.Account)}, nil
}

func (s *Store) resetsOf(account string) int { return s.resets[account] + s.resets[""] }

// Write implements io.Writer. Its error is ErrFull if there is no room.
func (w *Writer) Write(b []byte) (int, error) {
	if err := w.s.charge(w.place.Account, int64(len(b))); err != nil {
		return 0, err
	}
	n, err := w.file.Write(b)
	w.sum.Write(b[:n])
	w.size += int64(n)
	if n < len(b) {
		_ = w.s.charge(w.place.Account, int64(n-len(b))) // giving back never fails
	}
	return n, full(err)
}

// Size returns the number of bytes written so far.
func (w *Writer) Size() int64 { return w.size }

// SHA256 returns the digest of the bytes written so far, in hexadecimal.
func (w *Writer) SHA256() string { return hex.EncodeToString(w.sum.Sum(nil)) }

// Commit completes the blob. It is on disk when Commit returns.
func (w *Writer) Commit() (Blob, error) {
	if !w.s.cfg.Ephemeral {
		if err := w.file.Sync(); err != nil {
			return Blob{}, full(err)
		}
	}
	blob := Blob{ID: rand.Text(), Size: w.size, SHA256: w.SHA256()}
	if err := w.name(blob); err != nil {
		return Blob{}, full(err)
	}
	return blob, w.s.syncFolder(w.s.path(w.place.Account, w.place.Kind))
}

// name moves the file to its place.
func (w *Writer) name(b Blob) error {
	w.s.mu.Lock()
	defer w.s.mu.Unlock()
	if w.resets != w.s.resetsOf(w.place.Account) {
		return ErrReset
	}
	if err := w.s.makeFolder(w.place); err != nil {
		return err
	}
	if err := os.Rename(w.file.Name(), w.s.file(w.place, b.ID)); err != nil {
		return err
	}
	w.done = true
	return nil
}

// Close removes what was written, unless Commit succeeded.
func (w *Writer) Close() error {
	if w.file == nil {
		return nil
	}
	err := w.file.Close()
	if !w.done {
		err = errors.Join(err, os.Remove(w.file.Name()))
		_ = w.s.charge(w.place.Account, -w.size)
	}
	w.file = nil
	return err
}

// makeFolder creates the folder of a place durably, so that it survives a crash.
func (s *Store) makeFolder(p Place) error {
	for _, dir := range []string{s.path(p.Account), s.path(p.Account, p.Kind)} {
		err := os.Mkdir(dir, 0o700)
		if errors.Is(err, fs.ErrExist) {
			continue
		}
		if err == nil {
			err = s.syncFolder(filepath.Dir(dir))
		}
		if err != nil {
			return err
		}
	}
	return nil
}

func (s *Store) syncFolder(dir string) error {
	if s.cfg.Ephemeral {
		return nil
	}
	d, err := os.Open(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

func full(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: %w", ErrFull, err)
	}
	return err
}

// Put writes all of r as one blob. An error of r aborts it.
func (s *Store) Put(p Place, r io.Reader) (Blob, error) {
	w, err := s.Create(p)
	if err != nil {
		return Blob{}, err
	}
	defer w.Close()
	if _, err := io.Copy(w, r); err != nil {
		return Blob{}, err
	}
	return w.Commit()
}

// Open opens length bytes of a blob starting at offset, or everything from offset if length is negative. If the blob is
// read from start to end, its digest is checked: the last Read returns ErrDamaged if the blob has changed. The reader
// remains valid if the blob is deleted.
func (s *Store) Open(p Place, b Blob, offset, length int64) (io.ReadCloser, error) {
	f, err := os.Open(s.file(p, b.ID))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s", ErrNotFound, b.ID)
	}
	if err != nil {
		return nil, err
	}
	info, err := f.Stat()
	if err == nil && info.Size() != b.Size {
		err = fmt.Errorf("%w: %s has %d of %d bytes", ErrDamaged, b.ID, info.Size(), b.Size)
	}
	if length < 0 {
		length = b.Size - offset
	}
	if err == nil && (offset < 0 || length < 0 || offset+length > b.Size) {
		err = fmt.Errorf("blobstore: %d bytes at %d of a blob of %d bytes", length, offset, b.Size)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	if offset == 0 && length == b.Size && b.SHA256 != "" {
		return &checked{File: f, blob: b, sum: sha256.New()}, nil
	}
	return struct {
		io.Reader
		io.Closer
	}{io.NewSectionReader(f, offset, length), f}, nil
}

// A checked reader reads a whole blob and checks its digest at the end.
type checked struct {
	*os.File
	blob Blob
	sum  hash.Hash
	read int64
}

func (c *checked) Read(p []byte) (int, error) {
	n, err := c.File.Read(p)
	c.sum.Write(p[:n])
	c.read += int64(n)
	// The digest is compared when the last bytes are read, not at io.EOF: callers that know the length do not read on.
	if c.read == c.blob.Size && (n > 0 || c.blob.Size == 0) && hex.EncodeToString(c.sum.Sum(nil)) != c.blob.SHA256 {
		return n, fmt.Errorf("%w: %s", ErrDamaged, c.blob.ID)
	}
	return n, err
}

// WriteTo keeps io.Copy from bypassing Read.
func (c *checked) WriteTo(w io.Writer) (int64, error) { return io.Copy(w, struct{ io.Reader }{c}) }

// Delete removes blobs. Those that do not exist are ignored.
func (s *Store) Delete(p Place, blobs ...Blob) error {
	var errs []error
	for _, b := range blobs {
		errs = append(errs, s.remove(p, b.ID))
	}
	return errors.Join(errs...)
}

func (s *Store) remove(p Place, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	name := s.file(p, id)
	info, err := os.Stat(name)
	if err == nil {
		err = os.Remove(name)
	}
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err == nil {
		s.used[p.Account] -= info.Size()
	}
	return err
}

// Sweep removes the blobs of a kind that existed when the store was opened and for which keep returns false: a crash
// may occur after a blob is written and before the record that refers to it. Each service calls it once, either before
// it serves requests or at any later time.
func (s *Store) Sweep(kind string, keep func(p Place, id string) bool) error {
	s.mu.Lock()
	old := map[Place][]Blob{}
	for p, blobs := range s.old {
		if p.Kind == kind {
			old[p] = blobs
			delete(s.old, p)
		}
	}
	s.mu.Unlock()
	var errs []error
	for p, blobs := range old {
		for _, b := range blobs {
			if !keep(p, b.ID) {
				errs = append(errs, s.remove(p, b.ID))
			}
		}
	}
	return errors.Join(errs...)
}

// Reset removes all blobs of an account, or of all accounts if account is empty. Unfinished writes fail.
func (s *Store) Reset(_ context.Context, account string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.resets[account]++
	entries, err := os.ReadDir(s.cfg.Dir)
	errs := []error{err}
	for _, e := range entries {
		if !e.IsDir() || e.Name() == tmpDir || account != "" && e.Name() != account {
			continue
		}
		err := filepath.WalkDir(s.path(e.Name()), func(_ string, entry fs.DirEntry, err error) error {
			if err == nil && entry.Type().IsRegular() {
				if info, err := entry.Info(); err == nil {
					s.used[e.Name()] -= info.Size()
				}
			}
			return err
		})
		errs = append(errs, err, os.RemoveAll(s.path(e.Name())))
	}
	return errors.Join(errs...)
}
