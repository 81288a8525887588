package imagestore

import (
	"cmp"
	"context"
	"errors"
	"io"
	"maps"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/store"
)

// An ID names an image by digest, by tag, or by both.
type ID struct{ Digest, Tag string }

// An Image is an image of a repository.
type Image struct {
	Digest, MediaType, ArtifactType string
	Size                            int64
	Pushed, Pulled                  time.Time
	Subject                         string
	ManifestSize                    int64
	Index, Scanned                  bool
	Tags                            []Tag // by name
}

// A Tag is a name of an image.
type Tag struct {
	Name    string
	Created time.Time
}

// Names returns the names of the image's tags.
func (i *Image) Names() []string {
	var out []string
	for _, t := range i.Tags {
		out = append(out, t.Name)
	}
	return out
}

func (i *imageRecord) image() Image {
	return Image{
		Digest: i.Digest, MediaType: i.MediaType, ArtifactType: i.ArtifactType, Size: i.Size, Pushed: i.Pushed, Pulled: i.Pulled, Subject: i.Subject,
		ManifestSize: i.Manifest.Size, Scanned: i.Scanned, Index: i.MediaType == dockerList || i.MediaType == ociIndex,
	}
}

// A Failure says why one image of a request could not be processed. Code is one of ECR's failure codes.
type Failure struct{ Code, Reason string }

// NotFound is the code for an image that does not exist.
const NotFound = "ImageNotFound"

// Images returns the images of a repository, ordered by digest.
func (s *Store) Images(r *Repository) []Image {
	byDigest := map[string][]Tag{}
	for _, t := range tags.All(s.store, r.Below(r.ID)) {
		byDigest[t.Value.Digest] = append(byDigest[t.Value.Digest], Tag{tagOf(r, t.Key), t.Value.Created})
	}
	var out []Image
	for _, i := range images.All(s.store, r.Below(r.ID)) {
		img := i.Value.image()
		img.Tags = byDigest[img.Digest]
		out = append(out, img)
	}
	return out
}

// Empty reports whether a repository has no images.
func (s *Store) Empty(rd store.Reader, r *Repository) bool {
	empty := true
	images.Scan(rd, r.Below(r.ID), "", func(store.Key, imageRecord) bool {
		empty = false
		return false
	})
	return empty
}

// Tags returns the names of a repository's tags that sort after another name, in order.
func (s *Store) Tags(r *Repository, after string) []string {
	out := []string{}
	for _, t := range tags.All(s.store, r.Below(r.ID)) {
		if name := tagOf(r, t.Key); name > after {
			out = append(out, name)
		}
	}
	return out
}

func tagOf(r *Repository, k store.Key) string { return strings.TrimPrefix(k.ID, r.ID+"/") }

func (r *Repository) imageKey(digest string) store.Key { return r.Key(r.ID + "/" + digest) }
func (r *Repository) tagKey(tag string) store.Key      { return r.Key(r.ID + "/" + tag) }

var digestForm = regexp.MustCompile(`^[a-zA-Z0-9-_+.]+:[a-fA-F0-9]+$`)

// find returns the record of an image, or why the request's ID names none. The error is the store's.
func find(rd store.Reader, r *Repository, id ID) (imageRecord, *Failure, error) {
	switch {
	case id.Digest == "" && id.Tag == "":
		return imageRecord{}, &Failure{"MissingDigestAndTag", "Invalid request parameters: both tag and digest cannot be null"}, nil
	case id.Digest != "" && !digestForm.MatchString(id.Digest):
		return imageRecord{}, &Failure{"InvalidImageDigest", "Invalid request parameters: image digest should satisfy the regex '[a-zA-Z0-9-_+.]+:[a-fA-F0-9]+'"}, nil
	}
	missing := &Failure{NotFound, "Requested image not found"}
	digest := id.Digest
	if id.Tag != "" {
		t, err := tags.Get(rd, r.tagKey(id.Tag))
		if err != nil {
			return imageRecord{}, missing, store.IgnoreNotFound(err)
		}
		if digest != "" && digest != t.Digest {
			return imageRecord{}, &Failure{"ImageTagDoesNotMatchDigest", "Requested image digest does not match the image tag"}, nil // from memory
		}
		digest = t.Digest
	}
	i, err := images.Get(rd, r.imageKey(digest))
	if err != nil {
		return imageRecord{}, missing, store.IgnoreNotFound(err)
	}
	return i, nil, nil
}

// Find returns an image with its tags.
func (s *Store) Find(r *Repository, id ID) (Image, *Failure, error) {
	i, f, err := find(s.store, r, id)
	if err != nil || f != nil {
		return Image{}, f, err
	}
	out := i.image()
	for _, t := range tags.All(s.store, r.Below(r.ID)) {
		if t.Value.Digest == out.Digest {
			out.Tags = append(out.Tags, Tag{tagOf(r, t.Key), t.Value.Created})
		}
	}
	return out, nil, nil
}

