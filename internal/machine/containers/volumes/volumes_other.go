//go:build !linux

package volumes

import (
	"errors"
	"os"

	"github.com/drydock-dev/drydock/internal/machine"
)

// Usable returns an error: volumes are mounted on Linux.
func Usable() error { return errors.ErrUnsupported }

// Mount returns an error.
func (s *Store) Mount(machine.Volume, string, int) (*os.File, error) {
	return nil, errors.ErrUnsupported
}

func thaw(string) {}

func frozen(_ string, f func() error) error { return f() }

func copySparse(string, string) error { return errors.ErrUnsupported }
