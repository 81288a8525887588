package ecr_test

import (
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	"github.com/google/go-containerregistry/pkg/crane"

	"github.com/drydock-dev/drydock/internal/service/ecr"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// digest pulls an image and returns its digest.
func (p puller) digest(image string) string {
	p.account.t.Helper()
	got, err := crane.Digest(p.ref(image), p.options()...)
	if err != nil {
		p.account.t.Error(err)
	}
	return got
}

// ECR looks for a newer image once in 24 hours when a tag is pulled. If it cannot, the cached image stays.
func TestRefresh(t *testing.T) {
	p := newPuller(t)
	first, second, third := manifestOf("config", "one"), manifestOf("config", "two"), manifestOf("config", "three")
	push := func(m, layer string) { p.up.image("1", m, "config", layer) }
	want := func(what, manifest string, asked int) {
		t.Helper()
		before := p.up.count("/app/manifests/1")
		if got := p.digest("quay/app:1"); got != digestOf(manifest) {
			t.Errorf("%s: %s, want %s", what, got, digestOf(manifest))
		}
		if n := p.up.count("/app/manifests/1") - before; n != asked {
			t.Errorf("%s: %d requests, want %d", what, n, asked)
		}
	}
	push(first, "one")
	want("first pull", first, 1)
	push(second, "two")
	later := func(by time.Duration) {
		t.Helper()
		p.w.clock.Step(by)
		p.relogin(t)
	}
	later(24*time.Hour - time.Millisecond)
	want("within 24 hours", first, 0)
	later(time.Millisecond)
	want("after 24 hours", second, 1)
	if got := p.images("quay/app", map[string]string{digestOf(first): "first", digestOf(second): "second"}); got != "first: second:1" {
		t.Errorf("images %s", got)
	}
	want("checked again", second, 0)

	later(24 * time.Hour)
	want("nothing new", second, 1)
	want("nothing new, checked", second, 0)

	later(24 * time.Hour)
	push(third, "three")
	missing := func(part string) func(http.ResponseWriter, *http.Request) bool {
		return func(w http.ResponseWriter, r *http.Request) bool {
			if !strings.Contains(r.URL.Path, part) {
				return false
			}
			w.WriteHeader(http.StatusNotFound)
			return true
		}
	}
	p.up.before = missing("/manifests/")
	want("gone upstream", second, 1)
	want("gone upstream, checked", second, 0)
	later(24 * time.Hour)
	p.up.before = missing("/blobs/")
	want("a layer is missing", second, 1)
	up := p.w.upstream
	p.w.upstream = nil
	want("unreachable", second, 0)
	p.w.upstream, p.up.before = up, nil
	want("reachable again", third, 1)

	// Digests do not change, and what users push is compared with the upstream registry, too.
	later(24 * time.Hour)
	if got := p.digest("quay/app@" + digestOf(first)); got != digestOf(first) {
		t.Errorf("by digest: %s", got)
	}
	if n := p.up.count("/app/manifests/" + digestOf(first)); n != 0 {
		t.Errorf("%d requests for a digest", n)
	}
	p.account.push("quay/app", "mine", "config", "mine")
	p.digest("quay/app:mine")
	if n := p.up.count("/app/manifests/mine"); n != 1 {
		t.Errorf("%d requests for a tag of a user", n)
	}
}

// relogin gets a new token, as tokens end after 12 hours.
func (p *puller) relogin(t *testing.T) { p.client = login(t, p.c, p.addr, p.id) }

// A puller without the permission to import gets the cached image. A repository whose tags are immutable keeps it.
func TestRefreshRefusals(t *testing.T) {
	p := newPuller(t)
	first, second := manifestOf("config", "one"), manifestOf("config", "two")
	p.up.image("1", first, "config", "one")
	p.digest("quay/app:1")
	p.up.image("1", second, "config", "two")
	p.w.clock.Step(24 * time.Hour)
	reader := puller{p.account, login(t, p.user("reader", `{"Statement":[{"Effect":"Allow","Action":["ecr:GetAuthorizationToken","ecr:BatchGetImage"],"Resource":"*"}]}`), p.addr, p.id), p.up}
	if got := reader.digest("quay/app:1"); got != digestOf(first) {
		t.Errorf("without permission: %s", got)
	}
	if n := p.up.count("/app/manifests/1"); n != 1 {
		t.Errorf("%d requests", n)
	}
	testkit.Must(p.c.PutImageTagMutability(t.Context(), &awsecr.PutImageTagMutabilityInput{RepositoryName: aws.String("quay/app"), ImageTagMutability: ecrtypes.ImageTagMutabilityImmutable}))(t)
	p.relogin(t)
	if got := p.digest("quay/app:1"); got != digestOf(first) {
		t.Errorf("immutable: %s", got)
	}
	testkit.Must(p.c.PutImageTagMutability(t.Context(), &awsecr.PutImageTagMutabilityInput{RepositoryName: aws.String("quay/app"), ImageTagMutability: ecrtypes.ImageTagMutabilityMutable}))(t)
	if got := p.digest("quay/app:1"); got != digestOf(second) {
		t.Errorf("mutable: %s", got)
	}
}

// Every import is reported, and every failure.
func TestSyncs(t *testing.T) {
	p := newPuller(t)
	image := manifestOf("config", "layer")
	p.up.image("1", image, "config", "layer")
	next := func() ecr.Sync {
		t.Helper()
		select {
		case s := <-p.w.syncs:
			return s
		default:
			t.Fatal("nothing was reported")
			return ecr.Sync{}
		}
	}
	p.digest("quay/app:1")
	if got, want := next(), (ecr.Sync{Account: p.id, Region: "us-east-1", Repository: "quay/app", Prefix: "quay", URL: "quay.io", Digest: digestOf(image), Tag: "1", At: p.w.clock.Now().UTC().Truncate(time.Millisecond)}); got != want {
		t.Errorf("got  %+v\nwant %+v", got, want)
	}
	p.digest("quay/app:1") // from the cache
	p.digest("quay/other@" + digestOf(image))
	if got := next(); got.Tag != "" || got.Digest != digestOf(image) || got.Failure != nil {
		t.Errorf("by digest: %+v", got)
	}
	wantText(t, p.pull(t.Context(), "quay/app:none"), "MANIFEST_UNKNOWN")
	if got := next(); got.Tag != "none" || got.Digest != "" || got.Failure == nil {
		t.Errorf("not found: %+v", got)
	}
	p.w.clock.Step(24 * time.Hour)
	p.relogin(t)
	p.w.upstream = nil
	p.digest("quay/app:1")
	if got := next(); got.Tag != "1" || got.Failure == nil || !strings.Contains(got.Failure.Error(), "Unable to access the upstream registry") {
		t.Errorf("unreachable: %+v", got)
	}
	if n := len(p.w.syncs); n != 0 {
		t.Errorf("%d more", n)
	}
}
