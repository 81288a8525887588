package ecr_test

import (
	"context"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"net/http/httptest"
	"path"
	"slices"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	ecrtypes "github.com/aws/aws-sdk-go-v2/service/ecr/types"
	"github.com/google/go-containerregistry/pkg/crane"
	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/random"
	"github.com/google/go-containerregistry/pkg/v1/remote"

	"github.com/drydock-dev/drydock/internal/journal"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// upstreamRegistry runs a registry on this machine to which all upstream hosts lead. It returns its address.
func (w *world) upstreamRegistry(t testing.TB) string {
	t.Helper()
	return w.upstreamServer(t, registry.New(registry.Logger(log.New(io.Discard, "", 0))))
}

// upstreamServer runs a server on this machine to which all upstream hosts lead. It returns its address.
func (w *world) upstreamServer(t testing.TB, h http.Handler) string {
	t.Helper()
	srv := httptest.NewServer(h)
	t.Cleanup(srv.Close)
	addr := srv.Listener.Addr().String()
	next := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return (&net.Dialer{}).DialContext(ctx, "tcp", addr)
	}}
	t.Cleanup(next.CloseIdleConnections)
	w.upstream = &redirected{addr, next}
	return addr
}

func (a *account) rule(prefix, url string, more ...string) {
	a.t.Helper()
	in := &awsecr.CreatePullThroughCacheRuleInput{EcrRepositoryPrefix: &prefix, UpstreamRegistryUrl: &url}
	if len(more) > 0 {
		in.UpstreamRepositoryPrefix = &more[0]
	}
	testkit.Must(a.c.CreatePullThroughCacheRule(a.t.Context(), in))(a.t)
}

func digestIn(t testing.TB, i interface{ Digest() (v1.Hash, error) }) string {
	t.Helper()
	return testkit.Must(i.Digest())(t).String()
}

// A pull below a rule's prefix imports the image of the upstream registry into a repository that it creates.
func TestPullThrough(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	addr := w.registry(t)
	upstream := w.upstreamRegistry(t)
	image, list := anImage(t), testkit.Must(random.Index(500, 2, 2))(t)
	for _, where := range []string{"library/app:1", "team/library/app:1"} {
		if err := crane.Push(image, upstream+"/"+where, crane.Insecure); err != nil {
			t.Fatal(err)
		}
	}
	ref := testkit.Must(name.ParseReference(upstream+"/list:1", name.Insecure))(t)
	if err := remote.WriteIndex(ref, list); err != nil {
		t.Fatal(err)
	}
	a.rule("quay", "quay.io")
	a.rule("quay/team", "quay.io", "team")
	c := login(t, a.c, addr, a.id)
	for _, from := range []string{"quay/library/app:1", "quay/team/library/app:1", "quay/library/app@" + digestIn(t, image)} {
		pulled, err := crane.Pull(c.ref(from), c.options()...)
		if err != nil {
			t.Fatal(err)
		}
		layers := testkit.Must(pulled.Layers())(t)
		for _, l := range layers {
			body := testkit.Must(l.Compressed())(t)
			if _, err := io.Copy(io.Discard, body); err != nil {
				t.Error(err)
			}
			_ = body.Close()
		}
		if got, want := digestIn(t, pulled), digestIn(t, image); got != want || len(layers) != 2 {
			t.Errorf("%s: %s with %d layers, want %s", from, got, len(layers), want)
		}
	}
	if got := testkit.Must(crane.Digest(c.ref("quay/list:1"), c.options()...))(t); got != digestIn(t, list) {
		t.Errorf("the list is %s, want %s", got, digestIn(t, list))
	}
	if n := len(testkit.Must(a.c.DescribeImages(t.Context(), &awsecr.DescribeImagesInput{RepositoryName: aws.String("quay/list")}))(t).ImageDetails); n != 3 {
		t.Errorf("%d images of the list", n)
	}
	if got := a.images("quay/library/app", map[string]string{digestIn(t, image): "app"}); got != "app:1" {
		t.Errorf("images %q", got)
	}

	// What was imported stays without the upstream registry; nothing else comes.
	w.upstream = nil
	if _, err := crane.Pull(c.ref("quay/library/app:1"), c.options()...); err != nil {
		t.Error(err)
	}
}

