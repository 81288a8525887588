package containers

import (
	"bytes"
	"cmp"
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
	"sync/atomic"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
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

	mu       sync.Mutex
	services map[uint16]service // of the daemon, by the port at which they answer

	volumes shownVolumes
	bounded atomic.Bool // see DiskBounded
}

var _ machine.Machine = (*Machine)(nil)

// boot switches a machine on. r.mu is held.
func (r *Runtime) boot(in machine.Instance, reboots int) {
	m := &Machine{rt: r, in: in, reboots: reboots, services: map[uint16]service{}, up: make(chan struct{}), done: make(chan struct{})}
	m.Unsupported = machine.Unsupported{ID: in.ID, Reason: "it is not implemented for machines that run containers"}
	m.ctx, m.cancel = context.WithCancel(r.ctx)
	m.guest = r.cfg.Guest(m)
	m.volumes.want = in.Volumes
	if in.Image.Family == images.Bottlerocket {
		m.Reason = "its image has no shell"
	}
	r.machines[in.ID] = m
	go m.live()
}

// Instance implements machine.Machine.
func (m *Machine) Instance() machine.Instance { return m.in }

// Abilities implements machine.Machine.
func (m *Machine) Abilities() machine.Abilities {
	if m.in.Image.Family == images.Bottlerocket {
		return append(machine.Abilities{machine.Dial}, m.volumeAbility()...)
	}
	return append(machine.Abilities{machine.Exec, machine.Terminal, machine.FileAccess, machine.Dial}, m.volumeAbility()...)
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

// defaultPIDs bounds the processes and threads of a machine. A node with 110 pods has some thousands.
const defaultPIDs = 8192

// bounds returns how many processors and MiB of memory a machine may use. A fraction of a processor counts as a whole one, because the
// kubelet and containerd run on it, too.
func bounds(in machine.Instance) (cpus int, memoryMiB int64) {
	if in.Fargate {
		return int(in.MilliCPU+999) / 1000, in.MemoryMiB
	}
	return in.Type.VCPU, in.Type.MemoryMiB
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
	userland, err := m.userland(ctx)
	if err != nil {
		return err
	}
	cpus, memory := bounds(m.in)
	cfg := inside.MachineConfig{
		ID: m.in.ID, Hostname: hostname(m.in), Interface: eni(m.in), Address: m.in.PrivateIP, Resolver: Resolver, Search: search(m.in.Region), CA: m.rt.cfg.CA,
		CPUs: cpus, MemoryBytes: memory << 20, PIDs: cmp.Or(m.rt.cfg.PIDs, defaultPIDs), Userland: userland, Tools: m.guest.Tools(),
	}
	if err := m.rt.cfg.Connect(ctx, m.in); err != nil {
		return fmt.Errorf("connecting the machine to its network: %w", err)
	}
	if err := m.startIn(ctx, cfg); err != nil {
		return err
	}
	m.guest.Report(ctx, machine.Event{Name: machine.EventBoot, Evidence: kindOf(m.in) + ", as namespaces of this machine's kernel"})
	m.showVolumes(ctx)
	defer m.hideVolumes()
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

// startIn starts the machine in the host, with its disk.
func (m *Machine) startIn(ctx context.Context, cfg inside.MachineConfig) error {
	disk, err := m.mountDisk(ctx)
	if err != nil {
		return err
	}
	if disk == nil {
		return m.rt.ask(ctx, inside.HostRequest{Start: &cfg})
	}
	defer disk.Close()
	return m.rt.ask(ctx, inside.HostRequest{Start: &cfg}, disk)
}

// kindOf says what a machine is.
func kindOf(in machine.Instance) string {
	if in.Fargate {
		return fmt.Sprintf("Fargate, %d vCPU, %d MiB", in.Type.VCPU, in.Type.MemoryMiB)
	}
	return in.Type.Name + ", " + in.Image.ID
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
	to := netip.AddrPortFrom(a, uint16(port))
	if s, ok := m.local(to); ok {
		return s.connect(ctx, to)
	}
	c, err := m.rt.Dial(ctx, inside.Socket{Machine: m.in.ID, Address: to})
	if answer, ok := errors.AsType[*inside.Error](err); ok {
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: cmp.Or(answer.Unwrap(), error(answer))}
	}
	return c, err
}

// Write writes a file on the machine.
func (m *Machine) Write(ctx context.Context, name string, data []byte, mode os.FileMode) error {
	return m.ask(ctx, inside.MachineRequest{Write: &inside.File{Name: name, Data: data, Mode: mode}})
}

// StartProgram starts a child mode of drydock-node on the machine, unless it runs.
func (m *Machine) StartProgram(ctx context.Context, mode string, config []byte) error {
	return m.ask(ctx, inside.MachineRequest{Start: &inside.Program{Mode: mode, Config: config}})
}

// EndProgram ends a program that StartProgram has started.
func (m *Machine) EndProgram(ctx context.Context, mode string) error {
	return m.ask(ctx, inside.MachineRequest{End: mode})
}

func (m *Machine) ask(ctx context.Context, req inside.MachineRequest, files ...*os.File) error {
	c, err := m.rt.open(ctx, m.in.ID)
	if err != nil {
		return err
	}
	defer c.Close()
	_, err = exchange(ctx, c, req, files...)
	return err
}
