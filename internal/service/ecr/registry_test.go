package ecr_test

import (
	"context"
	"encoding/base64"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/mutate"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/drydock-dev/drydock/internal/imagestore"
	"github.com/drydock-dev/drydock/internal/service/ecr/registry"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A client is a registry client that has logged in.
type client struct {
	t    testing.TB
	host string // of the registry
	addr string // of the server
	auth authn.Authenticator
	// byName makes the client use the registry's AWS name instead of the server's address.
	byName bool
}

func (w *world) registry(t testing.TB) (addr string) {
	images := imagestore.New(imagestore.Config{Store: w.Store, Blobs: w.blobs, Clock: w.clock})
	all := registry.New(registry.Config{API: w.Front, ECR: w.ecr, Images: images, Origin: w.origin, Clock: w.clock, Log: testkit.Log(t)})
	srv := httptest.NewServer(http.HandlerFunc(func(rw http.ResponseWriter, r *http.Request) {
		if !all.Serves(r) {
			t.Errorf("the API got %s %s", r.Host, r.URL.Path)
		}
		all.ServeHTTP(rw, r)
	}))
	t.Cleanup(srv.Close)
	w.own = registry.Own(srv.Listener.Addr().String())
	return srv.Listener.Addr().String()
}

// login gets a token with an API client and logs in to a registry.
func login(t testing.TB, c *awsecr.Client, addr, account string) client {
	t.Helper()
	data := testkit.Must(c.GetAuthorizationToken(t.Context(), &awsecr.GetAuthorizationTokenInput{}))(t).AuthorizationData[0]
	raw := testkit.Must(base64.StdEncoding.DecodeString(*data.AuthorizationToken))(t)
	user, password, _ := strings.Cut(string(raw), ":")
	return client{t: t, host: account + ".dkr.ecr.us-east-1.amazonaws.com", addr: addr, auth: &authn.Basic{Username: user, Password: password}}
}

func (c client) ref(image string) string {
	if c.byName {
		return c.host + "/" + image
	}
	return c.addr + "/" + c.host + "/" + image
}

func (c client) options() []crane.Option {
	out := []crane.Option{crane.WithAuth(c.auth), crane.WithContext(c.t.Context())}
	if c.byName { // every name leads to the server
		out = append(out, crane.Insecure, crane.WithTransport(&redirected{c.addr, &http.Transport{
			DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
				return (&net.Dialer{}).DialContext(ctx, "tcp", c.addr)
			},
		}}))
	}
	return out
}

// redirected sends https requests over http.
type redirected struct {
	addr string
	next *http.Transport
}

func (t *redirected) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	return t.next.RoundTrip(r)
}

func (c client) push(i v1.Image, image string) error {
	return crane.Push(i, c.ref(image), c.options()...)
}

func anImage(t testing.TB) v1.Image {
	t.Helper()
	return testkit.Must(random.Image(1000, 2))(t)
}

// The API shows at once what a registry client pushes, and a registry client can pull what the API stores.
func TestPushAndPull(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	addr := w.registry(t)
	for _, byName := range []bool{false, true} {
		app := map[bool]string{false: "team/by-address", true: "team/by-name"}[byName]
		a.repository(app)
		c := login(t, a.c, addr, a.id)
		c.byName = byName
		img := anImage(t)
		if err := c.push(img, app+":1"); err != nil {
			t.Fatal(err)
		}
		if err := c.push(img, app+":1"); err != nil {
			t.Errorf("pushing again: %v", err)
		}
		digest := testkit.Must(img.Digest())(t).String()
		d := testkit.Must(a.c.DescribeImages(t.Context(), &awsecr.DescribeImagesInput{RepositoryName: &app}))(t).ImageDetails
		if len(d) != 1 || *d[0].ImageDigest != digest || d[0].ImageTags[0] != "1" || *d[0].ImageSizeInBytes < 2000 || !d[0].ImagePushedAt.Equal(w.clock.Now().UTC().Truncate(time.Millisecond)) {
			t.Errorf("images %+v", d)
		}
		pulled := testkit.Must(crane.Pull(c.ref(app+":1"), c.options()...))(t)
		for i, l := range testkit.Must(pulled.Layers())(t) {
			content := testkit.Must(l.Compressed())(t)
			got := testkit.Must(io.ReadAll(content))(t)
			want := testkit.Must(testkit.Must(img.Layers())(t)[i].Digest())(t).String()
			if digestOf(string(got)) != want {
				t.Errorf("layer %d has %d bytes of %s", i, len(got), digestOf(string(got)))
			}
			_ = content.Close()
		}
		if err := crane.Tag(c.ref(app+":1"), "two", c.options()...); err != nil {
			t.Error(err)
		}
		if tags := testkit.Must(crane.ListTags(c.ref(app), c.options()...))(t); strings.Join(tags, " ") != "1 two" {
			t.Errorf("tags %v", tags)
		}
		// An image that was pushed by the API is pulled like any other.
		m := a.push(app, "api", "config", "layer")
		if got := testkit.Must(crane.Digest(c.ref(app+":api"), c.options()...))(t); got != digestOf(m) {
			t.Errorf("digest %s", got)
		}
		if err := crane.Delete(c.ref(app+"@"+digest), c.options()...); err != nil {
			t.Error(err)
		}
		_, err := crane.Pull(c.ref(app+":1"), c.options()...)
		wantText(t, err, "MANIFEST_UNKNOWN: Requested image not found")
	}
	// An index is pushed after its images.
	c := login(t, a.c, addr, a.id)
	a.repository("index")
	index := mutate.AppendManifests(empty.Index, mutate.IndexAddendum{Add: anImage(t)}, mutate.IndexAddendum{Add: anImage(t)})
	ref := testkit.Must(name.ParseReference(c.ref("index:all")))(t)
	if err := remote.WriteIndex(ref, index, remote.WithAuth(c.auth), remote.WithContext(t.Context())); err != nil {
		t.Fatal(err)
	}
	if out := testkit.Must(a.c.ListImages(t.Context(), &awsecr.ListImagesInput{RepositoryName: aws.String("index")}))(t).ImageIds; len(out) != 3 {
		t.Errorf("images %+v", out)
	}
}

