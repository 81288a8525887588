package programs

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/containerd/containerd/v2/core/content"
	"github.com/containerd/containerd/v2/core/diff"
	"github.com/containerd/containerd/v2/core/diff/apply"
	"github.com/containerd/containerd/v2/core/images"
	"github.com/containerd/containerd/v2/core/images/archive"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/plugins/content/local"
	"github.com/containerd/containerd/v2/plugins/snapshots/overlay"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/platforms"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/machine/containers/layers"
)

// unpackMemory bounds the memory of an unpacking: archives say how large their configurations and zstd's windows are.
const unpackMemory = 1 << 30

// runUnpack unpacks the layers of an archive of images for all machines: see package layers. Archives may be hostile, so it first
// leaves everything behind but its files. It is containerd's code that reads and unpacks them.
func runUnpack(ctx context.Context, env childproc.Env) error {
	if err := childproc.LimitMemory(unpackMemory); err != nil {
		return err
	}
	for i := range 3 {
		syscall.CloseOnExec(childproc.FirstFile + i)
	}
	from, out := os.NewFile(childproc.FirstFile+1, "archive"), os.NewFile(childproc.FirstFile+2, "output")
	if err := log.SetLevel("error"); err != nil { // what is written is the beginning of an error
		return err
	}
	const dir = "/layers"
	if err := seclude(childproc.FirstFile, dir); err != nil {
		return err
	}
	if err := unpackArchive(ctx, dir, from, out); err != nil {
		return err
	}
	return env.Report([]byte("done"))
}

// seclude moves the process to a root file system in memory that has one folder of others, a detached mount.
func seclude(mount int, at string) error {
	const root = "/machine" // which the host has for this purpose
	if err := errors.Join(
		unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
		unix.Mount("tmpfs", root, "tmpfs", unix.MS_NOSUID|unix.MS_NODEV, "mode=755,size=16m"),
	); err != nil {
		return os.NewSyscallError("mount", err)
	}
	for _, name := range []string{at, "/tmp", "/proc", "/sys"} {
		if err := os.Mkdir(root+name, 0o755); err != nil {
			return err
		}
	}
	const flags = unix.MS_NOSUID | unix.MS_NODEV | unix.MS_NOEXEC
	if err := errors.Join(
		unix.MoveMount(mount, "", unix.AT_FDCWD, root+at, unix.MOVE_MOUNT_F_EMPTY_PATH),
		unix.MountSetattr(unix.AT_FDCWD, root+at, 0, &unix.MountAttr{Attr_set: unix.MOUNT_ATTR_NOSUID | unix.MOUNT_ATTR_NODEV | unix.MOUNT_ATTR_NOEXEC}),
		unix.Mount("proc", root+"/proc", "proc", flags, ""),
		unix.Mount("sysfs", root+"/sys", "sysfs", flags, ""), // where containerd looks for what overlayfs can
	); err != nil {
		return os.NewSyscallError("mount", err)
	}
	if err := os.Chdir(root); err != nil {
		return err
	}
	if err := errors.Join(unix.PivotRoot(".", "."), unix.Unmount(".", unix.MNT_DETACH)); err != nil {
		return os.NewSyscallError("pivot_root", err)
	}
	return os.Chdir("/")
}

// An unpacking is the work on one archive. What it has made so far is in a folder that is removed if it does not come to its end.
type unpacking struct {
	dir     string
	content content.Store
	layers  snapshots.Snapshotter
	applier diff.Applier
	fresh   map[string]string // the folder of each new layer, by chain ID
	all     []string          // the chain IDs of all layers
}

func unpackArchive(ctx context.Context, dir string, from, out *os.File) error {
	work := filepath.Join(dir, ".new")
	if err := os.RemoveAll(work); err != nil {
		return err
	}
	defer os.RemoveAll(work)
	store, err := local.NewStore(filepath.Join(work, "content"))
	if err != nil {
		return err
	}
	base, err := overlay.NewSnapshotter(filepath.Join(work, "snapshots"))
	if err != nil {
		return err
	}
	u := &unpacking{dir: dir, content: store, layers: &shared{Snapshotter: base, dir: dir, retired: true}, applier: apply.NewFileSystemApplier(store), fresh: map[string]string{}}
	index, err := archive.ImportIndex(ctx, store, from)
	if err != nil {
		return err
	}
	named, err := images.Children(ctx, store, index)
	if err != nil {
		return err
	}
	for _, m := range named {
		name := cmp.Or(m.Annotations[images.AnnotationImageName], m.Annotations[ocispec.AnnotationRefName])
		if name == "" {
			continue
		}
		if err := u.unpack(ctx, m); err != nil {
			return fmt.Errorf("unpacking %s: %w", name, err)
		}
	}
	if err := u.publish(ctx); err != nil {
		return err
	}
	return u.write(ctx, index, out)
}

