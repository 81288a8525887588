package containers

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
)

// A Machine is one that is on.
type Machine struct {
	machine.Unsupported

	rt      *Runtime
	in      machine.Instance
	guest   Guest
	reboots int

	ctx    context.Context // ends when it is switched off
	cancel context.CancelFunc
	up     chan struct{} // closed when the operating system is up
	done   chan struct{} // closed when nothing of it runs any more
	once   sync.Once
}

var _ machine.Machine = (*Machine)(nil)

// boot switches a machine on. r.mu is held.
func (r *Runtime) boot(in machine.Instance, reboots int) {
	m := &Machine{rt: r, in: in, reboots: reboots, up: make(chan struct{}), done: make(chan struct{})}
	m.Unsupported = machine.Unsupported{ID: in.ID, Reason: "it is not implemented for machines that run containers"}
	m.ctx, m.cancel = context.WithCancel(r.ctx)
	m.guest = r.cfg.Guest(m)
	r.machines[in.ID] = m
	go m.live()
}

// Instance implements machine.Machine.
func (m *Machine) Instance() machine.Instance { return m.in }

// Abilities implements machine.Machine.
func (m *Machine) Abilities() machine.Abilities {
	return machine.Abilities{machine.Exec, machine.Dial}
}

// Booted implements machine.Machine.
func (m *Machine) Booted() <-chan struct{} { return m.up }

// Console implements machine.Machine.
func (m *Machine) Console() []byte {
	disks, err := os.OpenRoot(filepath.Join(m.rt.cfg.Dir, diskDir))
	if err != nil {
		return nil // no machine has booted
	}
	defer disks.Close()
	const limit = 64 << 10
	var out []byte
	for _, name := range []string{"console.1", "console"} {
		f, err := openRegular(disks, filepath.Join(m.in.ID, name))
		if err != nil {
			continue // a machine that has not booted has none
		}
		if st, err := f.Stat(); err == nil {
			b, _ := io.ReadAll(io.NewSectionReader(f, max(0, st.Size()-limit), limit)) // what can be read
			out = append(out, b...)
		}
		_ = f.Close()
	}
	return bytes.Clone(out[max(0, len(out)-limit):])
}

