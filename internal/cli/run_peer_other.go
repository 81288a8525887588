//go:build !linux

package cli

import "net"

// ownPeer: who is at the other end is not asked for here. Whoever is on this machine
// can connect while the command runs, as to the daemon itself.
func ownPeer(net.Conn) bool { return true }
