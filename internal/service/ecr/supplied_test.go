package ecr_test

import (
	"archive/tar"
	"errors"
	"io"
	"slices"
	"testing"

	"github.com/google/go-containerregistry/pkg/crane"
	v1 "github.com/google/go-containerregistry/pkg/v1"

	"github.com/drydock-dev/drydock/internal/catalog/addonimages"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// Everybody may pull the images of EKS's registry who may pull at all.
func TestImagesOfAddOns(t *testing.T) {
	w := newWorld(t)
	addr := w.registry(t)
	a := w.account(t)
	const readOnly = `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":["ecr:GetAuthorizationToken","ecr:BatchGetImage","ecr:GetDownloadUrlForLayer"],"Resource":"*"}]}`
	node := login(t, a.user("node", readOnly), addr, "602401143452")
	for _, c := range []client{node, {t: t, host: node.host, addr: addr, auth: node.auth, byName: true}} {
		i := testkit.Must(crane.Pull(c.ref("eks/coredns:v1.14.3-eksbuild.1"), c.options()...))(t)
		if names := files(t, i); !slices.Contains(names, "coredns -> /opt/drydock/bin/coredns") || !slices.Contains(names, addonimages.Marker) {
			t.Errorf("the image has %q", names)
		}
		testkit.Must(crane.Pull(c.ref("eks/coredns@"+testkit.Must(i.Digest())(t).String()), c.options()...))(t)
	}
	_, err := crane.Pull(node.ref("eks/none:v1"), node.options()...)
	wantText(t, err, "no resource-based policy allows the ecr:BatchGetImage action")

	stranger := login(t, a.user("stranger", `{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Action":"ecr:GetAuthorizationToken","Resource":"*"}]}`), addr, "602401143452")
	_, err = crane.Pull(stranger.ref("eks/coredns:v1.14.3-eksbuild.1"), stranger.options()...)
	wantText(t, err, "ecr:BatchGetImage")
}

// files returns the names in the layers of an image, and where links lead.
func files(t *testing.T, i v1.Image) []string {
	t.Helper()
	var out []string
	for _, l := range testkit.Must(i.Layers())(t) {
		r := tar.NewReader(testkit.Must(l.Uncompressed())(t))
		for {
			h, err := r.Next()
			if errors.Is(err, io.EOF) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			name := h.Name
			if h.Linkname != "" {
				name += " -> " + h.Linkname
			}
			out = append(out, name)
		}
	}
	return out
}
