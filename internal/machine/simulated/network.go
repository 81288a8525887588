package simulated

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"net/netip"
	"os"
	"path"
	"reflect"
	"slices"
	"syscall"

	"github.com/drydock-dev/drydock/internal/machine"
)

// A Listener is a program on the machine that listens on a TCP port.
type Listener struct {
	// Local means that the program only listens on localhost.
	Local bool
	// Up reports whether the program is running now. Nil means that it always is.
	Up func() bool
	// Serve handles one client until it or the client closes the connection.
	Serve func(net.Conn)

	open context.Context // ends when its connections are to be closed
}

// Listen lets a program listen on a port until stop is called or the machine is switched off. Both close its connections.
func (c *Computer) Listen(port int, l Listener) (stop func()) {
	open, end := context.WithCancel(c.ctx)
	l.open = open
	c.mu.Lock()
	defer c.mu.Unlock()
	c.listeners[port] = l
	return func() {
		end()
		c.mu.Lock()
		defer c.mu.Unlock()
		delete(c.listeners, port)
	}
}

// Ports returns the TCP ports on which programs listen. The value is true if the program only listens on localhost.
func (c *Computer) Ports() map[int]bool {
	c.mu.Lock()
	listeners := maps.Clone(c.listeners)
	c.mu.Unlock()
	out := map[int]bool{}
	for port, l := range listeners {
		if l.Up == nil || l.Up() {
			out[port] = l.Local
		}
	}
	return out
}

// Attached returns the network interfaces that the machine has now.
func (c *Computer) Attached() []machine.Interface {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.interfaces)
}

// Dial implements machine.Machine.
func (c *Computer) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	if err := c.begin(); err != nil {
		return nil, err
	}
	if local, self := c.addressed(host); self {
		return c.dialSelf(ctx, host, port, local)
	}
	defer c.runs.Done()
	if c.rt.cfg.Dial == nil {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Err: os.NewSyscallError("connect", syscall.ENETUNREACH)}
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	defer context.AfterFunc(c.ctx, cancel)()
	conn, err := c.rt.cfg.Dial(ctx, c.in, host, port)
	if err != nil {
		if c.ctx.Err() != nil {
			return nil, machine.ErrOff
		}
		return nil, err
	}
	return c.plug(conn), nil
}

// addressed reports whether a host is the machine itself, and whether it is localhost.
func (c *Computer) addressed(host string) (local, self bool) {
	if host == "localhost" {
		return true, true
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return false, host != "" && host == c.in.PrivateDNSName
	}
	if ip.IsLoopback() {
		return true, true
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	return false, ip == c.in.PrivateIP || slices.ContainsFunc(c.interfaces, func(i machine.Interface) bool { return slices.Contains(i.Addresses, ip) })
}

// dialSelf connects to a program on the machine. The caller has called begin.
func (c *Computer) dialSelf(ctx context.Context, host string, port int, local bool) (net.Conn, error) {
	c.mu.Lock()
	l, ok := c.listeners[port]
	c.mu.Unlock()
	if !ok || l.Local && !local || l.Up != nil && !l.Up() {
		c.runs.Done()
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: address{net.JoinHostPort(host, fmt.Sprint(port))}, Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	source := machine.SourceFrom(ctx).Addr()
	switch {
	case source.IsValid():
	case local:
		source = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	default:
		source = c.in.PrivateIP
	}
	from := address{netip.AddrPortFrom(source, firstPort+uint16(c.connections.Add(1)%portCount)).String()}
	client, server := newPipe()
	go func() {
		defer c.runs.Done()
		defer server.Close()
		defer context.AfterFunc(l.open, func() { _ = server.Close() })()
		l.Serve(incoming{server, from})
	}()
	return c.plug(client), nil
}

// The range of ports from which Linux connects.
const (
	firstPort = 32768
	portCount = 28232
)

// An incoming connection is what a listener accepts.
type incoming struct {
	net.Conn
	from address
}

// RemoteAddr implements net.Conn.
func (i incoming) RemoteAddr() net.Addr { return i.from }

type address struct{ text string }

func (a address) Network() string { return "tcp" }
func (a address) String() string  { return a.text }

// plug closes a connection when the machine is switched off.
func (c *Computer) plug(conn net.Conn) net.Conn {
	return &plugged{conn, context.AfterFunc(c.ctx, func() { _ = conn.Close() })}
}

type plugged struct {
	net.Conn
	unplug func() bool
}

func (p *plugged) Close() error {
	p.unplug()
	return p.Conn.Close()
}

// CloseWrite lets tunnels close one direction.
func (p *plugged) CloseWrite() error {
	if half, ok := p.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return errors.ErrUnsupported
}

// interfacesDir is where Linux shows network interfaces.
const interfacesDir = "/sys/class/net"

// SetInterfaces implements machine.Machine.
func (c *Computer) SetInterfaces(ctx context.Context, all []machine.Interface) error {
	if c.image == nil {
		return c.Unsupported.SetInterfaces(ctx, all)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.off || c.ctx.Err() != nil {
		return machine.ErrOff
	}
	if reflect.DeepEqual(all, c.interfaces) {
		return nil
	}
	c.interfaces = slices.Clone(all)
	return c.showInterfaces()
}

// showInterfaces writes the files in which programs find network interfaces. c.mu is held.
func (c *Computer) showInterfaces() error {
	files := c.image.FS
	if err := files.RemoveAll(interfacesDir); err != nil {
		return err
	}
	macs := map[string]string{"lo": "00:00:00:00:00:00"}
	for _, i := range c.interfaces {
		macs[c.image.InterfaceName(i.Device)] = i.MAC
	}
	for name, mac := range macs {
		if err := files.MkdirAll(path.Join(interfacesDir, name), 0o755); err != nil {
			return err
		}
		if err := files.WriteFile(path.Join(interfacesDir, name, "address"), []byte(mac+"\n"), 0o444); err != nil {
			return err
		}
	}
	return nil
}
