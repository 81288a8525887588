// Package image decides whether containerd on an instance could pull an image, considering the network path to its
// registry, the permissions of the role that pulls from Amazon ECR, and whether the image exists. Nothing is downloaded.
//
// May be imported by internal/app and the node runtimes.
package image

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"
	"time"

	"github.com/distribution/reference"

	"github.com/drydock-dev/drydock/internal/node"
)

// A Puller pulls images as one role from one place in the network. Its functions decide at once. A nil function
// allows everything.
type Puller struct {
	Call    func(ctx context.Context, c node.Call) error
	Connect func(ctx context.Context, host string, port int) error
	// Exists returns an error if the registry, which has let the client in, does not have the image.
	Exists func(ctx context.Context, n Name) error
	// Patience is the timeout of a connection that gets no answer.
	Patience time.Duration
}

// Name is a complete image name.
type Name struct {
	// Full is the name with its registry and tag: docker.io/library/nginx:latest.
	Full string
	// ID is the image's ID. If the image is named by tag, the digest is derived from its name.
	ID string
	// Registry is the image's registry, docker.io; Repository is its name there, library/nginx; Reference is its tag
	// or digest.
	Registry, Repository, Reference string
}

// Parse reads an image's name as pods specify it. The error is the kubelet's.
func Parse(image string) (Name, error) {
	named, err := reference.ParseNormalizedNamed(image)
	if err != nil {
		return Name{}, fmt.Errorf("Failed to apply default image tag %q: couldn't parse image name %q: %w", image, image, err) //nolint:staticcheck // the kubelet's text
	}
	named = reference.TagNameOnly(named)
	n := Name{Full: named.String(), Registry: reference.Domain(named), Repository: reference.Path(named)}
	if t, ok := named.(reference.Tagged); ok {
		n.Reference = t.Tag()
	}
	digest := ""
	if d, ok := named.(reference.Digested); ok {
		n.Reference, digest = d.Digest().String(), d.Digest().String()
	} else {
		sum := sha256.Sum256([]byte(n.Full))
		digest = "sha256:" + hex.EncodeToString(sum[:])
	}
	n.ID = reference.TrimNamed(named).String() + "@" + digest
	return n, nil
}

// ecrHost matches a private registry of Amazon ECR.
var ecrHost = regexp.MustCompile(`^([0-9]{12})\.dkr[.-]ecr(-fips)?\.([a-z0-9-]+)\.(amazonaws\.com(\.cn)?|on\.aws)$`)

// hosts are the hosts that containerd contacts, in order, for a registry whose name differs from its host's.
func (n Name) hosts() []string {
	switch n.Registry {
	case "docker.io":
		return []string{"registry-1.docker.io", "auth.docker.io"}
	default:
		return []string{n.Registry}
	}
}

// Pull decides whether a pull succeeds. The error is containerd's, and a *node.Refusal if there is a decision behind
// it; took is how long a program would have waited for it.
func (p Puller) Pull(ctx context.Context, n Name) (took time.Duration, err error) {
	if m := ecrHost.FindStringSubmatch(n.Registry); m != nil {
		err = p.pullECR(ctx, n, m[1], m[3])
	} else {
		err = p.pullPublic(ctx, n)
	}
	if timedOut(err) {
		took = p.Patience
	}
	return took, err
}

// Timeout reports whether there was no answer, so that a program would have waited.
func timedOut(err error) bool {
	ne, ok := errors.AsType[net.Error](err)
	return ok && ne.Timeout()
}

func (p Puller) call(ctx context.Context, c node.Call) error {
	if p.Call == nil {
		return nil
	}
	return p.Call(ctx, c)
}

// connect decides whether a connection to a registry succeeds. The registry's name may include a port.
func (p Puller) connect(ctx context.Context, host string) error {
	if p.Connect == nil {
		return nil
	}
	port := 443
	if name, service, err := net.SplitHostPort(host); err == nil {
		if n, err := net.LookupPort("tcp", service); err == nil {
			host, port = name, n
		}
	}
	return p.Connect(ctx, host, port)
}

