package volumes

import (
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/machine"
)

// Numbers of ioctls that package unix does not have.
// https://github.com/torvalds/linux/blob/master/include/uapi/linux/fs.h, fs/ext4/ext4.h
const (
	fiFreeze     = 0xc0045877
	fiThaw       = 0xc0045878
	ext4ResizeFS = 0x40086610
	blockSize    = 4096
	loopControl  = "/dev/loop-control"
	attempts     = 16 // to get a loop device that no other program takes first
	backingFiles = "/sys/block/loop*/loop/backing_file"
)

// Usable returns an error if this machine cannot mount volumes.
func Usable() error {
	for _, name := range []string{"mkfs.ext4", "e2fsck", "resize2fs"} {
		if _, err := tool(name); err != nil {
			return err
		}
	}
	_, err := os.Stat(loopControl)
	return err
}

// tool returns the path of a program of e2fsprogs. Users' paths often do not include it.
func tool(name string) (string, error) {
	for _, dir := range append(filepath.SplitList(os.Getenv("PATH")), "/usr/sbin", "/sbin") {
		if file := filepath.Join(dir, name); filepath.IsAbs(file) {
			if st, err := os.Stat(file); err == nil && st.Mode().IsRegular() {
				return file, nil
			}
		}
	}
	return "", fmt.Errorf("there is no %s", name)
}

