package containers

import (
	"archive/tar"
	"encoding/json"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"testing"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
)

// An index may name manifests without a platform: containerd takes them last. Nothing in it is trusted.
func TestLayersOfImage(t *testing.T) {
	const layer = digest.Digest("sha256:1111111111111111111111111111111111111111111111111111111111111111")
	ours := ocispec.Platform{OS: "linux", Architecture: runtime.GOARCH}
	foreign := ocispec.Platform{OS: "linux", Architecture: "s390x"}
	blobs := map[string][]byte{}
	put := func(v any) ocispec.Descriptor {
		b, err := json.Marshal(v)
		if err != nil {
			t.Fatal(err)
		}
		d := digest.FromBytes(b)
		blobs["blobs/sha256/"+d.Encoded()] = b
		return ocispec.Descriptor{Digest: d, Size: int64(len(b))}
	}
	manifest := func(of ocispec.Platform, diffs ...digest.Digest) ocispec.Descriptor {
		return put(ocispec.Manifest{Config: put(ocispec.Image{Platform: of, RootFS: ocispec.RootFS{Type: "layers", DiffIDs: diffs}})})
	}
	on := func(d ocispec.Descriptor, p ocispec.Platform) ocispec.Descriptor {
		d.Platform = &p
		return d
	}
	for name, tc := range map[string]struct {
		manifests []ocispec.Descriptor
		want      []string
		err       string
	}{
		"ours":                             {[]ocispec.Descriptor{on(manifest(foreign), foreign), on(manifest(ours, layer), ours)}, []string{layer.Encoded()}, ""},
		"one without a platform is before": {[]ocispec.Descriptor{manifest(ours, "x"), on(manifest(ours, layer), ours)}, []string{layer.Encoded()}, ""},
		"only one without a platform":      {[]ocispec.Descriptor{manifest(ours, layer)}, []string{layer.Encoded()}, ""},
		"a digest without an algorithm":    {[]ocispec.Descriptor{manifest(ours, "x")}, nil, "invalid checksum digest format"},
		"no layers":                        {[]ocispec.Descriptor{manifest(ours)}, nil, "has no layers"},
		"for another platform":             {[]ocispec.Descriptor{on(manifest(foreign, layer), foreign)}, nil, "it is not for linux/" + runtime.GOARCH},
	} {
		t.Run(name, func(t *testing.T) {
			index := put(ocispec.Index{Manifests: tc.manifests})
			index.Annotations = map[string]string{"io.containerd.image.name": "docker.io/library/app:1"}
			top, err := json.Marshal(ocispec.Index{Manifests: []ocispec.Descriptor{index}})
			if err != nil {
				t.Fatal(err)
			}
			at := filepath.Join(t.TempDir(), "image.tar")
			f, err := os.Create(at)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			w := tar.NewWriter(f)
			write := func(name string, b []byte) {
				if err := w.WriteHeader(&tar.Header{Typeflag: tar.TypeReg, Name: name, Size: int64(len(b))}); err != nil {
					t.Fatal(err)
				}
				if _, err := w.Write(b); err != nil {
					t.Fatal(err)
				}
			}
			write(ocispec.ImageIndexFile, top)
			write("blobs/sha256/parts", make([]byte, maxBlob+1)) // such as a list of the image's parts
			for name, b := range blobs {
				write(name, b)
			}
			if err := w.Close(); err != nil {
				t.Fatal(err)
			}
			got, err := layersOfImage(at, "app:1")
			if !slices.Equal(got, tc.want) || (err == nil) != (tc.err == "") || err != nil && !strings.Contains(err.Error(), tc.err) {
				t.Errorf("%q, %v, want %q, %q", got, err, tc.want, tc.err)
			}
		})
	}
}