func TestPullThroughRefusals(t *testing.T) {
	w := newWorld(t)
	a := w.account(t)
	addr := w.registry(t)
	upstream := w.upstreamRegistry(t)
	if err := crane.Push(anImage(t), upstream+"/app:1", crane.Insecure); err != nil {
		t.Fatal(err)
	}
	a.rule("quay", "quay.io")
	repositories := func() int {
		return len(testkit.Must(a.c.DescribeRepositories(t.Context(), &awsecr.DescribeRepositoriesInput{}))(t).Repositories)
	}
	pull := func(c client, image, want string) {
		t.Helper()
		_, err := crane.Pull(c.ref(image), c.options()...)
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %s", image, err, want)
		}
		if n := repositories(); n != 0 {
			t.Errorf("%s: %d repositories", image, n)
		}
	}
	root := login(t, a.c, addr, a.id)
	pull(root, "other/app:1", "NAME_UNKNOWN")
	pull(root, "quay/app:2", "NAME_UNKNOWN")
	pull(root, "quay/none:1", "NAME_UNKNOWN")

	allow := func(actions string) string {
		return `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["ecr:GetAuthorizationToken","ecr:BatchGetImage","ecr:GetDownloadUrlForLayer"` + actions + `],"Resource":"*"}]}`
	}
	pull(login(t, a.user("reader", allow("")), addr, a.id), "quay/app:1", "is not authorized to perform: ecr:BatchImportUpstreamImage on resource: arn:aws:ecr:us-east-1:"+a.id+":repository/quay/app")
	pull(login(t, a.user("importer", allow(`,"ecr:BatchImportUpstreamImage"`)), addr, a.id), "quay/app:1", "is not authorized to perform: ecr:CreateRepository")
	both := login(t, a.user("both", allow(`,"ecr:BatchImportUpstreamImage","ecr:CreateRepository"`)), addr, a.id)
	w.upstream = nil
	pull(both, "quay/app:1", "Unable to access the upstream registry quay.io.")
	w.upstreamRegistry(t)
	pull(both, "quay/app:1", "NAME_UNKNOWN") // an empty registry
	w.upstream = nil
	again := w.upstreamRegistry(t)
	if err := crane.Push(anImage(t), again+"/app:1", crane.Insecure); err != nil {
		t.Fatal(err)
	}
	if _, err := crane.Pull(both.ref("quay/app:1"), both.options()...); err != nil {
		t.Error(err)
	}
	if n := repositories(); n != 1 {
		t.Errorf("%d repositories", n)
	}
}

// A registry policy can give the permissions for pulling through, whatever its scope.
func TestPullThroughByRegistryPolicy(t *testing.T) {
	for _, scope := range []string{"V1", "V2"} {
		t.Run(scope, func(t *testing.T) {
			p := newPuller(t)
			ctx := t.Context()
			p.up.image("1", manifestOf("config", "layer"), "config", "layer")
			user := p.user("puller", `{"Statement":[{"Effect":"Allow","Action":["ecr:GetAuthorizationToken","ecr:BatchGetImage"],"Resource":"*"}]}`)
			c := login(t, user, p.addr, p.id)
			pull := func(image string) error {
				_, err := crane.Manifest(c.ref(image), c.options()...)
				return err
			}
			testkit.Must(p.c.PutAccountSetting(ctx, &awsecr.PutAccountSettingInput{Name: aws.String("REGISTRY_POLICY_SCOPE"), Value: &scope}))(t)
			wantText(t, pull("quay/app:1"), "is not authorized to perform: ecr:BatchImportUpstreamImage")
			testkit.Must(p.c.PutRegistryPolicy(ctx, &awsecr.PutRegistryPolicyInput{PolicyText: aws.String(`{"Version":"2012-10-17","Statement":[{"Sid":"s","Effect":"Allow","Principal":{"AWS":"arn:aws:iam::` + p.id + `:user/puller"},
				"Action":["ecr:CreateRepository","ecr:BatchImportUpstreamImage"],"Resource":"arn:aws:ecr:us-east-1:` + p.id + `:repository/quay/app"}]}`)}))(t)
			if err := pull("quay/app:1"); err != nil {
				t.Error(err)
			}
			if got, want := p.creators(), []string{"puller"}; !slices.Equal(got, want) {
				t.Errorf("created by %q, want %q", got, want)
			}
			wantText(t, pull("quay/other:1"), "is not authorized to perform: ecr:BatchImportUpstreamImage")
		})
	}
}