// unpack unpacks the layers of an image that are not there yet.
func (u *unpacking) unpack(ctx context.Context, image ocispec.Descriptor) error {
	manifest, err := images.Manifest(ctx, u.content, image, platforms.Default())
	if err != nil {
		return err
	}
	diffs, err := images.RootFS(ctx, u.content, manifest.Config)
	if err != nil {
		return err
	}
	if len(diffs) != len(manifest.Layers) {
		return fmt.Errorf("it has %d layers, and %d in its configuration", len(manifest.Layers), len(diffs))
	}
	parent := ""
	for i, layer := range manifest.Layers {
		chain := identity.ChainID(diffs[:i+1]).String()
		if err := u.apply(ctx, layer, chain, parent, diffs[i].String()); err != nil {
			return err
		}
		u.all, parent = append(u.all, chain), chain
	}
	return nil
}

func (u *unpacking) apply(ctx context.Context, layer ocispec.Descriptor, chain, parent, diffID string) error {
	if _, err := u.layers.Stat(ctx, chain); !errdefs.IsNotFound(err) {
		return err
	}
	key := "unpack " + chain
	mounts, err := u.layers.Prepare(ctx, key, parent, snapshots.WithLabels(map[string]string{refLabel: chain}))
	if errdefs.IsAlreadyExists(err) {
		return nil
	}
	if err != nil {
		return err
	}
	upper, err := upperOf(mounts)
	if err != nil {
		return err
	}
	got, err := u.applier.Apply(ctx, layer, mounts)
	if err != nil {
		return err
	}
	if got.Digest.String() != diffID {
		return fmt.Errorf("the layer %s has the content %s, not %s", layer.Digest, got.Digest, diffID)
	}
	u.fresh[chain] = filepath.Dir(upper)
	return u.layers.Commit(ctx, chain, key)
}

// publish gives the new layers their names, once they are on the disk.
func (u *unpacking) publish(ctx context.Context) error {
	if len(u.fresh) == 0 {
		return nil
	}
	for chain, dir := range u.fresh {
		usage, err := u.layers.Usage(ctx, chain)
		if err != nil {
			return err
		}
		b, err := json.Marshal(usage)
		if err != nil {
			return err
		}
		if err := errors.Join(os.WriteFile(filepath.Join(dir, layers.Usage), b, 0o644), os.RemoveAll(filepath.Join(dir, "work"))); err != nil {
			return err
		}
	}
	all, err := os.Open(u.dir)
	if err != nil {
		return err
	}
	defer all.Close()
	if err := unix.Syncfs(int(all.Fd())); err != nil {
		return os.NewSyscallError("syncfs", err)
	}
	for chain, dir := range u.fresh {
		if err := os.Rename(dir, filepath.Join(u.dir, strings.TrimPrefix(chain, "sha256:"))); err != nil {
			return err
		}
	}
	return all.Sync()
}

// write writes the archive without layers.
func (u *unpacking) write(ctx context.Context, index ocispec.Descriptor, out *os.File) error {
	w := tar.NewWriter(out)
	put := func(h *tar.Header, b []byte) error {
		h.Size = int64(len(b))
		if err := w.WriteHeader(h); err != nil {
			return err
		}
		_, err := w.Write(b)
		return err
	}
	seen := map[string]bool{}
	for _, chain := range u.all {
		if hash := strings.TrimPrefix(chain, "sha256:"); !seen[hash] {
			seen[hash] = true
			if err := put(&tar.Header{Typeflag: tar.TypeDir, Name: layers.Dir + "/" + hash + "/", Mode: 0o755}, nil); err != nil {
				return err
			}
		}
	}
	layout, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return err
	}
	if err := put(&tar.Header{Typeflag: tar.TypeReg, Name: ocispec.ImageLayoutFile, Mode: 0o644}, layout); err != nil {
		return err
	}
	err = images.Walk(ctx, images.HandlerFunc(func(ctx context.Context, d ocispec.Descriptor) ([]ocispec.Descriptor, error) {
		if images.IsLayerType(d.MediaType) || seen[d.Digest.String()] {
			return nil, images.ErrSkipDesc
		}
		seen[d.Digest.String()] = true
		b, err := content.ReadBlob(ctx, u.content, d)
		if errdefs.IsNotFound(err) {
			return nil, images.ErrSkipDesc // archives may have one platform of an image only
		}
		if err != nil {
			return nil, err
		}
		name := ocispec.ImageIndexFile
		if d.Digest != index.Digest {
			name = ocispec.ImageBlobsDir + "/sha256/" + d.Digest.Encoded() // its name says nothing: containerd computes the digest
		}
		if err := put(&tar.Header{Typeflag: tar.TypeReg, Name: name, Mode: 0o644}, b); err != nil {
			return nil, err
		}
		return images.Children(ctx, u.content, d)
	}), index)
	if err != nil {
		return err
	}
	return w.Close()
}
