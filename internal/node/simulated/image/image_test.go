package image_test

import (
	"context"
	"errors"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/simulated/image"
)

// timeout is a program's error for a host that does not answer.
var timeout = &node.Refusal{
	Err:      &net.OpError{Op: "dial", Net: "tcp", Addr: &net.TCPAddr{IP: net.IPv4(1, 2, 3, 4), Port: 443}, Err: os.ErrDeadlineExceeded},
	Decision: node.Decision{By: node.ByNetwork, Code: "ENI_SG_RULES_MISMATCH"},
}

func TestPull(t *testing.T) {
	const ecr = "111122223333.dkr.ecr.us-west-2.amazonaws.com"
	denied := &node.Refusal{Err: errors.New("AccessDeniedException"), Decision: node.Decision{By: node.ByIAM, Code: "AccessDeniedException"}}
	for _, tc := range []struct {
		name, image string
		missing     bool   // from its registry
		host        string // not answering
		action      string // denied
		asked       []string
		text        string // part of the error; empty if it is pulled
		by          string
	}{
		{name: "docker hub", image: "nginx", asked: []string{"registry-1.docker.io:443", "auth.docker.io:443"}},
		{name: "docker hub is out of reach", image: "nginx", host: "registry-1.docker.io", asked: []string{"registry-1.docker.io:443"}, by: node.ByNetwork,
			text: `failed to pull and unpack image "docker.io/library/nginx:latest": failed to resolve reference "docker.io/library/nginx:latest": failed to do request: Head "https://registry-1.docker.io/v2/library/nginx/manifests/latest": dial tcp 1.2.3.4:443: i/o timeout`},
		{name: "a registry of AWS's", image: "public.ecr.aws/eks-distro/pause:3.9", asked: []string{"public.ecr.aws:443"}},
		{name: "by digest", image: "quay.io/a/b@sha256:" + strings.Repeat("0", 64), host: "quay.io", asked: []string{"quay.io:443"}, by: node.ByNetwork,
			text: `/v2/a/b/manifests/sha256:0000`},
		{name: "a registry on a port", image: "registry.local:5000/app:1", asked: []string{"registry.local:5000"}},
		{name: "ECR", image: ecr + "/team/app:1", asked: []string{
			"ecr:GetAuthorizationToken us-west-2", ecr + ":443", "ecr:BatchGetImage us-west-2 111122223333 team/app", "ecr:GetDownloadUrlForLayer us-west-2 111122223333 team/app",
			"prod-us-west-2-starport-layer-bucket.s3.us-west-2.amazonaws.com:443", "s3:GetObject us-west-2",
		}},
		{name: "no token of ECR", image: ecr + "/app:1", action: "ecr:GetAuthorizationToken", asked: []string{"ecr:GetAuthorizationToken us-west-2"}, by: node.ByIAM, text: "no basic auth credentials"},
		{name: "the manifest is denied", image: ecr + "/app:1", action: "ecr:BatchGetImage", by: node.ByIAM, text: "unexpected status from HEAD request to https://" + ecr + "/v2/app/manifests/1: 403 Forbidden"},
		{name: "the layers are denied", image: ecr + "/app:1", action: "ecr:GetDownloadUrlForLayer", by: node.ByIAM, text: "httpReadSeeker: failed open: unexpected status code"},
		{name: "the layers' bucket is out of reach", image: ecr + "/app:1", host: "prod-us-west-2-starport-layer-bucket.s3.us-west-2.amazonaws.com", by: node.ByNetwork, text: "httpReadSeeker: failed open: failed to do request: Get"},
		{name: "ECR does not have the image", image: ecr + "/app:2", missing: true, by: node.ByRegistry, asked: []string{
			"ecr:GetAuthorizationToken us-west-2", ecr + ":443", "ecr:BatchGetImage us-west-2 111122223333 app",
		}, text: `failed to pull and unpack image "` + ecr + `/app:2": failed to resolve reference "` + ecr + `/app:2": ` + ecr + `/app:2: not found`},
		{name: "another registry does not have the image", image: "quay.io/a/b:1", missing: true, by: node.ByRegistry, asked: []string{"quay.io:443"}, text: "quay.io/a/b:1: not found"},
		{name: "the endpoint's policy keeps the layers", image: ecr + "/app:1", action: "s3:GetObject", by: node.ByIAM, text: "403 Forbidden"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var asked []string
			p := image.Puller{
				Patience: 5 * time.Second,
				Call: func(_ context.Context, c node.Call) error {
					asked = append(asked, strings.TrimSpace(strings.Join([]string{c.Action, c.Region, c.Account, c.Repository}, " ")))
					if c.Action == tc.action {
						return denied
					}
					return nil
				},
				Exists: func(_ context.Context, n image.Name) error {
					if tc.missing && tc.image == n.Registry+"/"+n.Repository+":"+n.Reference {
						return &node.Refusal{Err: errors.New("not found"), Decision: node.Decision{By: node.ByRegistry}}
					}
					return nil
				},
				Connect: func(_ context.Context, host string, port int) error {
					asked = append(asked, net.JoinHostPort(host, map[int]string{443: "443", 5000: "5000"}[port]))
					if host == tc.host {
						return timeout
					}
					return nil
				},
			}
			n, err := image.Parse(tc.image)
			if err != nil {
				t.Fatal(err)
			}
			took, err := p.Pull(t.Context(), n)
			if tc.asked != nil && !slices.Equal(tc.asked, asked) {
				t.Errorf("asked (-want +got):\n%s", cmp.Diff(tc.asked, asked))
			}
			if tc.text == "" {
				if err != nil || took != 0 {
					t.Errorf("took %v, %v", took, err)
				}
				return
			}
			if err == nil || !strings.Contains(err.Error(), tc.text) {
				t.Fatalf("got %v, want %s", err, tc.text)
			}
			if why := node.DecisionOf(err); why == nil || why.By != tc.by {
				t.Errorf("decision %+v, want by %s", why, tc.by)
			}
			if want := map[bool]time.Duration{true: p.Patience}[tc.host != ""]; took != want {
				t.Errorf("took %v, want %v", took, want)
			}
		})
	}
}

func TestParse(t *testing.T) {
	for _, tc := range []struct {
		image string
		want  image.Name // except for the ID
		bad   bool
	}{
		{image: "nginx", want: image.Name{Full: "docker.io/library/nginx:latest", Registry: "docker.io", Repository: "library/nginx", Reference: "latest"}},
		{image: "ghcr.io/a/b:v1", want: image.Name{Full: "ghcr.io/a/b:v1", Registry: "ghcr.io", Repository: "a/b", Reference: "v1"}},
		{image: "Nginx", bad: true},
		{image: "", bad: true},
		{image: "a b", bad: true},
	} {
		t.Run(tc.image, func(t *testing.T) {
			got, err := image.Parse(tc.image)
			if tc.bad {
				if err == nil {
					t.Errorf("got %+v", got)
				}
				return
			}
			if err != nil || !strings.Contains(got.ID, "@sha256:") {
				t.Fatalf("%+v, %v", got, err)
			}
			got.ID = ""
			if got != tc.want {
				t.Error(cmp.Diff(tc.want, got))
			}
		})
	}
}
