package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"syscall"

	"github.com/drydock-dev/drydock/internal/fabric"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
)

// socketName is the socket on which the host takes requests.
const socketName = "host.sock"

// await waits until the host runs.
func (r *Runtime) await(ctx context.Context) (*hostRun, error) {
	for {
		r.mu.Lock()
		run, changed := r.run, r.changed
		r.mu.Unlock()
		if run != nil {
			return run, nil
		}
		select {
		case <-changed:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
}

// open connects to a machine.
func (r *Runtime) open(ctx context.Context, id string) (*net.UnixConn, error) {
	f, err := r.askFile(ctx, inside.HostRequest{Open: id})
	if err == nil && f == nil {
		err = errors.New("no connection")
	}
	if err != nil {
		return nil, errors.Join(machine.ErrOff, err)
	}
	defer f.Close()
	c, err := net.FileConn(f)
	if err != nil {
		return nil, err
	}
	return c.(*net.UnixConn), nil
}

func closeFiles(files ...*os.File) {
	for _, f := range files {
		if f != nil {
			_ = f.Close()
		}
	}
}

// exchange sends a request and returns the files of its response.
func exchange(ctx context.Context, c *net.UnixConn, req any, files ...*os.File) ([]*os.File, error) {
	defer context.AfterFunc(ctx, func() { _ = c.Close() })()
	if err := inside.Send(c, req, files...); err != nil {
		return nil, err
	}
	var res inside.Response
	out, err := inside.Receive(c, &res)
	if err == nil {
		err = res.Err()
	}
	if ctx.Err() != nil {
		err = ctx.Err()
	}
	return out, err
}

// ask asks the host for something.
func (r *Runtime) ask(ctx context.Context, req inside.HostRequest, files ...*os.File) error {
	f, err := r.askFile(ctx, req, files...)
	if f != nil {
		_ = f.Close()
	}
	return err
}

// dialHost connects to the host.
func (r *Runtime) dialHost(ctx context.Context) (*net.UnixConn, error) {
	if _, err := r.await(ctx); err != nil {
		return nil, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", r.path(socketName))
	if err != nil {
		return nil, errors.Join(machine.ErrOff, err)
	}
	return c.(*net.UnixConn), nil
}

func (r *Runtime) askFile(ctx context.Context, req inside.HostRequest, files ...*os.File) (*os.File, error) {
	c, err := r.dialHost(ctx)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	files, err = exchange(ctx, c, req, files...)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	return files[0], nil
}

// Dial connects to a TCP address from a machine or from an interface that AWS manages.
func (r *Runtime) Dial(ctx context.Context, s inside.Socket) (net.Conn, error) {
	f, err := r.askFile(ctx, inside.HostRequest{Dial: &s})
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, fmt.Errorf("connecting to %s: no socket", s.Address)
	}
	defer f.Close()
	return net.FileConn(f)
}

// Apply makes the network of all machines like the state. It does not outlive a run of the host.
func (r *Runtime) Apply(ctx context.Context, st *fabric.State) error {
	b, err := json.Marshal(st)
	if err != nil {
		return err
	}
	read, write, err := os.Pipe()
	if err != nil {
		return err
	}
	defer read.Close()
	go func() { // ends when the host has read it, or with the last of the readers
		_, _ = write.Write(b)
		_ = write.Close()
	}()
	return r.ask(ctx, inside.HostRequest{Apply: true}, read)
}

// Serve accepts TCP connections at a port at which the network answers, with the network interface that each comes from.
// It returns when the network does so; the rest goes on until the run of the host ends.
func (r *Runtime) Serve(ctx context.Context, port uint16, handle func(c net.Conn, eni string)) error {
	c, err := r.dialHost(ctx)
	if err != nil {
		return err
	}
	if _, err := exchange(ctx, c, inside.HostRequest{Serve: &inside.Service{Network: "tcp", Port: port}}); err != nil {
		return errors.Join(fmt.Errorf("serving port %d: %w", port, err), c.Close())
	}
	go func() {
		defer c.Close()
		for {
			var from inside.Connection
			files, err := inside.Receive(c, &from)
			if err != nil {
				return
			}
			for _, f := range files {
				if in, err := net.FileConn(f); err == nil { // it may be closed already
					handle(in, from.Interface)
				}
				_ = f.Close()
			}
		}
	}()
	return nil
}

// ServePackets is Serve for UDP. Calling answer sends a datagram back.
func (r *Runtime) ServePackets(ctx context.Context, port uint16, handle func(d inside.Datagram, answer func([]byte))) error {
	c, err := r.dialHost(ctx)
	if err != nil {
		return err
	}
	if _, err := exchange(ctx, c, inside.HostRequest{Serve: &inside.Service{Network: "udp", Port: port}}); err != nil {
		return errors.Join(fmt.Errorf("serving port %d: %w", port, err), c.Close())
	}
	go func() {
		defer c.Close()
		var mu sync.Mutex
		for {
			var d inside.Datagram
			files, err := inside.Receive(c, &d)
			closeFiles(files...)
			if err != nil {
				return
			}
			handle(d, func(data []byte) {
				mu.Lock()
				defer mu.Unlock()
				_ = inside.Send(c, inside.Datagram{Interface: d.Interface, Remote: d.Remote, Service: d.Service, Data: data}) // the client asks again
			})
		}
	}()
	return nil
}

// Done returns a channel that is closed when the current run of the host ends, and with it all sockets of Listen.
func (r *Runtime) Done(ctx context.Context) (<-chan struct{}, error) {
	run, err := r.await(ctx)
	if err != nil {
		return nil, err
	}
	return run.ctx.Done(), nil
}

// openRegular opens a file of the machines for reading. They may have put anything in its place.
func openRegular(root *os.Root, name string) (*os.File, error) {
	f, err := root.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0)
	if err != nil {
		return nil, err
	}
	st, err := f.Stat()
	if err == nil && !st.Mode().IsRegular() {
		err = fmt.Errorf("%s is not a file", name)
	}
	if err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}
