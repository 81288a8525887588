package e2e

import (
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"os"
	"runtime"

	"github.com/rogpeppe/go-internal/testscript"
	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// internet ADDRESS:PORT OWN:PORT makes an HTTP server that stands for the internet until the script ends. It is in a network namespace of
// its own, to which this machine has a route. It answers with the address that it sees. The same server listens at a further address, which is
// this machine's.
func internet(ts *testscript.TestScript, _ bool, args []string) {
	at, ours := netip.MustParseAddrPort(args[0]), netip.MustParseAddrPort(args[1])
	here, there := netip.MustParsePrefix("198.18.213.1/30"), netip.MustParsePrefix("198.18.213.2/30")
	ipNet := func(p netip.Prefix) *net.IPNet {
		return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), 32)}
	}
	one := ipNet(netip.PrefixFrom(at.Addr(), 32))
	name := fmt.Sprintf("inet%d", os.Getpid())
	host, err := netlink.NewHandle()
	ts.Check(err)
	defer host.Close()
	ns, err := os.Open("/proc/thread-self/ns/net")
	ts.Check(err)
	defer ns.Close()
	type result struct {
		l   net.Listener
		err error
	}
	made := make(chan result, 1)
	go func() {
		runtime.LockOSThread() // never unlocked: the thread ends with the goroutine
		made <- func() (r result) {
			if r.err = unix.Unshare(unix.CLONE_NEWNET); r.err != nil {
				return r
			}
			own, err := netlink.NewHandle()
			if err != nil {
				return result{err: err}
			}
			defer own.Close()
			attrs := netlink.NewLinkAttrs()
			attrs.Name = "eth0"
			r.err = own.LinkAdd(&netlink.Veth{LinkAttrs: attrs, PeerName: name, PeerNamespace: netlink.NsFd(int(ns.Fd()))})
			for _, dev := range []string{"lo", "eth0"} {
				if r.err == nil {
					var l netlink.Link
					if l, r.err = own.LinkByName(dev); r.err != nil {
						break
					}
					a := &netlink.Addr{IPNet: ipNet(there)}
					if dev == "lo" {
						a.IPNet = one
					}
					if r.err = own.AddrAdd(l, a); r.err == nil {
						r.err = own.LinkSetUp(l)
					}
				}
			}
			if r.err == nil {
				r.l, r.err = net.Listen("tcp4", at.String())
			}
			return r
		}()
	}()
	r := <-made
	ts.Check(r.err)
	server := &http.Server{Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		host, _, _ := net.SplitHostPort(r.RemoteAddr)
		fmt.Fprintf(w, "the internet sees %s", host)
	})}
	go func() { _ = server.Serve(r.l) }()
	ts.Defer(func() { _ = server.Close() }) // the namespace goes with its last socket
	l, err := host.LinkByName(name)
	ts.Check(err)
	ts.Defer(func() {
		if l, err := netlink.LinkByName(name); err == nil { // its peer may have gone before
			_ = netlink.LinkDel(l)
		}
	})
	for _, p := range []netip.Prefix{here, netip.PrefixFrom(ours.Addr(), 32)} {
		ts.Check(host.AddrAdd(l, &netlink.Addr{IPNet: ipNet(p)}))
	}
	ts.Check(host.LinkSetUp(l))
	ts.Check(host.RouteAdd(&netlink.Route{Dst: one, Gw: there.Addr().AsSlice(), LinkIndex: l.Attrs().Index}))
	own, err := net.Listen("tcp4", ours.String())
	ts.Check(err)
	go func() { _ = server.Serve(own) }()
}
