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
	p.up.before = nil
	want("just after a failure", second, 0)
	later(10*time.Minute - time.Millisecond)
	want("within 10 minutes of a failure", second, 0)
	later(time.Millisecond)
	want("10 minutes after a failure", third, 1)

	// Digests do not change.
	later(24 * time.Hour)
	if got := p.digest("quay/app@" + digestOf(first)); got != digestOf(first) {
		t.Errorf("by digest: %s", got)
	}
	if n := p.up.count("/app/manifests/" + digestOf(first)); n != 0 {
		t.Errorf("%d requests for a digest", n)
	}
}

// Only tags that ECR has imported are refreshed, and only until a user pushes another image with the tag.
func TestRefreshLeavesPushedImages(t *testing.T) {
	p := newPuller(t)
	upstream := func(tag, layer string) { p.up.image(tag, manifestOf("config", layer), "config", layer) }
	want := func(tag, manifest string, asked int) {
		t.Helper()
		if got := p.digest("quay/app:" + tag); got != digestOf(manifest) {
			t.Errorf("%s: %s, want %s", tag, got, digestOf(manifest))
		}
		if n := p.up.count("/app/manifests/" + tag); n != asked {
			t.Errorf("%s: %d requests, want %d", tag, n, asked)
		}
	}
	later := func() {
		t.Helper()
		p.w.clock.Step(24 * time.Hour)
		p.relogin(t)
	}
	upstream("taken", "taken 1")
	want("taken", manifestOf("config", "taken 1"), 1)
	upstream("during", "during 1")
	want("during", manifestOf("config", "during 1"), 1)

	mine := p.account.push("quay/app", "mine", "config", "mine")
	upstream("mine", "not mine")
	taken := p.account.push("quay/app", "taken", "config", "taken by a user")
	upstream("taken", "taken 2")
	later()
	want("mine", mine, 0)
	want("taken", taken, 1)

	// A push while ECR imports a newer image wins.
	upstream("during", "during 2")
	pushed := ""
	p.up.before = func(_ http.ResponseWriter, r *http.Request) bool {
		if strings.HasSuffix(r.URL.Path, "/blobs/"+digestOf("during 2")) {
			pushed = p.account.push("quay/app", "during", "config", "pushed during")
		}
		return false
	}
	p.digest("quay/app:during")
	want("during", pushed, 2)

	// A tag that was deleted is imported, and refreshed, again.
	testkit.Must(p.c.BatchDeleteImage(t.Context(), &awsecr.BatchDeleteImageInput{RepositoryName: aws.String("quay/app"), ImageIds: []ecrtypes.ImageIdentifier{{ImageTag: aws.String("taken")}}}))(t)
	want("taken", manifestOf("config", "taken 2"), 2)
	upstream("taken", "taken 3")
	later()
	want("taken", manifestOf("config", "taken 3"), 3)
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
	if n := p.up.count("/app/"); n != 3 { // for the first image, its configuration and its layer
		t.Errorf("%d requests", n)
	}
	if got := p.images("quay/app", map[string]string{digestOf(first): "first", digestOf(second): "second"}); got != "first:1" {
		t.Errorf("images %s", got)
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
	p.digest("quay/app:1") // no further attempt so soon

	p.w.upstreamServer(t, p.up)
	testkit.Must(p.c.CreateRepositoryCreationTemplate(t.Context(), &awsecr.CreateRepositoryCreationTemplateInput{
		Prefix: aws.String("quay/sealed"), AppliedFor: pullsThrough, EncryptionConfiguration: &ecrtypes.EncryptionConfigurationForRepositoryCreationTemplate{EncryptionType: "KMS"},
	}))(t)
	wantText(t, p.pull(t.Context(), "quay/sealed/app:1"), "needs a repository creation role")
	if got := next(); got.Repository != "quay/sealed/app" || got.Tag != "1" || got.Digest != digestOf(image) || got.Failure == nil || !strings.Contains(got.Failure.Error(), "needs a repository creation role") {
		t.Errorf("no repository: %+v", got)
	}
	if n := len(p.w.syncs); n != 0 {
		t.Errorf("%d more", n)
	}
}
