package ecr

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"path"

	"github.com/google/go-containerregistry/pkg/name"
	v1 "github.com/google/go-containerregistry/pkg/v1"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/google/go-containerregistry/pkg/v1/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/imagestore"
)

const (
	// maxUpstreamManifest is the maximum size of a manifest, as in the API model, and of a configuration.
	maxUpstreamManifest = 4 << 20
	// maxUpstreamProblem is how much of an error is read.
	maxUpstreamProblem = 64 << 10
	// maxNesting is how deep indexes may contain each other.
	maxNesting = 3
)

// bounded limits the answers that are read into memory: all but the contents of layers.
type bounded struct{ next http.RoundTripper }

// RoundTrip implements http.RoundTripper.
func (b bounded) RoundTrip(r *http.Request) (*http.Response, error) {
	if r.URL.Scheme != "https" { // credentials and layers would be readable on their way
		return nil, fmt.Errorf("%s is not reached by https", r.URL.Host)
	}
	res, err := b.next.RoundTrip(r)
	if err != nil {
		return nil, err
	}
	switch {
	case res.StatusCode != http.StatusOK:
		res.Body = struct {
			io.Reader
			io.Closer
		}{io.LimitReader(res.Body, maxUpstreamProblem), res.Body}
	case !forBlob(r):
		res.Body = http.MaxBytesReader(nil, res.Body, maxUpstreamManifest)
	}
	return res, nil
}

// forBlob reports whether a request is for a layer, or follows from such a request by redirection. Unlike requests for
// layers, those for tokens, whose address the registry chooses, have a query.
func forBlob(r *http.Request) bool {
	for r.Response != nil && r.Response.Request != nil {
		r = r.Response.Request
	}
	return path.Base(path.Dir(r.URL.Path)) == "blobs" && r.URL.RawQuery == ""
}

// An upstreamImport imports an image or an index, with all that it refers to. Whatever the manifests say, the contents
// come from the repository of the manifests.
type upstreamImport struct {
	*Service
	to     *imagestore.Repository
	record *repositoryRecord // of to
	from   name.Repository
	puller *remote.Puller
	seen   map[string]bool // digests of manifests in indexes
}

// manifest imports what a manifest refers to, and then the manifest. depth is the number of indexes around it.
func (i *upstreamImport) manifest(ctx context.Context, raw []byte, kind types.MediaType, tag string, depth int) error {
	fill := i.image
	if kind.IsIndex() {
		fill = func(ctx context.Context, raw []byte) error { return i.index(ctx, raw, depth+1) }
	}
	if err := fill(ctx, raw); err != nil {
		return err
	}
	put := imagestore.Put{Manifest: string(raw), MediaType: string(kind), Tag: tag, Immutable: i.record.immutable, Imported: true, Scan: i.record.ScanOnPush}
	if _, err := i.images.Put(ctx, i.to, put); err != nil && awserr.CodeOf(err) != "ImageAlreadyExistsException" {
		return err
	}
	return nil
}

func (i *upstreamImport) index(ctx context.Context, raw []byte, depth int) error {
	if depth > maxNesting {
		return fmt.Errorf("more than %d indexes contain each other", maxNesting)
	}
	list, err := v1.ParseIndexManifest(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	for _, m := range list.Manifests {
		digest := m.Digest.String()
		if i.seen[digest] {
			continue
		}
		i.seen[digest] = true
		found, err := i.puller.Get(ctx, i.from.Digest(digest))
		if err != nil {
			return err
		}
		if err := i.manifest(ctx, found.Manifest, m.MediaType, "", depth); err != nil {
			return err
		}
	}
	return nil
}

func (i *upstreamImport) image(ctx context.Context, raw []byte) error {
	m, err := v1.ParseManifest(bytes.NewReader(raw))
	if err != nil {
		return err
	}
	if m.Config.Size > maxUpstreamManifest {
		return fmt.Errorf("the configuration has %d bytes", m.Config.Size)
	}
	for _, l := range append(m.Layers, m.Config) {
		if !l.MediaType.IsDistributable() { // stored elsewhere, such as those of Windows
			continue
		}
		if err := i.layer(ctx, l.Digest.String(), l.Size); err != nil {
			return err
		}
	}
	return nil
}

// layer imports a layer or a configuration, unless the repository has it.
func (i *upstreamImport) layer(ctx context.Context, digest string, size int64) error {
	if _, ok := i.images.Layer(i.to, digest); ok {
		return nil
	}
	if size < 0 {
		return fmt.Errorf("the layer %s has %d bytes", digest, size)
	}
	layer, err := i.puller.Layer(ctx, i.from.Digest(digest))
	if err != nil {
		return err
	}
	body, err := layer.Compressed()
	if err != nil {
		return err
	}
	defer body.Close()
	id, err := i.images.Begin(ctx, i.to)
	if err != nil {
		return err
	}
	defer func() {
		if err := i.images.Abort(context.WithoutCancel(ctx), i.to, id); err != nil {
			i.log.WarnContext(ctx, "ecr: removing a layer that was not imported", "err", err)
		}
	}()
	part := make([]byte, min(size, imagestore.MaxPart-1)+1)
	at := int64(0)
	for {
		n, err := io.ReadFull(body, part)
		if at+int64(n) > size {
			return fmt.Errorf("the layer %s has more than %d bytes", digest, size)
		}
		if n > 0 {
			if err := i.images.Append(ctx, i.to, id, at, at+int64(n)-1, part[:n]); err != nil {
				return err
			}
			at += int64(n)
		}
		if errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) {
			break
		}
		if err != nil {
			return err
		}
	}
	if at != size {
		return fmt.Errorf("the layer %s has %d bytes instead of %d", digest, at, size)
	}
	_, err = i.images.Complete(ctx, i.to, id, []string{digest})
	if awserr.CodeOf(err) == "LayerAlreadyExistsException" { // another pull has imported it
		return nil
	}
	return err
}
