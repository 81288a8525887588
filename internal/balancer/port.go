package balancer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"

	"github.com/drydock-dev/drydock/internal/store"
)

// ports are the ports on this machine, by load balancer.
var ports = store.NewCollection[portsRecord]("balancer", "ports")

type portsRecord struct {
	Local map[uint16]uint16 // by port of the load balancer
}

// remembered returns the ports on this machine that a load balancer has had.
func (p *Plane) remembered(key store.Key) (map[uint16]uint16, error) {
	r, err := ports.Get(p.cfg.Store, key)
	return r.Local, store.IgnoreNotFound(err)
}

// remember stores the ports on this machine of a load balancer.
func (p *Plane) remember(ctx context.Context, key store.Key, now map[uint16]uint16) error {
	return p.cfg.Store.Update(ctx, func(tx *store.Tx) error { return ports.Put(tx, key, portsRecord{now}) })
}

func (p *Plane) forget(ctx context.Context, key store.Key) error {
	old, err := p.remembered(key)
	if err != nil || len(old) == 0 {
		return err
	}
	return p.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		ports.Delete(tx, key)
		return nil
	})
}

// listenAt listens at a port of 127.0.0.1, or at another one if that is not free.
func listenAt(ctx context.Context, port uint16) (net.Listener, error) {
	var lc net.ListenConfig
	if port != 0 {
		if ln, err := lc.Listen(ctx, "tcp4", fmt.Sprintf("127.0.0.1:%d", port)); err == nil {
			return ln, nil
		}
	}
	return lc.Listen(ctx, "tcp4", "127.0.0.1:0")
}

// An accepted connection comes from a client's address.
type accepted struct {
	net.Conn
	client netip.AddrPort
	once   sync.Once
	gone   func()
}

// RemoteAddr implements net.Conn.
func (c *accepted) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.client) }

// Close implements net.Conn.
func (c *accepted) Close() error {
	c.once.Do(c.gone)
	return c.Conn.Close()
}

// CloseWrite ends what the client reads.
func (c *accepted) CloseWrite() error { return closeWrite(c.Conn) }

// pair returns the two ends of a connection.
func pair() (near, far net.Conn, err error) {
	syscall.ForkLock.RLock()
	fds, err := syscall.Socketpair(syscall.AF_UNIX, syscall.SOCK_STREAM, 0)
	if err == nil {
		syscall.CloseOnExec(fds[0])
		syscall.CloseOnExec(fds[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]net.Conn
	for i, fd := range fds {
		f := os.NewFile(uintptr(fd), "socketpair")
		c, e := net.FileConn(f)
		ends[i], err = c, errors.Join(err, e, f.Close())
	}
	if err != nil {
		for _, c := range ends {
			if c != nil {
				_ = c.Close()
			}
		}
		return nil, nil, err
	}
	return ends[0], ends[1], nil
}
