package containers

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/containers/inside"
	"github.com/drydock-dev/drydock/internal/machine/containers/nodebin"
	"github.com/drydock-dev/drydock/internal/machine/containers/probe"
)

// startHost starts the host if it does not run. r.mu is held.
func (r *Runtime) startHost() error {
	if r.host != nil {
		return nil
	}
	report := probe.Run()
	if !report.Available {
		return fmt.Errorf("this machine cannot run containers: %s; see drydock doctor containers", report.Why())
	}
	if err := raiseInotify(); err != nil {
		r.cfg.Log.Warn("only a dozen nodes can run containers at once: raise fs.inotify.max_user_instances on this machine", "want", inotifyInstances, "err", err)
	}
	// The folder is the daemon's own. Only the disks and layers belong to the machines: what is read there may be hostile.
	for _, name := range []string{"", diskDir, imageDir, layerDir} {
		if err := os.MkdirAll(filepath.Join(r.cfg.Dir, name), 0o755); err != nil {
			return err
		}
	}
	images := filepath.Join(r.cfg.Dir, imageDir)
	if err := errors.Join(os.Lchown(r.cfg.Dir, 0, 0), os.Chmod(r.cfg.Dir, 0o700), os.Lchown(images, 0, 0), os.Chmod(images, 0o755), os.Lchown(filepath.Join(r.cfg.Dir, diskDir), firstID, firstID),
		os.Lchown(filepath.Join(r.cfg.Dir, layerDir), firstID, firstID)); err != nil {
		return err
	}
	dir, err := os.Open(r.cfg.Dir)
	if err != nil {
		return err
	}
	noLimits := !report.Has(probe.Limits)
	config, err := json.Marshal(inside.HostConfig{NoLimits: noLimits, PIDs: halfOfPIDs()})
	if err != nil {
		return err
	}
	spec := childproc.Spec{
		Mode: inside.HostMode, Executable: r.cfg.Executable, Args: r.cfg.ChildArgs,
		LogFile: filepath.Join(r.cfg.Dir, "host.log"), StopGrace: time.Second, Log: r.cfg.Log,
		OnReport: func([]byte) { r.hostUp() },
		OnExit: func(err error) {
			r.hostDown()
			if r.ctx.Err() == nil {
				r.cfg.Log.Warn("the machines that run containers have ended", "err", err, "log", childproc.LogTail(filepath.Join(r.cfg.Dir, "host.log")))
			}
		},
	}
	if spec.Executable == "" {
		// The path of the program may go through folders that the host may not enter.
		spec.Executable = "/proc/self/exe"
	}
	var listener, group, folder, programs *os.File
	leave := func() error { return nil }
	spec.Config = func() ([]byte, error) {
		closeFiles(listener, group, folder, programs)
		if err := leave(); err != nil { // of a host that could not be started
			return nil, err
		}
		// A host that has ended, or whose daemon was killed, has left its groups, which have controllers.
		err := r.cleanUp()
		if err != nil {
			return nil, err
		}
		if folder, err = tree(filepath.Join(r.cfg.Dir, diskDir)); err != nil {
			return nil, err
		}
		entered, err := enter(images)
		if err != nil {
			return nil, err
		}
		leave = entered
		if programs, err = programTree(); err != nil {
			return nil, err
		}
		if listener, err = r.listen(); err != nil {
			return nil, err
		}
		if group, err = r.cgroup(noLimits); err != nil {
			return nil, err
		}
		return config, nil
	}
	spec.Files = func() []*os.File { return []*os.File{folder, listener, programs} }
	spec.OnStart = func(int) {
		if err := leave(); err != nil {
			r.cfg.Log.Warn("mounts of this machine stay in use until the daemon ends", "err", err)
			leave = func() error { return nil } // or the next host could not start
		}
	}
	spec.Attr = func(a *syscall.SysProcAttr) {
		ids := []syscall.SysProcIDMap{{ContainerID: 0, HostID: firstID, Size: probe.IDs}}
		a.Cloneflags = syscall.CLONE_NEWUSER | syscall.CLONE_NEWNS | syscall.CLONE_NEWNET | syscall.CLONE_NEWPID | syscall.CLONE_NEWIPC | syscall.CLONE_NEWUTS | unix.CLONE_NEWCGROUP
		a.UidMappings, a.GidMappings, a.GidMappingsEnableSetgroups = ids, ids, true
		a.Credential = &syscall.Credential{Uid: 0, Gid: 0}
		a.UseCgroupFD, a.CgroupFD = true, int(group.Fd())
	}
	r.dir = dir
	r.host = childproc.Supervise(r.ctx, spec)
	r.background.Go(r.share)
	return nil
}

