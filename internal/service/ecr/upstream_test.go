package ecr_test

import (
	"context"
	"encoding/json"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A fakeUpstream is an upstream registry that may break the rules. It serves the same images as all repositories.
type fakeUpstream struct {
	mu      sync.Mutex
	asked   []string          // HOST/PATH of all requests
	content map[string]string // by the last two parts of the path
	// before, if it is set, is called before each request is answered. It returns true if it has answered.
	before func(w http.ResponseWriter, r *http.Request) bool
}

func (f *fakeUpstream) set(path, content string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.content == nil {
		f.content = map[string]string{}
	}
	f.content[path] = content
}

// image adds a manifest under a tag and its digest, and layers.
func (f *fakeUpstream) image(tag, manifest string, layers ...string) {
	f.set("manifests/"+tag, manifest)
	f.set("manifests/"+digestOf(manifest), manifest)
	for _, l := range layers {
		f.set("blobs/"+digestOf(l), l)
	}
}

// count returns the number of requests whose host and path contain a text.
func (f *fakeUpstream) count(part string) (n int) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, a := range f.asked {
		if strings.Contains(a, part) {
			n++
		}
	}
	return n
}

func (f *fakeUpstream) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	parts := strings.Split(r.URL.Path, "/")
	f.mu.Lock()
	f.asked = append(f.asked, r.Host+r.URL.Path)
	content, ok := f.content[strings.Join(parts[len(parts)-2:], "/")]
	f.mu.Unlock()
	switch {
	case f.before != nil && f.before(w, r) || r.URL.Path == "/v2/":
		return
	case !ok:
		w.WriteHeader(http.StatusNotFound)
		return
	}
	var m struct{ MediaType string }
	_ = json.Unmarshal([]byte(content), &m) // layers have none
	w.Header().Set("Content-Type", m.MediaType)
	w.Header().Set("Content-Length", strconv.Itoa(len(content)))
	_, _ = w.Write([]byte(content)) // it only fails if the client has gone
}

// A puller is an account with a rule for a fake upstream registry.
type puller struct {
	*account
	client
	up *fakeUpstream
}

func newPuller(t *testing.T) puller {
	t.Helper()
	w := newWorld(t)
	a := w.account(t)
	p := puller{a, login(t, a.c, w.registry(t), a.id), &fakeUpstream{}}
	w.upstreamServer(t, p.up)
	a.rule("quay", "quay.io")
	return p
}

func (p puller) pull(ctx context.Context, image string) error {
	_, err := crane.Manifest(p.ref(image), crane.WithAuth(p.auth), crane.WithContext(ctx))
	return err
}

// uploads returns the number of uploads that have been begun and not completed.
func (p puller) uploads() int {
	return len(store.NewCollection[json.RawMessage]("ecr", "upload").All(p.w.Store, store.Scope{}))
}

const unreachable = "Unable to access the upstream registry quay.io."

// No more than a few MiB are read of an answer that goes into memory.
func TestPullThroughEndlessAnswers(t *testing.T) {
	const most = 64 << 20
	for what, want := range map[string]string{"manifest": unreachable, "error": "NAME_UNKNOWN", "token": unreachable, "token as a layer": unreachable} {
		t.Run(what, func(t *testing.T) {
			p := newPuller(t)
			p.up.image("1", manifestOf("config", "layer"), "config", "layer")
			sent, ended := 0, make(chan struct{})
			endless := func(w http.ResponseWriter, status int) bool {
				defer close(ended)
				w.WriteHeader(status)
				for sent < most {
					n, err := w.Write(make([]byte, 1<<20))
					if sent += n; err != nil {
						break
					}
				}
				return true
			}
			p.up.before = func(w http.ResponseWriter, r *http.Request) bool {
				switch {
				case strings.HasPrefix(what, "token") && r.URL.Path == "/v2/":
					realm := map[string]string{"token": "https://auth.example/token", "token as a layer": "https://auth.example/v2/app/blobs/" + digestOf("layer")}[what]
					w.Header().Set("WWW-Authenticate", fmt.Sprintf(`Bearer realm=%q,service="x"`, realm))
					w.WriteHeader(http.StatusUnauthorized)
					return true
				case r.Host == "auth.example", what == "manifest" && strings.HasSuffix(r.URL.Path, "/manifests/1"):
					return endless(w, http.StatusOK)
				case what == "error" && strings.HasSuffix(r.URL.Path, "/manifests/1"):
					return endless(w, http.StatusNotFound)
				}
				return false
			}
			wantText(t, p.pull(t.Context(), "quay/app:1"), want)
			<-ended
			if sent >= most {
				t.Errorf("%d bytes were read", sent)
			}
		})
	}
}

