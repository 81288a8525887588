//go:build !linux

package inside

import "github.com/drydock-dev/drydock/internal/childproc"

// HostModes returns none: machines that run containers need Linux.
func HostModes() childproc.Modes { return nil }
