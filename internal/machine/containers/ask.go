package containers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"syscall"

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
func (r *Runtime) ask(ctx context.Context, req inside.HostRequest) error {
	f, err := r.askFile(ctx, req)
	if f != nil {
		_ = f.Close()
	}
	return err
}

func (r *Runtime) askFile(ctx context.Context, req inside.HostRequest) (*os.File, error) {
	if _, err := r.await(ctx); err != nil {
		return nil, err
	}
	var d net.Dialer
	c, err := d.DialContext(ctx, "unix", r.path(socketName))
	if err != nil {
		return nil, errors.Join(machine.ErrOff, err)
	}
	defer c.Close()
	files, err := exchange(ctx, c.(*net.UnixConn), req)
	if err != nil || len(files) == 0 {
		return nil, err
	}
	return files[0], nil
}

// Dial connects to a TCP address in the network of a VPC or of a machine.
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

// Listen listens on a TCP address in the network of a VPC. The address need not be that of an interface.
func (r *Runtime) Listen(ctx context.Context, s inside.Socket) (net.Listener, error) {
	f, err := r.askFile(ctx, inside.HostRequest{Listen: &s})
	if err != nil || f == nil {
		return nil, fmt.Errorf("listening on %s: %w", s.Address, err)
	}
	defer f.Close()
	return net.FileListener(f)
}

// ListenPacket is Listen for UDP.
func (r *Runtime) ListenPacket(ctx context.Context, s inside.Socket) (net.PacketConn, error) {
	s.Network = "udp"
	f, err := r.askFile(ctx, inside.HostRequest{Listen: &s})
	if err != nil || f == nil {
		return nil, fmt.Errorf("listening on %s: %w", s.Address, err)
	}
	defer f.Close()
	return net.FilePacketConn(f)
}

// Done returns a channel that is closed when the current run of the host ends, and with it all sockets of Listen.
func (r *Runtime) Done(ctx context.Context) (<-chan struct{}, error) {
	run, err := r.await(ctx)
	if err != nil {
		return nil, err
	}
	return run.ctx.Done(), nil
}

// diskDir is the folder of the machines' disks and consoles, which belongs to their root.
const diskDir = "disks"

// RemoveDisk removes the disk of a machine that is off, if it has one.
func (r *Runtime) RemoveDisk(id string) error {
	r.mu.Lock()
	on := r.machines[id] != nil
	r.mu.Unlock()
	if on {
		return fmt.Errorf("%s is on", id)
	}
	disks, err := os.OpenRoot(filepath.Join(r.cfg.Dir, diskDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	defer disks.Close()
	return disks.RemoveAll(id)
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
