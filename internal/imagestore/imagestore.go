// Package imagestore stores container images for Amazon ECR: manifests, tags, layers, and uploads in progress. The
// service owns the repositories and decides who may use them. This package handles the contents of repositories, so
// that images follow the same rules whether they are pushed by the API or by a registry client.
//
// Images, tags, layers and uploads are records in the store. Their contents are blobs: one for each manifest, and one
// for each part in which a layer was uploaded.
//
// Its errors are ECR's. internal/service/ecr and ecrpublic import it.
package imagestore

import (
	"context"
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/store"
)

// Config is what a Store needs.
type Config struct {
	Store *store.Store
	Blobs *blobstore.Store
	Clock clock.PassiveClock
	Log   *slog.Logger
}

// A Store holds the images of all repositories. Its methods may be called concurrently.
type Store struct {
	store *store.Store
	blobs *blobstore.Store
	clock clock.PassiveClock
	log   *slog.Logger
	// owners return the IDs of the repositories that exist.
	owners []Owner
}

// An Owner returns the IDs of a service's repositories.
type Owner func(store.Reader) (map[string]bool, error)

// Own registers a service that keeps its images in the Store. Sweep removes whatever belongs to no registered service,
// so all services must be registered before it runs.
func (s *Store) Own(ids Owner) { s.owners = append(s.owners, ids) }

// New returns a Store.
func New(cfg Config) *Store {
	return &Store{store: cfg.Store, blobs: cfg.Blobs, clock: cfg.Clock, log: cfg.Log}
}

func (s *Store) now() time.Time { return s.clock.Now().UTC().Truncate(time.Millisecond) }

// A Repository identifies where images are stored.
type Repository struct {
	regional.Scope
	// ID distinguishes the repository from earlier and later ones with the same name.
	ID string
	// Name and Registry are used in error messages.
	Name, Registry string
}

// Kind is the blobstore.Place.Kind of this package's blobs.
const Kind = "ecr"

func (r *Repository) place() blobstore.Place { return blobstore.Place{Account: r.Account, Kind: Kind} }

// Drop removes everything in a repository.
func (s *Store) Drop(ctx context.Context, r *Repository) error {
	return s.remove(ctx, contents(s.store, r.Below(r.ID)))
}

// A content is a record of a repository's contents.
type content struct {
	key    store.Key // starts with the repository's ID
	blobs  []blobstore.Blob
	upload time.Time // when it began; zero for other records
	delete func(tx *store.Tx)
}

// contents returns the records in a scope.
func contents(r store.Reader, in store.Scope) []content {
	var out []content
	for _, i := range images.All(r, in) {
		out = append(out, content{i.Key, []blobstore.Blob{i.Value.Manifest}, time.Time{}, func(tx *store.Tx) { images.Delete(tx, i.Key) }})
	}
	for _, t := range tags.All(r, in) {
		out = append(out, content{t.Key, nil, time.Time{}, func(tx *store.Tx) { tags.Delete(tx, t.Key) }})
	}
	for _, l := range layers.All(r, in) {
		out = append(out, content{l.Key, l.Value.Parts, time.Time{}, func(tx *store.Tx) { layers.Delete(tx, l.Key) }})
	}
	for _, u := range uploads.All(r, in) {
		out = append(out, content{u.Key, u.Value.Parts, u.Value.Begun, func(tx *store.Tx) { uploads.Delete(tx, u.Key) }})
	}
	return out
}

// remove removes records and their blobs, as many at once as a transaction may write.
func (s *Store) remove(ctx context.Context, all []content) error {
	for some := range slices.Chunk(all, store.MaxWrites) {
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			for _, c := range some {
				c.delete(tx)
			}
			return nil
		})
		for _, c := range some {
			if err == nil && len(c.blobs) > 0 {
				err = s.blobs.Delete(blobstore.Place{Account: c.key.Account, Kind: Kind}, c.blobs...)
			}
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// Sweep removes what a crash may have left: blobs without a record, abandoned uploads, and the contents of repositories
// that no longer exist. If any record is unreadable, nothing is removed.
func (s *Store) Sweep(ctx context.Context) error {
	// All records are read at one moment, because the parts of an upload may become a layer at any time.
	var all []content
	exists := map[string]bool{}
	err := s.store.Update(ctx, func(tx *store.Tx) (err error) {
		if n := len(images.Unreadable(tx, store.Scope{})) + len(layers.Unreadable(tx, store.Scope{})) + len(uploads.Unreadable(tx, store.Scope{})); n > 0 {
			return errors.New("some records of images are unreadable, so it is unknown which contents they name")
		}
		all = contents(tx, store.Scope{})
		for _, ids := range s.owners {
			own, err := ids(tx)
			if err != nil {
				return err
			}
			maps.Copy(exists, own)
		}
		return nil
	})
	if err != nil {
		return err
	}
	named := map[string]bool{}
	var gone []content
	for _, c := range all {
		id, _, _ := strings.Cut(c.key.ID, "/")
		if !exists[id] || !c.upload.IsZero() && s.now().Sub(c.upload) >= uploadLife {
			gone = append(gone, c)
			continue
		}
		for _, b := range c.blobs {
			named[b.ID] = true
		}
	}
	return errors.Join(s.remove(ctx, gone), s.blobs.Sweep(Kind, func(_ blobstore.Place, id string) bool { return named[id] }))
}
