package twin

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// A Scratch is a folder for the answers of a command that keeps no recording, so that the same command can go on where it was
// interrupted.
type Scratch struct {
	dir  string
	lock *os.File
	// after is the time after which answers of an earlier run are still good.
	after time.Time
}

// TakeScratch returns a folder for a command, below a parent with such folders of others, or nil if the same command runs already.
// What was last written to before a time is deleted.
func TakeScratch(parent, command string, after time.Time) (*Scratch, error) {
	const prefix = "reading-"
	s := &Scratch{dir: filepath.Join(parent, prefix+command), after: after}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	all, err := filepath.Glob(filepath.Join(parent, prefix+"*"))
	if err != nil {
		return nil, err
	}
	for _, dir := range all {
		lock, err := lockFolder(dir)
		switch {
		case err != nil: // somebody reads, or has just deleted it
		case dir == s.dir:
			s.lock = lock
		default:
			if !lastWritten(dir).After(after) {
				err = os.RemoveAll(dir)
			}
			if err := errors.Join(err, lock.Close()); err != nil {
				return nil, err
			}
		}
	}
	if s.lock == nil {
		return nil, nil
	}
	return s, nil
}

func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	if err := unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// Open opens the folder for a recording of a source. What an earlier run left is continued if it is complete or not, but not if it is of
// another source, unreadable or old.
func (s *Scratch) Open(of recording.Source) (*Folder, error) {
	f := newFolder(s.dir)
	if old, err := ReadFolder(s.dir); err == nil && old.Source.SameScope(of) && lastWritten(s.dir).After(s.after) {
		return f, f.resume(old)
	}
	entries, err := os.ReadDir(s.dir)
	if err != nil {
		return nil, err
	}
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(s.dir, e.Name())))
	}
	return f, errors.Join(err, f.writeSource(of))
}

// Release gives the folder up. It is deleted if nobody needs it any more.
func (s *Scratch) Release(needed bool) error {
	var err error
	if !needed {
		err = os.RemoveAll(s.dir)
	}
	return errors.Join(err, s.lock.Close())
}

// lastWritten is when a file in a folder was last written to.
func lastWritten(dir string) time.Time {
	var times []time.Time
	_ = filepath.WalkDir(dir, func(_ string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		if info, err := d.Info(); err == nil {
			times = append(times, info.ModTime())
		}
		return nil
	})
	if len(times) == 0 {
		return time.Time{}
	}
	return slices.MaxFunc(times, time.Time.Compare)
}
