//go:build !linux

package cli

import "net"

// ownPeer returns true: this system offers no check. Any user of this machine can connect while the command runs, as
// to the daemon itself.
func ownPeer(net.Conn) bool { return true }
