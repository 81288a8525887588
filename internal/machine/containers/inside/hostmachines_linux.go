package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/childproc"
)

// A turn is what lets one request at a time start or stop a machine.
type turn struct {
	sync.Mutex
	users int
	boot  context.CancelFunc // ends a boot
}

// bootPatience is how long a machine may take to boot, and copyPatience if it may have to copy an image's files to its disk first.
const (
	bootPatience = 30 * time.Second
	copyPatience = 10 * time.Minute
)

// turn waits for other starts and stops of a machine to end. The caller then has its turn until it calls the returned function.
func (h *host) turn(id string, boot context.CancelFunc) func() {
	h.mu.Lock()
	t := h.turns[id]
	if t == nil {
		t = &turn{}
		h.turns[id] = t
	}
	t.users++
	if boot == nil && t.boot != nil {
		t.boot() // the machine is to stop
	}
	h.mu.Unlock()
	t.Lock()
	h.mu.Lock()
	t.boot = boot
	h.mu.Unlock()
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		t.boot = nil
		if t.users--; t.users == 0 {
			delete(h.turns, id)
		}
		t.Unlock()
	}
}

// A guest is a machine that is on.
type guest struct {
	cfg    MachineConfig
	worker *childproc.Worker
	more   []string // network interfaces besides the primary one
}

// validID keeps the names of machines from being paths.
var validID = regexp.MustCompile(`^[a-z]+-[a-z0-9-]+$`)

func (h *host) start(cfg MachineConfig, disk []*os.File) (err error) {
	if !validID.MatchString(cfg.ID) {
		return fmt.Errorf("invalid machine ID %q", cfg.ID)
	}
	cfg.NoLimits, cfg.Disk = h.cfg.NoLimits, len(disk) == 1
	patience := bootPatience
	if cfg.Userland != nil {
		patience = copyPatience
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	defer h.turn(cfg.ID, cancel)()
	if g := h.guest(cfg.ID); g != nil {
		select {
		case <-g.worker.Done():
		default:
			return nil
		}
		h.forget(g)
	}
	dir := filepath.Join(dataDir, cfg.ID)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	control := filepath.Join(socketDir, cfg.ID)
	if err := os.Remove(control); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: control, Net: "unix"})
	if err != nil {
		return err
	}
	l.SetUnlinkOnClose(false)
	defer l.Close()
	lf, err := l.File()
	if err != nil {
		return err
	}
	defer lf.Close()
	group, err := h.cgroup(cfg)
	if err != nil {
		return err
	}
	defer group.Close()
	console, err := openConsole(filepath.Join(dir, "console"))
	if err != nil {
		return err
	}
	config, err := json.Marshal(cfg)
	if err != nil {
		return err
	}
	w, err := childproc.StartWorker(childproc.WorkerSpec{
		Mode: MachineMode, Executable: filepath.Join(programDir, "drydock-machine"), Config: config, Files: append([]*os.File{lf}, disk...), Output: console,
		Env: []string{"PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin:/opt/drydock/bin"},
		Attr: func(a *syscall.SysProcAttr) {
			a.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET | unix.CLONE_NEWCGROUP
			a.UseCgroupFD, a.CgroupFD = true, int(group.Fd())
		},
	})
	if err != nil {
		return fmt.Errorf("starting %s: %w", cfg.ID, err)
	}
	g := &guest{cfg: cfg, worker: w}
	defer func() {
		if err != nil {
			h.forget(g)
		}
	}()
	if err = h.attach(g); err != nil {
		select {
		case <-w.Done(): // because of this; Receive says more
		case <-time.After(time.Second):
			return fmt.Errorf("connecting %s: %w", cfg.ID, err)
		}
	}
	_ = w.Send([]byte("connected"))           // if the machine has ended, Receive says why
	if _, err := w.Receive(ctx); err != nil { // "up"
		return fmt.Errorf("booting %s: %w", cfg.ID, err)
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	h.machines[cfg.ID] = g
	return nil
}

// guest returns a machine that is on, or nil.
func (h *host) guest(id string) *guest {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.machines[id]
}

// wait waits until the first process of a machine has ended, or the daemon has lost interest.
func (h *host) wait(c *net.UnixConn, id string) error {
	g := h.guest(id)
	if g == nil {
		return nil
	}
	gone := make(chan struct{})
	go func() {
		defer close(gone)
		_, _ = c.Read(make([]byte, 1)) // the daemon sends nothing more
	}()
	select {
	case <-g.worker.Done():
	case <-gone:
	}
	return nil
}

func (h *host) stop(id string) error {
	defer h.turn(id, nil)()
	if g := h.guest(id); g != nil {
		h.forget(g)
	}
	return nil
}

// forget ends a machine and removes what it had in the host.
func (h *host) forget(g *guest) {
	g.worker.Kill()
	h.mu.Lock()
	all := append([]string{g.cfg.Interface}, g.more...)
	h.mu.Unlock()
	for _, id := range all {
		if err := h.fabric.Detach(id); err != nil {
			fmt.Fprintln(os.Stderr, err) // it is repaired when the network changes
		}
	}
	h.mu.Lock()
	delete(h.machines, g.cfg.ID)
	h.mu.Unlock()
	_ = os.Remove(filepath.Join(socketDir, g.cfg.ID))
	removeCgroup(filepath.Join(hostCgroup, g.cfg.ID))
}
