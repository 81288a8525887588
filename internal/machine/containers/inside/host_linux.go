package inside

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/fabric"
	"github.com/drydock-dev/drydock/internal/machine/containers/layers"
)

// HostModes returns the child mode of Drydock's own binary.
func HostModes() childproc.Modes {
	return childproc.Modes{HostMode: func(ctx context.Context, env childproc.Env) int { return exit(runHost(ctx, env)) }}
}

// MachineModes returns the child mode of drydock-machine.
func MachineModes() childproc.Modes {
	return childproc.Modes{MachineMode: func(ctx context.Context, env childproc.Env) int { return exit(runMachine(ctx, env)) }}
}

func exit(err error) int {
	if err == nil {
		return 0
	}
	fmt.Fprintln(os.Stderr, err)
	return 1
}

// The host's root file system.
const (
	dataDir     = "/data"     // the folder of all disks
	programDir  = "/programs" // the programs of package nodebin
	imageDir    = "/images"
	socketDir   = "/sockets"  // those of the machines
	machineRoot = "/machine"  // where a machine makes its root
	machineDisk = "/disk"     // where a machine has its disk meanwhile
	hostEtc     = "/host-etc" // the real machine's
	hostDev     = "/dev"
	hostCgroup  = "/cgroup"
)

// A host starts machines.
type host struct {
	cfg HostConfig

	fabric *fabric.Fabric

	mu       sync.Mutex // never held while a machine does something: its disk may be hostile
	machines map[string]*guest
	turns    map[string]*turn
}

// A turn is what lets one request at a time start or stop a machine.
type turn struct {
	sync.Mutex
	users int
	boot  context.CancelFunc // ends a boot
}

// bootPatience is how long a machine may take to boot.
const bootPatience = 30 * time.Second

// turn waits until nobody else starts or stops a machine. The result ends it.
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

func runHost(ctx context.Context, env childproc.Env) error {
	h := &host{machines: map[string]*guest{}, turns: map[string]*turn{}}
	if err := json.Unmarshal(env.Config, &h.cfg); err != nil {
		return err
	}
	for i := range 3 {
		syscall.CloseOnExec(childproc.FirstFile + i)
	}
	f := os.NewFile(childproc.FirstFile+1, "listener")
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("the host's listener: %w", err)
	}
	_ = f.Close()
	if err := hostRoot(childproc.FirstFile, childproc.FirstFile+2); err != nil {
		return err
	}
	if err := prepareCgroups(h.cfg.NoLimits); err != nil {
		return err
	}
	boundProcesses(h.cfg.PIDs)
	if h.fabric, err = fabric.Open(); err != nil {
		return err
	}
	go reap()
	go serve(l.(*net.UnixListener), h.handle)
	if err := env.Report([]byte("up")); err != nil {
		return err
	}
	<-ctx.Done()
	return nil // and the kernel ends all machines
}

