//go:build linux

package main

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"golang.org/x/sys/unix"
)

// mountFlags are the options that are not the file system's. Those of a zero flag say what is the default.
var mountFlags = map[string]uintptr{
	"bind": unix.MS_BIND, "rbind": unix.MS_BIND | unix.MS_REC, "remount": unix.MS_REMOUNT, "ro": unix.MS_RDONLY, "nosuid": unix.MS_NOSUID, "nodev": unix.MS_NODEV,
	"noexec": unix.MS_NOEXEC, "sync": unix.MS_SYNCHRONOUS, "dirsync": unix.MS_DIRSYNC, "noatime": unix.MS_NOATIME, "nodiratime": unix.MS_NODIRATIME, "relatime": unix.MS_RELATIME,
	"strictatime": unix.MS_STRICTATIME, "defaults": 0, "rw": 0, "suid": 0, "dev": 0, "exec": 0, "async": 0, "atime": 0, "_netdev": 0,
}

// propagation are the options that say where other mounts appear. They need a call of their own.
var propagation = map[string]uintptr{
	"shared": unix.MS_SHARED, "slave": unix.MS_SLAVE, "private": unix.MS_PRIVATE, "unbindable": unix.MS_UNBINDABLE,
	"rshared": unix.MS_SHARED | unix.MS_REC, "rslave": unix.MS_SLAVE | unix.MS_REC, "rprivate": unix.MS_PRIVATE | unix.MS_REC, "runbindable": unix.MS_UNBINDABLE | unix.MS_REC,
}

// mount is mount as far as the kubelet uses it: mount [--no-canonicalize] [-t TYPE] [-o OPTIONS] [SOURCE] TARGET.
// https://github.com/kubernetes/mount-utils/blob/v0.36.3/mount_linux.go
func mount(args []string) error {
	var kind, source, data string
	var names, options []string
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case (a == "-t" || a == "-o") && len(args) == 0:
			return fmt.Errorf("mount: %s needs a value", a)
		case a == "-t":
			kind, args = args[0], args[1:]
		case a == "-o":
			options, args = append(options, strings.Split(args[0], ",")...), args[1:]
		case a == "--no-canonicalize":
		case strings.HasPrefix(a, "-"):
			return fmt.Errorf("mount: unknown option %s", a)
		default:
			names = append(names, a)
		}
	}
	switch len(names) {
	case 1:
	case 2:
		source = names[0]
	default:
		return errors.New("mount: want [SOURCE] TARGET")
	}
	target := names[len(names)-1]
	var flags uintptr
	var after []uintptr
	for _, o := range options {
		if f, ok := propagation[o]; ok {
			after = append(after, f)
		} else if f, ok := mountFlags[o]; ok {
			flags |= f
		} else {
			data = strings.TrimPrefix(data+","+o, ",")
		}
	}
	if flags&unix.MS_REMOUNT != 0 && flags&unix.MS_BIND != 0 {
		kept, err := flagsOf(target)
		if err != nil {
			return fmt.Errorf("mount: %s: %w", target, err)
		}
		flags |= kept
	}
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		return fmt.Errorf("mount: %s: %w", target, err)
	}
	for _, f := range after {
		if err := unix.Mount("", target, "", f, ""); err != nil {
			return fmt.Errorf("mount: %s: %w", target, err)
		}
	}
	return nil
}

// flagsOf returns the flags of a mount. Some must stay in a user namespace, and mount(8) changes only what it is asked to.
func flagsOf(target string) (flags uintptr, err error) {
	var st unix.Statfs_t
	if err := unix.Statfs(target, &st); err != nil {
		return 0, err
	}
	const same = unix.MS_RDONLY | unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC | unix.MS_NOATIME | unix.MS_NODIRATIME
	flags = uintptr(st.Flags) & same
	if st.Flags&unix.ST_RELATIME != 0 {
		flags |= unix.MS_RELATIME
	}
	return flags, nil
}

// umount is umount as far as the kubelet uses it: umount [-f] TARGET. The kubelet reads whether the target was "not mounted".
func umount(args []string) error {
	flags := 0
	if len(args) > 0 && args[0] == "-f" {
		flags, args = unix.MNT_FORCE, args[1:]
	}
	if len(args) != 1 {
		return errors.New("umount: want TARGET")
	}
	err := unix.Unmount(args[0], flags)
	if errors.Is(err, unix.EINVAL) {
		return fmt.Errorf("umount: %s: not mounted", args[0])
	}
	return os.NewSyscallError("umount", err)
}
