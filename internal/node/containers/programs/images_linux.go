package programs

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/containerd/containerd/v2/core/snapshots"
	"github.com/containerd/errdefs"
	"github.com/opencontainers/image-spec/identity"
	"golang.org/x/sys/unix"

	"github.com/drydock-dev/drydock/internal/machine/containers/layers"
	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// Where containerd listens, and where Kubernetes' images are in it.
const (
	containerdSocket    = "/run/containerd/containerd.sock"
	kubernetesNamespace = "k8s.io"
)

// An archive is large, and what keeps it from being imported, such as a full disk, seldom ends soon: importImages tries again after
// minImportAgain, and waits twice as long after each further failure, up to maxImportAgain.
const (
	minImportAgain = 10 * time.Second
	maxImportAgain = time.Minute
)

// importImages imports the archives that all machines share into this machine's containerd, until ctx ends.
func importImages(ctx context.Context) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var c *client.Client
	var imported time.Time // when the folder had changed last, the last time that all of it was imported
	var again time.Time    // not before
	wait := minImportAgain
	for {
		st, err := os.Stat(launch.ImageDir)
		if err == nil && !st.ModTime().Equal(imported) && !time.Now().Before(again) {
			if c == nil {
				c, err = client.New(containerdSocket, client.WithDefaultNamespace(kubernetesNamespace), client.WithTimeout(time.Second)) // not up yet
			}
			if err == nil && serving(ctx, c) {
				err = importNew(ctx, c)
				if err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "importing images:", err)
				}
				switch {
				case err == nil:
					wait = minImportAgain
				case serving(ctx, c): // otherwise containerd has ended, and is back soon
					again, wait = time.Now().Add(wait), min(2*wait, maxImportAgain)
				}
				// Two changes within a tick of the kernel's clock have the same time.
				if err == nil && time.Since(st.ModTime()) > time.Second {
					imported = st.ModTime()
				}
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// serving reports whether containerd answers. The client connects when it is first used, so it says nothing about that.
func serving(ctx context.Context, c *client.Client) bool {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	ok, err := c.IsServing(ctx)
	return ok && err == nil
}

func importNew(ctx context.Context, c *client.Client) error {
	archives, err := filepath.Glob(filepath.Join(launch.ImageDir, "*"+layers.Archive))
	if err != nil || len(archives) == 0 {
		return err
	}
	if err := os.MkdirAll(launch.ImportedDir, 0o755); err != nil {
		return err
	}
	changed := map[string]time.Time{}
	for _, a := range archives {
		if st, err := os.Stat(a); err == nil { // otherwise it was replaced just now
			changed[a] = st.ModTime()
		}
	}
	// If two have the same image, the last one is the one that counts.
	archives = slices.SortedFunc(maps.Keys(changed), func(a, b string) int { return changed[a].Compare(changed[b]) })
	for _, a := range archives {
		base := filepath.Join(launch.ImportedDir, strings.TrimSuffix(filepath.Base(a), layers.Archive))
		if old, err := os.Stat(base + ".done"); err == nil && !old.ModTime().Before(changed[a]) {
			continue
		}
		names, err := importOne(ctx, c, a, changed[a])
		if errors.Is(err, errNotYet) {
			return nil // and when it has been, the folder has changed
		}
		if err != nil && (full(err) || !serving(ctx, c)) {
			return err // it is tried again, before those after it
		}
		if err != nil {
			if err := note(base+".error", err.Error()); err != nil {
				return err
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		// An archive that cannot be imported is not tried again until it is replaced.
		if err := note(base+".done", strings.Join(names, "\n")); err != nil {
			return err
		}
		// It may have been replaced meanwhile.
		if err := os.Chtimes(base+".done", time.Time{}, changed[a]); err != nil {
			return err
		}
	}
	return nil
}

// full reports whether something failed because the disk is full. containerd says so in words only.
func full(err error) bool { return strings.Contains(err.Error(), unix.ENOSPC.Error()) }

// note writes a file atomically: one that is there says that an archive needs no further attempt.
func note(name, text string) error {
	err := os.WriteFile(name+".new", []byte(text), 0o644)
	if err == nil {
		err = os.Rename(name+".new", name)
	}
	if err != nil {
		_ = os.Remove(name + ".new")
	}
	return err
}

// pinned keeps the kubelet from removing an image when the disk is full: no registry has it.
var pinned = map[string]string{"io.cri-containerd.pinned": "pinned"}

// errNotYet says that an archive has not been unpacked yet.
var errNotYet = errors.New("it has not been unpacked yet")

// importOne imports an archive that changed last at a time, and returns the names of its images.
func importOne(ctx context.Context, c *client.Client, archive string, changed time.Time) (names []string, err error) {
	name := strings.TrimSuffix(archive, layers.Archive) + layers.Shared
	st, err := os.Stat(name)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	if err != nil || !st.ModTime().Equal(changed) {
		return nil, errNotYet
	}
	if st.Size() > 0 {
		names, err := importFrom(ctx, c, name, true)
		if err == nil || full(err) || !serving(ctx, c) {
			return names, err
		}
		fmt.Fprintln(os.Stderr, "importing images without their layers:", err)
	}
	return importFrom(ctx, c, archive, false)
}

// importFrom imports an archive with layers, or without those that all machines share.
func importFrom(ctx context.Context, c *client.Client, archive string, sharing bool) (names []string, err error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ctx, done, err := c.WithLease(ctx)
	if err != nil {
		return nil, err
	}
	defer func() { _ = done(ctx) }() // it ends by itself, too
	options := []client.ImportOpt{client.WithAllPlatforms(false), client.WithImageLabels(pinned)}
	if sharing {
		options = append(options, client.WithSkipMissing())
	}
	images, err := c.Import(ctx, f, options...)
	if err != nil {
		return nil, err
	}
	for _, i := range images {
		image := client.NewImage(c, i)
		if sharing {
			if err := useShared(ctx, c, image); err != nil {
				return nil, fmt.Errorf("sharing the layers of %s: %w", i.Name, err)
			}
		}
		if err := image.Unpack(ctx, overlayfs); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", i.Name, err)
		}
		if err := mirrors(i.Name); err != nil {
			return nil, fmt.Errorf("configuring the registry of %s: %w", i.Name, err)
		}
		names = append(names, i.Name)
	}
	return names, nil
}

// useShared makes a snapshot with the shared layer of each layer of an image that this machine does not have.
func useShared(ctx context.Context, c *client.Client, image client.Image) error {
	diffs, err := image.RootFS(ctx)
	if err != nil {
		return err
	}
	all := c.SnapshotService(overlayfs)
	parent := ""
	for i := range diffs {
		chain := identity.ChainID(diffs[:i+1]).String()
		if _, err := all.Stat(ctx, chain); errdefs.IsNotFound(err) {
			key := fmt.Sprintf(snapshots.UnpackKeyFormat, time.Now().Format(time.RFC3339Nano), chain)
			_, err := all.Prepare(ctx, key, parent, snapshots.WithLabels(map[string]string{refLabel: chain}))
			if err == nil {
				return errors.Join(fmt.Errorf("the layer %s is not there", chain), all.Remove(ctx, key))
			}
			if !errdefs.IsAlreadyExists(err) {
				return err
			}
		} else if err != nil {
			return err
		}
		parent = chain
	}
	return nil
}