// pullPublic pulls from a registry that needs no authentication.
func (p Puller) pullPublic(ctx context.Context, n Name) error {
	for i, host := range n.hosts() {
		err := p.connect(ctx, host)
		if err == nil {
			continue
		}
		if i == 0 {
			return n.refused(err, "failed to resolve reference %q: failed to do request: Head %q: %v", n.Full, n.manifest(host), err)
		}
		return n.refused(err, "failed to resolve reference %q: failed to authorize: failed to fetch anonymous token: Get %q: %v",
			n.Full, "https://"+host+"/token?scope=repository%3A"+strings.ReplaceAll(n.Repository, "/", "%2F")+"%3Apull&service=registry.docker.io", err)
	}
	return p.exists(ctx, n)
}

// exists asks the registry for an image. containerd says no more than that it is not found.
func (p Puller) exists(ctx context.Context, n Name) error {
	if p.Exists == nil {
		return nil
	}
	if err := p.Exists(ctx, n); err != nil {
		return n.refused(err, "failed to resolve reference %q: %s: not found", n.Full, n.Full)
	}
	return nil
}

// pullECR pulls from Amazon ECR: a token for the registry, the manifest, and the
// layers from S3.
// https://docs.aws.amazon.com/AmazonECR/latest/userguide/vpc-endpoints.html
func (p Puller) pullECR(ctx context.Context, n Name, account, region string) error {
	host := n.Registry
	if err := p.call(ctx, node.Call{Action: node.ActionGetToken, Region: region}); err != nil {
		// The credential provider gets no token, so containerd asks the registry without one.
		return n.refused(err, "failed to resolve reference %q: pull access denied, repository does not exist or may require authorization: authorization failed: no basic auth credentials", n.Full)
	}
	if err := p.connect(ctx, host); err != nil {
		return n.refused(err, "failed to resolve reference %q: failed to do request: Head %q: %v", n.Full, n.manifest(host), err)
	}
	call := node.Call{Account: account, Region: region, Host: host, Repository: n.Repository}
	call.Action = node.ActionGetImage
	if err := p.call(ctx, call); err != nil {
		return n.refused(err, "failed to resolve reference %q: unexpected status from HEAD request to %s: 403 Forbidden", n.Full, n.manifest(host))
	}
	if err := p.exists(ctx, n); err != nil {
		return err
	}
	call.Action = node.ActionGetLayer
	if err := p.call(ctx, call); err != nil {
		return n.refused(err, "failed to copy: httpReadSeeker: failed open: unexpected status code https://%s/v2/%s/blobs: 403 Forbidden", host, n.Repository)
	}
	bucket := "prod-" + region + "-starport-layer-bucket"
	layers := bucket + ".s3." + region + ".amazonaws.com"
	if err := p.connect(ctx, layers); err != nil {
		return n.refused(err, "failed to copy: httpReadSeeker: failed open: failed to do request: Get %q: %v", "https://"+layers, err)
	}
	if err := p.call(ctx, node.Call{Action: node.ActionGetObject, Region: region, Host: layers, Bucket: bucket}); err != nil {
		return n.refused(err, "failed to copy: httpReadSeeker: failed open: unexpected status code https://%s/: 403 Forbidden", layers)
	}
	return nil
}

func (n Name) manifest(host string) string {
	return "https://" + host + "/v2/" + n.Repository + "/manifests/" + n.Reference
}

// refused returns containerd's error, with the decision behind it.
func (n Name) refused(err error, format string, args ...any) error {
	text := fmt.Errorf("failed to pull and unpack image %q: %s", n.Full, fmt.Sprintf(format, args...))
	out := &pullError{text: text.Error(), cause: err}
	if why := node.DecisionOf(err); why != nil {
		return &node.Refusal{Err: out, Decision: *why}
	}
	return out
}

// A pullError has containerd's text and wraps its cause.
type pullError struct {
	text  string
	cause error
}

func (e *pullError) Error() string { return e.text }
func (e *pullError) Unwrap() error { return e.cause }
