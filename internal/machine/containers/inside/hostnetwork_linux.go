package inside

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/fabric"
)

// attach connects a machine to the fabric.
func (h *host) attach(g *guest) error {
	return h.attachAs(g, g.cfg.Interface, fabric.Attachment{Device: "eth0"})
}

// attachMore connects another network interface to a machine.
func (h *host) attachMore(a Attachment) error {
	defer h.turn(a.Machine, func() {})()
	g := h.guest(a.Machine)
	if g == nil {
		return fmt.Errorf("%s is off", a.Machine)
	}
	h.mu.Lock()
	attached := slices.Contains(g.more, a.Interface)
	h.mu.Unlock()
	if attached {
		return nil
	}
	if err := h.attachAs(g, a.Interface, fabric.Attachment{Device: a.Device, Secondary: true}); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g.more = append(g.more, a.Interface)
	return nil
}

func (h *host) attachAs(g *guest, eni string, at fabric.Attachment) error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", g.worker.PID()))
	if err != nil {
		return err
	}
	defer ns.Close()
	at.Netns = int(ns.Fd())
	return h.fabric.Attach(eni, at)
}

// apply changes the network.
func (h *host) apply(f *os.File) error {
	var st fabric.State
	if err := json.NewDecoder(f).Decode(&st); err != nil {
		return fmt.Errorf("reading the network: %w", err)
	}
	return h.fabric.Apply(&st)
}

// serve answers at a port of the network until the daemon closes the connection.
func (h *host) serve(c *net.UnixConn, s Service) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if s.Network == "udp" {
		l, err := h.fabric.ListenServiceUDP(ctx, s.Port)
		answer(c, err)
		if err != nil {
			return
		}
		go func() {
			defer l.Close()
			for {
				var d Datagram
				files, err := Receive(c, &d)
				closeAll(files)
				if err != nil {
					return
				}
				_ = l.Reply(d.Data, fabric.Datagram{Interface: d.Interface, Remote: d.Remote, Service: d.Service}) // the client asks again
			}
		}()
		b := make([]byte, fabric.MTU)
		for {
			n, d, err := l.Read(b)
			if err != nil || Send(c, Datagram{Interface: d.Interface, Remote: d.Remote, Service: d.Service, Data: b[:n]}) != nil {
				return
			}
		}
	}
	l, err := h.fabric.ListenService(ctx, s.Port)
	answer(c, err)
	if err != nil {
		return
	}
	go func() {
		_, _ = c.Read(make([]byte, 1)) // the daemon sends nothing more
		_ = l.Close()
	}()
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		from := in.(*fabric.ServiceConn)
		f, err := from.Conn.(*net.TCPConn).File()
		if err == nil {
			err = Send(c, Connection{Interface: from.Interface}, f)
			_ = f.Close()
		}
		_ = in.Close()
		if err != nil {
			_ = l.Close()
			return
		}
	}
}

// socket opens the namespace of the internet, or connects to a machine's socket, or a TCP address from a machine or from an interface that AWS manages.
func (h *host) socket(r HostRequest) (*os.File, error) {
	switch {
	case r.Open != "":
		return open(r.Open)
	case r.Outside:
		return h.fabric.Outside()
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialPatience)
	defer cancel()
	var c net.Conn
	if r.Dial.Machine == "" {
		if err := h.fabric.AttachManaged(r.Dial.Interface); err != nil {
			return nil, err
		}
		network := cmp.Or(r.Dial.Network, "tcp")
		var err error
		c, err = h.fabric.Dial(ctx, r.Dial.Interface, network, r.Dial.Client, r.Dial.Address)
		if errors.Is(err, unix.EADDRINUSE) || errors.Is(err, unix.EADDRNOTAVAIL) { // the client has used this port for the target a moment ago
			c, err = h.fabric.Dial(ctx, r.Dial.Interface, network, netip.AddrPortFrom(r.Dial.Client.Addr(), 0), r.Dial.Address)
		}
		if err != nil {
			return nil, err
		}
	} else {
		g := h.guest(r.Dial.Machine)
		if g == nil {
			return nil, fmt.Errorf("%s is off", r.Dial.Machine)
		}
		ns, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", g.worker.PID()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		defer unix.Close(ns)
		if err := within(ns, func() error {
			var d net.Dialer
			c, err = d.DialContext(ctx, "tcp", r.Dial.Address.String())
			return err
		}); err != nil {
			return nil, err
		}
	}
	defer c.Close()
	return c.(interface{ File() (*os.File, error) }).File() // of TCP or UDP
}

// dialPatience is how long a connection attempt lasts.
const dialPatience = 10 * time.Second

// within runs a function in a network namespace.
func within(ns int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		// The thread is not unlocked, so it ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			done <- os.NewSyscallError("setns", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// open connects to a machine's socket.
func open(id string) (*os.File, error) {
	if !validID.MatchString(id) {
		return nil, fmt.Errorf("invalid machine ID %q", id)
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(socketDir, id), Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.File()
}
