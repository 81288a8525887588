//go:build !linux

package volumes

import (
	"context"
	"errors"
	"os"

	"github.com/drydock-dev/drydock/internal/machine"
)

// Usable returns an error: volumes are mounted on Linux.
func Usable() error { return errors.ErrUnsupported }

// Mount returns an error.
func (s *Store) Mount(context.Context, machine.Volume, int) (*os.File, error) {
	return nil, errors.ErrUnsupported
}

func frozen(_ string, f func() error) error { return f() }

func copySparse(string, string) error { return errors.ErrUnsupported }
