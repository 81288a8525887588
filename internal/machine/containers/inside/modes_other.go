//go:build !linux

package inside

import "github.com/drydock-dev/drydock/internal/childproc"

// Modes returns none: machines that run containers need Linux.
func Modes() childproc.Modes { return nil }
