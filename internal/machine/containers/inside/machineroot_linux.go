package inside

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/childproc"
)

// devices are those of the host that machines have.
var devices = []string{"null", "zero", "full", "random", "urandom", "tty", "fuse", "net/tun"}

// kept are the folders of the root file system that are on the machine's disk. The rest is in memory.
var kept = map[string]os.FileMode{
	"etc": 0o755, "var": 0o755, "home": 0o755, "root": 0o700, "tmp": 0o777 | os.ModeSticky, "mnt": 0o755, "srv": 0o755,
}

// root moves to the machine's root file system: one in memory, with the programs of the host or of an image, and folders of the
// machine's disk.
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
	if b.cfg.Userland == nil {
		m.userland(dir)
	} else {
		m.mountImage(b.cfg.Userland)
		m.showImage(dir)
	}
	m.bind(programDir, dir+Bin, true)
	m.bind(imageDir, dir+"/opt/drydock/images", true)
	m.mount("tmpfs", dir+setuidBin, "tmpfs", unix.MS_NODEV, "mode=755,size=4m")
	m.do("making sudo", func() error { return makeSudo(dir) })
	if b.cfg.Userland == nil {
		m.do("replacing sh", func() error { return m.overSh(dir) })
	}
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
	m.do("keeping the userland's settings", func() error {
		if n := len(b.cfg.Userland); n > 0 {
			return unlessFull(copyImage(dir, b.cfg.Userland[n-1]))
		}
		return unlessFull(copyEtc(dir + "/etc"))
	})
	m.pivot(dir)
	// From here on, links can lead only to what the machine has.
	m.do("showing the image's programs", func() error { return linkTools(b.cfg.Tools) })
	if b.cfg.Userland != nil {
		m.do("showing the node's programs", linkNodePrograms)
	}
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
