// Package containers runs machines that run containers: an instance is a set of Linux namespaces with a root file system
// of its own, in which real programs run. It is a [machine.Runtime].
//
// All machines are below one child process of the daemon (package inside), which is started with the first machine. That
// child has user, mount, network and process namespaces of its own, so nothing of the real machine's network, mounts and
// processes changes, and its death ends everything below it. Machines share the kernel with the real one, which does not
// protect against hostile code, and its programs in /usr, which they can only read.
//
// A [Guest] makes such a machine a node of a cluster: package node/containers has one that starts containerd and a
// kubelet. Linux only. May be imported by internal/compute and internal/node/containers.
package containers

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"os"
	"path/filepath"
	"sync"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/containers/volumes"
)

// Config is what the machines need. Dir, Guest and Connect are required.
type Config struct {
	// Dir is a folder that only the runtime uses: the disks of machines.
	Dir string
	// Guest creates what runs on a machine; it is called for every boot.
	Guest func(m *Machine) Guest
	// Connect prepares the network before a machine boots: it must have the instance's primary network interface (see
	// Runtime.Apply).
	Connect func(ctx context.Context, in machine.Instance) error
	// CA is added to the certificate authorities that programs on machines trust, as PEM.
	CA []byte
	// Volumes has the data of the machines' volumes. If it is nil, machines show no volumes.
	Volumes *volumes.Store
	// PIDs bounds the processes and threads of a machine. Zero means a default.
	PIDs int
	// DisksUsable replaces volumes.Usable, for tests.
	DisksUsable func() error
	// Executable and ChildArgs are those of childproc.Spec, for tests.
	Executable string
	ChildArgs  []string
	Log        *slog.Logger
}

// A Guest is what runs on a machine, for one boot.
type Guest interface {
	// Run is what the machine does after it has booted, until ctx ends.
	Run(ctx context.Context)
	// Tools returns the names of the image's programs: see inside.MachineConfig.
	Tools() []string
	// Report records an event.
	Report(ctx context.Context, e machine.Event)
}

// Resolver is the address at which every VPC answers DNS.
var Resolver = netip.AddrFrom4([4]byte{169, 254, 169, 253})

// firstID is the first of the user and group IDs that machines have on the real machine if the daemon runs as root. They
// must not be those of the real users, least of all root's, to whom files below /proc/sys would belong. systemd's
// conventions leave this range unassigned. https://systemd.io/UIDS-GIDS/
const firstID = 0x70000000

// Runtime is a machine.Runtime.
type Runtime struct {
	cfg    Config
	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc

	mu       sync.Mutex
	machines map[string]*Machine // those that are on
	roots    *volumes.Store      // the disks of machines, even if this machine cannot mount them now
	closed   bool
	host     *childproc.Supervisor // nil before the first machine
	dir      *os.File
	run      *hostRun
	changed  chan struct{} // closed when run changes

	refused    sync.Map      // why archives cannot be unpacked for all machines, by name
	unshared   chan struct{} // has an element if there may be something to unpack or to remove
	background sync.WaitGroup
}

// A hostRun is one run of the host.
type hostRun struct {
	ctx context.Context // ends with it
	end context.CancelFunc
}

var _ machine.Runtime = (*Runtime)(nil)

// New returns a runtime without machines. It runs until Shutdown.
func New(cfg Config) *Runtime {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Runtime{cfg: cfg, ctx: ctx, cancel: cancel, machines: map[string]*Machine{}, roots: volumes.New(filepath.Join(cfg.Dir, rootDir)), changed: make(chan struct{}), unshared: make(chan struct{}, 1)}
}

// Name is that of package machine.
func (r *Runtime) Name() string { return machine.Containers }

// Start implements machine.Runtime.
func (r *Runtime) Start(_ context.Context, in machine.Instance) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return machine.ErrShutdown
	}
	if r.machines[in.ID] != nil {
		return nil
	}
	if err := r.startHost(); err != nil {
		return err
	}
	r.boot(in, 0)
	return nil
}

// Machine implements machine.Runtime.
func (r *Runtime) Machine(id string) (machine.Machine, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	m := r.machines[id]
	return m, m != nil
}

// Guest returns what runs on a machine, or nil if the machine is off.
func (r *Runtime) Guest(id string) Guest {
	r.mu.Lock()
	defer r.mu.Unlock()
	if m := r.machines[id]; m != nil {
		return m.guest
	}
	return nil
}

// Shutdown implements machine.Runtime.
func (r *Runtime) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	machines, host := r.machines, r.host
	r.host = nil
	r.machines = map[string]*Machine{}
	r.mu.Unlock()
	r.cancel()
	var errs []error
	for _, m := range machines {
		errs = append(errs, m.halt(ctx))
	}
	if host != nil {
		host.Kill()
		r.background.Wait()
		errs = append(errs, r.dir.Close(), r.cleanUp())
	}
	return errors.Join(errs...)
}
