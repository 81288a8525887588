package cli

import (
	"bufio"
	"net"
	"net/netip"
	"strings"
	"testing"
)

func TestSocketOwner(t *testing.T) {
	const list = `  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt   uid  timeout inode
   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000     0        0 1 1 0 100 0 0 10 0
   1: 0100007F:C350 0100007F:1F90 01 00000000:00000000 00:00000000 00000000  1001        0 2 1 0 20 4 30 10 -1
   2: 0100007F:1F90 0100007F:C350 01 00000000:00000000 00:00000000 00000000  1000        0 3 1 0 20 4 30 10 -1
`
	listener := netip.MustParseAddrPort("127.0.0.1:8080")
	uid, ok := socketOwner(bufio.NewScanner(strings.NewReader(list)), netip.MustParseAddrPort("127.0.0.1:50000"), listener)
	if !ok || uid != 1001 {
		t.Errorf("owner %d, %v", uid, ok)
	}
	if _, ok := socketOwner(bufio.NewScanner(strings.NewReader(list)), netip.MustParseAddrPort("127.0.0.1:50001"), listener); ok {
		t.Error("nobody has that socket")
	}
}

// The kernel's own list has this test's connection.
func TestOwnPeer(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	c, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	far, err := ln.Accept()
	if err != nil {
		t.Fatal(err)
	}
	defer far.Close()
	if !ownPeer(far) {
		t.Error("it is this user's")
	}
}
