package cli

import (
	"archive/tar"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/netip"
	"net/url"
	"regexp"
	"runtime"
	"time"

	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	"github.com/distribution/reference"
	"github.com/google/go-containerregistry/pkg/authn"
	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/remote/transport"
	"github.com/opencontainers/go-digest"
	"github.com/opencontainers/image-spec/specs-go"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/spf13/cobra"
)

func newImagePull(o *globalOptions) *cobra.Command {
	var platform string
	cmd := &cobra.Command{
		Use:   "pull NAME",
		Short: "Pull an image from a registry and load it",
		Long: `Pull an image from a registry, with the credentials of docker login or podman login, and load it.
Names in Amazon ECR are those of Drydock's registry, with the caller's AWS credentials.`,
		Example: "  drydock image pull nginx:1.27\n  kubectl run web --image=nginx:1.27",
		Args:    cobra.ExactArgs(1),
		RunE: func(cmd *cobra.Command, args []string) error {
			named, err := fullName(args[0])
			if err != nil {
				return &ExitError{2, err}
			}
			want, err := v1.ParsePlatform(platform)
			if err == nil && (want.OS == "" || want.Architecture == "") {
				err = errors.New("want OS/ARCHITECTURE, such as linux/amd64")
			}
			if err != nil {
				return &ExitError{2, fmt.Errorf("invalid --platform %q: %w", platform, err)}
			}
			p := &pull{o: o, named: named, platform: *want}
			return o.load(cmd.Context(), p.write)
		},
	}
	cmd.Flags().StringVar(&platform, "platform", "linux/"+runtime.GOARCH, "platform of an image that has several, as OS/ARCHITECTURE")
	return cmd
}

// A pull is a download of one image.
type pull struct {
	o        *globalOptions
	named    reference.Named
	platform v1.Platform

	alive       *time.Timer // fires if the registry sends nothing any more
	done, total int64       // bytes of layers
	printed     time.Time
}

// pullPatience is how long a registry may send nothing.
const pullPatience = time.Minute

// write downloads the image and writes it as an archive with an OCI layout.
func (p *pull) write(ctx context.Context, w io.Writer) error {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	p.alive = time.AfterFunc(pullPatience, func() {
		cancel(fmt.Errorf("the registry %s has sent nothing for %s", reference.Domain(p.named), pullPatience))
	})
	defer p.alive.Stop()
	err := p.download(ctx, w)
	p.clear()
	if err != nil && ctx.Err() != nil {
		err = context.Cause(ctx)
	}
	if err == nil || errors.Is(err, io.ErrClosedPipe) || errors.Is(err, context.Canceled) || hinted(err) {
		return err
	}
	return p.hint(err)
}

func (p *pull) download(ctx context.Context, w io.Writer) error {
	ref, auth, plain, err := p.resolve(ctx)
	if err != nil {
		return err
	}
	image, err := remote.Image(ref, auth, remote.WithTransport(encrypted{remote.DefaultTransport, plain}), remote.WithContext(ctx), remote.WithPlatform(p.platform), remote.WithUserAgent("drydock/"+p.o.version))
	if err != nil {
		return err
	}
	manifest, err := image.RawManifest()
	if err != nil {
		return err
	}
	m, err := image.Manifest()
	if err != nil {
		return err
	}
	config, err := image.RawConfigFile()
	if err != nil {
		return err
	}
	// A registry does not choose among platforms if the image has only one.
	c, err := image.ConfigFile()
	if err != nil {
		return err
	}
	if has := c.Platform(); has != nil && has.OS != "" && !has.Satisfies(v1.Platform{OS: p.platform.OS, Architecture: p.platform.Architecture}) {
		err := fmt.Errorf("%s is an image for %q, not for %s", p.familiar(), has, p.platform)
		if !platformName.MatchString(has.String()) {
			return err
		}
		return withHint(err, "drydock image pull --platform "+shellQuote(has.String())+" "+shellQuote(p.familiar()))
	}
	t := tar.NewWriter(w)
	index := ocispec.Index{
		Versioned: specs.Versioned{SchemaVersion: 2}, MediaType: ocispec.MediaTypeImageIndex,
		Manifests: []ocispec.Descriptor{{
			MediaType: string(m.MediaType), Digest: digest.FromBytes(manifest), Size: int64(len(manifest)), Annotations: map[string]string{imageNameAnnotation: p.named.String()},
		}},
	}
	if index.Manifests[0].MediaType == "" { // optional in OCI's manifests
		index.Manifests[0].MediaType = ocispec.MediaTypeImageManifest
	}
	if err := writeIndex(t, index); err != nil {
		return err
	}
	for _, b := range [][]byte{manifest, config} {
		if err := writeEntry(t, blobPath(digest.FromBytes(b)), int64(len(b)), bytes.NewReader(b)); err != nil {
			return err
		}
	}
	layers, err := image.Layers()
	if err != nil {
		return err
	}
	written := map[v1.Hash]bool{}
	for _, d := range m.Layers {
		p.total += d.Size
	}
	for i, l := range layers {
		d := m.Layers[i]
		if written[d.Digest] {
			p.done += d.Size
			continue
		}
		written[d.Digest] = true
		if err := p.layer(t, l, d); err != nil {
			return fmt.Errorf("layer %s: %w", d.Digest, err)
		}
	}
	return t.Close()
}