// Sizes in manifests are checked before anything is read.
func TestPullThroughSizes(t *testing.T) {
	p := newPuller(t)
	const config, layer = "the config", "the layer!"
	for n, sizes := range [][2]int64{{5 << 20, 10}, {-1, 10}, {10, -1}, {10, math.MaxInt64}, {10, 9}, {9, 10}} {
		tag := strconv.Itoa(n)
		m := fmt.Sprintf(`{"schemaVersion":2,"mediaType":%q,"config":{"mediaType":%q,"size":%d,"digest":%q},"layers":[{"mediaType":%q,"size":%d,"digest":%q}]}`,
			manifestType, configType, sizes[0], digestOf(config), layerType, sizes[1], digestOf(layer))
		p.up.image(tag, m, config, layer)
		wantText(t, p.pull(t.Context(), "quay/sizes"+tag+":"+tag), unreachable)
	}
	if n := p.up.count("sizes0/blobs/"); n != 0 {
		t.Errorf("%d requests for layers", n)
	}
	if n := p.uploads(); n != 0 {
		t.Errorf("%d uploads are left", n)
	}
	p.up.image("good", manifestOf(config, layer), config, layer)
	if err := p.pull(t.Context(), "quay/app:good"); err != nil {
		t.Error(err)
	}
}

// Layers come from the upstream registry, whatever other addresses a manifest has.
func TestPullThroughLayerURLs(t *testing.T) {
	p := newPuller(t)
	const foreign = "application/vnd.docker.image.rootfs.foreign.diff.tar.gzip"
	manifest := func(kind, layer string) string {
		return strings.Replace(strings.Replace(manifestOf("config", layer), layerType, kind, 1), `"layers":[{`, `"layers":[{"urls":["https://evil.example/layer"],`, 1)
	}
	p.up.image("present", manifest(layerType, "present"), "config", "present")
	p.up.image("absent", manifest(layerType, "absent"), "config")
	p.up.image("foreign", manifest(foreign, "foreign"), "config")
	for tag, want := range map[string]string{"present": "", "absent": unreachable, "foreign": ""} {
		err := p.pull(t.Context(), "quay/"+tag+":"+tag)
		if want != "" {
			wantText(t, err, want)
		} else if err != nil {
			t.Errorf("%s: %v", tag, err)
		}
	}
	if n := p.up.count("evil.example"); n != 0 {
		t.Errorf("%d requests to an address that an image names", n)
	}
}

// Indexes contain each other to a depth of three, and every image is read once.
func TestPullThroughNestedIndexes(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	upstream := w.upstreamRegistry(t)
	a.rule("quay", "quay.io")
	c := login(t, a.c, w.registry(t), a.id)
	var inner mutate.Appendable = anImage(t)
	for depth := 1; depth <= 4; depth++ {
		index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: inner})
		inner = index
		image := fmt.Sprintf("/depth%d:1", depth)
		if err := remote.WriteIndex(testkit.Must(name.ParseReference(upstream+image, name.Insecure))(t), index); err != nil {
			t.Fatal(err)
		}
		_, err := crane.Manifest(c.ref("quay"+image), c.options()...)
		if depth == 4 {
			wantText(t, err, unreachable)
		} else if err != nil {
			t.Errorf("depth %d: %v", depth, err)
		}
	}

	p := newPuller(t)
	image := manifestOf("config", "layer")
	p.up.image("image", image, "config", "layer")
	p.up.image("many", indexOf(image, image, image))
	if err := p.pull(t.Context(), "quay/many:many"); err != nil {
		t.Error(err)
	}
	if n := p.up.count("/manifests/" + digestOf(image)); n != 1 {
		t.Errorf("the image was read %d times", n)
	}
	// An index cannot have its own digest, but a registry can answer with it anyway.
	within := indexOf("itself")
	itself := strings.Replace(within, manifestType, indexType, 1)
	p.up.image("itself", itself)
	outer := strings.Replace(indexOf(itself), manifestType, indexType, 1)
	p.up.image("outer", outer)
	p.up.set("manifests/"+digestOf("itself"), outer)
	wantText(t, p.pull(t.Context(), "quay/outer:outer"), unreachable)
	if n := p.up.count("/outer/manifests/"); n != 3 {
		t.Errorf("%d manifests were read", n)
	}
}

