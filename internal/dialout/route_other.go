//go:build !linux

package dialout

import "net/netip"

// routed would ask the kernel.
func routed(netip.Addr) error { return nil }
