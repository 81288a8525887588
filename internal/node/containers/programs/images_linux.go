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

	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// Where containerd listens, and where Kubernetes' images are in it.
const (
	containerdSocket    = "/run/containerd/containerd.sock"
	kubernetesNamespace = "k8s.io"
)

// importImages imports the archives that all machines share into this machine's containerd, until ctx ends.
func importImages(ctx context.Context) {
	tick := time.NewTicker(250 * time.Millisecond)
	defer tick.Stop()
	var c *client.Client
	var imported time.Time // when the folder had changed last, the last time that all of it was imported
	for {
		st, err := os.Stat(launch.ImageDir)
		if err == nil && !st.ModTime().Equal(imported) {
			if c == nil {
				c, err = client.New(containerdSocket, client.WithDefaultNamespace(kubernetesNamespace), client.WithTimeout(time.Second)) // not up yet
			}
			if err == nil && serving(ctx, c) {
				err = importNew(ctx, c)
				if err != nil && ctx.Err() == nil {
					fmt.Fprintln(os.Stderr, "importing images:", err)
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
	archives, err := filepath.Glob(filepath.Join(launch.ImageDir, "*.tar"))
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
		base := filepath.Join(launch.ImportedDir, strings.TrimSuffix(filepath.Base(a), ".tar"))
		if old, err := os.Stat(base + ".done"); err == nil && !old.ModTime().Before(changed[a]) {
			continue
		}
		names, err := importOne(ctx, c, a)
		if err != nil && !serving(ctx, c) {
			return err // it is tried again
		}
		if err != nil {
			if werr := os.WriteFile(base+".error", []byte(err.Error()), 0o644); werr != nil && !errors.Is(werr, fs.ErrExist) {
				return werr
			}
		}
		if ctx.Err() != nil {
			return nil
		}
		// An archive that cannot be imported is not tried again until it is replaced.
		if err := os.WriteFile(base+".done", []byte(strings.Join(names, "\n")), 0o644); err != nil {
			return err
		}
	}
	return nil
}

// pinned keeps the kubelet from removing an image when the disk is full: no registry has it.
var pinned = map[string]string{"io.cri-containerd.pinned": "pinned"}

// importOne returns the names of the images in an archive.
func importOne(ctx context.Context, c *client.Client, archive string) (names []string, err error) {
	f, err := os.Open(archive)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	images, err := c.Import(ctx, f, client.WithAllPlatforms(false), client.WithImageLabels(pinned))
	if err != nil {
		return nil, err
	}
	for _, i := range images {
		if err := client.NewImage(c, i).Unpack(ctx, "overlayfs"); err != nil {
			return nil, fmt.Errorf("unpacking %s: %w", i.Name, err)
		}
		if err := mirrors(i.Name); err != nil {
			return nil, fmt.Errorf("configuring the registry of %s: %w", i.Name, err)
		}
		names = append(names, i.Name)
	}
	return names, nil
}