// enter makes a folder, as a read-only mount, the working folder of this thread, whose mount namespace becomes its own. A process with
// a user namespace of its own that the thread starts gets a copy of the mount that the kernel never lets it make writable, although
// it may own what is there. The returned function moves the thread back, so that nothing keeps copies of the real machine's mounts. It
// is for the goroutine of a supervisor, whose thread runs nothing else and ends with it.
// https://man7.org/linux/man-pages/man7/mount_namespaces.7.html
func enter(dir string) (leave func() error, err error) {
	runtime.LockOSThread() // never unlocked: the thread has a root and a working folder of its own
	home, err := os.Open("/proc/thread-self/ns/mnt")
	if err != nil {
		return nil, err
	}
	root, err := os.Open("/")
	if err != nil {
		return nil, errors.Join(err, home.Close())
	}
	if err := unix.Unshare(unix.CLONE_FS | unix.CLONE_NEWNS); err != nil {
		return nil, errors.Join(os.NewSyscallError("unshare", err), home.Close(), root.Close())
	}
	leave = sync.OnceValue(func() error {
		defer home.Close()
		defer root.Close()
		if err := unix.Setns(int(home.Fd()), unix.CLONE_NEWNS); err != nil {
			return os.NewSyscallError("setns", err)
		}
		// The root is now that of the namespace, which may not be the daemon's.
		if err := unix.Fchdir(int(root.Fd())); err != nil {
			return os.NewSyscallError("fchdir", err)
		}
		return os.NewSyscallError("chroot", unix.Chroot("."))
	})
	if err := shadow(dir); err != nil {
		return nil, errors.Join(err, leave())
	}
	return leave, nil
}

// shadow makes a folder, as a read-only mount that is made over it, the working folder of this thread.
func shadow(dir string) error {
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_SLAVE, ""); err != nil {
		return os.NewSyscallError("mount", err)
	}
	mount, err := tree(dir)
	if err != nil {
		return err
	}
	defer mount.Close()
	if err := readOnly(mount); err != nil {
		return err
	}
	if err := unix.MoveMount(int(mount.Fd()), "", unix.AT_FDCWD, dir, unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return os.NewSyscallError("move_mount", err)
	}
	return os.NewSyscallError("chdir", unix.Chdir(dir))
}

// inotifyInstances is how many inotify instances a user of the real machine may have at least. All machines count as the user
// that started the daemon. A node uses nine (kubelet six, containerd two, kube-proxy one), and the kernel's default is 128.
const inotifyInstances = 8192

// raiseInotify raises the limit of the real machine if it is lower. It is the only setting of the real machine that changes,
// and it stays: see decision 100.
func raiseInotify() error {
	const file = "/proc/sys/fs/inotify/max_user_instances"
	b, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if n, err := strconv.Atoi(strings.TrimSpace(string(b))); err == nil && n >= inotifyInstances {
		return nil
	}
	return os.WriteFile(file, []byte(strconv.Itoa(inotifyInstances)), 0)
}

// halfOfPIDs returns half of the process IDs that the real machine has: what all machines together may use.
func halfOfPIDs() int {
	b, err := os.ReadFile("/proc/sys/kernel/pid_max")
	if err != nil {
		return 0
	}
	n, _ := strconv.Atoi(strings.TrimSpace(string(b))) // without a number there is no bound
	return n / 2
}

// tree returns a copy of a mount that the host can show in its own namespace, although it may not enter the folders above.
func tree(path string) (*os.File, error) {
	fd, err := unix.OpenTree(unix.AT_FDCWD, path, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return nil, fmt.Errorf("opening %s for the machines: %w", path, err)
	}
	return os.NewFile(uintptr(fd), path), nil
}

// extracted is the file system with the programs of nodes, if it can be copied.
var extracted struct {
	sync.Mutex
	mount *os.File
}

