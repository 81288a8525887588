package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/layout"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/drydock-dev/drydock/internal/api"
)

// A taker is a daemon that takes images.
type taker struct {
	mu       sync.Mutex
	archives [][]byte // that arrived whole
}

func (k *taker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path != "/_drydock/node-images" {
		http.NotFound(w, r)
		return
	}
	b, err := io.ReadAll(r.Body)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.archives = append(k.archives, b)
	_ = json.NewEncoder(w).Encode([]string{"loaded"})
}

// only returns the files of the only archive that has arrived.
func (k *taker) only(t *testing.T) map[string]string {
	t.Helper()
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.archives) != 1 {
		t.Fatalf("%d archives have arrived", len(k.archives))
	}
	files := map[string]string{}
	for r := tar.NewReader(bytes.NewReader(k.archives[0])); ; {
		h, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files
		}
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		files[h.Name] = string(b)
	}
}

// names returns the names and digests in the only archive's index.
func (k *taker) names(t *testing.T) map[string]string {
	t.Helper()
	var index ocispec.Index
	if err := json.Unmarshal([]byte(k.only(t)["index.json"]), &index); err != nil {
		t.Fatal(err)
	}
	out := map[string]string{}
	for _, m := range index.Manifests {
		out[m.Annotations["io.containerd.image.name"]] = m.Digest.String()
	}
	return out
}

// check fails unless the only archive has all of an image.
func (k *taker) check(t *testing.T, image v1.Image) {
	t.Helper()
	want := map[string]string{}
	add := func(h v1.Hash, b []byte) { want["blobs/"+h.Algorithm+"/"+h.Hex] = string(b) }
	must := func(b []byte, err error) []byte {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
		return b
	}
	digest, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	add(digest, must(image.RawManifest()))
	config, err := image.ConfigName()
	if err != nil {
		t.Fatal(err)
	}
	add(config, must(image.RawConfigFile()))
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range layers {
		h, err := l.Digest()
		if err != nil {
			t.Fatal(err)
		}
		r, err := l.Compressed()
		if err != nil {
			t.Fatal(err)
		}
		add(h, must(io.ReadAll(r)))
	}
	got := k.only(t)
	delete(got, "index.json")
	if layout := got["oci-layout"]; layout != `{"imageLayoutVersion":"1.0.0"}` {
		t.Errorf("oci-layout is %s", layout)
	}
	delete(got, "oci-layout")
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("blobs (-want +got):\n%.2000s", d)
	}
}

// newImageFor returns an image for a platform.
func newImageFor(t *testing.T, os, arch string) v1.Image {
	t.Helper()
	image, err := random.Image(3000, 2)
	if err != nil {
		t.Fatal(err)
	}
	c, err := image.ConfigFile()
	if err != nil {
		t.Fatal(err)
	}
	c = c.DeepCopy()
	c.OS, c.Architecture = os, arch
	if image, err = mutate.ConfigFile(image, c); err != nil {
		t.Fatal(err)
	}
	return image
}

func digestOf(t *testing.T, image v1.Image) string {
	t.Helper()
	h, err := image.Digest()
	if err != nil {
		t.Fatal(err)
	}
	return h.String()
}

