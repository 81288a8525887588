package inside

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/machine/containers/layers"
)

// The userland of a machine may be that of an image instead of the real machine's. Until the machine has moved to its root, the
// image is mounted below userlandDir. Images may be hostile: their links must not be followed while the host is in view.
const (
	userlandDir   = "/userland"
	userlandImage = userlandDir + "/image"
)

// nodeBin has the programs that containerd and the kubelet run instead of those of an image, which may lack them or have fewer
// options.
const nodeBin = "/opt/drydock/node"

var chainID = regexp.MustCompile(`^[0-9a-f]{64}$`)

// mountImage mounts an image by its layers, the lowest first.
func (m *mounter) mountImage(chain []string) {
	m.mount("tmpfs", userlandDir, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=1m")
	var lower []string
	m.do("finding the layers of the image", func() error {
		for i, l := range slices.Backward(chain) {
			dir := filepath.Join(imageDir, layers.Dir, l)
			if !chainID.MatchString(l) {
				return fmt.Errorf("invalid layer name %q", l)
			}
			// From now on, no one retires the layer without counting this machine.
			if _, err := os.Lstat(filepath.Join(dir, layers.Retired)); !errors.Is(err, fs.ErrNotExist) {
				return errors.New("the image was replaced just now")
			}
			// The kernel limits the total length of these names.
			name := filepath.Join(userlandDir, strconv.Itoa(i))
			if err := os.Symlink(filepath.Join(dir, layers.Files), name); err != nil {
				return err
			}
			lower = append(lower, name)
		}
		modules := filepath.Join(userlandDir, "modules")
		if err := errors.Join(os.Mkdir(userlandImage, 0o755), os.MkdirAll(filepath.Join(modules, modulesIn(lower)), 0o755)); err != nil {
			return err
		}
		lower = append([]string{modules}, lower...)
		return nil
	})
	m.mount("overlay", userlandImage, "overlay", unix.MS_RDONLY|unix.MS_NODEV, "userxattr,lowerdir="+strings.Join(lower, ":"))
}

// modulesIn returns where an image, by its layers with the uppermost first, gets the folder /lib/modules. Pods such as kube-proxy's
// mount that of their node.
func modulesIn(lower []string) string {
	for _, l := range lower {
		if st, err := os.Lstat(filepath.Join(l, "lib")); err == nil && st.Mode()&fs.ModeSymlink != 0 {
			return "usr/lib/modules"
		} else if err == nil {
			break
		}
	}
	return "lib/modules"
}

// showImage shows the folders and links of the image in a new root, without those that are the machine's own.
func (m *mounter) showImage(root string) {
	m.do("showing the image", func() error {
		image, err := os.OpenRoot(userlandImage)
		if err != nil {
			return err
		}
		defer image.Close()
		own := []string{"dev", "opt", "proc", "run", "sys"}
		for name := range kept {
			own = append(own, name)
		}
		return errors.Join(os.MkdirAll(filepath.Join(root, "opt"), 0o755), showEntries(image, ".", root, own), showEntries(image, "opt", root, []string{"aws", "drydock"}))
	})
}

// showEntries shows what a folder of the image has, except own names.
func showEntries(image *os.Root, dir, root string, own []string) error {
	if st, err := image.Lstat(dir); err != nil || !st.IsDir() {
		return nil //nolint:nilerr // the image has no such folder
	}
	entries, err := fs.ReadDir(image.FS(), dir)
	if err != nil {
		return err
	}
	for _, e := range entries {
		name := path.Join(dir, e.Name())
		at := filepath.Join(root, name)
		switch {
		case slices.Contains(own, e.Name()):
		case e.Type()&fs.ModeSymlink != 0:
			to, err := image.Readlink(name)
			if err == nil {
				err = os.Symlink(to, at)
			}
			if err != nil {
				return err
			}
		case e.IsDir():
			f, err := image.Open(name)
			if err != nil {
				return err
			}
			fd, err := unix.OpenTree(int(f.Fd()), "", unix.AT_EMPTY_PATH|unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
			_ = f.Close()
			if err != nil {
				return os.NewSyscallError("open_tree", err)
			}
			m := &mounter{}
			m.move(fd, at)
			_ = unix.Close(fd)
			if m.err != nil {
				return m.err
			}
		}
	}
	return nil
}

// notCopied are files that the machine writes itself.
var notCopied = []string{"etc/hostname", "etc/hosts", "etc/machine-id", "etc/mtab", "etc/resolv.conf"}

// copyImage copies what an image has in the folders that are on the machine's disk, once for each image that the machine has. It
// never replaces what is already on the disk.
func copyImage(root, top string) error {
	image, err := os.OpenRoot(userlandImage)
	if err != nil {
		return err
	}
	defer image.Close()
	disks := map[string]*os.Root{}
	for name := range kept {
		if disks[name], err = os.OpenRoot(filepath.Join(root, name)); err != nil {
			return err
		}
		defer disks[name].Close()
	}
	note := ".drydock-userland-" + top // not in a folder, which may be a link
	if _, err := disks["var"].Lstat(note); err == nil {
		return nil
	}
	// The cache of another userland would hide the image's libraries.
	if err := disks["etc"].Remove("ld.so.cache"); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	for _, name := range slices.Sorted(maps.Keys(disks)) { // /etc before what may fill the disk
		disk := disks[name]
		if st, err := image.Lstat(name); err != nil || !st.IsDir() {
			continue
		}
		err := fs.WalkDir(image.FS(), name, func(p string, d fs.DirEntry, err error) error {
			rel, ok := strings.CutPrefix(p, name+"/")
			if err != nil || !ok || slices.Contains(notCopied, p) {
				return err
			}
			return copyFromImage(image, p, d, disk, rel)
		})
		if err != nil {
			return fmt.Errorf("copying /%s of the image: %w", name, err)
		}
	}
	return disks["var"].WriteFile(note, nil, 0o644)
}

// copyFromImage copies a file, folder or link with its owner and mode, unless the disk has one with that name.
func copyFromImage(image *os.Root, from string, d fs.DirEntry, disk *os.Root, name string) error {
	if st, err := disk.Lstat(name); err == nil {
		if d.IsDir() && !st.IsDir() {
			return fs.SkipDir
		}
		return nil
	}
	st, err := d.Info()
	if err != nil {
		return err
	}
	owner := st.Sys().(*syscall.Stat_t)
	uid, gid := int(owner.Uid), int(owner.Gid)
	const fresh = ".drydock-new" // a file has its name once it is whole
	switch {
	case d.IsDir():
		return errors.Join(disk.Mkdir(name, 0o700), disk.Lchown(name, uid, gid), disk.Chmod(name, st.Mode()))
	case d.Type()&fs.ModeSymlink != 0:
		to, err := image.Readlink(from)
		if err != nil {
			return err
		}
		return errors.Join(disk.Symlink(to, name), disk.Lchown(name, uid, gid))
	case !d.Type().IsRegular():
		return nil
	}
	src, err := image.Open(from)
	if err != nil {
		return err
	}
	defer src.Close()
	if err := disk.Remove(fresh); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	dst, err := disk.OpenFile(fresh, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(dst, src)
	if err = errors.Join(err, dst.Chown(uid, gid), dst.Chmod(st.Mode()), dst.Close()); err == nil {
		err = disk.Rename(fresh, name)
	}
	if err != nil {
		_ = disk.Remove(fresh)
	}
	return err
}

// accountsNote says that the disk has the machine's own accounts, so that those that were deleted do not come back.
const accountsNote = "/var/.drydock-accounts"

// addAccounts adds the machine's own users and groups to those of an image, once. They come first, so that looking up their user
// IDs finds them. A group whose ID is taken is left out: members of the image's group would get its rights.
func addAccounts() error {
	if _, err := os.Lstat(accountsNote); err == nil {
		return nil
	}
	for _, d := range defaults {
		if d.name != "passwd" && d.name != "group" && d.name != "shadow" {
			continue
		}
		at := path.Join("/etc", d.name)
		text, err := readRegular(at)
		var st unix.Stat_t
		if err = errors.Join(err, unix.Lstat(at, &st)); err != nil {
			fmt.Printf("Drydock: the machine's accounts are not added to %s: %v\n", at, err)
			continue
		}
		all := withAccounts(d.with(loginShell()), string(text), d.name == "group")
		if all == string(text) {
			continue
		}
		if err := unlessFull(replace(at, []byte(all), os.FileMode(st.Mode&0o777))); err != nil {
			return err
		}
		if err := os.Lchown(at, int(st.Uid), int(st.Gid)); err != nil {
			return err
		}
	}
	return unlessFull(replace(accountsNote, nil, 0o644))
}

// withAccounts returns theirs, the text of an account file, preceded by those lines of ours whose names it lacks. Groups whose IDs it
// has are left out, too.
func withAccounts(ours, theirs string, groups bool) string {
	names, ids := map[string]bool{}, map[string]bool{}
	for line := range strings.Lines(theirs) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if names[f[0]] = true; len(f) > 2 {
			ids[f[2]] = true
		}
	}
	add := ""
	for line := range strings.Lines(ours) {
		f := strings.Split(strings.TrimSpace(line), ":")
		if !names[f[0]] && !(groups && len(f) > 2 && ids[f[2]]) {
			add += line
		}
	}
	return add + theirs
}

// linkNodePrograms puts the programs that containerd and the kubelet need into nodeBin.
func linkNodePrograms() error {
	if err := os.Mkdir(nodeBin, 0o755); err != nil {
		return err
	}
	for _, name := range []string{"mount", "umount"} {
		if err := os.Symlink(filepath.Join(Bin, "nodetool"), filepath.Join(nodeBin, name)); err != nil {
			return err
		}
	}
	return nil
}