// programTree returns a detached mount of the file system with the programs of nodes, which all hosts of this process share.
func programTree() (*os.File, error) {
	extracted.Lock()
	defer extracted.Unlock()
	if extracted.mount == nil {
		var err error
		if extracted.mount, err = extract(); err != nil {
			return nil, err
		}
	}
	fd, err := unix.OpenTree(int(extracted.mount.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil { // Linux before 6.15 copies no detached mount, so this one is used up
		only := extracted.mount
		extracted.mount = nil
		return only, nil
	}
	return os.NewFile(uintptr(fd), "programs"), nil
}

// programsSize bounds the memory of the programs, which are 320 MB.
const programsSize = "512m"

// extract returns a file system in memory with the programs of nodes. It belongs to the real root, so that no machine can
// change what the others run, even if it mounts it again.
func extract() (*os.File, error) {
	fs, err := unix.Fsopen("tmpfs", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fs)
	if err := errors.Join(unix.FsconfigSetString(fs, "mode", "0755"), unix.FsconfigSetString(fs, "size", programsSize), unix.FsconfigCreate(fs)); err != nil {
		return nil, os.NewSyscallError("fsconfig", err)
	}
	fd, err := unix.Fsmount(fs, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID)
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	f := os.NewFile(uintptr(fd), "programs")
	if err := errors.Join(nodebin.Extract(fmt.Sprintf("/proc/self/fd/%d", fd)), readOnly(f)); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// readOnly makes a detached mount read-only.
func readOnly(f *os.File) error {
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(int(f.Fd()), "", unix.AT_EMPTY_PATH, &unix.MountAttr{
		Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOSUID,
	}))
}

// allowSetuid lets the programs on a machine's disk change their user, as sudo does. The users are those of the machine.
func allowSetuid(f *os.File) error {
	return os.NewSyscallError("mount_setattr", unix.MountSetattr(int(f.Fd()), "", unix.AT_EMPTY_PATH, &unix.MountAttr{Attr_clr: unix.MOUNT_ATTR_NOSUID}))
}

// listen opens the socket on which the host takes requests.
func (r *Runtime) listen() (*os.File, error) {
	path := r.path(socketName)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	l, err := net.ListenUnix("unix", &net.UnixAddr{Name: path, Net: "unix"})
	if err != nil {
		return nil, err
	}
	defer l.Close()
	l.SetUnlinkOnClose(false)
	return l.File()
}

// path returns a short name for a file in the folder: the address of a socket has 108 bytes at most.
func (r *Runtime) path(name string) string {
	return fmt.Sprintf("/proc/self/fd/%d/%s", r.dir.Fd(), name)
}

// groupName is that of this installation's group.
func (r *Runtime) groupName() (string, error) {
	st, err := os.Stat(r.cfg.Dir)
	if err != nil {
		return "", err
	}
	return fmt.Sprintf("drydock-%x", st.Sys().(*syscall.Stat_t).Ino), nil
}

// cgroup makes the group of all machines, which belongs to them.
func (r *Runtime) cgroup(noLimits bool) (*os.File, error) {
	root := probe.Cgroup2()
	if !noLimits {
		if err := enableControllers(root); err != nil {
			return nil, err
		}
	}
	name, err := r.groupName()
	if err != nil {
		return nil, err
	}
	dir := filepath.Join(root, name)
	if err := os.Mkdir(dir, 0o755); err != nil && !errors.Is(err, fs.ErrExist) {
		return nil, fmt.Errorf("making a cgroup: %w", err)
	}
	for _, file := range []string{"", "cgroup.procs", "cgroup.threads", "cgroup.subtree_control"} {
		if err := os.Chown(filepath.Join(dir, file), firstID, firstID); err != nil {
			return nil, fmt.Errorf("making a cgroup: %w", err)
		}
	}
	return os.Open(dir)
}

// enableControllers lets groups below the root have limits. Systemd has usually done it.
func enableControllers(root string) error {
	b, err := os.ReadFile(filepath.Join(root, "cgroup.subtree_control"))
	if err != nil {
		return err
	}
	for _, c := range probe.Controllers {
		if !slices.Contains(strings.Fields(string(b)), c) {
			if err := os.WriteFile(filepath.Join(root, "cgroup.subtree_control"), []byte("+"+c), 0); err != nil {
				return fmt.Errorf("enabling the %s controller: %w", c, err)
			}
		}
	}
	return nil
}

// cleanUp removes the groups of a host that has ended. The kernel needs a moment to end its processes.
func (r *Runtime) cleanUp() error {
	name, err := r.groupName()
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	dir := filepath.Join(probe.Cgroup2(), name)
	for deadline := time.Now().Add(3 * time.Second); ; time.Sleep(20 * time.Millisecond) {
		removeGroup(dir)
		if _, err := os.Stat(dir); errors.Is(err, fs.ErrNotExist) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("%s still has processes", dir)
		}
		_ = os.WriteFile(filepath.Join(dir, "cgroup.kill"), []byte("1"), 0) // since Linux 5.14
	}
}

func removeGroup(dir string) {
	entries, _ := os.ReadDir(dir) // a missing group is removed
	for _, e := range entries {
		if e.IsDir() {
			removeGroup(filepath.Join(dir, e.Name()))
		}
	}
	_ = os.Remove(dir)
}

func (r *Runtime) hostUp() {
	ctx, end := context.WithCancel(r.ctx)
	r.setRun(&hostRun{ctx, end})
}

func (r *Runtime) hostDown() { r.setRun(nil) }

func (r *Runtime) setRun(run *hostRun) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.run != nil {
		r.run.end()
	}
	r.run = run
	close(r.changed)
	r.changed = make(chan struct{})
}