// playRegistry serves a registry for one user, alice, until the test ends, and returns its host. Its images are web:1, for
// two platforms, of which want is this machine's, and only:1, for s390x.
func playRegistry(t *testing.T) (host string, want v1.Image) {
	t.Helper()
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if user, password, ok := r.BasicAuth(); !ok || user != "alice" || password != "secret" {
			w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
			w.WriteHeader(http.StatusUnauthorized)
			return
		}
		images.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	host = strings.TrimPrefix(s.URL, "http://")
	want = newImageFor(t, "linux", runtime.GOARCH)
	other := newImageFor(t, "linux", "s390x")
	index := mutate.AppendManifests(empty.Index,
		mutate.IndexAddendum{Add: other, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: "s390x"}}},
		mutate.IndexAddendum{Add: want, Descriptor: v1.Descriptor{Platform: &v1.Platform{OS: "linux", Architecture: runtime.GOARCH}}})
	auth := remote.WithAuth(&authn.Basic{Username: "alice", Password: "secret"})
	for tag, image := range map[string]remote.Taggable{"web:1": index, "only:1": other} {
		ref, err := name.ParseReference(host + "/" + tag)
		if err != nil {
			t.Fatal(err)
		}
		if i, ok := image.(v1.ImageIndex); ok {
			err = remote.WriteIndex(ref, i, auth)
		} else {
			err = remote.Write(ref, other, auth)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return host, want
}

// login writes a docker configuration with a user's password for a registry.
func login(t *testing.T, host, user, password string) {
	t.Helper()
	dir := t.TempDir()
	t.Setenv("HOME", dir) // without .docker
	t.Setenv("DOCKER_CONFIG", dir)
	b, err := json.Marshal(map[string]any{"auths": map[string]any{host: map[string]string{"username": user, "password": password}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "config.json"), b, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestImagePull(t *testing.T) {
	host, want := playRegistry(t)
	login(t, host, "alice", "secret")
	t.Run("the platform of this machine", func(t *testing.T) {
		var k taker
		code, stdout, stderr := run(t, playDaemon(t, k.ServeHTTP), "image", "pull", host+"/web:1")
		if code != 0 || stdout != "loaded\n" || stderr != "" {
			t.Fatalf("exit code %d\n%s%s", code, stdout, stderr)
		}
		k.check(t, want)
		if d := cmp.Diff(map[string]string{host + "/web:1": digestOf(t, want)}, k.names(t)); d != "" {
			t.Errorf("names (-want +got):\n%s", d)
		}
	})
	t.Run("by digest", func(t *testing.T) {
		var k taker
		full := host + "/web@" + digestOf(t, want)
		if code, _, stderr := run(t, playDaemon(t, k.ServeHTTP), "image", "pull", full); code != 0 {
			t.Fatal(stderr)
		}
		if d := cmp.Diff(map[string]string{full: digestOf(t, want)}, k.names(t)); d != "" {
			t.Errorf("names (-want +got):\n%s", d)
		}
	})
	t.Run("another platform", func(t *testing.T) {
		var k taker
		if code, _, stderr := run(t, playDaemon(t, k.ServeHTTP), "image", "pull", "--platform", "linux/s390x", host+"/web:1"); code != 0 {
			t.Fatal(stderr)
		}
		if got := k.names(t)[host+"/web:1"]; got == "" || got == digestOf(t, want) {
			t.Errorf("the digest is %q", got)
		}
	})
}

func TestImagePullFails(t *testing.T) {
	host, _ := playRegistry(t)
	for _, tt := range []struct {
		name, user string
		args       []string
		code       int
		want       []string
	}{
		{"without the right password", "mallory", []string{host + "/web:1"}, 1, []string{"pulling " + host + "/web:1: ", "401 Unauthorized", "Try: docker login " + host}},
		{"a tag that does not exist", "alice", []string{host + "/web:2"}, 1, []string{"MANIFEST_UNKNOWN", "Try: drydock image import " + host + "/web:2"}},
		{"a platform that the image lacks", "alice", []string{"--platform", "linux/riscv64", host + "/web:1"}, 1, []string{"no child with platform linux/riscv64"}},
		{"an image of another platform", "alice", []string{host + "/only:1"}, 1, []string{`only:1 is an image for "linux/s390x", not for linux/` + runtime.GOARCH, "Try: drydock image pull --platform linux/s390x " + host + "/only:1"}},
		{"an invalid name", "alice", []string{"Web"}, 2, []string{`invalid image name "Web"`, "Try: drydock image pull --help"}},
		{"an invalid platform", "alice", []string{"--platform", "amd64", "web"}, 2, []string{`invalid --platform "amd64"`}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			login(t, host, tt.user, "secret")
			var k taker
			code, stdout, stderr := run(t, playDaemon(t, k.ServeHTTP), append([]string{"image", "pull"}, tt.args...)...)
			if code != tt.code || stdout != "" {
				t.Errorf("exit code %d, want %d: %s", code, tt.code, stdout)
			}
			for _, want := range tt.want {
				if !strings.Contains(stderr, want) {
					t.Errorf("%s\nwant in it\n%s", stderr, want)
				}
			}
			if len(k.archives) > 0 {
				t.Error("the daemon has got an archive")
			}
		})
	}
}

// A layer that is not what the manifest says must not be loaded.
func TestImagePullRefusesWrongLayers(t *testing.T) {
	image := newImageFor(t, "linux", runtime.GOARCH)
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	layers, err := image.Layers()
	if err != nil {
		t.Fatal(err)
	}
	bad, err := layers[1].Digest()
	if err != nil {
		t.Fatal(err)
	}
	size, err := layers[1].Size()
	if err != nil {
		t.Fatal(err)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodGet && strings.HasSuffix(r.URL.Path, bad.String()) {
			_, _ = w.Write(bytes.Repeat([]byte("x"), int(size)))
			return
		}
		images.ServeHTTP(w, r)
	}))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	login(t, host, "", "")
	ref, err := name.ParseReference(host + "/web:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image); err != nil {
		t.Fatal(err)
	}
	var k taker
	code, _, stderr := run(t, playDaemon(t, k.ServeHTTP), "image", "pull", host+"/web:1")
	if code != 1 || !strings.Contains(stderr, "layer "+bad.String()+": error verifying sha256 checksum") || len(k.archives) > 0 {
		t.Errorf("exit code %d, %d archives: %s", code, len(k.archives), stderr)
	}
}

// The author of an image can write anything as its platform, so a hint repeats only what looks like a platform.
func TestImagePullHintsAtPlatformsOnly(t *testing.T) {
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	defer s.Close()
	host := strings.TrimPrefix(s.URL, "http://")
	login(t, host, "", "")
	for arch, want := range map[string]bool{"s390x": true, "amd64; rm -rf x": false, "\x1b[2J": false, "$(id)": false} {
		ref, err := name.ParseReference(host + "/web:1")
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, newImageFor(t, "linux", arch)); err != nil {
			t.Fatal(err)
		}
		var k taker
		code, _, stderr := run(t, playDaemon(t, k.ServeHTTP), "image", "pull", host+"/web:1")
		if code != 1 || !strings.Contains(stderr, "web:1 is an image for "+strconv.Quote("linux/"+arch)+", not for ") || strings.Contains(stderr, "--platform linux/"+arch) != want || strings.Contains(stderr, "--platform") != want {
			t.Errorf("%q: exit code %d: %q", arch, code, stderr)
		}
	}
}

