package programs

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/containerd/containerd/v2/client"
	"github.com/distribution/reference"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/drydock-dev/drydock/internal/node/containers/launch"
)

// mirrorAddress is where a machine has a registry for its containerd, of the images of `drydock image load`. Pods whose
// imagePullPolicy is Always, the default for the tag latest, need a registry that says which image the tag is.
const mirrorAddress = "127.0.0.1:10247"

// mirrorConfig makes containerd ask the mirror before a registry.
// https://github.com/containerd/containerd/blob/main/docs/hosts.md
const mirrorConfig = `# Made by Drydock, because images of this registry were loaded by "drydock image load". It has no others.
[host."http://` + mirrorAddress + `"]
  capabilities = ["pull", "resolve"]
`

// registriesDir has a folder for each registry with a configuration of its own.
const registriesDir = "/etc/containerd/certs.d"

// ecrRegistry matches registries for which IAM decides.
var ecrRegistry = regexp.MustCompile(`\.dkr[.-]ecr(-fips)?\.`)

// mirrors lets containerd ask the mirror for an image that was loaded, unless its registry has a different
// configuration.
func mirrors(image string) error {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return err
	}
	registry := reference.Domain(named)
	if ecrRegistry.MatchString(registry) {
		return nil
	}
	dir := filepath.Join(registriesDir, registry)
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(dir, "hosts.toml"), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, fs.ErrExist) {
		return nil
	}
	if err != nil {
		return err
	}
	_, err = io.WriteString(f, mirrorConfig)
	return errors.Join(err, f.Close())
}

// serveMirror serves the mirror until ctx ends.
func serveMirror(ctx context.Context) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", mirrorAddress)
	if err != nil {
		fmt.Fprintln(os.Stderr, "a registry for loaded images:", err) // without it, containerd asks the image's own registry
		return
	}
	defer l.Close()
	c, err := client.New(containerdSocket, client.WithDefaultNamespace(kubernetesNamespace), client.WithTimeout(time.Minute)) // it may not be up yet
	if err != nil {
		fmt.Fprintln(os.Stderr, "a registry for loaded images:", err)
		return
	}
	defer c.Close()
	s := http.Server{ReadHeaderTimeout: 10 * time.Second, Handler: http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { answerMirror(c, w, r) })}
	defer context.AfterFunc(ctx, func() { _ = s.Close() })()
	_ = s.Serve(l)
}

// manifestPath is the only path that the mirror answers: containerd has the rest of the image.
var manifestPath = regexp.MustCompile(`^/v2/(.+)/manifests/([^/:]+)$`)

func answerMirror(c *client.Client, w http.ResponseWriter, r *http.Request) {
	m := manifestPath.FindStringSubmatch(r.URL.Path)
	if m == nil {
		http.NotFound(w, r)
		return
	}
	name := r.URL.Query().Get("ns") + "/" + m[1] + ":" + m[2]
	if !slices.Contains(loadedImages(), name) {
		http.NotFound(w, r)
		return
	}
	image, err := c.ImageService().Get(r.Context(), name)
	if err != nil {
		http.NotFound(w, r)
		return
	}
	manifest, err := c.ContentStore().ReaderAt(r.Context(), ocispec.Descriptor{Digest: image.Target.Digest})
	if err != nil {
		http.NotFound(w, r)
		return
	}
	defer manifest.Close()
	w.Header().Set("Docker-Content-Digest", image.Target.Digest.String())
	w.Header().Set("Content-Type", image.Target.MediaType)
	http.ServeContent(w, r, "", time.Time{}, io.NewSectionReader(manifest, 0, manifest.Size()))
}

// loadedImages returns the full names of the images that were imported on this machine.
func loadedImages() (all []string) {
	files, _ := filepath.Glob(filepath.Join(launch.ImportedDir, "*.done"))
	for _, f := range files {
		b, _ := os.ReadFile(f) // it may be replaced just now
		all = append(all, strings.Fields(string(b))...)
	}
	return all
}
