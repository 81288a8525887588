// Package volumes stores the data of EBS volumes that are attached to machines which run containers, and of their snapshots.
// Each is an image of an ext4 file system in a sparse file, which grows with what is written to it.
//
// A volume is mounted by a loop device, so its size is a real bound. Neither the mount nor the device has a name on the real
// machine, and the kernel frees both when the last machine that uses the volume has ended or detached it.
//
// Linux only; the daemon must be root. May be imported by packages app, compute and containers.
package volumes

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
)

// A Store is a folder with images.
type Store struct {
	dir string

	mu    sync.Mutex        // held while an image is made, copied, mounted or removed
	users map[string]string // the machine for which a volume was mounted last, by the volume's ID
}

// New returns the store in a folder, which is created when it is needed.
func New(dir string) *Store { return &Store{dir: dir} }

// Folder is the folder of a volume's file system that pods see, with a folder lost+found like that of a file system. It is not
// the root, because the kubelet does not let go of a volume whose root is mounted elsewhere, too, which it is by the machine.
const Folder = "volume"

const extension = ".ext4"

var valid = regexp.MustCompile(`^(vol|snap)-[0-9a-z]+$`)

// file returns the name of a volume's or snapshot's image.
func (s *Store) file(id string) (string, error) {
	if !valid.MatchString(id) {
		return "", fmt.Errorf("%q is the ID of neither a volume nor a snapshot", id)
	}
	return filepath.Join(s.dir, id+extension), nil
}

// Copy copies the data of a volume or snapshot as it is at one moment. If there is no data, or if the other one has data, it does
// nothing.
func (s *Store) Copy(from, to string) error {
	source, err := s.file(from)
	if err != nil {
		return err
	}
	target, err := s.file(to)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, err := os.Stat(source); errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if _, err := os.Stat(target); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return frozen(source, func() error { return copySparse(source, target) })
}

// Remove removes the data of volumes and snapshots, if any. The data of a volume that a machine still shows goes with its mount.
func (s *Store) Remove(ids ...string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	var errs []error
	for _, id := range ids {
		name, err := s.file(id)
		if err == nil {
			err = os.Remove(name)
		}
		if !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, err)
		}
	}
	return errors.Join(errs...)
}

// Sweep removes everything but the data of known volumes and snapshots: also what a daemon that was killed has left of those that
// it was making, enlarging or copying.
func (s *Store) Sweep(known map[string]bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	list, err := os.ReadDir(s.dir)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	errs := []error{err}
	for _, e := range list {
		name := filepath.Join(s.dir, e.Name())
		thaw(name)
		if id, ok := strings.CutSuffix(e.Name(), extension); !ok || !known[id] {
			errs = append(errs, os.Remove(name))
		}
	}
	return errors.Join(errs...)
}
