package cli

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"
)

// ways are those of running a program of a pod: with the pod's view of /var/run/secrets, or without it.
func (p podFiles) ways(path string, args, env []string) []*exec.Cmd {
	if _, err := os.Stat(p.file(secretsDir)); err != nil {
		return []*exec.Cmd{child(path, args, env)}
	}
	return viewed([]string{podViewCommand, p.dir}, path, args, env)
}

// viewed returns the ways of running a program with a view: by a command of drydock in a mount namespace of its own, as root
// or as a user in a user namespace, or without the view.
func viewed(command []string, path string, args, env []string) []*exec.Cmd {
	plain := child(path, args, env)
	self, err := os.Executable()
	if err != nil {
		return []*exec.Cmd{plain}
	}
	view := slices.Concat([]string{self}, command, []string{path}, args)
	asRoot, asUser := child(self, view, env), child(self, view, env)
	asRoot.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS
	asUser.SysProcAttr.Cloneflags = syscall.CLONE_NEWNS | syscall.CLONE_NEWUSER
	asUser.SysProcAttr.UidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getuid(), HostID: os.Getuid(), Size: 1}}
	asUser.SysProcAttr.GidMappings = []syscall.SysProcIDMap{{ContainerID: os.Getgid(), HostID: os.Getgid(), Size: 1}}
	asUser.SysProcAttr.AmbientCaps = []uintptr{unix.CAP_SYS_ADMIN} // until it has mounted
	return []*exec.Cmd{asRoot, asUser, plain}
}

// enterView changes what this process, in a mount namespace of its own, sees.
func enterView(mount func() error) error {
	err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, "") // nothing of what follows may get out of the namespace
	if err == nil {
		err = mount()
	}
	// The program itself may not mount.
	if e := unix.Prctl(unix.PR_CAP_AMBIENT, unix.PR_CAP_AMBIENT_CLEAR_ALL, 0, 0, 0); err == nil {
		err = e
	}
	return err
}

// enterPodView has this process see secrets at /var/run/secrets. All else in /var/run stays as it is.
func enterPodView(secrets string) error {
	return enterView(func() error { return mountPodView(secrets) })
}

// enterTrustView has this process see a bundle of CA certificates in the place of the system's.
func enterTrustView(bundle string) error {
	return enterView(func() (err error) {
		for _, name := range systemBundles {
			if _, missing := os.Stat(name); missing == nil {
				err = errors.Join(err, unix.Mount(bundle, name, "", unix.MS_BIND, ""))
			}
		}
		return err
	})
}

func mountPodView(secrets string) (err error) {
	at, err := filepath.EvalSymlinks(secretsDir)
	if err == nil {
		return unix.Mount(secrets, at, "", unix.MS_BIND, "")
	}
	// Only root could make the folder. A new file system has it, and links to what is in
	// the real one, which goes below it.
	run, err := filepath.EvalSymlinks(filepath.Dir(secretsDir))
	if err != nil {
		return err
	}
	before, err := unix.OpenTree(unix.AT_FDCWD, run, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC|unix.AT_RECURSIVE)
	if err != nil {
		return err
	}
	defer unix.Close(before)
	if err := unix.Mount("tmpfs", run, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=0755"); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = unix.Unmount(run, unix.MNT_DETACH)
		}
	}()
	const real = ".host"
	if err := os.Mkdir(filepath.Join(run, real), 0o755); err != nil {
		return err
	}
	if err := unix.MoveMount(before, "", unix.AT_FDCWD, filepath.Join(run, real), unix.MOVE_MOUNT_F_EMPTY_PATH); err != nil {
		return err
	}
	entries, err := os.ReadDir(filepath.Join(run, real))
	if err != nil {
		return err
	}
	for _, e := range entries {
		if err := os.Symlink(filepath.Join(real, e.Name()), filepath.Join(run, e.Name())); err != nil {
			return err
		}
	}
	return os.Symlink(secrets, filepath.Join(run, filepath.Base(secretsDir)))
}

// keepParent makes the kernel kill the program that this thread becomes when its parent dies. The child's own setting
// (withParent) is lost if another than the first thread becomes the program, because each thread has its own.
func keepParent() { _ = unix.Prctl(unix.PR_SET_PDEATHSIG, uintptr(syscall.SIGKILL), 0, 0, 0) } // it cannot fail
