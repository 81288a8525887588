package dialout

import (
	"errors"
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

func TestOnInternet(t *testing.T) {
	other := place{func() ([]net.Addr, error) { return nil, nil }, func(netip.Addr) error { return nil }}
	for address, want := range map[string]bool{
		"192.0.32.8": true, "8.8.8.8": true, "100.128.0.1": true, "172.32.0.1": true, "2606:4700::1111": true,
		"127.0.0.1": false, "::ffff:127.0.0.1": false, "169.254.169.254": false, "fe80::1": false, "fd00:ec2::254": false, "255.255.255.255": false, "224.0.0.1": false,
		"0.1.2.3": false, "10.1.2.3": false, "100.64.0.1": false, "172.16.0.1": false, "172.31.255.255": false, "192.168.1.1": false, "198.51.100.7": false, "198.19.0.1": false, "168.63.129.16": false, "168.63.129.17": true,
		"::ffff:10.0.0.1": false, "fd00::1": false, "64:ff9b::a00:1": false, "2002:a00:1::1": false,
	} {
		if err := other.onInternet(netip.MustParseAddr(address)); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	own, err := net.InterfaceAddrs()
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range own {
		p, err := netip.ParsePrefix(o.String())
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range []netip.Addr{p.Addr(), p.Masked().Addr()} {
			if OnInternet(a) == nil {
				t.Errorf("%s of this machine is on the internet", a)
			}
		}
	}
}

// Of public addresses, those of this machine's interfaces and networks are refused, and those that its kernel says are not another's.
func TestOwnPublicAddresses(t *testing.T) {
	failed := errors.New("no interfaces")
	own := []net.Addr{&net.IPNet{IP: net.IPv4(192, 0, 32, 8), Mask: net.CIDRMask(24, 32)}, &net.IPNet{IP: net.IPv4(192, 0, 46, 9), Mask: net.CIDRMask(32, 32)}}
	machine := place{func() ([]net.Addr, error) { return own, nil }, func(a netip.Addr) error {
		if a == netip.MustParseAddr("192.0.47.1") {
			return errors.New("local")
		}
		return nil
	}}
	for address, want := range map[string]bool{"192.0.32.8": false, "192.0.32.77": false, "192.0.46.9": false, "192.0.47.1": false, "192.0.46.10": true, "192.0.33.1": true} {
		if err := machine.onInternet(netip.MustParseAddr(address)); (err == nil) != want {
			t.Errorf("%s: %v", address, err)
		}
	}
	machine.interfaces = func() ([]net.Addr, error) { return nil, failed }
	if err := machine.onInternet(netip.MustParseAddr("192.0.46.10")); !errors.Is(err, failed) {
		t.Errorf("without a list of interfaces: %v", err)
	}
}

// A dialer of the internet refuses this machine's addresses, also if a name resolves to them.
func TestInternetRefusesThisMachine(t *testing.T) {
	for _, network := range []string{"tcp4", "udp4"} {
		for _, host := range []string{"127.0.0.1", "localhost", "0.0.0.0", "10.0.0.1"} {
			conn, err := Internet(time.Minute).DialContext(t.Context(), network, net.JoinHostPort(host, "9"))
			if err == nil {
				conn.Close()
				t.Errorf("%s %s was dialled", network, host)
			} else if !strings.Contains(err.Error(), "loopback") && !strings.Contains(err.Error(), "not an address of the internet") {
				t.Errorf("%s %s: %v", network, host, err)
			}
		}
	}
}
