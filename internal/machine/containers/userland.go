package containers

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/containerd/platforms"
	"github.com/distribution/reference"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/identity"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/drydock-dev/drydock/internal/machine/containers/layers"
)

// UserlandTag is the tag of an instance that names the image whose programs it has instead of the real machine's: one of those that
// were loaded.
const UserlandTag = "drydock:userland"

// Times to wait for an image that is being unpacked. A machine that has waited for unpackPatience says so, and waits again.
const (
	unpackPatience = 10 * time.Second
	unpackPoll     = 100 * time.Millisecond
)

// userland returns the chain IDs of the layers of the machine's image, the lowest first, or nil if the machine has the programs of
// the real one.
func (m *Machine) userland(ctx context.Context) ([]string, error) {
	name := m.in.Tags[UserlandTag]
	if name == "" || m.in.Fargate {
		return nil, nil
	}
	chain, err := m.rt.userland(ctx, name)
	if err != nil {
		return nil, fmt.Errorf("the tag %s: %w", UserlandTag, err)
	}
	return chain, nil
}

func (r *Runtime) userland(ctx context.Context, name string) ([]string, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil, fmt.Errorf("invalid image name %q: %w", name, err)
	}
	image := reference.FamiliarString(reference.TagNameOnly(named))
	for deadline := time.Now().Add(unpackPatience); ; {
		archive, changed, err := r.archiveOf(image)
		if err != nil {
			return nil, err
		}
		if archive == "" {
			return nil, fmt.Errorf("the image %s is not loaded: load it with drydock image load, pull or import", image)
		}
		shared := filepath.Join(r.cfg.Dir, imageDir, archive+layers.Shared)
		st, err := os.Stat(shared)
		switch {
		case err == nil && st.ModTime().Equal(changed) && st.Size() > 0:
			return layersOfImage(shared, image)
		case err == nil && st.ModTime().Equal(changed):
			if why, ok := r.refused.Load(archive); ok {
				return nil, fmt.Errorf("the image %s cannot be used: %w", image, why.(error))
			}
		}
		if time.Now().After(deadline) {
			return nil, fmt.Errorf("the image %s is still being unpacked", image)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(unpackPoll):
		}
	}
}

// archiveOf returns the name of the last archive that has an image, or the empty string, and when it changed last.
func (r *Runtime) archiveOf(image string) (archive string, changed time.Time, err error) {
	all, err := r.Images()
	if err != nil {
		return "", changed, err
	}
	for _, a := range all {
		names, err := r.ImageNames(a)
		if err != nil || !slices.Contains(names, image) {
			continue // a file that is not an image archive has no names
		}
		st, err := os.Stat(filepath.Join(r.cfg.Dir, imageDir, a+layers.Archive))
		if err != nil {
			return "", changed, err
		}
		if st.ModTime().After(changed) {
			archive, changed = a, st.ModTime()
		}
	}
	return archive, changed, nil
}

// maxBlob bounds what is read of each file in an archive without layers, and maxBlobs of all together.
const (
	maxBlob  = 4 << 20
	maxBlobs = 64 << 20
)

// layersOfImage reads the chain IDs of an image's layers from an archive without layers, for the platform of this machine.
func layersOfImage(name, image string) ([]string, error) {
	f, err := os.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	blobs := blobs{}
	var index ocispec.Index
	size := int64(0)
	for t := tar.NewReader(f); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		if h.Typeflag != tar.TypeReg {
			continue
		}
		if h.Size > maxBlob && h.Name != ocispec.ImageIndexFile {
			continue // such as a list of the image's parts
		}
		if size += h.Size; h.Size > maxBlob || size > maxBlobs {
			return nil, fmt.Errorf("%s is too large", h.Name)
		}
		b, err := io.ReadAll(t)
		if err != nil {
			return nil, err
		}
		if h.Name == ocispec.ImageIndexFile {
			err = json.Unmarshal(b, &index)
		} else {
			blobs[path.Base(h.Name)] = b
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %w", h.Name, err)
		}
	}
	for _, d := range index.Manifests {
		if full := cmp.Or(d.Annotations["io.containerd.image.name"], d.Annotations[ocispec.AnnotationRefName]); full == "" || familiar(full) != image {
			continue
		}
		diffs, err := blobs.diffs(d, 3)
		for _, l := range diffs {
			err = errors.Join(err, l.Validate())
		}
		if err != nil {
			return nil, fmt.Errorf("the image %s cannot be used: %w", image, err)
		}
		var out []string
		for i := range diffs {
			out = append(out, identity.ChainID(diffs[:i+1]).Encoded())
		}
		if len(out) == 0 {
			return nil, fmt.Errorf("the image %s has no layers", image)
		}
		return out, nil
	}
	return nil, fmt.Errorf("the image %s is not in its archive", image)
}

// errPlatform says that an image has no programs that run here.
var errPlatform = errors.New("it is not for " + platforms.DefaultString())

// blobs are those of an archive, by their digests.
type blobs map[string][]byte

// diffs returns the layers that an image has for the platform of this machine. Indexes may be nested.
func (b blobs) diffs(d ocispec.Descriptor, depth int) ([]digest.Digest, error) {
	ours := platforms.Default()
	var m struct {
		Manifests []ocispec.Descriptor
		Config    ocispec.Descriptor
	}
	if err := b.read(d, &m); err != nil {
		return nil, err
	}
	if m.Config.Digest != "" {
		var config ocispec.Image
		if err := b.read(m.Config, &config); err != nil {
			return nil, err
		}
		if !ours.Match(platforms.Normalize(config.Platform)) {
			return nil, errPlatform
		}
		return config.RootFS.DiffIDs, nil
	}
	m.Manifests = slices.DeleteFunc(m.Manifests, func(d ocispec.Descriptor) bool {
		_, ok := b[hash(d)]
		return !ok || d.Platform != nil && !ours.Match(*d.Platform)
	})
	slices.SortStableFunc(m.Manifests, func(x, y ocispec.Descriptor) int {
		switch {
		case x.Platform == nil && y.Platform == nil:
			return 0
		case x.Platform == nil: // as for containerd
			return 1
		case y.Platform == nil:
			return -1
		case ours.Less(*x.Platform, *y.Platform):
			return -1
		case ours.Less(*y.Platform, *x.Platform):
			return 1
		}
		return 0
	})
	if len(m.Manifests) == 0 || depth == 0 {
		return nil, errPlatform
	}
	return b.diffs(m.Manifests[0], depth-1)
}

func hash(d ocispec.Descriptor) string { return strings.TrimPrefix(string(d.Digest), "sha256:") }

func (b blobs) read(d ocispec.Descriptor, into any) error {
	blob, ok := b[hash(d)]
	if !ok {
		return fmt.Errorf("%s is missing", d.Digest)
	}
	return json.Unmarshal(blob, into)
}