// playTransport leads all connections to registries to one server until the test ends.
func playTransport(t *testing.T, s *httptest.Server) {
	t.Helper()
	old := remote.DefaultTransport
	to := &http.Transport{
		DialContext: func(ctx context.Context, network, _ string) (net.Conn, error) {
			return new(net.Dialer).DialContext(ctx, network, s.Listener.Addr().String())
		},
		TLSClientConfig: &tls.Config{InsecureSkipVerify: true}, //nolint:gosec // the server is the test's
	}
	remote.DefaultTransport = to
	t.Cleanup(func() {
		to.CloseIdleConnections()
		remote.DefaultTransport = old
	})
}

// Nothing is asked over plain HTTP but registries on this machine, wherever a registry leads.
func TestImagePullNeedsTLS(t *testing.T) {
	for _, tt := range []struct {
		name, image, host string
		lead              func(w http.ResponseWriter, r *http.Request) // what a registry on this machine answers
	}{
		{"a private address", "10.1.2.3:5000/web:1", "10.1.2.3:5000", nil},
		{"a private address without a port", "192.168.1.2/web:1", "192.168.1.2", nil},
		{"a name below .local", "registry.local/web:1", "registry.local", nil},
		{"a token's realm", "", "auth.example", func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("WWW-Authenticate", `Bearer realm="http://auth.example/token",service="x"`)
			w.WriteHeader(http.StatusUnauthorized)
		}},
		{"a redirect", "", "blobs.example", func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/v2/" {
				http.Redirect(w, r, "http://blobs.example"+r.URL.Path, http.StatusTemporaryRedirect)
			}
		}},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var mu sync.Mutex
			var asked []string
			s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if r.Host == tt.host {
					mu.Lock()
					asked = append(asked, r.Method+" "+r.URL.Path+" "+r.Header.Get("Authorization"))
					mu.Unlock()
				}
				if tt.lead != nil {
					tt.lead(w, r)
					return
				}
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
			}))
			defer s.Close()
			playTransport(t, s)
			image, at := tt.image, tt.host
			if tt.lead != nil {
				at = strings.TrimPrefix(s.URL, "http://")
				image = at + "/web:1"
			}
			login(t, at, "alice", "secret")
			var k taker
			code, _, stderr := run(t, playDaemon(t, k.ServeHTTP), "image", "pull", image)
			if code != 1 || !strings.Contains(stderr, tt.host+" is not on this machine: images are pulled over HTTPS only") {
				t.Errorf("exit code %d: %s", code, stderr)
			}
			mu.Lock()
			defer mu.Unlock()
			if len(asked) > 0 {
				t.Errorf("%s was asked %q", tt.host, asked)
			}
		})
	}
	t.Run("a private address with TLS", func(t *testing.T) {
		s := httptest.NewTLSServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
		defer s.Close()
		playTransport(t, s)
		login(t, "10.1.2.3:5000", "", "")
		want := newImageFor(t, "linux", runtime.GOARCH)
		ref, err := name.ParseReference("10.1.2.3:5000/web:1")
		if err != nil {
			t.Fatal(err)
		}
		if err := remote.Write(ref, want); err != nil {
			t.Fatal(err)
		}
		var k taker
		if code, _, stderr := run(t, playDaemon(t, k.ServeHTTP), "image", "pull", "10.1.2.3:5000/web:1"); code != 0 {
			t.Fatal(stderr)
		}
		k.check(t, want)
	})
}

