package inside

import (
	"errors"
	"os"

	"golang.org/x/sys/unix"
)

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
		return errors.Join(os.Mkdir(root+machineRoot, 0o700), os.Mkdir(root+machineDisk, 0o700), os.Mkdir(root+userlandDir, 0o700), os.Mkdir(root+socketDir, 0o700))
	})
	m.pivot(root)
	return m.err
}
