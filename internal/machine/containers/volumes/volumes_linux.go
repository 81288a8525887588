package volumes

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/machine"
)

// toolTime bounds what is done to an image that is not mounted, which takes milliseconds.
const toolTime = time.Minute

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

// run runs a program of e2fsprogs.
func run(ctx context.Context, name string, args ...string) error {
	file, err := tool(name)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, toolTime)
	defer cancel()
	out, err := exec.CommandContext(ctx, file, args...).CombinedOutput()
	if exit, ok := errors.AsType[*exec.ExitError](err); ok && name == "e2fsck" && exit.ExitCode() == 1 {
		return nil // it has mended something
	}
	if err != nil {
		return fmt.Errorf("%s: %w: %s", name, err, strings.TrimSpace(string(out)))
	}
	return nil
}

// Mount returns a detached mount of a volume, whose file system has the volume's size. If the volume is new, it is made from
// its snapshot, or empty and owned by a user and group of this machine. What pods see is the folder Folder of it.
func (s *Store) Mount(ctx context.Context, v machine.Volume, owner int) (*os.File, error) {
	name, err := s.file(v.ID)
	if err != nil {
		return nil, err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	size := int64(v.SizeGiB) << 30
	if err := s.create(ctx, name, v.SnapshotID, size, owner); err != nil {
		return nil, fmt.Errorf("making %s: %w", v.ID, err)
	}
	if err := grow(ctx, name, size); err != nil {
		return nil, fmt.Errorf("enlarging %s: %w", v.ID, err)
	}
	device, err := loop(name)
	if err != nil {
		return nil, fmt.Errorf("the loop device of %s: %w", v.ID, err)
	}
	defer device.Close() // the kernel keeps it while it is mounted
	mount, err := mountDevice(device.Name())
	if err != nil {
		return nil, fmt.Errorf("mounting %s: %w", v.ID, err)
	}
	if err := errors.Join(fill(mount, size), makeFolder(mount, owner)); err != nil {
		return nil, errors.Join(fmt.Errorf("the file system of %s: %w", v.ID, err), mount.Close())
	}
	return mount, nil
}

// create makes an image unless it exists.
func (s *Store) create(ctx context.Context, name, snapshot string, size int64, owner int) error {
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
	if err := run(ctx, "mkfs.ext4", "-q", "-F", "-m", "0", "-E", fmt.Sprintf("root_owner=%d:%d,lazy_itable_init=1,lazy_journal_init=1", owner, owner), f.Name()); err != nil {
		return err
	}
	return os.Rename(f.Name(), name)
}

// attached returns the loop device of an image, or "" if it has none.
func attached(name string) (string, error) {
	name, err := filepath.EvalSymlinks(name)
	if err != nil {
		return "", err
	}
	list, err := filepath.Glob(backingFiles)
	if err != nil {
		return "", err
	}
	for _, file := range list {
		if b, err := os.ReadFile(file); err == nil && strings.TrimSuffix(string(b), "\n") == name { // otherwise it is being freed
			return "/dev/" + strings.Split(file, "/")[3], nil
		}
	}
	return "", nil
}

// loop returns the loop device of an image. An image never has two: what is mounted twice is the same file system.
func loop(name string) (*os.File, error) {
	device, err := attached(name)
	if err != nil {
		return nil, err
	}
	if device != "" {
		return os.OpenFile(device, os.O_RDWR, 0)
	}
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
	return nil, errors.New("other programs take all loop devices")
}

// grow enlarges an image that is smaller than its volume, and its file system unless that is mounted.
func grow(ctx context.Context, name string, size int64) error {
	st, err := os.Stat(name)
	if err != nil {
		return err
	}
	if st.Size() < size {
		if err := os.Truncate(name, size); err != nil {
			return err
		}
	}
	device, err := attached(name)
	if err != nil {
		return err
	}
	if device == "" {
		if has, err := sizeOf(name); err != nil || has >= size {
			return err
		}
		if err := run(ctx, "e2fsck", "-fp", name); err != nil { // resize2fs asks for it
			return err
		}
		return run(ctx, "resize2fs", name)
	}
	if st.Size() >= size {
		return nil
	}
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	defer f.Close()
	return os.NewSyscallError("LOOP_SET_CAPACITY", unix.IoctlSetInt(int(f.Fd()), unix.LOOP_SET_CAPACITY, 0))
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
	if err := errors.Join(unix.FsconfigSetString(fsfd, "source", device), unix.FsconfigCreate(fsfd)); err != nil {
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

// fill makes a mounted file system as large as its device. That needs CAP_SYS_RESOURCE, which root in a container does not
// have. Without it, the file system grows when it is mounted the next time.
func fill(mount *os.File, size int64) error {
	root, err := inMount(mount)
	if err != nil {
		return err
	}
	defer root.Close()
	_ = unix.IoctlSetInt(int(root.Fd()), fiThaw, 0) // a daemon that was killed may have left it frozen; it seldom is
	blocks := uint64(size / blockSize)
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, root.Fd(), ext4ResizeFS, uintptr(unsafe.Pointer(&blocks)))
	if errno != 0 && errno != unix.EPERM {
		return os.NewSyscallError("EXT4_IOC_RESIZE_FS", errno)
	}
	return nil
}

// makeFolder makes the folder that pods see.
func makeFolder(mount *os.File, owner int) error {
	root, err := inMount(mount)
	if err != nil {
		return err
	}
	defer root.Close()
	for _, d := range []struct {
		name string
		mode uint32
	}{{Folder, 0o755}, {Folder + "/lost+found", 0o700}} {
		err := unix.Mkdirat(int(root.Fd()), d.name, d.mode)
		if errors.Is(err, unix.EEXIST) {
			return nil
		}
		if err == nil {
			err = unix.Fchownat(int(root.Fd()), d.name, owner, owner, unix.AT_SYMLINK_NOFOLLOW)
		}
		if err != nil {
			return fmt.Errorf("making its folder %s: %w", d.name, err)
		}
	}
	return nil
}

// frozen calls f while nothing can write to an image.
func frozen(name string, f func() error) (err error) {
	device, err := attached(name)
	if err != nil {
		return err
	}
	if device == "" {
		return f()
	}
	mount, err := mountDevice(device)
	if err != nil {
		return err
	}
	defer mount.Close()
	root, err := inMount(mount)
	if err != nil {
		return err
	}
	defer root.Close()
	if err := unix.IoctlSetInt(int(root.Fd()), fiFreeze, 0); err != nil {
		return os.NewSyscallError("FIFREEZE", err)
	}
	defer func() {
		err = errors.Join(err, os.NewSyscallError("FITHAW", unix.IoctlSetInt(int(root.Fd()), fiThaw, 0)))
	}()
	return f()
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
