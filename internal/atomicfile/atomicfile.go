// Package atomicfile replaces files at once: whoever reads one, also after a crash, finds
// all of the old content or all of the new.
package atomicfile

import (
	"errors"
	"os"
	"path/filepath"
)

// Write replaces a file, or makes it.
func Write(name string, content []byte, mode os.FileMode) error {
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // gone already when all went well
	_, err = f.Write(content)
	err = errors.Join(err, f.Chmod(mode), f.Sync(), f.Close())
	if err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}
