// Package simulated runs machines without running anything: a file system in memory, user data by cloud-init, a
// console, and programs by a shell written in Go (package shell). A machine is a few goroutines, so any number of
// machines can run on any operating system. Nothing of the host is used.
//
// A [Guest] makes such a computer a node of a cluster: package node/simulated has one that is a kubelet. The package
// implements [machine.Runtime].
package simulated

import (
	"context"
	"log/slog"
	"net"
	"net/http"
	"runtime"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// Config is what the computers need. Guest is required.
type Config struct {
	// Guest creates what runs on a machine; it is called for every boot.
	Guest func(c *Computer) Guest
	// Metadata connects an instance to its metadata service, from the instance itself: user data is read there, like
	// cloud-init does. If nil, Instance.UserData is used.
	Metadata func(instanceID string) http.RoundTripper
	// RunScript runs scripts and programs: sandbox.Pool.Run. If nil, machines run none.
	RunScript func(ctx context.Context, job shell.Job) (shell.Result, error)
	// Dial connects a machine to another host. Its error says why the machine's network does not allow that. If nil,
	// the machine has no network.
	Dial func(ctx context.Context, in machine.Instance, host string, port int) (net.Conn, error)
	// Disks stores what machines have written across restarts of the daemon and stops of the instance. If nil, it is
	// lost then, and user data runs again.
	Disks Disks
	// HostKeys is the secret from which the SSH host keys of machines are derived.
	HostKeys []byte
	// Boot is how long a machine takes until cloud-init starts.
	Boot time.Duration
	// Patience divides the waits of the guest's programs between their attempts; 0 means 1.
	Patience int
	Clock    clock.WithTicker // nil means the real clock
	Log      *slog.Logger     // nil means slog.Default()
}

// Disks stores the root volumes of instances and their snapshots.
type Disks interface {
	// Load returns what Save last saved for an instance, or the contents of a snapshot. It returns false if there is
	// nothing.
	Load(id string) ([]byte, bool, error)
	Save(instanceID string, data []byte) error
}

// A Guest is the operating system and the programs of a machine, for one boot.
type Guest interface {
	// Image returns the operating system to boot. Nil means one without a shell, on which user data runs no scripts.
	Image() (*Image, error)
	// Run is what the machine does after it has booted, until ctx ends.
	Run(ctx context.Context, userData []byte)
	// Report records an event.
	Report(ctx context.Context, e machine.Event)
}

// An Image is an operating system with a shell and cloud-init.
type Image struct {
	FS *vfs.FS
	// Outside runs the image's programs beyond the shell's own, and Programs lists their names: see shell.Job.
	Outside  func(ctx context.Context, c *shell.Call) (status int, found bool)
	Programs []string
	// CloudInit is cloud-init's version, and DefaultUser is the user who gets the key pair's public key. Without a version, the
	// image has no cloud-init.
	CloudInit, DefaultUser string
	// Full reports whether the disk is full. Nil means that it never is.
	Full func() bool
	// Prepare runs before a program does, and updates the files that other programs of the machine keep writing to. It may
	// be nil.
	Prepare func()
	// Done runs after a program has ended and its changes are on the disk. It may be nil.
	Done func()
	// Boot starts the image's services.
	Boot func()
	// SSH is the image's SSH server. Nil means that it has none.
	SSH *SSH
	// Env is in the environment of every program on a terminal, and Prompt returns a shell's prompt. Both may be nil: then it is
	// Amazon Linux's.
	Env    []string
	Prompt func(user string, env []string) string
	// InterfaceName returns the name of the network interface with a device index: ens5, eth0.
	InterfaceName func(device int) string
}

// An SSH is an image's SSH server.
type SSH struct {
	Version string      // such as OpenSSH_8.7
	Running func() bool // whether its service is running
	Log     func(text string)
}

// Runtime is a machine.Runtime of simulated computers.
type Runtime struct {
	cfg   Config
	space *vfs.Budget // for the disks of all computers
	// turns has a place for each computer that may start at this moment. If a thousand are launched at once, they leave
	// processors to the API.
	turns chan struct{}

	ctx    context.Context // ends with Shutdown
	cancel context.CancelFunc

	mu        sync.Mutex
	computers map[string]*Computer // the computers that are on
	closed    bool
}

var _ machine.Runtime = (*Runtime)(nil)

// New returns a runtime without machines. It runs until Shutdown.
func New(cfg Config) *Runtime {
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Patience == 0 {
		cfg.Patience = 1
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Runtime{cfg: cfg, space: vfs.NewBudget(maxDisks), turns: make(chan struct{}, max(1, runtime.GOMAXPROCS(0)/2)), ctx: ctx, cancel: cancel, computers: map[string]*Computer{}}
}

// Name is "simulated".
func (r *Runtime) Name() string { return "simulated" }

// Start implements machine.Runtime.
func (r *Runtime) Start(_ context.Context, in machine.Instance) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return machine.ErrShutdown
	}
	if r.computers[in.ID] == nil {
		r.boot(&Computer{in: in, console: &console{}})
	}
	return nil
}

// Machine implements machine.Runtime.
func (r *Runtime) Machine(id string) (machine.Machine, bool) {
	r.mu.Lock()
	defer r.mu.Unlock()
	c := r.computers[id]
	return c, c != nil
}

// Guest returns what runs on a machine, or nil if the machine is off.
func (r *Runtime) Guest(id string) Guest {
	r.mu.Lock()
	defer r.mu.Unlock()
	if c := r.computers[id]; c != nil {
		return c.guest
	}
	return nil
}

// Shutdown implements machine.Runtime.
func (r *Runtime) Shutdown(ctx context.Context) error {
	r.mu.Lock()
	r.closed = true
	computers := r.computers
	r.computers = map[string]*Computer{}
	r.mu.Unlock()
	r.cancel()
	for _, c := range computers {
		if err := c.halt(ctx); err != nil {
			return err
		}
	}
	return nil
}