// run runs a program of e2fsprogs. It is not interrupted: what it changes is a file of its own.
func run(name string, args ...string) error {
	file, err := tool(name)
	if err != nil {
		return err
	}
	out, err := exec.Command(file, args...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && name == "e2fsck" && exit.ExitCode() == 1 {
		return nil // it has corrected something
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Mount returns a detached mount of a volume for a machine, whose file system has the volume's size. If the volume is new, it is
// made from its snapshot, or empty and owned by a user and group of this machine. What pods see is the folder Folder of it. It
// is an error if another machine still uses the volume.
func (s *Store) Mount(v machine.Volume, machineID string, owner int) (*os.File, error) {
	name, err := s.file(v.ID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	size := int64(v.SizeGiB) << 30
	if err := s.create(name, v.SnapshotID, size, owner); err != nil {
		return nil, fmt.Errorf("making %s: %w", v.ID, err)
	}
	if st, err := os.Stat(name); err == nil {
		size = max(size, st.Size()) // a mounted file system does not shrink
	}
	device, err := attached(name)
	if err != nil {
		return nil, fmt.Errorf("the loop device of %s: %w", v.ID, err)
	}
	if device != nil && s.users[v.ID] != machineID {
		_ = device.Close()
		return nil, fmt.Errorf("programs on another machine still use %s", v.ID)
	}
	if err := grow(name, size, device != nil); err != nil {
		return nil, errors.Join(fmt.Errorf("enlarging %s: %w", v.ID, err), closeDevice(device))
	}
	if device == nil {
		if device, err = attach(name); err != nil {
			return nil, fmt.Errorf("the loop device of %s: %w", v.ID, err)
		}
	}
	defer device.Close() // the kernel keeps it while it is mounted
	if err := unix.IoctlSetInt(int(device.Fd()), unix.LOOP_SET_CAPACITY, 0); err != nil {
		return nil, os.NewSyscallError("LOOP_SET_CAPACITY", err)
	}
	mount, err := mountDevice(device.Name())
	if err != nil {
		return nil, fmt.Errorf("mounting %s: %w", v.ID, err)
	}
	if err := errors.Join(fill(mount, size), makeFolder(mount, owner)); err != nil {
		return nil, errors.Join(fmt.Errorf("the file system of %s: %w", v.ID, err), mount.Close())
	}
	if s.users == nil {
		s.users = map[string]string{}
	}
	s.users[v.ID] = machineID
	return mount, nil
}

func closeDevice(f *os.File) error {
	if f == nil {
		return nil
	}
	return f.Close()
}

// create makes an image unless it exists.
func (s *Store) create(name, snapshot string, size int64, owner int) error {
	if _, err := os.Stat(name); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := os.MkdirAll(s.dir, 0o700); err != nil {
		return err
	}
	if snapshot != "" {
		source, err := s.file(snapshot)
		if err != nil {
			return err
		}
		if err := copySparse(source, name); !errors.Is(err, fs.ErrNotExist) {
			return err
		} // the snapshot has no data: it is one of AWS's own, or of a volume that no machine has mounted
	}
	f, err := os.CreateTemp(s.dir, "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(f.Name()) // it has another name by then
	if err := errors.Join(f.Truncate(size), f.Close()); err != nil {
		return err
	}
	// As the EBS CSI driver does, no blocks are reserved for root.
	if err := run("mkfs.ext4", "-q", "-F", "-m", "0", "-E", fmt.Sprintf("root_owner=%d:%d,lazy_itable_init=1,lazy_journal_init=1", owner, owner), f.Name()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// attached opens the loop device of an image, or returns nil if it has none. While the device is open, it stays the image's.
func attached(name string) (*os.File, error) {
	var st unix.Stat_t
	if err := unix.Stat(name, &st); err != nil {
		return nil, err
	}
	list, err := filepath.Glob(backingFiles)
	if err != nil {
		return nil, err
	}
	for _, file := range list {
		f, err := os.OpenFile("/dev/"+strings.Split(file, "/")[3], os.O_RDWR, 0)
		if err != nil {
			continue // it is being freed, or another program's
		}
		if info, err := unix.IoctlLoopGetStatus64(int(f.Fd())); err == nil && info.Device == st.Dev && info.Inode == st.Ino {
			return f, nil
		}
		_ = f.Close()
	}
	return nil, nil
}

// attach gives an image a loop device. An image never has two: what is mounted twice is the same file system.
func attach(name string) (*os.File, error) {
	image, err := os.OpenFile(name, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer image.Close() // the device keeps it
	control, err := os.OpenFile(loopControl, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer control.Close()
	for range attempts {
		n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
		if err != nil {
			return nil, os.NewSyscallError("LOOP_CTL_GET_FREE", err)
		}
		f, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
		if err != nil {
			return nil, err
		}
		err = unix.IoctlLoopConfigure(int(f.Fd()), &unix.LoopConfig{Fd: uint32(image.Fd()), Size: blockSize, Info: unix.LoopInfo64{Flags: unix.LO_FLAGS_AUTOCLEAR}})
		if err == nil {
			return f, nil
		}
		_ = f.Close()
		if !errors.Is(err, unix.EBUSY) {
			return nil, os.NewSyscallError("LOOP_CONFIGURE", err)
		}
	}
	return nil, errors.New("other programs took every loop device that was free")
}

// grow enlarges an image that is smaller than its volume. The kernel enlarges the file system when it is mounted (see fill). If
// this process may not ask for that, a copy of an image that is not mounted is enlarged, and takes the image's place: nothing is
// lost if this process or the tools end in between.
func grow(name string, size int64, mounted bool) error {
	if mounted || mayGrow() {
		return enlarge(name, size)
	}
	has, err := sizeOf(name)
	if err != nil || has >= size {
		return err
	}
	larger := name + ".larger"
	defer os.Remove(larger) // unless it has the image's name by then
	if err := copySparse(name, larger); err != nil {
		return err
	}
	if err := enlarge(larger, size); err != nil {
		return err
	}
	if err := run("e2fsck", "-fp", larger); err != nil { // resize2fs asks for it
		return err
	}
	if err := run("resize2fs", larger); err != nil {
		return err
	}
	return os.Rename(larger, name)
}

func enlarge(name string, size int64) error {
	st, err := os.Stat(name)
	if err != nil || st.Size() >= size {
		return err
	}
	return os.Truncate(name, size)
}

// mayGrow reports whether this process has CAP_SYS_RESOURCE, without which the kernel enlarges no mounted file system. Root in a
// container often lacks it.
func mayGrow() bool {
	header := unix.CapUserHeader{Version: unix.LINUX_CAPABILITY_VERSION_3}
	var data [2]unix.CapUserData
	return unix.Capget(&header, &data[0]) == nil && data[0].Effective&(1<<unix.CAP_SYS_RESOURCE) != 0
}

// sizeOf returns the size of the file system in an image that is not mounted.
// https://docs.kernel.org/filesystems/ext4/super.html
func sizeOf(name string) (int64, error) {
	f, err := os.Open(name)
	if err != nil {
		return 0, err
	}
	defer f.Close()
	b := make([]byte, 1024)
	if _, err := f.ReadAt(b, 1024); err != nil {
		return 0, err
	}
	if binary.LittleEndian.Uint16(b[0x38:]) != 0xef53 {
		return 0, errors.New("it has no ext4 file system")
	}
	blocks := int64(binary.LittleEndian.Uint32(b[0x150:]))<<32 | int64(binary.LittleEndian.Uint32(b[0x4:]))
	return blocks << (10 + binary.LittleEndian.Uint32(b[0x18:])&0x7), nil
}

// mountDevice returns a detached mount of a device with an ext4 file system.
func mountDevice(device string) (*os.File, error) {
	fsfd, err := unix.Fsopen("ext4", unix.FSOPEN_CLOEXEC)
	if err != nil {
		return nil, os.NewSyscallError("fsopen", err)
	}
	defer unix.Close(fsfd)
	// Discarding makes the image smaller again when files are deleted.
	if err := errors.Join(unix.FsconfigSetString(fsfd, "source", device), unix.FsconfigSetFlag(fsfd, "discard"), unix.FsconfigCreate(fsfd)); err != nil {
		return nil, os.NewSyscallError("fsconfig", err)
	}
	fd, err := unix.Fsmount(fsfd, unix.FSMOUNT_CLOEXEC, unix.MOUNT_ATTR_NODEV|unix.MOUNT_ATTR_NOSUID)
	if err != nil {
		return nil, os.NewSyscallError("fsmount", err)
	}
	return os.NewFile(uintptr(fd), device), nil
}

// inMount opens the root of a detached mount.
func inMount(mount *os.File) (*os.File, error) {
	fd, err := unix.Openat(int(mount.Fd()), ".", unix.O_RDONLY|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return nil, err
	}
	return os.NewFile(uintptr(fd), mount.Name()), nil
}

// fill makes a mounted file system as large as its device, if this process may. Otherwise it grows when it is mounted the next
// time (see grow).
func fill(mount *os.File, size int64) error {
	root, err := inMount(mount)
	if err != nil {
		return err
	}
	defer root.Close()
	blocks := uint64(size / blockSize)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, root.Fd(), ext4ResizeFS, uintptr(unsafe.Pointer(&blocks)))
	if errno != 0 && errno != unix.EPERM {
		return os.NewSyscallError("EXT4_IOC_RESIZE_FS", errno)
	}
	return nil
}

// makeFolder makes the folder that pods see. It follows no links, which a machine's root may have made.
func makeFolder(mount *os.File, owner int) error {
	root, err := inMount(mount)
	if err != nil {
		return err
	}
	defer root.Close()
	err = unix.Mkdirat(int(root.Fd()), Folder, 0o755)
	if errors.Is(err, unix.EEXIST) {
		return nil
	}
	if err != nil {
		return os.NewSyscallError("mkdirat", err)
	}
	folder, err := unix.Openat(int(root.Fd()), Folder, unix.O_RDONLY|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
	if err != nil {
		return os.NewSyscallError("openat", err)
	}
	defer unix.Close(folder)
	return errors.Join(unix.Fchown(folder, owner, owner), unix.Mkdirat(folder, "lost+found", 0o700), unix.Fchownat(folder, "lost+found", owner, owner, unix.AT_SYMLINK_NOFOLLOW))
}

// frozen calls f while nothing can write to an image.
func frozen(name string, f func() error) error {
	device, err := attached(name)
	if err != nil {
		return err
	}
	if device == nil {
		return f()
	}
	defer device.Close()
	return inDevice(device, func(root int) (err error) {
		if err := unix.IoctlSetInt(root, fiFreeze, 0); err != nil {
			return os.NewSyscallError("FIFREEZE", err)
		}
		defer func() {
			err = errors.Join(err, os.NewSyscallError("FITHAW", unix.IoctlSetInt(root, fiThaw, 0)))
		}()
		return f()
	})
}

// thaw ends what a daemon that was killed has left frozen. Otherwise programs that write to it could not even be killed.
func thaw(name string) {
	device, err := attached(name)
	if err != nil || device == nil {
		return
	}
	defer device.Close()
	_ = inDevice(device, func(root int) error { return unix.IoctlSetInt(root, fiThaw, 0) }) // it seldom is frozen
}

// inDevice calls f with the root of a device's file system.
func inDevice(device *os.File, f func(root int) error) error {
	mount, err := mountDevice(device.Name())
	if err != nil {
		return err
	}
	defer mount.Close()
	root, err := inMount(mount)
	if err != nil {
		return err
	}
	defer root.Close()
	return f(int(root.Fd()))
}

// copySparse copies an image. Where the file system can, both share their blocks; otherwise holes stay holes.
func copySparse(from, to string) error {
	in, err := os.Open(from)
	if err != nil {
		return err
	}
	defer in.Close()
	st, err := in.Stat()
	if err != nil {
		return err
	}
	out, err := os.CreateTemp(filepath.Dir(to), "new-*")
	if err != nil {
		return err
	}
	defer os.Remove(out.Name()) // it has another name by then
	err = unix.IoctlFileClone(int(out.Fd()), int(in.Fd()))
	if err != nil {
		err = copyData(in, out, st.Size())
	}
	if err := errors.Join(err, out.Sync(), out.Close()); err != nil {
		return err
	}
	return os.Rename(out.Name(), to)
}

func copyData(in, out *os.File, size int64) error {
	if err := out.Truncate(size); err != nil {
		return err
	}
	for at := int64(0); at < size; {
		data, err := unix.Seek(int(in.Fd()), at, unix.SEEK_DATA)
		if errors.Is(err, unix.ENXIO) { // only a hole follows
			return nil
		}
		if err != nil {
			return err
		}
		hole, err := unix.Seek(int(in.Fd()), data, unix.SEEK_HOLE)
		if err != nil {
			return err
		}
		if _, err := in.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := out.Seek(data, io.SeekStart); err != nil {
			return err
		}
		if _, err := io.CopyN(out, in, hole-data); err != nil {
			return err
		}
		at = hole
	}
	return nil
}