// Names in ECR are Drydock's: the daemon's endpoint is their registry, and AWS credentials are the password.
func TestImagePullFromECR(t *testing.T) {
	t.Setenv("AWS_ACCESS_KEY_ID", "")
	t.Setenv("AWS_PROFILE", "")
	const ecr = "111122223333.dkr.ecr.eu-west-1.amazonaws.com"
	images := registry.New(registry.Logger(log.New(io.Discard, "", 0)))
	var k taker
	var signed string
	dir := playDaemon(t, func(w http.ResponseWriter, r *http.Request) {
		switch {
		case r.Header.Get("X-Amz-Target") == "AmazonEC2ContainerRegistry_V20150921.GetAuthorizationToken":
			signed = r.Header.Get("Authorization")
			w.Header().Set("Content-Type", "application/x-amz-json-1.1")
			_, _ = io.WriteString(w, `{"authorizationData":[{"authorizationToken":"QVdTOnRva2Vu"}]}`) // AWS:token
		case strings.HasPrefix(r.URL.Path, "/v2/"):
			if user, password, _ := r.BasicAuth(); user != "AWS" || password != "token" {
				w.Header().Set("WWW-Authenticate", `Basic realm="test"`)
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			images.ServeHTTP(w, r)
		default:
			k.ServeHTTP(w, r)
		}
	})
	info, err := api.ReadInfo(dir)
	if err != nil {
		t.Fatal(err)
	}
	image := newImageFor(t, "linux", runtime.GOARCH)
	ref, err := name.ParseReference(strings.TrimPrefix(info.URL, "http://") + "/" + ecr + "/team/web:1")
	if err != nil {
		t.Fatal(err)
	}
	if err := remote.Write(ref, image, remote.WithAuth(&authn.Basic{Username: "AWS", Password: "token"})); err != nil {
		t.Fatal(err)
	}
	if code, _, stderr := run(t, dir, "image", "pull", ecr+"/team/web:1"); code != 0 {
		t.Fatal(stderr)
	}
	k.check(t, image)
	if d := cmp.Diff(map[string]string{ecr + "/team/web:1": digestOf(t, image)}, k.names(t)); d != "" {
		t.Errorf("names (-want +got):\n%s", d)
	}
	if !strings.Contains(signed, "/eu-west-1/ecr/aws4_request") {
		t.Errorf("the request was signed with %q", signed)
	}
	if code, _, stderr := run(t, dir, "image", "pull", ecr+"/team/web:2"); code != 1 || !strings.Contains(stderr, "Try: aws ecr list-images --repository-name team/web") {
		t.Errorf("exit code %d: %s", code, stderr)
	}
}

func TestImageLoadOfAFolder(t *testing.T) {
	image := newImageFor(t, "linux", runtime.GOARCH)
	write := func(t *testing.T, annotations ...map[string]string) string {
		t.Helper()
		dir := t.TempDir()
		p, err := layout.Write(dir, empty.Index)
		if err != nil {
			t.Fatal(err)
		}
		for _, a := range annotations {
			if err := p.AppendImage(image, layout.WithAnnotations(a)); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	ref := func(s string) map[string]string { return map[string]string{"org.opencontainers.image.ref.name": s} }
	for _, tt := range []struct {
		name string
		dir  string
		args []string
		code int
		want string // the image's name, or an error
	}{
		{"with containerd's name", write(t, map[string]string{"io.containerd.image.name": "docker.io/library/web:1", "org.opencontainers.image.ref.name": "1"}), nil, 0, "docker.io/library/web:1"},
		{"with a full reference", write(t, ref("registry.example/team/web:2")), nil, 0, "registry.example/team/web:2"},
		{"with only a tag", write(t, ref("latest")), nil, 1, "its image has no name\nTry: drydock image load "},
		{"with a given name", write(t, ref("latest")), []string{"--name", "web"}, 0, "docker.io/library/web:latest"},
		{"with an invalid name", write(t, ref("latest")), []string{"--name", "Web"}, 1, `invalid image name "Web"`},
		{"with two images and a name", write(t, ref("a"), ref("b")), []string{"--name", "web"}, 2, "has 2"},
		{"that is not a layout", t.TempDir(), nil, 1, "is not an OCI image layout: it has no index.json"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			var k taker
			code, _, stderr := run(t, playDaemon(t, k.ServeHTTP), append([]string{"image", "load", tt.dir}, tt.args...)...)
			if code != tt.code {
				t.Fatalf("exit code %d, want %d: %s", code, tt.code, stderr)
			}
			if code != 0 {
				if !strings.Contains(stderr, tt.want) || len(k.archives) > 0 {
					t.Errorf("%s\nwant in it\n%s", stderr, tt.want)
				}
				return
			}
			k.check(t, image)
			if d := cmp.Diff(map[string]string{tt.want: digestOf(t, image)}, k.names(t)); d != "" {
				t.Errorf("names (-want +got):\n%s", d)
			}
		})
	}
}

// Links in a folder lead nowhere.
func TestImageLoadFollowsNoLinks(t *testing.T) {
	outside := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(outside, []byte("secret"), 0o600); err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if _, err := layout.Write(dir, empty.Index); err != nil {
		t.Fatal(err)
	}
	p, err := layout.FromPath(dir)
	if err != nil {
		t.Fatal(err)
	}
	image := newImageFor(t, "linux", runtime.GOARCH)
	if err := p.AppendImage(image); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(outside, filepath.Join(dir, "blobs/sha256/link")); err != nil {
		t.Fatal(err)
	}
	var k taker
	if code, _, stderr := run(t, playDaemon(t, k.ServeHTTP), "image", "load", dir, "--name", "web:1"); code != 0 {
		t.Fatal(stderr)
	}
	k.check(t, image)
}

// program writes a program that is the only one in the PATH of that name.
func program(t *testing.T, dir, name, script string) {
	t.Helper()
	if err := os.WriteFile(filepath.Join(dir, name), []byte("#!/bin/sh\n"+script), 0o755); err != nil {
		t.Fatal(err)
	}
}

func TestImageImport(t *testing.T) {
	const (
		echo    = "echo \"${0##*/} $*\"\n" // its own command line is the archive
		missing = "echo no such image >&2; exit 1\n"
		broken  = "echo half; echo the connection was lost >&2; exit 1\n"
	)
	for _, tt := range []struct {
		name     string
		programs map[string]string
		args     []string
		code     int
		want     string // the archive, or an error
	}{
		{"docker first", map[string]string{"docker": echo, "podman": echo, "ctr": echo}, []string{"web:1"}, 0, "docker image save web:1\n"},
		{"the program that has it", map[string]string{"docker": missing, "podman": echo}, []string{"web:1"}, 0, "podman image save --format docker-archive web:1\n"},
		{"the program that was asked for", map[string]string{"docker": echo, "podman": echo}, []string{"--from", "podman", "web"}, 0, "podman image save --format docker-archive web:latest\n"},
		{"containerd wants full names", map[string]string{"docker": echo, "ctr": echo}, []string{"--from", "containerd", "web:1"}, 0, "ctr images export - docker.io/library/web:1\n"},
		{"no program has it", map[string]string{"docker": missing, "podman": missing}, []string{"web:1"}, 1, "no such image\nTry: drydock image pull web:1\n"},
		{"a program that stops half-way", map[string]string{"docker": broken, "podman": echo}, []string{"web:1"}, 1, "the connection was lost\nTry: drydock image pull web:1\n"},
		{"no program", nil, []string{"web:1"}, 1, "this machine has neither docker nor podman nor ctr\nTry: drydock image pull web:1\n"},
		{"the program that was asked for is missing", map[string]string{"docker": echo}, []string{"--from", "podman", "web:1"}, 1, "podman: there is no program podman\nTry: drydock image pull web:1\n"},
		{"an unknown program", nil, []string{"--from", "rkt", "web:1"}, 2, `invalid --from "rkt": want docker, podman, containerd`},
		{"a name that is a flag", map[string]string{"docker": echo}, []string{"--", "--output=/etc/passwd"}, 2, "invalid image name"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			dir := t.TempDir()
			for name, script := range tt.programs {
				program(t, dir, name, script)
			}
			t.Setenv("PATH", dir)
			var k taker
			code, _, stderr := run(t, playDaemon(t, k.ServeHTTP), append([]string{"image", "import"}, tt.args...)...)
			if code != tt.code {
				t.Fatalf("exit code %d, want %d: %s", code, tt.code, stderr)
			}
			if code != 0 {
				if !strings.Contains(stderr, tt.want) {
					t.Errorf("%s\nwant in it\n%s", stderr, tt.want)
				}
				if len(k.archives) > 0 {
					t.Errorf("the daemon has got an archive: %q", k.archives)
				}
				return
			}
			if len(k.archives) != 1 || string(k.archives[0]) != tt.want {
				t.Errorf("archives %q, want %q", k.archives, tt.want)
			}
		})
	}
}

func TestImageCompletion(t *testing.T) {
	dir := t.TempDir()
	program(t, dir, "docker", "printf 'web:1\\nweb:2\\n<none>:<none>\\nother:1\\n'\n")
	t.Setenv("PATH", dir)
	for args, want := range map[string]string{
		"image import w":       "web:1\nweb:2\n:4\n",
		"image import --from ": "docker\npodman\ncontainerd\n:4\n",
	} {
		if _, stdout, stderr := run(t, t.TempDir(), strings.Split("__complete "+args, " ")...); stdout != want {
			t.Errorf("%s: %q, want %q; %s", args, stdout, want, stderr)
		}
	}
}
