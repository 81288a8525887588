package cli

import (
	"bufio"
	"fmt"
	"net"
	"net/netip"
	"os"
	"strconv"
	"strings"
)

// ownPeer reports whether a connection over IPv4 loopback comes from a program of this user or root.
func ownPeer(c net.Conn) bool {
	peer, err := netip.ParseAddrPort(c.RemoteAddr().String())
	local, err2 := netip.ParseAddrPort(c.LocalAddr().String())
	if err != nil || err2 != nil || !peer.Addr().Is4() {
		return false
	}
	f, err := os.Open("/proc/self/net/tcp")
	if err != nil {
		return false
	}
	defer f.Close()
	uid, ok := socketOwner(bufio.NewScanner(f), peer, local)
	return ok && (uid == os.Getuid() || uid == 0)
}

// socketOwner finds the owner of a connection's socket in the kernel's list.
// https://docs.kernel.org/networking/proc_net_tcp.html
func socketOwner(list *bufio.Scanner, from, to netip.AddrPort) (uid int, ok bool) {
	hex := func(a netip.AddrPort) string {
		b := a.Addr().As4()
		return fmt.Sprintf("%02X%02X%02X%02X:%04X", b[3], b[2], b[1], b[0], a.Port())
	}
	f, t := hex(from), hex(to)
	for list.Scan() {
		fields := strings.Fields(list.Text())
		if len(fields) > 7 && fields[1] == f && fields[2] == t {
			uid, err := strconv.Atoi(fields[7])
			return uid, err == nil
		}
	}
	return 0, false
}