// platformName matches platforms that a hint may repeat: whoever made the image chose what is in it.
var platformName = regexp.MustCompile(`^[a-z0-9]+/[a-z0-9]+(/[a-z0-9.]+)?$`)

// layer downloads a layer, whose size and digest are checked.
func (p *pull) layer(t *tar.Writer, l v1.Layer, d v1.Descriptor) error {
	r, err := l.Compressed()
	if err != nil {
		return err
	}
	defer r.Close()
	return writeEntry(t, blobPath(digest.Digest(d.Digest.String())), d.Size, io.TeeReader(r, p))
}

func blobPath(d digest.Digest) string { return "blobs/" + d.Algorithm().String() + "/" + d.Encoded() }

// Write counts bytes of layers, and shows them on a terminal.
func (p *pull) Write(b []byte) (int, error) {
	p.alive.Reset(pullPatience)
	p.done += int64(len(b))
	if isTerminal(p.o.streams.Err) && time.Since(p.printed) > 100*time.Millisecond {
		p.printed = time.Now()
		fmt.Fprintf(p.o.streams.Err, "\r%s: %.1f of %.1f MB\033[K", p.familiar(), float64(p.done)/1e6, float64(p.total)/1e6)
	}
	return len(b), nil
}

// clear removes what Write has shown.
func (p *pull) clear() {
	if !p.printed.IsZero() {
		fmt.Fprint(p.o.streams.Err, "\r\033[K")
	}
}

func (p *pull) familiar() string { return reference.FamiliarString(p.named) }

// ecrName matches the registries of Amazon ECR. Here they are Drydock's.
var ecrName = regexp.MustCompile(`^[0-9]{12}\.dkr[.-]ecr(?:-fips)?\.([a-z0-9-]+)\.`)

// encrypted makes no requests over plain HTTP, except to this machine itself and to one more host. The library would make them, with
// credentials, to registries at private addresses and below .local, and wherever a registry leads it.
type encrypted struct {
	http.RoundTripper
	plain string
}

// RoundTrip implements http.RoundTripper.
func (t encrypted) RoundTrip(r *http.Request) (*http.Response, error) {
	host := r.URL.Hostname()
	a, _ := netip.ParseAddr(host)
	if r.URL.Scheme == "https" || host == "localhost" || a.Unmap().IsLoopback() || t.plain != "" && r.URL.Host == t.plain {
		return t.RoundTripper.RoundTrip(r)
	}
	if r.Body != nil {
		_ = r.Body.Close()
	}
	return nil, fmt.Errorf("%s is not on this machine: images are pulled over HTTPS only", r.URL.Host)
}

// resolve returns where the image is, the credentials for it, and the host that may lack TLS, if any.
func (p *pull) resolve(ctx context.Context) (ref name.Reference, auth remote.Option, plain string, err error) {
	m := ecrName.FindStringSubmatch(reference.Domain(p.named))
	if m == nil {
		ref, err := name.ParseReference(p.named.String())
		return ref, remote.WithAuthFromKeychain(authn.DefaultKeychain), "", err
	}
	info, err := p.o.readInfo()
	if err != nil {
		return nil, nil, "", err
	}
	u, err := url.Parse(info.URL)
	if err != nil {
		return nil, nil, "", err
	}
	ref, err = name.ParseReference(u.Host+"/"+p.named.String(), name.Insecure)
	if err != nil {
		return nil, nil, "", err
	}
	cfg, err := p.o.callerConfig(ctx)
	if err != nil {
		return nil, nil, "", err
	}
	token, err := awsecr.NewFromConfig(cfg, func(o *awsecr.Options) { o.Region = m[1] }).GetAuthorizationToken(ctx, &awsecr.GetAuthorizationTokenInput{})
	if err != nil {
		return nil, nil, "", withHint(err, "drydock why request")
	}
	if len(token.AuthorizationData) == 0 {
		return nil, nil, "", errors.New("ecr:GetAuthorizationToken has returned no token")
	}
	return ref, remote.WithAuth(authn.FromConfig(authn.AuthConfig{Auth: *token.AuthorizationData[0].AuthorizationToken})), u.Host, nil
}

// hint adds to an error what to try.
func (p *pull) hint(err error) error {
	registry := reference.Domain(p.named)
	try := "drydock image import " + shellQuote(p.familiar())
	if e, ok := errors.AsType[*transport.Error](err); ok {
		switch {
		case ecrName.MatchString(registry):
			try = "aws ecr list-images --repository-name " + shellQuote(reference.Path(p.named))
		case e.StatusCode == http.StatusUnauthorized || e.StatusCode == http.StatusForbidden:
			try = "docker login " + shellQuote(registry)
		}
	}
	return withHint(fmt.Errorf("pulling %s: %w", p.familiar(), err), try)
}
