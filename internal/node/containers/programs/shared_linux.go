package programs

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"strings"

	"github.com/containerd/containerd/v2/core/mount"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/containerd/v2/plugins"
	"github.com/containerd/containerd/v2/plugins/snapshots/overlay"
	"github.com/containerd/errdefs"
	"github.com/containerd/log"
	"github.com/containerd/platforms"
	"github.com/containerd/plugin"
	"github.com/containerd/plugin/registry"
	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/machine/containers/layers"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// overlayfs is the name of containerd's snapshotter, and of the one that takes its place here. Its snapshots are the same.
const overlayfs = "overlayfs"

// overlayConfig configures the snapshotter.
type overlayConfig struct {
	// Reserve takes as much of the machine's disk for each shared layer as the layer would.
	Reserve bool `toml:"reserve"`
}

func init() {
	registry.Register(&plugin.Registration{
		Type: plugins.SnapshotPlugin, ID: overlayfs, Config: &overlayConfig{},
		InitFn: func(ic *plugin.InitContext) (any, error) {
			root := ic.Properties[plugins.PropertyRootDir]
			ic.Meta.Platforms = append(ic.Meta.Platforms, platforms.DefaultSpec())
			ic.Meta.Capabilities = append(ic.Meta.Capabilities, "only-remap-ids") // which this user namespace cannot do
			ic.Meta.Exports[plugins.SnapshotterRootDir] = root
			base, err := overlay.NewSnapshotter(root, overlay.AsynchronousRemove)
			if err != nil {
				return nil, err
			}
			return &shared{Snapshotter: base, dir: filepath.Join(launch.ImageDir, layers.Dir), reserve: ic.Config.(*overlayConfig).Reserve}, nil
		},
	})
}

// Labels of snapshots: the chain ID of the layer that a snapshot is to have, as containerd says it, and of a shared one that it has.
const (
	refLabel    = "containerd.io/snapshot.ref"
	sharedLabel = "drydock.dev/shared"
)

// shared is a snapshotter whose snapshots can have the layers that all machines share. It tells containerd that it has them by the
// protocol of remote snapshotters, so containerd neither fetches nor unpacks them.
// https://github.com/containerd/containerd/blob/v2.3.7/docs/remote-snapshotter.md
type shared struct {
	snapshots.Snapshotter
	dir     string // of layers
	retired bool   // retired layers are as good as the others
	reserve bool
}

var _ snapshots.Cleaner = (*shared)(nil)

// layer returns the folder of a shared layer by its chain ID, if there is one that may be used.
func (s *shared) layer(chain string) (string, bool) {
	hash, ok := strings.CutPrefix(chain, "sha256:")
	dir := filepath.Join(s.dir, hash)
	if !ok || filepath.Base(dir) != hash {
		return "", false
	}
	if _, err := os.Stat(filepath.Join(dir, layers.Files)); err != nil {
		return "", false
	}
	if _, err := s.usage(dir); err != nil {
		return "", false
	}
	if s.retired {
		return dir, true
	}
	_, err := os.Stat(filepath.Join(dir, layers.Retired))
	return dir, errors.Is(err, fs.ErrNotExist)
}

// usage returns what a layer takes.
func (s *shared) usage(dir string) (u snapshots.Usage, err error) {
	b, err := os.ReadFile(filepath.Join(dir, layers.Usage))
	if err != nil {
		return u, err
	}
	return u, json.Unmarshal(b, &u)
}

// Usage implements snapshots.Snapshotter. A machine of EC2 would have the layer on its disk, so it counts here, too.
func (s *shared) Usage(ctx context.Context, key string) (snapshots.Usage, error) {
	info, err := s.Snapshotter.Stat(ctx, key)
	if err != nil {
		return snapshots.Usage{}, err
	}
	if chain := info.Labels[sharedLabel]; info.Kind == snapshots.KindCommitted && chain != "" {
		return s.usage(filepath.Join(s.dir, strings.TrimPrefix(chain, "sha256:")))
	}
	return s.Snapshotter.Usage(ctx, key)
}

// Cleanup implements snapshots.Cleaner: containerd's snapshotter removes the files of snapshots here.
func (s *shared) Cleanup(ctx context.Context) error {
	return s.Snapshotter.(snapshots.Cleaner).Cleanup(ctx)
}

// Prepare implements snapshots.Snapshotter.
func (s *shared) Prepare(ctx context.Context, key, parent string, opts ...snapshots.Opt) ([]mount.Mount, error) {
	var info snapshots.Info
	for _, o := range opts {
		if err := o(&info); err != nil {
			return nil, err
		}
	}
	mounts, err := s.Snapshotter.Prepare(ctx, key, parent, opts...)
	chain := info.Labels[refLabel]
	if err != nil || chain == "" {
		return mounts, err
	}
	layer, ok := s.layer(chain)
	if !ok {
		return mounts, nil
	}
	labels := maps.Clone(snapshots.FilterInheritedLabels(info.Labels))
	labels[sharedLabel] = chain
	upper, err := upperOf(mounts)
	if err != nil {
		return nil, err
	}
	reserved := filepath.Join(filepath.Dir(upper), "reserved")
	if err = s.link(upper, reserved, layer); err == nil {
		err = s.Snapshotter.Commit(ctx, chain, key, snapshots.WithLabels(labels))
	}
	if err != nil {
		// The files of a removed snapshot stay until the next cleanup, which may be far away.
		if rerr := os.Remove(reserved); rerr != nil && !errors.Is(rerr, fs.ErrNotExist) {
			log.G(ctx).WithError(rerr).Warnf("giving back the space of %s", key)
		}
		if rerr := s.Snapshotter.Remove(ctx, key); rerr != nil {
			log.G(ctx).WithError(rerr).Warnf("removing %s", key)
		}
		if !errdefs.IsAlreadyExists(err) {
			return nil, fmt.Errorf("sharing the layer %s: %w", chain, err)
		}
	}
	return nil, fmt.Errorf("layer %s: %w", chain, errdefs.ErrAlreadyExists)
}

// link makes the files of a layer those of a new snapshot, and takes their space. overlayfs follows links in the names of its folders.
func (s *shared) link(upper, reserved, layer string) error {
	if s.reserve {
		if err := s.take(reserved, layer); err != nil {
			return err
		}
	}
	if err := os.Remove(upper); err != nil {
		return err
	}
	return os.Symlink(filepath.Join(layer, layers.Files), upper)
}

// take makes a file that takes as much of the disk as a layer does. It is never written, so it takes nothing of the real disk, and
// is removed with the snapshot.
func (s *shared) take(name, layer string) error {
	u, err := s.usage(layer)
	if err != nil || u.Size == 0 {
		return err
	}
	f, err := os.OpenFile(name, os.O_CREATE|os.O_WRONLY|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	return errors.Join(os.NewSyscallError("fallocate", unix.Fallocate(int(f.Fd()), 0, 0, u.Size)), f.Close())
}

// upperOf returns the folder that gets what is written to a new snapshot.
func upperOf(mounts []mount.Mount) (string, error) {
	if len(mounts) == 1 && mounts[0].Type == "bind" {
		return mounts[0].Source, nil
	}
	for _, m := range mounts {
		for _, o := range m.Options {
			if dir, ok := strings.CutPrefix(o, "upperdir="); ok {
				return dir, nil
			}
		}
	}
	return "", fmt.Errorf("a snapshot without a folder: %v", mounts)
}
