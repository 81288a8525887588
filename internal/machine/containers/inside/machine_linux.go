package inside

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strconv"
	"sync"
	"syscall"
	"time"

	"github.com/vishvananda/netlink"
	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// setuidBin is where a machine has its own sudo: one of the real machine's belongs to a user that does not exist here.
const setuidBin = "/opt/drydock/sbin"

// A box is a machine from inside.
type box struct {
	cfg MachineConfig

	mu       sync.Mutex
	programs map[string]*childproc.Supervisor
	tools    *net.UnixConn // to whoever runs the image's programs, or nil

	booted time.Time
}

func runMachine(ctx context.Context, env childproc.Env) error {
	b := &box{programs: map[string]*childproc.Supervisor{}}
	if err := json.Unmarshal(env.Config, &b.cfg); err != nil {
		return err
	}
	syscall.CloseOnExec(childproc.FirstFile)
	if b.cfg.Disk {
		syscall.CloseOnExec(childproc.FirstFile + 1)
	}
	f := os.NewFile(childproc.FirstFile, "listener")
	l, err := net.FileListener(f)
	if err != nil {
		return fmt.Errorf("the machine's listener: %w", err)
	}
	_ = f.Close()
	began := time.Now()
	b.booted = began
	fmt.Printf("[    0.000000] Drydock: booting %s on the kernel of the host\n", b.cfg.ID)
	if err := b.root(); err != nil {
		return err
	}
	if err := b.etc(); err != nil {
		return err
	}
	if err := serveConsole(); err != nil {
		return fmt.Errorf("making /dev/console: %w", err)
	}
	if err := setHostname(b.cfg.Hostname); err != nil {
		return err
	}
	if err := intoLeaf("/sys/fs/cgroup", "init"); err != nil {
		return err
	}
	if !b.cfg.NoLimits {
		if err := enableControllers("/sys/fs/cgroup"); err != nil {
			return err
		}
	}
	if err := b.showProc(); err != nil {
		return err
	}
	boundProcesses(b.cfg.PIDs)
	lo, err := netlink.LinkByName("lo")
	if err != nil {
		return err
	}
	if err := netlink.LinkSetUp(lo); err != nil {
		return err
	}
	if _, err := env.Receive(ctx); err != nil { // "connected"
		return err
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	debug.FreeOSMemory() // there may be many machines, which do little from now on
	go reap()
	go serve(l.(*net.UnixListener), b.handle)
	if err := b.serveTools(); err != nil {
		return err
	}
	fmt.Printf("[%12.6f] Drydock: %s is up with address %s\n", time.Since(began).Seconds(), b.cfg.Hostname, b.cfg.Address)
	if err := env.Report([]byte("up")); err != nil {
		return err
	}
	signal.Notify(make(chan os.Signal, 1)) // signals of the machine's own root, such as kill 1, end nothing
	select {}                              // until the host ends this process, and the kernel everything on the machine
}

// serveConsole makes /dev/console a terminal of which the machine's console shows the output.
func serveConsole() error {
	const name = "/dev/console"
	master, slave, err := openTerminal(accounts.User{}, Terminal{})
	if err != nil {
		return err
	}
	raw, err := unix.IoctlGetTermios(int(slave.Fd()), unix.TCGETS)
	if err != nil {
		return os.NewSyscallError("tcgetattr", err)
	}
	raw.Oflag &^= unix.OPOST // lines end as programs write them
	raw.Lflag &^= unix.ECHO
	if err := unix.IoctlSetTermios(int(slave.Fd()), unix.TCSETS, raw); err != nil {
		return os.NewSyscallError("tcsetattr", err)
	}
	if err := os.WriteFile(name, nil, 0o600); err != nil {
		return err
	}
	if err := unix.Mount(slave.Name(), name, "", unix.MS_BIND, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	go func() { // until the machine ends
		defer slave.Close() // while it is open, no program that closes the terminal ends it
		_, _ = io.Copy(os.Stdout, master)
	}()
	return nil
}

func (b *box) handle(c *net.UnixConn) {
	var r MachineRequest
	files, err := Receive(c, &r)
	defer func() { closeAll(files) }()
	if err != nil {
		if !errors.Is(err, io.EOF) {
			answer(c, err)
		}
		return
	}
	switch {
	case r.Write != nil:
		answer(c, replace(r.Write.Name, r.Write.Data, r.Write.Mode))
	case r.Start != nil:
		answer(c, b.start(*r.Start))
	case r.End != "":
		b.end(r.End)
		answer(c, nil)
	case r.Exec != nil:
		b.exec(c, *r.Exec, files)
	case r.File != nil:
		b.file(c, *r.File, files)
	case r.CloudInit != nil:
		b.cloudInit(c, *r.CloudInit)
	case r.Listen != 0:
		listen(c, r.Listen)
	case r.Tools:
		b.offerTools(c)
	case r.Print != "":
		_, err := io.WriteString(os.Stdout, r.Print)
		answer(c, err)
	case r.Unix != "":
		connect(c, r.Unix)
	case r.Mount != "" && len(files) == 1:
		m := &mounter{}
		m.move(int(files[0].Fd()), r.Mount)
		answer(c, m.err)
	case r.Unmount != "":
		// Programs that use it keep it until they end.
		err := unix.Unmount(r.Unmount, unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
		if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // the machine's root was faster
			err = nil
		}
		if err == nil {
			_ = os.Remove(r.Unmount) // what its root has put there instead may stay
		}
		answer(c, os.NewSyscallError("umount", err))
	default:
		answer(c, errors.New("unknown request"))
	}
}

func (b *box) start(p Program) error {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.programs[p.Mode] != nil {
		return nil
	}
	env := environment
	if b.cfg.Userland != nil {
		env = append(slices.Clone(env), "PATH="+nodeBin+":"+searchPath)
	}
	b.programs[p.Mode] = childproc.Supervise(context.Background(), childproc.Spec{
		Mode: p.Mode, Executable: filepath.Join(Bin, "drydock-node"), Dir: "/", Config: func() ([]byte, error) { return p.Config, nil },
		Env: append([]string{"GOGC=40", "GOMAXPROCS=" + strconv.Itoa(max(b.cfg.CPUs, 1)), "HOME=/root"}, env...), LogFile: "/var/log/" + p.Mode + ".log", MaxBackoff: 5 * time.Second,
	})
	return nil
}

func (b *box) end(mode string) {
	b.mu.Lock()
	s := b.programs[mode]
	delete(b.programs, mode)
	b.mu.Unlock()
	if s != nil {
		s.Stop()
	}
}