// hostRoot moves the process to a root file system in memory, which shows only what machines need of the real one.
func hostRoot(data, programs int) error {
	const root = "/tmp"
	m := &mounter{}
	m.do("private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") })
	images := -1
	m.do("opening the images", func() (err error) {
		images, err = unix.OpenTree(unix.AT_FDCWD, ".", unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		return err
	})
	defer func() { _ = unix.Close(images) }()
	m.mount("tmpfs", root, "tmpfs", unix.MS_NOSUID, "mode=755,size=256m")
	m.move(data, root+dataDir)
	m.move(programs, root+programDir)
	m.move(images, root+imageDir)
	m.userland(root)
	m.bind("/etc", root+hostEtc, true)
	m.bind("/dev", root+hostDev, false)
	m.mount("proc", root+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	// The kernel mounts a new one for a machine only if this one can be seen.
	m.mount("sysfs", root+"/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	m.mount("cgroup2", root+hostCgroup, "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	m.do("mkdir", func() error {
		return errors.Join(os.Mkdir(root+machineRoot, 0o700), os.Mkdir(root+machineDisk, 0o700), os.Mkdir(root+socketDir, 0o700))
	})
	m.pivot(root)
	return m.err
}

// boundProcesses bounds the processes of this process namespace, with those of namespaces below it. Kernels before Linux 6.14
// cannot do that for one namespace, and do not let machines do it for all.
func boundProcesses(n int) {
	reserveThreads(16)
	if n > 0 {
		_ = os.WriteFile("/proc/sys/kernel/pid_max", []byte(strconv.Itoa(n)), 0)
	}
}

// reserveThreads starts n threads, which the Go runtime keeps. It ends a process that needs one more and cannot start it, which
// would be the machine's first process when others have taken all process IDs.
func reserveThreads(n int) {
	var started, ended sync.WaitGroup
	started.Add(n)
	for range n {
		ended.Go(func() {
			runtime.LockOSThread()
			started.Done()
			started.Wait()
			runtime.UnlockOSThread() // a thread that is locked would end with its goroutine
		})
	}
	ended.Wait()
}

// prepareCgroups moves this process into a leaf, because a group with controllers for its children has no processes.
func prepareCgroups(noLimits bool) error {
	if err := intoLeaf(hostCgroup, "host"); err != nil {
		return err
	}
	if noLimits {
		return nil
	}
	return enableControllers(hostCgroup)
}

func intoLeaf(cgroup, name string) error {
	leaf := filepath.Join(cgroup, name)
	if err := os.Mkdir(leaf, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return err
	}
	return os.WriteFile(filepath.Join(leaf, "cgroup.procs"), []byte(strconv.Itoa(os.Getpid())), 0)
}

func enableControllers(cgroup string) error {
	return os.WriteFile(filepath.Join(cgroup, "cgroup.subtree_control"), []byte("+cpu +memory +pids"), 0)
}

func (h *host) handle(c *net.UnixConn) {
	var r HostRequest
	files, err := Receive(c, &r)
	defer closeAll(files)
	if err != nil {
		if !errors.Is(err, io.EOF) {
			answer(c, err)
		}
		return
	}
	switch {
	case r.Start != nil:
		answer(c, h.start(*r.Start, files))
	case r.Stop != "":
		answer(c, h.stop(r.Stop))
	case r.Wait != "":
		answer(c, h.wait(c, r.Wait))
	case r.Unpack && len(files) == 3:
		answer(c, unpack(c, files))
	case r.Apply && len(files) == 1:
		answer(c, h.apply(files[0]))
	case r.Attach != nil:
		answer(c, h.attachMore(*r.Attach))
	case r.Serve != nil:
		h.serve(c, *r.Serve)
	case r.Dial != nil, r.Open != "", r.Outside:
		f, err := h.socket(r)
		if err != nil {
			answer(c, err)
			return
		}
		answer(c, nil, f)
		_ = f.Close()
	default:
		answer(c, errors.New("unknown request"))
	}
}

// validID keeps the names of machines from being paths.
var validID = regexp.MustCompile(`^[a-z]+-[a-z0-9-]+$`)

func (h *host) start(cfg MachineConfig, disk []*os.File) (err error) {
	if !validID.MatchString(cfg.ID) {
		return fmt.Errorf("invalid machine ID %q", cfg.ID)
	}
	cfg.NoLimits, cfg.Disk = h.cfg.NoLimits, len(disk) == 1
	ctx, cancel := context.WithTimeout(context.Background(), bootPatience)
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

// unpack unpacks an archive of images, in a process that has nothing else, until the daemon has lost interest.
func unpack(c *net.UnixConn, files []*os.File) error {
	w, err := childproc.StartWorker(childproc.WorkerSpec{
		Mode: layers.Mode, Executable: filepath.Join(programDir, "drydock-node"), Files: files,
		Attr: func(a *syscall.SysProcAttr) {
			a.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWPID | syscall.CLONE_NEWUTS | syscall.CLONE_NEWIPC | syscall.CLONE_NEWNET
		},
	})
	if err != nil {
		return err
	}
	defer w.Kill()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	go func() {
		_, _ = c.Read(make([]byte, 1)) // the daemon sends nothing more
		cancel()
	}()
	_, err = w.Receive(ctx) // "done"
	return err
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

// cgroup returns the group of a machine, with its limits.
func (h *host) cgroup(cfg MachineConfig) (*os.File, error) {
	dir := filepath.Join(hostCgroup, cfg.ID)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, os.ErrExist) {
		return nil, err
	}
	if !cfg.NoLimits {
		for name, value := range map[string]string{
			"cpu.max": fmt.Sprintf("%d 100000", cfg.CPUs*100000), "memory.max": strconv.FormatInt(cfg.MemoryBytes, 10), "pids.max": strconv.Itoa(cfg.PIDs),
		} {
			if err := os.WriteFile(filepath.Join(dir, name), []byte(value), 0); err != nil {
				return nil, err
			}
		}
	}
	return os.Open(dir)
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

// removeCgroup removes a group and those below it. What still has processes stays; the next start tries again.
func removeCgroup(dir string) {
	entries, _ := os.ReadDir(dir) // a missing group is removed
	for _, e := range entries {
		if e.IsDir() {
			removeCgroup(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}

// attach connects a machine to the fabric.
func (h *host) attach(g *guest) error {
	return h.attachAs(g, g.cfg.Interface, fabric.Attachment{Device: "eth0"})
}

// attachMore connects another network interface to a machine.
func (h *host) attachMore(a Attachment) error {
	defer h.turn(a.Machine, func() {})()
	g := h.guest(a.Machine)
	if g == nil {
		return fmt.Errorf("%s is off", a.Machine)
	}
	h.mu.Lock()
	attached := slices.Contains(g.more, a.Interface)
	h.mu.Unlock()
	if attached {
		return nil
	}
	if err := h.attachAs(g, a.Interface, fabric.Attachment{Device: a.Device, Secondary: true}); err != nil {
		return err
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	g.more = append(g.more, a.Interface)
	return nil
}

func (h *host) attachAs(g *guest, eni string, at fabric.Attachment) error {
	ns, err := os.Open(fmt.Sprintf("/proc/%d/ns/net", g.worker.PID()))
	if err != nil {
		return err
	}
	defer ns.Close()
	at.Netns = int(ns.Fd())
	return h.fabric.Attach(eni, at)
}

// apply changes the network.
func (h *host) apply(f *os.File) error {
	var st fabric.State
	if err := json.NewDecoder(f).Decode(&st); err != nil {
		return fmt.Errorf("reading the network: %w", err)
	}
	return h.fabric.Apply(&st)
}

// serve answers at a port of the network until the daemon closes the connection.
func (h *host) serve(c *net.UnixConn, s Service) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if s.Network == "udp" {
		l, err := h.fabric.ListenServiceUDP(ctx, s.Port)
		answer(c, err)
		if err != nil {
			return
		}
		go func() {
			defer l.Close()
			for {
				var d Datagram
				files, err := Receive(c, &d)
				closeAll(files)
				if err != nil {
					return
				}
				_ = l.Reply(d.Data, fabric.Datagram{Interface: d.Interface, Remote: d.Remote, Service: d.Service}) // the client asks again
			}
		}()
		b := make([]byte, fabric.MTU)
		for {
			n, d, err := l.Read(b)
			if err != nil || Send(c, Datagram{Interface: d.Interface, Remote: d.Remote, Service: d.Service, Data: b[:n]}) != nil {
				return
			}
		}
	}
	l, err := h.fabric.ListenService(ctx, s.Port)
	answer(c, err)
	if err != nil {
		return
	}
	go func() {
		_, _ = c.Read(make([]byte, 1)) // the daemon sends nothing more
		_ = l.Close()
	}()
	for {
		in, err := l.Accept()
		if err != nil {
			return
		}
		from := in.(*fabric.ServiceConn)
		f, err := from.Conn.(*net.TCPConn).File()
		if err == nil {
			err = Send(c, Connection{Interface: from.Interface}, f)
			_ = f.Close()
		}
		_ = in.Close()
		if err != nil {
			_ = l.Close()
			return
		}
	}
}

// socket opens the namespace of the internet, or connects to a machine's socket, or a TCP address from a machine or from an interface that AWS manages.
func (h *host) socket(r HostRequest) (*os.File, error) {
	switch {
	case r.Open != "":
		return open(r.Open)
	case r.Outside:
		return h.fabric.Outside()
	}
	ctx, cancel := context.WithTimeout(context.Background(), dialPatience)
	defer cancel()
	var c net.Conn
	if r.Dial.Machine == "" {
		if err := h.fabric.AttachManaged(r.Dial.Interface); err != nil {
			return nil, err
		}
		var err error
		if c, err = h.fabric.Dial(ctx, r.Dial.Interface, cmp.Or(r.Dial.Network, "tcp"), netip.AddrPortFrom(r.Dial.Client, 0), r.Dial.Address); err != nil {
			return nil, err
		}
	} else {
		g := h.guest(r.Dial.Machine)
		if g == nil {
			return nil, fmt.Errorf("%s is off", r.Dial.Machine)
		}
		ns, err := unix.Open(fmt.Sprintf("/proc/%d/ns/net", g.worker.PID()), unix.O_RDONLY|unix.O_CLOEXEC, 0)
		if err != nil {
			return nil, err
		}
		defer unix.Close(ns)
		if err := within(ns, func() error {
			var d net.Dialer
			c, err = d.DialContext(ctx, "tcp", r.Dial.Address.String())
			return err
		}); err != nil {
			return nil, err
		}
	}
	defer c.Close()
	return c.(interface{ File() (*os.File, error) }).File() // of TCP or UDP
}

// dialPatience is how long a connection attempt lasts.
const dialPatience = 10 * time.Second

// within runs a function in a network namespace.
func within(ns int, f func() error) error {
	done := make(chan error, 1)
	go func() {
		// The thread is not unlocked, so it ends with the goroutine.
		runtime.LockOSThread()
		if err := unix.Setns(ns, unix.CLONE_NEWNET); err != nil {
			done <- os.NewSyscallError("setns", err)
			return
		}
		done <- f()
	}()
	return <-done
}

// open connects to a machine's socket.
func open(id string) (*os.File, error) {
	if !validID.MatchString(id) {
		return nil, fmt.Errorf("invalid machine ID %q", id)
	}
	c, err := net.DialUnix("unix", nil, &net.UnixAddr{Name: filepath.Join(socketDir, id), Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.File()
}
