package imagestore

import (
	"context"
	"errors"
	"io"
	"slices"
	"time"

	"github.com/opencontainers/go-digest"

	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// MaxPart is the maximum size of a part according to the API model.
	MaxPart = 20 << 20
	// minPart is the minimum size of every part but the last.
	minPart = 5 << 20
	// maxLayer is the maximum size of a layer.
	// https://docs.aws.amazon.com/AmazonECR/latest/userguide/service-quotas.html
	maxLayer = 42_000 << 20
	// uploadLife is how long an upload may stay incomplete.
	uploadLife = 24 * time.Hour
)

// Layer returns the size of a layer.
func (s *Store) Layer(r *Repository, digest string) (size int64, ok bool) {
	l, err := layers.Get(s.store, r.imageKey(digest))
	return l.Size, err == nil
}

// OpenLayer opens length bytes of a layer, starting at offset.
func (s *Store) OpenLayer(r *Repository, digest string, offset, length int64) (io.ReadCloser, error) {
	l, err := layers.Get(s.store, r.imageKey(digest))
	if err != nil {
		return nil, store.NotFoundAs(err, r.ErrNoLayer(digest))
	}
	return &parts{blobs: s.blobs, place: r.place(), rest: l.Parts, offset: offset, left: length}, nil
}

// parts reads the parts of a layer one after another. It opens each part when it reaches it.
type parts struct {
	blobs  *blobstore.Store
	place  blobstore.Place
	rest   []blobstore.Blob
	offset int64 // in the first part of rest
	left   int64
	open   io.ReadCloser
}

func (p *parts) Read(b []byte) (int, error) {
	for {
		if p.left <= 0 {
			return 0, io.EOF
		}
		if p.open == nil {
			for len(p.rest) > 0 && p.offset >= p.rest[0].Size {
				p.offset -= p.rest[0].Size
				p.rest = p.rest[1:]
			}
			if len(p.rest) == 0 {
				return 0, io.ErrUnexpectedEOF
			}
			var err error
			if p.open, err = p.blobs.Open(p.place, p.rest[0], p.offset, -1); err != nil {
				return 0, err
			}
			p.rest, p.offset = p.rest[1:], 0
		}
		n, err := p.open.Read(b[:min(int64(len(b)), p.left)])
		p.left -= int64(n)
		if errors.Is(err, io.EOF) {
			err = p.Close()
		}
		if n > 0 || err != nil {
			return n, err
		}
	}
}

func (p *parts) Close() error {
	if p.open == nil {
		return nil
	}
	err := p.open.Close()
	p.open = nil
	return err
}

// Begin begins the upload of a layer.
func (s *Store) Begin(ctx context.Context, r *Repository) (id string, err error) {
	id = ids.UUID()
	return id, s.store.Update(ctx, func(tx *store.Tx) error {
		return uploads.Put(tx, r.imageKey(id), uploadRecord{Begun: s.now()})
	})
}

func (s *Store) upload(rd store.Reader, r *Repository, id string) (uploadRecord, error) {
	u, err := uploads.Get(rd, r.imageKey(id))
	if err == nil && s.now().Sub(u.Begun) >= uploadLife {
		err = store.ErrNotFound
	}
	return u, store.NotFoundAs(err, r.errNoUpload(id))
}

// Uploaded returns the number of bytes of an upload that have been received.
func (s *Store) Uploaded(r *Repository, id string) (int64, error) {
	u, err := s.upload(s.store, r, id)
	return u.Size, err
}

// Append adds a part to an upload: the bytes from first to last, inclusive.
func (s *Store) Append(ctx context.Context, r *Repository, id string, first, last int64, part []byte) error {
	check := func(rd store.Reader) (uploadRecord, error) {
		u, err := s.upload(rd, r, id)
		if err == nil && (first != u.Size || last-first+1 != int64(len(part)) || len(part) == 0) {
			err = r.errPart(id, u.Size)
		}
		if err == nil && last >= maxLayer {
			err = errLayerSize()
		}
		return u, err
	}
	if _, err := check(s.store); err != nil {
		return err
	}
	blob, err := s.writePart(r, part)
	if err != nil {
		return err
	}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		u, err := check(tx)
		if err != nil {
			return err
		}
		u.Size, u.Parts = last+1, append(slices.Clone(u.Parts), blob)
		return uploads.Put(tx, r.imageKey(id), u)
	})
	if err != nil {
		err = errors.Join(err, s.blobs.Delete(r.place(), blob))
	}
	return err
}

func (s *Store) writePart(r *Repository, part []byte) (blobstore.Blob, error) {
	w, err := s.blobs.Create(r.place())
	if err != nil {
		return blobstore.Blob{}, full(err)
	}
	defer w.Close()
	if _, err := w.Write(part); err != nil {
		return blobstore.Blob{}, full(err)
	}
	blob, err := w.Commit()
	return blob, full(err)
}

func full(err error) error {
	if errors.Is(err, blobstore.ErrFull) {
		return errFull()
	}
	return err
}

// Abort removes an upload and what it has received. It does nothing if the upload does not exist or has been completed.
func (s *Store) Abort(ctx context.Context, r *Repository, id string) error {
	var u uploadRecord
	err := s.store.Update(ctx, func(tx *store.Tx) (err error) {
		if u, err = uploads.Get(tx, r.imageKey(id)); err != nil {
			return store.IgnoreNotFound(err)
		}
		uploads.Delete(tx, r.imageKey(id))
		return nil
	})
	if err != nil || len(u.Parts) == 0 {
		return err
	}
	return s.blobs.Delete(r.place(), u.Parts...)
}

// Complete turns an upload into a layer if the content has one of the given digests, and returns that digest.
func (s *Store) Complete(ctx context.Context, r *Repository, id string, digests []string) (string, error) {
	u, err := s.upload(s.store, r, id)
	if err != nil {
		return "", err
	}
	if len(u.Parts) == 0 {
		return "", r.errEmpty(id)
	}
	for _, p := range u.Parts[:len(u.Parts)-1] {
		if p.Size < minPart {
			return "", r.errSmallPart(id)
		}
	}
	found, err := s.match(r, &u, digests)
	if err != nil {
		return "", err
	}
	known := false
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := s.upload(tx, r, id); err != nil {
			return err
		}
		uploads.Delete(tx, r.imageKey(id))
		_, err := layers.Get(tx, r.imageKey(found))
		if known = err == nil; known {
			return nil
		}
		return layers.Put(tx, r.imageKey(found), layerRecord{Size: u.Size, Parts: u.Parts})
	})
	if err == nil && known {
		err = errors.Join(r.errLayerExists(found), s.blobs.Delete(r.place(), u.Parts...))
	}
	return found, err
}

// match returns the given digest that matches the content of an upload.
func (s *Store) match(r *Repository, u *uploadRecord, digests []string) (string, error) {
	var first string
	for _, d := range digests {
		algorithm := digest.SHA256
		if parsed, err := digest.Parse(d); err == nil {
			algorithm = parsed.Algorithm()
		}
		content := &parts{blobs: s.blobs, place: r.place(), rest: u.Parts, left: u.Size}
		actual, err := algorithm.FromReader(content)
		if err = errors.Join(err, content.Close()); err != nil {
			return "", err
		}
		if actual.String() == d {
			return d, nil
		}
		first = actual.String()
	}
	return "", errLayerDigest(first)
}
