package twin

import (
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
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
	// read is when an earlier run began to read what it has read completely, or zero if it has not.
	read time.Time
}

// Resumable is how long after an interruption a command that keeps no recording goes on where it was.
const Resumable = 15 * time.Minute

// scratches matches such folders below their parent.
const scratches = "reading-*"

// TakeScratch returns a folder for a command, below a parent with such folders of others, or nil if the same command runs already.
// What was last written to before a time is deleted.
func TakeScratch(parent, command string, after time.Time) (*Scratch, error) {
	s := &Scratch{dir: filepath.Join(parent, strings.TrimSuffix(scratches, "*")+command), after: after}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return nil, err
	}
	err := eachScratch(parent, func(dir string, lock *os.File) error {
		if dir == s.dir {
			s.lock = lock
			return nil
		}
		var err error
		if !lastWritten(dir).After(after) {
			err = os.RemoveAll(dir)
		}
		return errors.Join(err, lock.Close())
	})
	if err != nil || s.lock == nil {
		return nil, err
	}
	return s, nil
}

// CleanScratches deletes the folders below a parent that no command uses and that were last written to before a time, or are of accounts of
// which of reports true. It may be nil.
func CleanScratches(parent string, before time.Time, of func(account string) bool) error {
	return eachScratch(parent, func(dir string, lock *os.File) error {
		var err error
		if !lastWritten(dir).After(before) || of != nil && of(accountOf(dir)) {
			err = os.RemoveAll(dir)
		}
		return errors.Join(err, lock.Close())
	})
}

// accountOf returns the account that a folder is a recording of, or "" if it cannot be read.
func accountOf(dir string) string {
	var s recording.Source
	b, err := os.ReadFile(filepath.Join(dir, sourceFile))
	if err != nil || json.Unmarshal(b, &s) != nil {
		return ""
	}
	return s.Account
}

// eachScratch calls fn, which has to close the lock, for each folder below a parent that no other process uses.
func eachScratch(parent string, fn func(dir string, lock *os.File) error) error {
	all, err := filepath.Glob(filepath.Join(parent, scratches))
	if err != nil {
		return err
	}
	for _, dir := range all {
		lock, err := lockFolder(dir)
		if err != nil { // somebody reads, or has just deleted it
			continue
		}
		if err := fn(dir, lock); err != nil {
			return err
		}
	}
	return nil
}

func lockFolder(dir string) (*os.File, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB)
	if err == nil {
		err = unmoved(dir, f)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// unmoved returns an error unless an open folder is still the one of its name: its last owner may have deleted it before it was locked.
func unmoved(dir string, f *os.File) error {
	named, err := os.Stat(dir)
	if err != nil {
		return err
	}
	opened, err := f.Stat()
	if err == nil && !os.SameFile(named, opened) {
		err = fs.ErrNotExist
	}
	return err
}

// Open opens the folder for a recording of a source. What an earlier run left is continued, or used if it is complete, unless it is of
// another source, unreadable or old.
func (s *Scratch) Open(of recording.Source) (*Folder, error) {
	f := newFolder(s.dir)
	if old, err := ReadFolder(s.dir); err == nil && old.Source.SameScope(of) && lastWritten(s.dir).After(s.after) {
		if old.Source.Complete {
			s.read = old.Source.Started
		}
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

// Complete returns the folder, and when an earlier run read everything that Open has found in it, or false if it did not.
func (s *Scratch) Complete() (dir string, read time.Time, ok bool) {
	return s.dir, s.read, !s.read.IsZero()
}

// Release gives the folder up. It is deleted unless it is needed and has answers.
func (s *Scratch) Release(needed bool) error {
	answers, err := filepath.Glob(filepath.Join(s.dir, "*", "*.jsonl"))
	if !needed || len(answers) == 0 {
		err = errors.Join(err, os.RemoveAll(s.dir))
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