func wantText(t testing.TB, err error, text string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), text) {
		t.Errorf("error %v, want %q", err, text)
	}
}

// The principal behind the token is authorized for each call, and errors have ECR's texts.
func TestRegistryRefuses(t *testing.T) {
	w := newWorld(t)
	a, other := w.account(t), w.account(t)
	addr := w.registry(t)
	a.repository("app")
	root := login(t, a.c, addr, a.id)
	img := anImage(t)
	wantText(t, root.push(img, "none:1"), "NAME_UNKNOWN: The repository with name 'none' does not exist in the registry with id '"+a.id+"'")

	reader := login(t, a.user("reader", `{"Statement":{"Effect":"Allow","Action":["ecr:GetAuthorizationToken","ecr:BatchGetImage","ecr:GetDownloadUrlForLayer","ecr:BatchCheckLayerAvailability"],"Resource":"*"}}`), addr, a.id)
	wantText(t, reader.push(img, "app:1"), "DENIED: User: arn:aws:iam::"+a.id+":user/reader is not authorized to perform: ecr:InitiateLayerUpload on resource: arn:aws:ecr:us-east-1:"+a.id+
		":repository/app because no identity-based policy allows the ecr:InitiateLayerUpload action")
	if err := root.push(img, "app:1"); err != nil {
		t.Fatal(err)
	}
	if _, err := crane.Pull(reader.ref("app:1"), reader.options()...); err != nil {
		t.Error(err)
	}
	guest := login(t, other.c, addr, a.id)
	_, err := crane.Pull(guest.ref("app:1"), guest.options()...)
	wantText(t, err, "ecr:BatchGetImage on resource: arn:aws:ecr:us-east-1:"+a.id+":repository/app because no resource-based policy allows the ecr:BatchGetImage action")

	testkit.Must(a.c.PutImageTagMutability(t.Context(), &awsecr.PutImageTagMutabilityInput{RepositoryName: aws.String("app"), ImageTagMutability: ecrtypes.ImageTagMutabilityImmutable}))(t)
	wantText(t, root.push(anImage(t), "app:1"), "TAG_INVALID: The image tag '1' already exists in the 'app' repository and cannot be overwritten because the repository is immutable.")

	anonymous := root
	anonymous.auth = authn.Anonymous
	_, err = crane.Pull(anonymous.ref("app:1"), anonymous.options()...)
	wantText(t, err, "401 Unauthorized")
	w.clock.Step(12 * time.Hour)
	_, err = crane.Pull(root.ref("app:1"), root.options()...)
	wantText(t, err, "Your authorization token has expired. Reauthenticate and try again.")
}

// The URL of a layer works without credentials, for all of the layer or a range, until it expires.
func TestLayerURLs(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	addr := w.registry(t)
	a.repository("app")
	digest := a.layer("app", "0123456789")
	out := testkit.Must(a.c.GetDownloadUrlForLayer(t.Context(), &awsecr.GetDownloadUrlForLayerInput{RepositoryName: aws.String("app"), LayerDigest: &digest}))(t)
	path := (*out.DownloadUrl)[strings.Index(*out.DownloadUrl, "/v2/"):]
	get := func(bytes string) (int, string) {
		t.Helper()
		r := testkit.Must(http.NewRequestWithContext(t.Context(), http.MethodGet, "http://"+addr+path, nil))(t)
		if bytes != "" {
			r.Header.Set("Range", "bytes="+bytes)
		}
		res := testkit.Must(http.DefaultClient.Do(r))(t)
		defer res.Body.Close()
		return res.StatusCode, string(testkit.Must(io.ReadAll(res.Body))(t))
	}
	for _, tt := range []struct {
		bytes  string
		status int
		want   string
	}{{"", 200, "0123456789"}, {"2-4", 206, "234"}, {"8-", 206, "89"}, {"8-100", 206, "89"}, {"x", 200, "0123456789"}} {
		if status, got := get(tt.bytes); status != tt.status || got != tt.want {
			t.Errorf("%s: %d %s", tt.bytes, status, got)
		}
	}
	w.clock.Step(time.Hour)
	if status, _ := get(""); status != http.StatusForbidden {
		t.Errorf("an expired URL: %d", status)
	}
}
