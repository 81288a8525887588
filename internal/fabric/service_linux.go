package fabric

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"syscall"

	"golang.org/x/sys/unix"
)

// A ServiceConn is a connection from an interface to a service of its VPC. Its LocalAddr is the service's address.
type ServiceConn struct {
	net.Conn
	Interface string
}

type serviceListener struct {
	net.Listener
	f *Fabric
}

// ListenService accepts TCP connections from all interfaces to a port of their VPCs' services (VPC.Services), and to
// all addresses that no machine has if it is a port of VPC.Proxy. The connections are *ServiceConn.
func (f *Fabric) ListenService(ctx context.Context, port uint16) (net.Listener, error) {
	lc := net.ListenConfig{Control: bind("")}
	l, err := lc.Listen(ctx, "tcp4", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		return nil, err
	}
	return &serviceListener{l, f}, nil
}

// Accept returns the next connection.
func (l *serviceListener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		raw, err := c.(*net.TCPConn).SyscallConn()
		if err == nil {
			var mark int
			if e := raw.Control(func(fd uintptr) { mark, err = unix.GetsockoptInt(int(fd), unix.SOL_SOCKET, unix.SO_MARK) }); e != nil {
				err = e
			}
			if id := l.f.idOf(uint32(mark) & maxNumber); err == nil && id != "" {
				return &ServiceConn{c, id}, nil
			}
		}
		c.Close() // the interface is gone
	}
}

func (f *Fabric) idOf(n uint32) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, x := range f.numbers {
		if x == n && f.links[id] != nil {
			return id
		}
	}
	return ""
}

// A Datagram says where a datagram to a service comes from, and where a reply goes.
type Datagram struct {
	Interface       string
	Remote, Service netip.AddrPort
}

// A ServiceSocket receives datagrams to services.
type ServiceSocket struct {
	c    *net.UDPConn
	f    *Fabric
	port uint16
}

// ListenServiceUDP receives datagrams from all interfaces to a port of their VPCs' services, over IPv4.
func (f *Fabric) ListenServiceUDP(ctx context.Context, port uint16) (*ServiceSocket, error) {
	lc := net.ListenConfig{Control: func(network, address string, c syscall.RawConn) error {
		var err error
		e := c.Control(func(fd uintptr) { err = unix.SetsockoptInt(int(fd), unix.IPPROTO_IP, unix.IP_PKTINFO, 1) })
		return errors.Join(bind("")(network, address, c), e, err)
	}}
	c, err := lc.ListenPacket(ctx, "udp4", fmt.Sprintf("0.0.0.0:%d", port))
	if err != nil {
		return nil, err
	}
	return &ServiceSocket{c.(*net.UDPConn), f, port}, nil
}

// Read receives a datagram.
func (s *ServiceSocket) Read(b []byte) (int, Datagram, error) {
	control := make([]byte, 128)
	for {
		n, oob, _, from, err := s.c.ReadMsgUDPAddrPort(b, control)
		if err != nil {
			return 0, Datagram{}, err
		}
		messages, err := unix.ParseSocketControlMessage(control[:oob])
		if err != nil {
			continue
		}
		for _, m := range messages {
			if m.Header.Level != unix.IPPROTO_IP || m.Header.Type != unix.IP_PKTINFO || len(m.Data) < unix.SizeofInet4Pktinfo {
				continue
			}
			to, _ := netip.AddrFromSlice(m.Data[8:12])
			d := Datagram{Remote: from, Service: netip.AddrPortFrom(to, s.port)}
			if d.Interface = s.f.at(int(binary.NativeEndian.Uint32(m.Data))); d.Interface != "" {
				return n, d, nil
			}
		}
	}
}

// at returns the interface that a device belongs to.
func (f *Fabric) at(index int) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	for id, l := range f.links {
		if l.index == index && l.borrowed {
			return id
		}
	}
	return ""
}

// serviceMark returns the mark of packets from services to an interface, or 0 if it is gone.
func (f *Fabric) serviceMark(id string) uint32 {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, e := range f.state.Interfaces {
		if e.ID == id && f.links[id] != nil {
			return finalMark(service, f.number(e.VPC), f.number(e.ID))
		}
	}
	return 0
}

// Reply answers a datagram.
func (s *ServiceSocket) Reply(b []byte, to Datagram) error {
	sent := s.f.serviceMark(to.Interface)
	if sent == 0 || !to.Service.Addr().Is4() {
		return nil // the interface is gone
	}
	from := to.Service.Addr().As4()
	control := unix.PktInfo4(&unix.Inet4Pktinfo{Spec_dst: from})
	mark := make([]byte, unix.CmsgSpace(4))
	binary.NativeEndian.PutUint64(mark, uint64(unix.CmsgLen(4)))
	binary.NativeEndian.PutUint32(mark[8:], unix.SOL_SOCKET)
	binary.NativeEndian.PutUint32(mark[12:], unix.SO_MARK)
	binary.NativeEndian.PutUint32(mark[16:], sent)
	_, _, err := s.c.WriteMsgUDPAddrPort(b, append(control, mark...), to.Remote)
	return err
}

// Close ends Read.
func (s *ServiceSocket) Close() error { return s.c.Close() }