// Pulls of an image at the same time import it once.
func TestPullThroughTogether(t *testing.T) {
	const pulls = 10
	p := newPuller(t)
	image := manifestOf("config", "first", "second")
	p.up.image("1", image, "config", "first", "second")
	all := make(chan struct{})
	begun := 0
	var mu sync.Mutex
	p.up.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/together/manifests/1") {
			mu.Lock()
			if begun++; begun == pulls {
				close(all)
			}
			mu.Unlock()
		}
		if strings.Contains(r.URL.Path, "/together/blobs/") { // layers are read when all pulls have begun
			select {
			case <-all:
			case <-r.Context().Done():
			}
		}
		return false
	}
	var wg sync.WaitGroup
	for range pulls {
		wg.Go(func() {
			if err := p.pull(t.Context(), "quay/together:1"); err != nil {
				t.Error(err)
			}
		})
	}
	wg.Wait()
	for _, l := range []string{"config", "first", "second"} {
		if n := p.up.count("/together/blobs/" + digestOf(l)); n != 1 {
			t.Errorf("%s was read %d times", l, n)
		}
	}
	used := p.w.blobs.Used(p.id)
	if err := p.pull(t.Context(), "quay/alone:1"); err != nil {
		t.Fatal(err)
	}
	if alone := p.w.blobs.Used(p.id) - used; used != alone {
		t.Errorf("%d bytes are charged, %d for a single pull", used, alone)
	}
}

// An import goes on when the client that began it leaves.
func TestPullThroughClientLeaves(t *testing.T) {
	p := newPuller(t)
	p.up.image("1", manifestOf("config", "layer"), "config", "layer")
	asked, release := make(chan struct{}), make(chan struct{})
	var once sync.Once
	p.up.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/blobs/"+digestOf("layer")) {
			once.Do(func() { close(asked) })
			select {
			case <-release:
			case <-r.Context().Done():
			}
		}
		return false
	}
	ctx, leave := context.WithCancel(t.Context())
	left := make(chan error)
	go func() { left <- p.pull(ctx, "quay/app:1") }()
	<-asked
	leave()
	if err := <-left; err == nil {
		t.Error("a pull without a client succeeded")
	}
	close(release)
	if err := p.pull(t.Context(), "quay/app:1"); err != nil {
		t.Error(err)
	}
	if n := p.up.count("/blobs/" + digestOf("layer")); n != 1 {
		t.Errorf("the layer was read %d times", n)
	}
}

// A layer whose download breaks leaves nothing behind.
func TestPullThroughCutDownload(t *testing.T) {
	p := newPuller(t)
	layer := strings.Repeat("0123456789abcdef", (21<<20)/16) // more than one part
	p.up.image("1", manifestOf("config", layer), "config", layer)
	p.up.before = func(w http.ResponseWriter, r *http.Request) bool {
		if !strings.HasSuffix(r.URL.Path, "/blobs/"+digestOf(layer)) {
			return false
		}
		w.Header().Set("Content-Length", strconv.Itoa(len(layer)))
		_, _ = w.Write([]byte(layer[:len(layer)-1000])) // it only fails if the client has gone
		return true
	}
	wantText(t, p.pull(t.Context(), "quay/app:1"), unreachable)
	if n, used := p.uploads(), p.w.blobs.Used(p.id); n != 0 || used != 0 {
		t.Errorf("%d uploads and %d bytes are left", n, used)
	}
	p.up.before = nil
	if err := p.pull(t.Context(), "quay/app:1"); err != nil {
		t.Error(err)
	}
}

// The policy of a VPC endpoint applies to the import, too.
func TestPullThroughEndpointPolicy(t *testing.T) {
	p := newPuller(t)
	p.up.image("1", manifestOf("config", "layer"), "config", "layer")
	p.w.endpoint.Store(`{"Statement":[{"Effect":"Allow","Principal":"*","NotAction":"ecr:BatchImportUpstreamImage","Resource":"*"}]}`)
	wantText(t, p.pull(t.Context(), "quay/app:1"), "is not authorized to perform: ecr:BatchImportUpstreamImage")
	p.w.endpoint.Store(`{"Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}]}`)
	if err := p.pull(t.Context(), "quay/app:1"); err != nil {
		t.Error(err)
	}
}
