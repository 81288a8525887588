// Package atomicfile replaces files atomically: readers see either the old content or the
// new, even after a crash.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Write creates or replaces a file.
func Write(name string, content []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // fails after a successful rename
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
