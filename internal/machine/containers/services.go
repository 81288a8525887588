package containers

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	"github.com/drydock-dev/drydock/internal/machine/guest/cloudinit"
)

// CloudInit runs user data on the machine, and returns when its scripts have ended.
func (m *Machine) CloudInit(ctx context.Context, r inside.CloudInit) (cloudinit.Result, error) {
	c, err := m.rt.open(ctx, m.in.ID)
	if err != nil {
		return cloudinit.Result{}, err
	}
	defer c.Close()
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	var res inside.Response
	err = inside.Send(c, inside.MachineRequest{CloudInit: &r})
	if err == nil {
		var files []*os.File
		files, err = inside.Receive(c, &res)
		closeFiles(files...)
	}
	switch {
	case ctx.Err() != nil:
		return cloudinit.Result{}, ctx.Err()
	case err != nil:
		return cloudinit.Result{}, errors.Join(machine.ErrOff, err)
	case res.UserData == nil:
		return cloudinit.Result{}, errors.Join(res.Err(), errors.New("cloud-init gave no result"))
	}
	return *res.UserData, res.Err()
}

// A Service is a program of the daemon that answers at a port of the machine.
type service struct {
	up     func() bool
	handle func(net.Conn)
}

// Listen answers TCP connections to a port of the machine, while up returns true, until ctx ends. It returns when the
// machine listens.
func (m *Machine) Listen(ctx context.Context, port uint16, up func() bool, handle func(net.Conn)) error {
	c, err := m.rt.open(ctx, m.in.ID)
	if err != nil {
		return err
	}
	if _, err := exchange(ctx, c, inside.MachineRequest{Listen: port}); err != nil {
		return errors.Join(fmt.Errorf("listening at port %d: %w", port, err), c.Close())
	}
	s := service{up, handle}
	m.mu.Lock()
	m.services[port] = s
	m.mu.Unlock()
	context.AfterFunc(ctx, func() { _ = c.Close() })
	go func() {
		defer c.Close()
		defer func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			delete(m.services, port)
		}()
		for {
			var from inside.Connection
			files, err := inside.Receive(c, &from)
			if err != nil {
				return
			}
			for _, f := range files {
				in, err := net.FileConn(f)
				_ = f.Close()
				if err != nil {
					continue // it is closed already
				}
				if tcp, ok := in.(*net.TCPConn); ok && !up() {
					_ = errors.Join(tcp.SetLinger(0), tcp.Close()) // it may be closed
					continue
				}
				go handle(in)
			}
		}
	}()
	return nil
}

// local returns the service that answers a connection to a port of the machine itself, if the daemon answers there.
func (m *Machine) local(to netip.AddrPort) (service, bool) {
	if !to.Addr().IsLoopback() && to.Addr() != m.in.PrivateIP {
		return service{}, false
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	s, ok := m.services[to.Port()]
	return s, ok
}

// connect connects to a service as if from the address in ctx.
func (s service) connect(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	if !s.up() {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	syscall.ForkLock.RLock() // macOS does not make a socket that children do not get
	pair, err := unix.Socketpair(unix.AF_UNIX, unix.SOCK_STREAM, 0)
	if err == nil {
		unix.CloseOnExec(pair[0])
		unix.CloseOnExec(pair[1])
	}
	syscall.ForkLock.RUnlock()
	if err != nil {
		return nil, os.NewSyscallError("socketpair", err)
	}
	var ends [2]net.Conn
	for i, fd := range pair {
		f := os.NewFile(uintptr(fd), "socketpair")
		ends[i], err = net.FileConn(f)
		_ = f.Close()
		if err != nil {
			return nil, err
		}
	}
	source := machine.SourceFrom(ctx).Addr()
	if !source.IsValid() {
		source = to.Addr()
	}
	go s.handle(&sourced{ends[1].(*net.UnixConn), net.TCPAddrFromAddrPort(netip.AddrPortFrom(source, 32768+uint16(time.Now().UnixNano()%28000)))})
	return ends[0], nil
}

// A sourced connection comes from an address.
type sourced struct {
	*net.UnixConn
	from net.Addr
}

// RemoteAddr implements net.Conn.
func (s *sourced) RemoteAddr() net.Addr { return s.from }

// maxTools is how many of the image's programs a machine may run at once.
const maxTools = 32

// A Tool is a call of one of the image's programs.
type Tool struct {
	inside.ToolCall
	Stdin, Stdout, Stderr *os.File
}

// Tools runs the image's programs that the machine calls, until ctx ends. The function returns an exit status. Its context
// ends when the caller has gone.
func (m *Machine) Tools(ctx context.Context, run func(ctx context.Context, t Tool) int) error {
	c, err := m.rt.open(ctx, m.in.ID)
	if err != nil {
		return err
	}
	if _, err := exchange(ctx, c, inside.MachineRequest{Tools: true}); err != nil {
		return errors.Join(err, c.Close())
	}
	context.AfterFunc(ctx, func() { _ = c.Close() })
	go func() {
		defer c.Close()
		var running sync.WaitGroup
		defer running.Wait()
		slots := make(chan struct{}, maxTools)
		for {
			var call inside.ToolCall
			files, err := inside.Receive(c, &call)
			if err != nil {
				return
			}
			select {
			case slots <- struct{}{}:
				running.Go(func() {
					defer func() { <-slots }()
					runTool(ctx, call, files, run)
				})
			default:
				closeFiles(files...)
			}
		}
	}()
	return nil
}

// runTool runs one program. What the machine sends may be anything, so the files must be pipes, which cannot hold the
// daemon up.
func runTool(ctx context.Context, call inside.ToolCall, files []*os.File, run func(context.Context, Tool) int) {
	defer func() { closeFiles(files...) }()
	if len(files) != 4 || len(call.Args) == 0 {
		return
	}
	conn, err := net.FileConn(files[0])
	if err != nil {
		return
	}
	defer conn.Close()
	caller, ok := conn.(*net.UnixConn)
	if !ok {
		return
	}
	for i := 1; i < len(files); i++ {
		if st, err := files[i].Stat(); err != nil || st.Mode().Type() != os.ModeNamedPipe {
			return
		}
		f, err := pollable(files[i])
		if err != nil {
			return
		}
		files[i] = f
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	go func() {
		_, _ = caller.Read(make([]byte, 1)) // the caller sends nothing more
		cancel()
	}()
	defer context.AfterFunc(ctx, func() {
		for _, f := range files[1:] {
			_ = f.SetDeadline(time.Now()) // it may be closed
		}
	})()
	status := run(ctx, Tool{call, files[1], files[2], files[3]})
	closeFiles(files[2:]...)
	_ = inside.Send(caller, &inside.Response{Ended: true, Status: status}) // the caller may have gone
}

// Unix connects to a socket of the machine.
func (m *Machine) Unix(ctx context.Context, name string) (net.Conn, error) {
	c, err := m.rt.open(ctx, m.in.ID)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	files, err := exchange(ctx, c, inside.MachineRequest{Unix: name})
	defer closeFiles(files...)
	if err != nil {
		return nil, err
	}
	if len(files) != 1 {
		return nil, fmt.Errorf("connecting to %s: no socket", name)
	}
	return net.FileConn(files[0])
}

// Symlink makes a symbolic link on the machine.
func (m *Machine) Symlink(target, name string) error {
	return files{m}.do(inside.Symlink, inside.FileRequest{Name: name, To: target})
}

// Print writes to the machine's console.
func (m *Machine) Print(ctx context.Context, text string) error {
	return m.ask(ctx, inside.MachineRequest{Print: text})
}
