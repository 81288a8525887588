//go:build !linux

package programs

import "github.com/drydock-dev/drydock/internal/childproc"

// Command returns nil.
func Command(string) func([]string) int { return nil }

// Modes returns none: nodes that run containers need Linux.
func Modes() childproc.Modes { return nil }
