//go:build !linux

package containers

import (
	"context"
	"errors"
	"os"
)

var errNotLinux = errors.New("machines that run containers need Linux")

func (r *Runtime) startHost() error { return errNotLinux }

// Leave makes packets to the internet leave the network.
func (r *Runtime) Leave(context.Context) (*os.File, error) { return nil, errNotLinux }

func (r *Runtime) cleanUp() error { return nil }

func allowSetuid(*os.File) error { return errNotLinux }

func (r *Runtime) path(name string) string { return name }
