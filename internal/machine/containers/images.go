package containers

import (
	"archive/tar"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"

	"github.com/distribution/reference"

	"github.com/drydock-dev/drydock/internal/machine/containers/layers"
)

// imageDir holds images of containers as archives, which all machines can read, and layerDir their layers: see package layers.
const (
	imageDir = "images"
	layerDir = imageDir + "/" + layers.Dir
)

// archiveName keeps the names of archives from being paths.
var archiveName = regexp.MustCompile(`^[a-z0-9][a-z0-9._-]*$`)

// SaveImage stores an archive of images under a name, from which machines import it.
func (r *Runtime) SaveImage(name string, from io.Reader) error {
	if !archiveName.MatchString(name) {
		return fmt.Errorf("invalid name of an archive %q", name)
	}
	dir := filepath.Join(r.cfg.Dir, imageDir)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.CreateTemp(dir, ".new-*")
	if err != nil {
		return err
	}
	_, err = io.Copy(f, from)
	if err = errors.Join(err, f.Chmod(0o644), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, name+layers.Archive))
	}
	if err != nil {
		_ = os.Remove(f.Name())
	}
	r.shareAgain()
	return err
}

// shareAgain says that there may be something to unpack or to remove.
func (r *Runtime) shareAgain() {
	select {
	case r.unshared <- struct{}{}:
	default:
	}
}

// Images returns the names of the archives.
func (r *Runtime) Images() ([]string, error) {
	entries, err := os.ReadDir(filepath.Join(r.cfg.Dir, imageDir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var out []string
	for _, e := range entries {
		if name, ok := strings.CutSuffix(e.Name(), layers.Archive); ok {
			out = append(out, name)
		}
	}
	slices.Sort(out)
	return out, nil
}

// ImageNames returns the names of the images in an archive.
func (r *Runtime) ImageNames(name string) ([]string, error) {
	if !archiveName.MatchString(name) {
		return nil, fmt.Errorf("invalid name of an archive %q", name)
	}
	f, err := os.Open(filepath.Join(r.cfg.Dir, imageDir, name+layers.Archive))
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return imageNames(f)
}

// LoadImage stores an archive and returns the names of its images.
func (r *Runtime) LoadImage(from io.Reader) ([]string, error) {
	if err := os.MkdirAll(r.cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	f, err := os.CreateTemp(r.cfg.Dir, ".load-*")
	if err != nil {
		return nil, err
	}
	defer os.Remove(f.Name())
	defer f.Close()
	if _, err := io.Copy(f, from); err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	names, err := imageNames(f)
	if err != nil {
		return nil, err
	}
	if _, err := f.Seek(0, io.SeekStart); err != nil {
		return nil, err
	}
	// The same images again replace the archive.
	sum := sha256.Sum256([]byte(strings.Join(names, " ")))
	return names, r.SaveImage("loaded-"+hex.EncodeToString(sum[:8]), f)
}

// imageNames reads the names of images in an archive of docker save, or an OCI layout that says them.
func imageNames(from io.Reader) ([]string, error) {
	var out []string
	known := false
	for t := tar.NewReader(from); ; {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, fmt.Errorf("not an archive of images: %w", err)
		}
		switch filepath.Clean(h.Name) {
		case "manifest.json":
			var all []struct{ RepoTags []string }
			if err := json.NewDecoder(io.LimitReader(t, 4<<20)).Decode(&all); err != nil {
				return nil, fmt.Errorf("%s: %w", h.Name, err)
			}
			known = true
			for _, m := range all {
				for _, name := range m.RepoTags {
					out = append(out, familiar(name))
				}
			}
		case "index.json":
			var index struct {
				Manifests []struct{ Annotations map[string]string }
			}
			if err := json.NewDecoder(io.LimitReader(t, 4<<20)).Decode(&index); err != nil {
				return nil, fmt.Errorf("%s: %w", h.Name, err)
			}
			known = true
			for _, m := range index.Manifests {
				if name := m.Annotations["io.containerd.image.name"]; name != "" {
					out = append(out, familiar(name))
				}
			}
		}
	}
	if !known {
		return nil, errors.New("not an archive of images: it has neither manifest.json nor index.json")
	}
	slices.Sort(out)
	if out = slices.Compact(out); len(out) == 0 {
		return nil, errors.New("the images in the archive have no names: save them by name, such as docker save -o web.tar web:1")
	}
	return out, nil
}

// familiar returns an image's name as people write it: an archive may have it in more than one form.
func familiar(name string) string {
	named, err := reference.ParseNormalizedNamed(name)
	if err != nil {
		return name // containerd refuses it
	}
	return reference.FamiliarString(named)
}