// pullRecorded is the minimum time between two recorded pulls of an image.
// https://docs.aws.amazon.com/AmazonECR/latest/APIReference/API_ImageDetail.html
const pullRecorded = 24 * time.Hour

// Pull returns an image and its manifest, and records that it was pulled.
func (s *Store) Pull(ctx context.Context, r *Repository, id ID) (Image, string, *Failure, error) {
	i, f, err := find(s.store, r, id)
	if err != nil || f != nil {
		return Image{}, "", f, err
	}
	content, err := s.blobs.Open(r.place(), i.Manifest, 0, -1)
	if err != nil {
		return Image{}, "", nil, err
	}
	defer content.Close()
	raw, err := io.ReadAll(content)
	if err != nil {
		return Image{}, "", nil, err
	}
	if now := s.now(); now.Sub(i.Pulled) >= pullRecorded {
		err = images.UpdateOne(ctx, s.store, r.imageKey(i.Digest), func(i *imageRecord) error {
			i.Pulled = now
			return nil
		})
	}
	return i.image(), string(raw), nil, store.IgnoreNotFound(err)
}

// A Put is an image to store.
type Put struct {
	Manifest, MediaType string
	// Digest is the manifest's digest according to the client, if it sent one.
	Digest string
	Tag    string
	// Immutable reports whether a tag may not be moved to another image. Nil means that every tag may be moved.
	Immutable func(tag string) bool
	// Imported says that the image comes from an upstream registry. It does not take a tag away from an image that does not.
	Imported bool
	// Scan says that the image is to be scanned.
	Scan bool
}

// Put stores an image whose layers have been uploaded, and tags it.
func (s *Store) Put(ctx context.Context, r *Repository, in Put) (Image, error) {
	rec, err := parse(in.Manifest, in.MediaType)
	if err != nil {
		return Image{}, err
	}
	if in.Digest != "" && in.Digest != rec.Digest {
		return Image{}, errDigest(in.Digest, rec.Digest)
	}
	if rec.Manifest, err = s.blobs.Put(r.place(), strings.NewReader(in.Manifest)); err != nil {
		return Image{}, full(err)
	}
	known := false
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		_, err := images.Get(tx, r.imageKey(rec.Digest))
		if known = err == nil; known {
			return s.putTag(tx, r, in, rec.Digest, true)
		}
		if err := store.IgnoreNotFound(err); err != nil {
			return err
		}
		if err := r.complete(tx, &rec); err != nil {
			return err
		}
		if err := s.putTag(tx, r, in, rec.Digest, false); err != nil {
			return err
		}
		rec.Pushed, rec.Scanned = s.now(), in.Scan
		return images.Put(tx, r.imageKey(rec.Digest), rec)
	})
	if err != nil || known {
		err = errors.Join(err, s.blobs.Delete(r.place(), rec.Manifest))
	}
	return rec.image(), err
}

// complete checks that the layers and images that a manifest refers to are in the repository. It sets the size of an
// index to the total size of its images.
func (r *Repository) complete(tx *store.Tx, rec *imageRecord) error {
	var absent []string
	for _, d := range rec.Layers {
		_, err := layers.Get(tx, r.imageKey(d))
		if store.IgnoreNotFound(err) != nil {
			return err
		}
		if err != nil && !slices.Contains(absent, d) {
			absent = append(absent, d)
		}
	}
	if absent != nil {
		return r.errNoParts("LayersNotFoundException", "Layers", absent)
	}
	var size int64
	for _, d := range rec.Children {
		child, err := images.Get(tx, r.imageKey(d))
		if store.IgnoreNotFound(err) != nil {
			return err
		}
		if err != nil {
			absent = append(absent, d)
		}
		size += child.Size
	}
	if absent != nil {
		return r.errNoParts("ReferencedImagesNotFoundException", "Images", absent)
	}
	if size > 0 {
		rec.Size = size
	}
	return nil
}

// putTag tags an image. known says that the image was in the repository before.
func (s *Store) putTag(tx *store.Tx, r *Repository, in Put, digest string, known bool) error {
	if in.Tag == "" {
		if known {
			return r.errExists(digest, "")
		}
		return nil
	}
	t, err := tags.Get(tx, r.tagKey(in.Tag))
	switch {
	case err == nil && t.Digest == digest && known:
		return r.errExists(digest, in.Tag)
	case err == nil && in.Immutable != nil && in.Immutable(in.Tag):
		return r.errImmutable(in.Tag)
	case err == nil && in.Imported && !t.Imported:
		return r.errPushed(in.Tag)
	case store.IgnoreNotFound(err) != nil:
		return err
	}
	return tags.Put(tx, r.tagKey(in.Tag), tagRecord{Digest: digest, Created: s.now(), Imported: in.Imported})
}

// Imported reports whether a tag names an image since that was imported from an upstream registry. Both parts of the ID must be set.
func (s *Store) Imported(r *Repository, id ID) bool {
	t, err := tags.Get(s.store, r.tagKey(id.Tag))
	return err == nil && t.Imported && t.Digest == id.Digest
}