// creators returns who has called CreateRepository, and with which error, newest first.
func (p puller) creators() (out []string) {
	p.account.t.Helper()
	for e, err := range p.w.journal.Query(journal.Filter{Account: p.id, Kind: journal.KindCall, Fields: map[string]string{"operation": "CreateRepository"}}) {
		if err != nil {
			p.account.t.Fatal(err)
		}
		who := path.Base(fmt.Sprint(e.Fields["principal"]))
		if code, ok := e.Fields["errorCode"]; ok {
			who += fmt.Sprint(" ", code)
		}
		out = append(out, who)
	}
	return out
}

// A registry policy, whatever its scope, the policy of a VPC endpoint, and conditions of the caller's own policies can keep a caller
// from having ECR create a repository.
func TestCreationDenied(t *testing.T) {
	const all = `{"Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}]}`
	for _, by := range []string{"V1", "V2", "endpoint", "address"} {
		t.Run(by, func(t *testing.T) {
			p := newPuller(t)
			ctx := t.Context()
			p.up.image("1", manifestOf("config", "layer"), "config", "layer")
			for _, prefix := range []string{"quay/templated", "pushed"} {
				testkit.Must(p.c.CreateRepositoryCreationTemplate(ctx, &awsecr.CreateRepositoryCreationTemplateInput{Prefix: &prefix, AppliedFor: []ecrtypes.RCTAppliedFor{"PULL_THROUGH_CACHE", "CREATE_ON_PUSH"}}))(t)
			}
			denial := ""
			if by == "address" {
				denial = `,{"Effect":"Deny","Action":"ecr:CreateRepository","Resource":"*","Condition":{"IpAddress":{"aws:SourceIp":"127.0.0.0/8"}}}`
			}
			c := login(t, p.user("user", `{"Statement":[{"Effect":"Allow","Action":"ecr:*","Resource":"*"}`+denial+`]}`), p.addr, p.id)
			switch by {
			case "endpoint":
				p.w.endpoint.Store(strings.Replace(all, `"Action":"*"`, `"NotAction":"ecr:CreateRepository"`, 1))
			case "V1", "V2":
				testkit.Must(p.c.PutAccountSetting(ctx, &awsecr.PutAccountSettingInput{Name: aws.String("REGISTRY_POLICY_SCOPE"), Value: &by}))(t)
				testkit.Must(p.c.PutRegistryPolicy(ctx, &awsecr.PutRegistryPolicyInput{PolicyText: aws.String(`{"Version":"2012-10-17","Statement":[{"Sid":"s","Effect":"Deny","Principal":{"AWS":"arn:aws:iam::` + p.id + `:user/user"},
					"Action":["ecr:CreateRepository"],"Resource":"arn:aws:ecr:us-east-1:` + p.id + `:repository/*"}]}`)}))(t)
			}
			for _, image := range []string{"quay/plain:1", "quay/templated/app:1"} {
				_, err := crane.Manifest(c.ref(image), c.options()...)
				wantText(t, err, "user/user is not authorized to perform: ecr:CreateRepository")
			}
			if got, want := p.creators(), slices.Repeat([]string{"user AccessDeniedException"}, 2); !slices.Equal(got, want) {
				t.Errorf("created by %q, want %q", got, want)
			}
			wantText(t, c.push(anImage(t), "pushed/app:1"), "user/user is not authorized to perform: ecr:CreateRepository")
			if p.w.endpoint.Load() != nil {
				p.w.endpoint.Store(all)
			}
			if r := testkit.Must(p.c.DescribeRepositories(ctx, &awsecr.DescribeRepositoriesInput{}))(t).Repositories; len(r) != 0 {
				t.Errorf("repositories %+v", r)
			}
		})
	}
}
