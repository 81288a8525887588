package imagestore

import (
	"time"

	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// images are stored under REPOSITORYID/DIGEST.
	images = store.NewCollection[imageRecord]("ecr", "image")
	// tags are stored under REPOSITORYID/TAG.
	tags = store.NewCollection[tagRecord]("ecr", "tag", store.Same) // version 2 has Imported
	// layers are stored under REPOSITORYID/DIGEST.
	layers = store.NewCollection[layerRecord]("ecr", "layer")
	// uploads are stored under REPOSITORYID/UPLOADID.
	uploads = store.NewCollection[uploadRecord]("ecr", "upload")
)

// An imageRecord is an image, an index of images, or another artifact.
type imageRecord struct {
	Digest, MediaType string
	// ArtifactType is the media type of the configuration or, for artifacts without one, the artifact's type.
	ArtifactType string `json:",omitempty"`
	Size         int64
	Manifest     blobstore.Blob
	Pushed       time.Time
	Pulled       time.Time // zero if it was never pulled
	Scanned      bool      `json:",omitempty"` // or a scan was requested
	// Layers are the digests of its configuration and layers. Children are the digests of the images in an index.
	Layers   []string `json:",omitempty"`
	Children []string `json:",omitempty"`
	// Subject is the digest of the image that this artifact describes, for example as its signature.
	Subject string `json:",omitempty"`
}

// A tagRecord is a tag. The tag's name is in its key.
type tagRecord struct {
	Digest   string
	Created  time.Time
	Imported bool `json:",omitempty"` // as of Put
}

// A layerRecord is a layer or a configuration.
type layerRecord struct {
	Size  int64
	Parts []blobstore.Blob
}

// An uploadRecord is an upload that has not been completed.
type uploadRecord struct {
	Begun time.Time
	Size  int64
	Parts []blobstore.Blob `json:",omitempty"`
}
