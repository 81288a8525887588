package cli

import (
	"archive/tar"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"

	"github.com/distribution/reference"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// imageNameAnnotation is where containerd has the full name of an image in an index.
// https://github.com/containerd/containerd/blob/main/core/images/annotations.go
const imageNameAnnotation = "io.containerd.image.name"

// fullName returns an image's name with its registry and tag, as containerd has it.
func fullName(name string) (reference.Named, error) {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return nil, fmt.Errorf("invalid image name %q: %w", name, err)
	}
	return reference.TagNameOnly(named), nil
}

// An ociLayout is a folder with an OCI image layout.
// https://github.com/opencontainers/image-spec/blob/main/image-layout.md
type ociLayout struct {
	root  *os.Root
	index ocispec.Index // with full names
}

// openLayout opens a layout. Its only image gets a name, if name is not empty.
func openLayout(dir, name string) (l *ociLayout, err error) {
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, root.Close())
		}
	}()
	hint := func(err error) error {
		return withHint(fmt.Errorf("%s: %w", dir, err), "drydock image load "+shellQuote(dir)+" --name NAME:TAG")
	}
	l = &ociLayout{root: root}
	b, err := root.ReadFile(ocispec.ImageIndexFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, withHint(fmt.Errorf("%s is not an OCI image layout: it has no index.json", dir), "docker save -o images.tar IMAGE && drydock image load images.tar")
	}
	if err != nil {
		return nil, err
	}
	if err := json.Unmarshal(b, &l.index); err != nil {
		return nil, fmt.Errorf("%s/%s: %w", dir, ocispec.ImageIndexFile, err)
	}
	if name != "" && len(l.index.Manifests) != 1 {
		return nil, &ExitError{2, fmt.Errorf("--name is for a folder with one image: %s has %d", dir, len(l.index.Manifests))}
	}
	named := false
	for i := range l.index.Manifests {
		m := &l.index.Manifests[i]
		said := cmp.Or(name, m.Annotations[imageNameAnnotation], m.Annotations[ocispec.AnnotationRefName])
		if said == "" || name == "" && m.Annotations[imageNameAnnotation] == "" && !strings.ContainsAny(said, "/:") {
			continue // an annotation that is only a tag
		}
		full, err := fullName(said)
		if err != nil {
			return nil, hint(err)
		}
		if m.Annotations == nil {
			m.Annotations = map[string]string{}
		}
		m.Annotations[imageNameAnnotation] = full.String()
		named = true
	}
	if !named {
		return nil, hint(errors.New("its image has no name"))
	}
	return l, nil
}

// write writes the layout as an archive.
func (l *ociLayout) write(ctx context.Context, w io.Writer) error {
	t := tar.NewWriter(w)
	if err := writeIndex(t, l.index); err != nil {
		return err
	}
	err := fs.WalkDir(l.root.FS(), "blobs", func(name string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() {
			return err
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
		f, err := l.root.Open(name)
		if err != nil {
			return err
		}
		defer f.Close()
		st, err := f.Stat()
		if err != nil {
			return err
		}
		return writeEntry(t, name, st.Size(), f)
	})
	if err != nil {
		return err
	}
	return t.Close()
}

// writeIndex writes the files of a layout that name its images.
func writeIndex(t *tar.Writer, index ocispec.Index) error {
	version, err := json.Marshal(ocispec.ImageLayout{Version: ocispec.ImageLayoutVersion})
	if err != nil {
		return err
	}
	b, err := json.Marshal(index)
	if err != nil {
		return err
	}
	if err := writeEntry(t, ocispec.ImageLayoutFile, int64(len(version)), strings.NewReader(string(version))); err != nil {
		return err
	}
	return writeEntry(t, ocispec.ImageIndexFile, int64(len(b)), strings.NewReader(string(b)))
}

func writeEntry(t *tar.Writer, name string, size int64, from io.Reader) error {
	if err := t.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: size, Mode: 0o644}); err != nil {
		return err
	}
	_, err := io.Copy(t, from)
	return err
}