// live runs the machine until it is switched off. If the host dies, the machine boots again, as after a power failure.
func (m *Machine) live() {
	defer close(m.done)
	for m.ctx.Err() == nil {
		err := m.boot()
		if m.ctx.Err() != nil || m.rt.ctx.Err() != nil { // a shutdown reaches m.ctx after the run of the host
			break
		}
		if err != nil {
			m.guest.Report(m.ctx, machine.Event{Name: machine.EventBoot, Err: err})
			select {
			case <-m.ctx.Done():
			case <-time.After(time.Second):
			}
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if r := m.rt; r.ctx.Err() == nil { // otherwise the host ends, and everything with it
		if err := r.ask(ctx, inside.HostRequest{Stop: m.in.ID}); err != nil {
			r.cfg.Log.Warn("stopping a machine", "instance", m.in.ID, "err", err)
		}
	}
}

// boot boots the machine once, and returns when its run of the host or ctx has ended.
func (m *Machine) boot() error {
	run, err := m.rt.await(m.ctx)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancel(m.ctx)
	defer cancel()
	defer context.AfterFunc(run.ctx, cancel)()
	cfg := inside.MachineConfig{
		ID: m.in.ID, Hostname: hostname(m.in), Interface: eni(m.in), Address: m.in.PrivateIP, Resolver: Resolver, Search: search(m.in.Region), CA: m.rt.cfg.CA,
		CPUs: m.in.Type.VCPU, MemoryBytes: m.in.Type.MemoryMiB << 20,
	}
	if err := m.rt.cfg.Connect(ctx, m.in); err != nil {
		return fmt.Errorf("connecting the machine to its network: %w", err)
	}
	if err := m.rt.ask(ctx, inside.HostRequest{Start: &cfg}); err != nil {
		return err
	}
	m.guest.Report(ctx, machine.Event{Name: machine.EventBoot, Evidence: m.in.Type.Name + ", " + m.in.Image.ID + ", as namespaces of this machine's kernel"})
	m.once.Do(func() { close(m.up) })
	var died error
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		if err := m.rt.ask(ctx, inside.HostRequest{Wait: m.in.ID}); err == nil && ctx.Err() == nil {
			died = errors.New("the machine's first process has ended: it boots again")
			cancel()
		} // otherwise the host ends, or the machine is switched off
	}()
	m.guest.Run(ctx)
	<-ctx.Done()
	<-ended
	return died
}

// eni returns the primary network interface of an instance.
func eni(in machine.Instance) string {
	if len(in.Interfaces) == 0 {
		return ""
	}
	return in.Interfaces[0].ID
}

func hostname(in machine.Instance) string {
	if in.PrivateDNSName != "" {
		return in.PrivateDNSName
	}
	return "ip-" + strings.ReplaceAll(in.PrivateIP.String(), ".", "-")
}

func search(region string) string {
	if region == "us-east-1" {
		return "ec2.internal"
	}
	return region + ".compute.internal"
}

// Stop implements machine.Machine.
func (m *Machine) Stop(ctx context.Context, _ bool) error {
	if err := m.halt(ctx); err != nil {
		return err
	}
	r := m.rt
	r.mu.Lock()
	last := r.machines[m.in.ID] == m
	if last {
		delete(r.machines, m.in.ID)
	}
	r.mu.Unlock()
	if last {
		m.guest.Report(ctx, machine.Event{Name: machine.EventStop, Evidence: "powered off"})
	}
	return nil
}

// Reboot implements machine.Machine.
func (m *Machine) Reboot(ctx context.Context) error {
	if err := m.halt(ctx); err != nil {
		return err
	}
	r := m.rt
	r.mu.Lock()
	defer r.mu.Unlock()
	switch {
	case r.closed:
		return machine.ErrShutdown
	case r.machines[m.in.ID] != m:
		return machine.ErrOff
	}
	r.boot(m.in, m.reboots+1)
	return nil
}

func (m *Machine) halt(ctx context.Context) error {
	m.cancel()
	select {
	case <-m.done:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("stopping %s: %w", m.in.ID, ctx.Err())
	}
}

func (m *Machine) running() error {
	if m.ctx.Err() != nil {
		return machine.ErrOff
	}
	select {
	case <-m.up:
		return nil
	default:
		return machine.ErrBooting
	}
}

// Dial implements machine.Machine. Hosts other than the machine itself must be given as addresses.
func (m *Machine) Dial(ctx context.Context, host string, port int) (net.Conn, error) {
	if err := m.running(); err != nil {
		return nil, err
	}
	if host == "localhost" {
		host = "127.0.0.1"
	}
	if host == hostname(m.in) {
		host = m.in.PrivateIP.String()
	}
	a, err := netip.ParseAddr(host)
	if err != nil {
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	}
	return m.rt.Dial(ctx, inside.Socket{Machine: m.in.ID, Address: netip.AddrPortFrom(a, uint16(port))})
}

// Write writes a file on the machine.
func (m *Machine) Write(ctx context.Context, name string, data []byte, mode os.FileMode) error {
	return m.ask(ctx, inside.MachineRequest{Write: &inside.File{Name: name, Data: data, Mode: mode}})
}

// StartProgram starts a child mode of this program on the machine, unless it runs.
func (m *Machine) StartProgram(ctx context.Context, mode string, config []byte) error {
	return m.ask(ctx, inside.MachineRequest{Start: &inside.Program{Mode: mode, Config: config}})
}

// EndProgram ends a program that StartProgram has started.
func (m *Machine) EndProgram(ctx context.Context, mode string) error {
	return m.ask(ctx, inside.MachineRequest{End: mode})
}

func (m *Machine) ask(ctx context.Context, req inside.MachineRequest) error {
	c, err := m.rt.open(ctx, m.in.ID)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = exchange(ctx, c, req)
	return err
}

// Exec implements machine.Machine.
func (m *Machine) Exec(ctx context.Context, c machine.Command) (machine.Process, error) {
	if err := m.running(); err != nil {
		return nil, err
	}
	if c.Terminal != nil {
		return nil, &machine.UnsupportedError{ID: m.in.ID, Ability: machine.Terminal, Reason: m.Reason}
	}
	if c.User != "" && c.User != "root" {
		return nil, fmt.Errorf("%s: %w", c.User, machine.ErrNoUser)
	}
	if len(c.Args) == 0 {
		c.Args = []string{"/bin/bash", "-l"}
	}
	conn, err := m.rt.open(ctx, m.in.ID)
	if err != nil {
		return nil, err
	}
	p := &process{conn: conn, machine: m, ctx: ctx}
	p.stop = context.AfterFunc(ctx, func() { _ = conn.Close() })
	var theirs []*os.File
	defer func() {
		for _, f := range theirs {
			_ = f.Close()
		}
	}()
	for i, w := range []io.Writer{nil, c.Stdout, c.Stderr} {
		read, write, err := os.Pipe()
		if err != nil {
			return nil, errors.Join(err, conn.Close())
		}
		if i == 0 {
			theirs = append(theirs, read)
			go func() { // ends when the program has, at the latest with the next write
				if c.Stdin != nil {
					_, _ = io.Copy(write, c.Stdin)
				}
				_ = write.Close()
			}()
			continue
		}
		if w == nil {
			w = io.Discard
		}
		theirs, p.reads = append(theirs, write), append(p.reads, read)
		p.output.Go(func() {
			_, _ = io.Copy(w, read)
			_ = read.Close()
		})
	}
	if _, err := exchange(ctx, conn, inside.MachineRequest{Exec: &inside.Command{Args: c.Args, Env: c.Env, Dir: c.Dir}}, theirs...); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	return p, nil
}

type process struct {
	machine *Machine
	ctx     context.Context
	conn    *net.UnixConn
	stop    func() bool
	output  sync.WaitGroup
	reads   []*os.File
}

// leftPatience is how long the output of a program is read after its end. What it has started may hold it open forever.
const leftPatience = time.Second

// Wait implements machine.Process.
func (p *process) Wait() (int, error) {
	defer p.conn.Close()
	var r inside.Response
	_, err := inside.Receive(p.conn, &r)
	p.stop()
	switch {
	case p.ctx.Err() != nil:
		return 0, p.ctx.Err()
	case err != nil:
		return 0, machine.ErrOff
	}
	for _, f := range p.reads {
		_ = f.SetReadDeadline(time.Now().Add(leftPatience)) // it may be closed
	}
	p.output.Wait()
	return r.Status, nil
}

// signals are the numbers of signals, which are the same on all processors.
var signals = map[machine.Signal]int{machine.SIGHUP: 1, machine.SIGINT: 2, machine.SIGQUIT: 3, machine.SIGKILL: 9, machine.SIGTERM: 15}

// Signal implements machine.Process.
func (p *process) Signal(s machine.Signal) error {
	_ = inside.Send(p.conn, inside.Signal{Number: signals[s]}) // the program may have ended
	return nil
}

// Resize implements machine.Process.
func (p *process) Resize(machine.Size) error { return nil }
