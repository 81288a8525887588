// Package imagestore stores container images for Amazon ECR: manifests, tags, layers, and uploads in progress. The
// service owns the repositories and decides who may use them. This package handles the contents of repositories, so
// that images follow the same rules whether they are pushed by the API or by a registry client.
//
// Images, tags, layers and uploads are records in the store. Their contents are blobs: one for each manifest, and one
// for each part in which a layer was uploaded.
//
// Its errors are ECR's. internal/service/ecr imports it.
package imagestore

import (
	"context"
	"errors"
	"log/slog"
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
}

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
	var contents []blobstore.Blob
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		contents = nil
		for _, i := range images.All(tx, r.Below(r.ID)) {
			contents = append(contents, i.Value.Manifest)
			images.Delete(tx, i.Key)
		}
		for _, t := range tags.All(tx, r.Below(r.ID)) {
			tags.Delete(tx, t.Key)
		}
		for _, l := range layers.All(tx, r.Below(r.ID)) {
			contents = append(contents, l.Value.Parts...)
			layers.Delete(tx, l.Key)
		}
		for _, u := range uploads.All(tx, r.Below(r.ID)) {
			contents = append(contents, u.Value.Parts...)
			uploads.Delete(tx, u.Key)
		}
		return nil
	})
	if err != nil {
		return err
	}
	return s.blobs.Delete(r.place(), contents...)
}

// Sweep removes blobs that a crash has left without a record, and abandoned uploads.
func (s *Store) Sweep(ctx context.Context) error {
	named := map[string]bool{}
	keep := func(parts ...blobstore.Blob) {
		for _, b := range parts {
			named[b.ID] = true
		}
	}
	var errs []error
	for _, u := range uploads.All(s.store, store.Scope{}) {
		if s.now().Sub(u.Value.Begun) < uploadLife {
			keep(u.Value.Parts...)
			continue
		}
		errs = append(errs, s.store.Update(ctx, func(tx *store.Tx) error {
			uploads.Delete(tx, u.Key)
			return nil
		}), s.blobs.Delete(blobstore.Place{Account: u.Key.Account, Kind: Kind}, u.Value.Parts...))
	}
	// Uploads were read first, because their parts may become layers at any time.
	for _, i := range images.All(s.store, store.Scope{}) {
		keep(i.Value.Manifest)
	}
	for _, l := range layers.All(s.store, store.Scope{}) {
		keep(l.Value.Parts...)
	}
	errs = append(errs, s.blobs.Sweep(Kind, func(_ blobstore.Place, id string) bool { return named[id] }))
	return errors.Join(errs...)
}
