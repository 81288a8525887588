package dialout

import (
	"net"
	"net/netip"
	"strings"
	"testing"
	"time"
)

func TestLocalAddresses(t *testing.T) {
	for address, want := range map[string]bool{
		"127.0.0.1": true, "127.9.9.9": true, "::1": true, "0.0.0.0": true, "::": true, "::ffff:127.0.0.1": true,
		"169.254.169.254": true, "fe80::1%eth0": true, "fd00:ec2::254": true, "224.0.0.1": true,
		"10.0.0.1": false, "192.0.2.1": false, "2001:db8::1": false, "fd00::1": false,
	} {
		if got := local(netip.MustParseAddr(address)); got != want {
			t.Errorf("%s: %v", address, got)
		}
	}
}

// A DNS name that resolves to loopback is refused, too.
func TestDialerRefusesThisMachine(t *testing.T) {
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer ln.Close()
	_, port, _ := net.SplitHostPort(ln.Addr().String())
	for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0"} {
		conn, err := Dialer(time.Minute).DialContext(t.Context(), "tcp", net.JoinHostPort(host, port))
		if err == nil {
			conn.Close()
		}
		if err == nil || !strings.Contains(err.Error(), "loopback") {
			t.Errorf("%s: %v", host, err)
		}
	}
}