// Delete removes images, and the layers that no other image of the repository uses. An image that is named by a tag
// only loses that tag, unless it is its last one. Each image is a transaction of its own, or several if it has many
// tags.
func (s *Store) Delete(ctx context.Context, r *Repository, ids []ID) (deleted []ID, failures map[ID]*Failure, err error) {
	asked := map[string]bool{}
	for _, id := range ids {
		if i, f, err := find(s.store, r, id); err == nil && f == nil {
			asked[i.Digest] = true
		}
	}
	failures = map[ID]*Failure{}
	var gone []imageRecord
	for _, id := range ids {
		for more := true; more; {
			var lost []ID
			var rec *imageRecord
			err := s.store.Update(ctx, func(tx *store.Tx) error {
				lost, rec, more = nil, nil, false
				delete(failures, id)
				found, f, err := find(tx, r, id)
				if err != nil {
					return err
				}
				if f != nil {
					failures[id] = f
					return nil
				}
				names := namesOf(tx, r, found.Digest)
				switch {
				case id.Tag != "" && len(names) > 1:
					names = []string{id.Tag}
				case referrer(tx, r, found.Digest, asked) != nil:
					failures[id] = referrer(tx, r, found.Digest, asked)
					return nil
				case len(names) >= store.MaxWrites:
					names, more = names[:store.MaxWrites], true
				default:
					images.Delete(tx, r.imageKey(found.Digest))
					rec = &found
				}
				for _, name := range names {
					tags.Delete(tx, r.tagKey(name))
					lost = append(lost, ID{found.Digest, name})
				}
				if len(names) == 0 {
					lost = append(lost, ID{Digest: found.Digest})
				}
				return nil
			})
			if err != nil {
				return nil, nil, errors.Join(err, s.collect(ctx, r, gone))
			}
			deleted = append(deleted, lost...)
			if rec != nil {
				gone = append(gone, *rec)
			}
		}
	}
	return deleted, failures, s.collect(ctx, r, gone)
}

// namesOf returns the names of an image's tags.
func namesOf(rd store.Reader, r *Repository, digest string) []string {
	var out []string
	for _, t := range tags.All(rd, r.Below(r.ID)) {
		if t.Value.Digest == digest {
			out = append(out, tagOf(r, t.Key))
		}
	}
	return out
}

// referrer returns a failure if an image to be deleted is part of an index that is not to be deleted, too.
func referrer(tx *store.Tx, r *Repository, digest string, asked map[string]bool) *Failure {
	for _, i := range images.All(tx, r.Below(r.ID)) {
		if slices.Contains(i.Value.Children, digest) && !asked[i.Value.Digest] {
			return &Failure{"ImageReferencedByManifestList", "Requested image referenced by manifest list: [" + i.Value.Digest + "]"}
		}
	}
	return nil
}

// collect removes the manifests of deleted images, and the layers of theirs that no other image uses. It leaves the
// layers if an image cannot be read, which may use them.
func (s *Store) collect(ctx context.Context, r *Repository, gone []imageRecord) error {
	var blobs []blobstore.Blob
	unique := map[string]bool{}
	for _, i := range gone {
		blobs = append(blobs, i.Manifest)
		for _, d := range i.Layers {
			unique[d] = true
		}
	}
	for digests := range slices.Chunk(slices.Sorted(maps.Keys(unique)), store.MaxWrites) {
		var freed []blobstore.Blob
		err := s.store.Update(ctx, func(tx *store.Tx) error {
			freed = nil
			needed := map[string]bool{}
			if len(images.Unreadable(tx, r.Below(r.ID))) > 0 {
				return nil
			}
			for _, i := range images.All(tx, r.Below(r.ID)) {
				for _, d := range i.Value.Layers {
					needed[d] = true
				}
			}
			for _, d := range digests {
				if l, err := layers.Get(tx, r.imageKey(d)); err == nil && !needed[d] {
					freed = append(freed, l.Parts...)
					layers.Delete(tx, r.imageKey(d))
				}
			}
			return nil
		})
		if err != nil {
			return err
		}
		blobs = append(blobs, freed...)
	}
	return s.blobs.Delete(r.place(), blobs...)
}

// ByAge sorts images, newest first.
func ByAge(list []Image) {
	slices.SortStableFunc(list, func(a, b Image) int {
		return cmp.Or(b.Pushed.Compare(a.Pushed), cmp.Compare(a.Digest, b.Digest))
	})
}

// ReferrersOf returns the images that describe the one with the given digest.
func (s *Store) ReferrersOf(r *Repository, digest string) []Image {
	var out []Image
	for _, i := range images.All(s.store, r.Below(r.ID)) {
		if i.Value.Subject == digest {
			out = append(out, i.Value.image())
		}
	}
	return out
}

// Scan records that an image is to be scanned.
func (s *Store) Scan(ctx context.Context, r *Repository, digest string) error {
	return images.UpdateOne(ctx, s.store, r.imageKey(digest), func(i *imageRecord) error {
		i.Scanned = true
		return nil
	})
}
