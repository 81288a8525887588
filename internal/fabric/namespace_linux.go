package fabric

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"runtime"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"
)

// A namespace is a network namespace.
type namespace struct {
	fd int
	nl *netlink.Handle
}

// newNamespace makes a network namespace that lives as long as it is open.
func newNamespace() (*namespace, error) {
	fd := -1
	err := onThread(func() error {
		if err := unix.Unshare(unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("make a network namespace: %w", err)
		}
		var err error
		fd, err = unix.Open("/proc/thread-self/ns/net", unix.O_RDONLY|unix.O_CLOEXEC, 0)
		return err
	})
	if err != nil {
		return nil, err
	}
	return namespaceAt(fd)
}

// namespaceAt owns the descriptor.
func namespaceAt(fd int) (*namespace, error) {
	ns := &namespace{fd: fd}
	err := ns.do(func() (err error) {
		ns.nl, err = netlink.NewHandle()
		return err
	})
	if err != nil {
		unix.Close(fd)
		return nil, err
	}
	return ns, nil
}

func (ns *namespace) close() {
	ns.nl.Close()
	unix.Close(ns.fd)
}

// do runs fn in the namespace, on a thread of its own.
func (ns *namespace) do(fn func() error) error {
	return onThread(func() error {
		if err := unix.Setns(ns.fd, unix.CLONE_NEWNET); err != nil {
			return fmt.Errorf("enter a network namespace: %w", err)
		}
		return fn()
	})
}

// onThread runs fn on a thread that ends afterwards, so that it may change the thread's namespaces. It is not the main thread,
// which would not end, and by which others see the process.
func onThread(fn func() error) error {
	done := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if unix.Gettid() == unix.Getpid() {
			done <- onThread(fn) // on another thread, while this goroutine has the main one
			runtime.UnlockOSThread()
			return
		}
		done <- fn() // never unlocked: the thread ends with the goroutine
	}()
	return <-done
}

// receive makes a table by which all packets are for this host.
func (ns *namespace) receive() error {
	if err := up(ns.nl, "lo"); err != nil {
		return err
	}
	lo, err := ns.nl.LinkByName("lo")
	if err != nil {
		return err
	}
	for _, all := range []string{"0.0.0.0/0", "::/0"} {
		r := netlink.Route{Table: hereTable, Dst: ipNet(netip.MustParsePrefix(all)), LinkIndex: lo.Attrs().Index, Type: unix.RTN_LOCAL, Scope: unix.RT_SCOPE_HOST}
		if err := ns.nl.RouteReplace(&r); err != nil {
			return fmt.Errorf("accept all addresses: %w", err)
		}
	}
	return nil
}

// accept delivers what comes from a device to this host, whatever its destination.
func (ns *namespace) accept(device string) error {
	for _, family := range []int{netlink.FAMILY_V4, netlink.FAMILY_V6} {
		r := netlink.NewRule()
		r.Family, r.IifName, r.Table, r.Priority = family, device, unix.RT_TABLE_LOCAL, 10
		if err := ns.nl.RuleAdd(r); err != nil && !errors.Is(err, unix.EEXIST) {
			return fmt.Errorf("add routing rule: %w", err)
		}
	}
	return nil
}

func up(nl *netlink.Handle, device string) error {
	dev, err := nl.LinkByName(device)
	if err == nil {
		err = nl.LinkSetUp(dev)
	}
	if err != nil {
		return fmt.Errorf("set %s up: %w", device, err)
	}
	return nil
}

// sysctl sets parameters of the current namespace's network, and skips those of protocols that the kernel lacks.
func sysctl(values map[string]string) error {
	for name, value := range values {
		if err := os.WriteFile("/proc/sys/net/"+name, []byte(value), 0); err != nil && !errors.Is(err, os.ErrNotExist) {
			return err
		}
	}
	return nil
}

func ipNet(p netip.Prefix) *net.IPNet {
	return &net.IPNet{IP: p.Addr().AsSlice(), Mask: net.CIDRMask(p.Bits(), p.Addr().BitLen())}
}
