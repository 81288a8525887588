package inside

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// A mounter makes mounts until one fails.
type mounter struct{ err error }

func (m *mounter) do(what string, f func() error) {
	if m.err == nil {
		if err := f(); err != nil {
			m.err = fmt.Errorf("%s: %w", what, err)
		}
	}
}

func (m *mounter) mount(kind, at, source string, flags uintptr, data string) {
	m.do("mounting "+kind+" at "+at, func() error {
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		return unix.Mount(source, at, kind, flags, data)
	})
}

// bind shows a folder at another place.
func (m *mounter) bind(from, at string, readOnly bool) {
	m.do("binding "+from, func() error {
		if err := os.MkdirAll(at, 0o755); err != nil {
			return err
		}
		if err := unix.Mount(from, at, "", unix.MS_BIND|unix.MS_REC, ""); err != nil || !readOnly {
			return err
		}
		return unix.MountSetattr(unix.AT_FDCWD, at, unix.AT_RECURSIVE, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_RDONLY | unix.MOUNT_ATTR_NODEV})
	})
}

// move shows a detached mount at a folder.
func (m *mounter) move(fd int, at string) {
	m.do("making "+at, func() error { return os.MkdirAll(at, 0o755) })
	m.do("mounting "+at, func() error { return unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH) })
}

// bindFile shows a file at another place.
func (m *mounter) bindFile(from, at string) {
	m.do("binding "+from, func() error {
		if err := os.MkdirAll(filepath.Dir(at), 0o755); err != nil {
			return err
		}
		f, err := os.OpenFile(at, os.O_CREATE|os.O_RDONLY, 0o755)
		if err != nil {
			return err
		}
		_ = f.Close()
		return unix.Mount(from, at, "", unix.MS_BIND, "")
	})
}

// userland shows the real machine's programs and libraries, and nothing else of it, read-only.
func (m *mounter) userland(root string) {
	m.bind("/usr", root+"/usr", true)
	for _, dir := range []string{"bin", "sbin", "lib", "lib64", "lib32"} {
		m.do("/"+dir, func() error {
			to, err := os.Readlink("/" + dir)
			if dir == "lib" && err == nil {
				if _, err := os.Stat("/lib/modules"); errors.Is(err, os.ErrNotExist) {
					return withModules(filepath.Join("/", to), filepath.Join(root, dir))
				}
			}
			if err == nil {
				err := os.Symlink(to, filepath.Join(root, dir))
				if errors.Is(err, os.ErrExist) {
					return nil
				}
				return err
			}
			if st, err := os.Stat("/" + dir); err == nil && st.IsDir() {
				m.bind("/"+dir, filepath.Join(root, dir), true)
			}
			return m.err
		})
	}
}

// withModules makes a folder with links to everything in another one, and an empty folder modules. Pods such as kube-proxy's
// mount /lib/modules of their node, which a real machine without modules, such as a container, does not have.
func withModules(from, to string) error {
	if err := os.MkdirAll(filepath.Join(to, "modules"), 0o755); err != nil {
		return err
	}
	all, err := os.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range all {
		if err := os.Symlink(filepath.Join(from, e.Name()), filepath.Join(to, e.Name())); err != nil {
			return err
		}
	}
	return nil
}

// pivot makes a folder the root and forgets the old one, without a folder for it: a name on a disk may lead anywhere.
func (m *mounter) pivot(root string) {
	m.do("changing the root", func() error {
		if err := os.Chdir(root); err != nil {
			return err
		}
		if err := unix.PivotRoot(".", "."); err != nil {
			return err
		}
		if err := unix.Unmount(".", unix.MNT_DETACH); err != nil { // the old root, which is now above the new one
			return err
		}
		return os.Chdir("/")
	})
}

// below opens a folder on a machine's disk, and makes it if necessary. It follows no links: the machine's root may have left
// some that lead out of the disk, and the whole of the host is still in view.
func below(dir int, name string, mode os.FileMode) (*os.File, error) {
	at, err := unix.FcntlInt(uintptr(dir), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	for part := range strings.SplitSeq(name, "/") {
		if err := unix.Mkdirat(at, part, 0o755); err != nil && !errors.Is(err, unix.EEXIST) {
			return nil, errors.Join(&os.PathError{Op: "mkdir", Path: name, Err: err}, unix.Close(at))
		}
		next, err := unix.Openat(at, part, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		_ = unix.Close(at)
		if err != nil {
			return nil, &os.PathError{Op: "open", Path: name, Err: err}
		}
		at = next
	}
	f := os.NewFile(uintptr(at), name)
	if err := f.Chmod(mode); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// show shows a folder of a machine's disk in its new root.
func (m *mounter) show(disk *os.File, name string, mode os.FileMode, at string) {
	m.do("preparing the disk", func() error {
		if err := os.Mkdir(at, 0o755); err != nil {
			return err
		}
		f, err := below(int(disk.Fd()), name, mode)
		if err != nil {
			return err
		}
		defer f.Close()
		fd, err := unix.OpenTree(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
		if err != nil {
			return err
		}
		defer unix.Close(fd)
		return unix.MoveMount(fd, "", unix.AT_FDCWD, at, unix.MOVE_MOUNT_F_EMPTY_PATH)
	})
}
