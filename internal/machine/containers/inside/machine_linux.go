package inside

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"strconv"
	"strings"
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

// devices are those of the host that machines have.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty", "fuse", "net/tun"}

// kept are the folders of the root file system that are on the machine's disk. The rest is in memory.
var kept = map[string]os.FileMode{
	"etc": 0o755, "var": 0o755, "home": 0o755, "root": 0o700, "tmp": 0o777 | os.ModeSticky, "mnt": 0o755, "srv": 0o755,
}

// root moves to the machine's root file system: one in memory, with the host's programs and folders of the machine's disk.
// Mounts are made only in folders that are not on the disk, because names there may be links.
func (b *box) root() error {
	const dir = machineRoot
	m := &mounter{}
	m.do("private", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") })
	m.mount("tmpfs", dir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64m")
	m.do("preparing the disk", func() error {
		at := filepath.Join(dataDir, b.cfg.ID, "disk")
		if b.cfg.Disk {
			at = machineDisk
			m.move(childproc.FirstFile+1, at)
			if err := errors.Join(m.err, unix.Close(childproc.FirstFile+1)); err != nil {
				return err
			}
		} else if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		disk, err := os.Open(at)
		if err != nil {
			return err
		}
		defer disk.Close()
		for name, mode := range kept {
			m.show(disk, name, mode, filepath.Join(dir, name))
		}
		return m.err
	})
	m.userland(dir)
	m.bind(programDir, dir+Bin, true)
	m.bind(imageDir, dir+"/opt/drydock/images", true)
	m.mount("tmpfs", dir+setuidBin, "tmpfs", unix.MS_NODEV, "mode=755,size=4m")
	m.do("making sudo", func() error { return makeSudo(dir) })
	m.do("showing the image's programs", func() error { return linkTools(dir, b.cfg.Tools) })
	m.do("replacing sh", func() error { return m.overSh(dir) })
	m.mount("proc", dir+"/proc", "proc", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	m.mount("sysfs", dir+"/sys", "sysfs", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	m.mount("cgroup2", dir+"/sys/fs/cgroup", "cgroup2", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	m.mount("tmpfs", dir+"/run", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=64m")
	m.mount("tmpfs", dir+"/dev", "tmpfs", unix.MS_NOSUID, "mode=755,size=1m")
	m.mount("tmpfs", dir+"/dev/shm", "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=1777,size=64m")
	m.mount("mqueue", dir+"/dev/mqueue", "mqueue", unix.MS_NOSUID|unix.MS_NODEV|unix.MS_NOEXEC, "")
	m.mount("devpts", dir+"/dev/pts", "devpts", unix.MS_NOSUID|unix.MS_NOEXEC, "newinstance,ptmxmode=0666,mode=0620")
	for _, d := range devices {
		if _, err := os.Stat(filepath.Join(hostDev, d)); err == nil {
			m.bindFile(filepath.Join(hostDev, d), filepath.Join(dir, "dev", d))
		}
	}
	for name, to := range map[string]string{"ptmx": "pts/ptmx", "fd": "/proc/self/fd", "stdin": "/proc/self/fd/0", "stdout": "/proc/self/fd/1", "stderr": "/proc/self/fd/2"} {
		m.do("/dev/"+name, func() error { return os.Symlink(to, filepath.Join(dir, "dev", name)) })
	}
	// Container runtimes log there; this machine has no kernel log of its own.
	m.bindFile(filepath.Join(hostDev, "null"), filepath.Join(dir, "dev/kmsg"))
	m.do("keeping the host's settings", func() error { return unlessFull(copyEtc(dir + "/etc")) })
	m.pivot(dir)
	// From here on, links can lead only to what the machine has.
	m.do("preparing the disk", func() error {
		for _, name := range []string{"/var/log", "/var/lib", "/var/tmp", "/etc/cni/net.d", "/etc/containerd"} {
			if err := os.MkdirAll(name, 0o755); err != nil {
				return err
			}
		}
		return os.Chmod("/var/tmp", 0o777|os.ModeSticky)
	})
	// Mounts of the kubelet's volumes reach containers.
	m.do("sharing mounts", func() error { return unix.Mount("", "/", "", unix.MS_REC|unix.MS_SHARED, "") })
	return m.err
}

// copied are the files of /etc that the userland needs. The rest is the machine's own.
var copied = []string{"ld.so.cache", "ld.so.conf", "ld.so.conf.d", "alternatives", "ssl", "pki", "ca-certificates", "nsswitch.conf", "services", "protocols", "terminfo"}

// copyEtc copies settings of the host that the disk does not have yet. Private files are left out, as are those that this
// user may not read.
func copyEtc(etc string) error {
	to, err := os.OpenRoot(etc)
	if err != nil {
		return err
	}
	defer to.Close()
	for _, name := range copied {
		if _, err := to.Lstat(name); err == nil {
			continue
		}
		err := filepath.WalkDir(filepath.Join(hostEtc, name), func(p string, d fs.DirEntry, err error) error {
			if err != nil {
				return nil //nolint:nilerr // it is not there, or not ours to read
			}
			rel, err := filepath.Rel(hostEtc, p)
			if err != nil {
				return err
			}
			return copyEntry(p, to, rel, d)
		})
		if err != nil {
			_ = to.RemoveAll(name) // so that the next boot copies all of it
			return err
		}
	}
	return nil
}

func copyEntry(from string, to *os.Root, name string, d fs.DirEntry) error {
	switch {
	case d.IsDir():
		return to.MkdirAll(name, 0o755)
	case d.Type()&fs.ModeSymlink != 0:
		target, err := os.Readlink(from)
		if err != nil {
			return err
		}
		return to.Symlink(target, name)
	case !d.Type().IsRegular():
		return nil
	}
	b, err := os.ReadFile(from)
	if errors.Is(err, fs.ErrPermission) {
		return nil
	}
	if err != nil {
		return err
	}
	return to.WriteFile(name, b, 0o644)
}

// etc writes the machine's own settings.
func (b *box) etc() error {
	id := strings.ReplaceAll(b.cfg.ID, "-", "")
	files := map[string]string{
		"resolv.conf": fmt.Sprintf("search %s\nnameserver %s\n", b.cfg.Search, b.cfg.Resolver),
		"machine-id":  (id + strings.Repeat("0", 32))[:32] + "\n",
		"profile":     profile,
	}
	if b.cfg.NoLimits {
		files["../opt/drydock/no-limits"] = ""
	}
	for name, text := range files {
		if err := unlessFull(replace(filepath.Join("/etc", name), []byte(text), 0o644)); err != nil {
			return err
		}
	}
	if err := settle([]setting{
		{"hostname", b.cfg.Hostname + "\n", 0o644},
		{"hosts", fmt.Sprintf("127.0.0.1 localhost\n%s %s %s\n", b.cfg.Address, b.cfg.Hostname, strings.SplitN(b.cfg.Hostname, ".", 2)[0]), 0o644},
	}); err != nil {
		return err
	}
	return unlessFull(b.trust())
}

// unlessFull logs that the disk is full instead of failing, so that the machine boots and its root can make room.
func unlessFull(err error) error {
	if !errors.Is(err, unix.ENOSPC) {
		return err
	}
	fmt.Printf("Drydock: the disk is full, so a setting is missing or old: %v\n", err)
	return nil
}

// bundle has the certificate authorities that the machine's programs trust.
const bundle = "/etc/ssl/certs/ca-certificates.crt"

// trust adds the installation's certificate authority to those of the host.
func (b *box) trust() error {
	all, err := readRegular(bundle)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if strings.Contains(string(all), string(b.cfg.CA)) {
		return nil
	}
	return replace(bundle, append(all, b.cfg.CA...), 0o644)
}

// readRegular reads a file that may be anything, without waiting for a writer.
func readRegular(name string) ([]byte, error) {
	f, err := openRegularFile(name, os.O_RDONLY, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// replace writes a file atomically, unless it is like that already: a full disk has no room for another one.
func replace(name string, data []byte, mode os.FileMode) error {
	if same(name, data, mode) {
		return nil
	}
	if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(filepath.Dir(name), ".new-*")
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err = errors.Join(err, f.Chmod(mode), f.Close()); err == nil {
		err = os.Rename(f.Name(), name)
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	return err
}

// same reports whether a name is that of root's own file with this text and mode.
func same(name string, data []byte, mode os.FileMode) bool {
	st, err := os.Lstat(name)
	if err != nil || st.Mode() != mode || st.Size() != int64(len(data)) {
		return false
	}
	if s := st.Sys().(*syscall.Stat_t); s.Uid != 0 || s.Gid != 0 || s.Nlink != 1 {
		return false
	}
	has, err := readRegular(name)
	return err == nil && bytes.Equal(has, data)
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
	b.programs[p.Mode] = childproc.Supervise(context.Background(), childproc.Spec{
		Mode: p.Mode, Executable: filepath.Join(Bin, "drydock-node"), Dir: "/", Config: func() ([]byte, error) { return p.Config, nil },
		Env: append([]string{"GOGC=40", "GOMAXPROCS=" + strconv.Itoa(max(b.cfg.CPUs, 1)), "HOME=/root"}, environment...), LogFile: "/var/log/" + p.Mode + ".log", MaxBackoff: 5 * time.Second,
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
