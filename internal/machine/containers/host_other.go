//go:build !linux

package containers

import "errors"

func (r *Runtime) startHost() error {
	return errors.New("machines that run containers need Linux")
}

func (r *Runtime) cleanUp() error { return nil }

func (r *Runtime) path(name string) string { return name }
