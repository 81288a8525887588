//go:build !linux

package cli

import (
	"errors"
	"os/exec"
)

// ways: only Linux can show a program other files than the rest of the machine.
func (p podFiles) ways(path string, args, env []string) []*exec.Cmd {
	return []*exec.Cmd{child(path, args, env)}
}

func viewed(_ []string, path string, args, env []string) []*exec.Cmd {
	return []*exec.Cmd{child(path, args, env)}
}

func enterPodView(string) error   { return errors.ErrUnsupported }
func enterTrustView(string) error { return errors.ErrUnsupported }

func keepParent() {}
