package s3

import (
	"encoding/hex"
	"fmt"
	"math"
	"time"

	s3types "github.com/aws/aws-sdk-go-v2/service/s3/types"

	"github.com/drydock-dev/drydock/internal/blobstore"
	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// buckets are stored by name.
	buckets = store.NewCollection[bucketRecord]("s3", "bucket", store.Same, store.Same)
	// objects are the current versions, under BUCKET/KEY. A current version may be a delete marker.
	objects = store.NewCollection[objectRecord]("s3", "object", store.Same, store.Same, store.Same)
	// noncurrent are the other versions, under BUCKET/KEY/TIME. The key is in hexadecimal, so that it ends at the
	// slash. The newest version comes first.
	noncurrent = store.NewCollection[objectRecord]("s3", "noncurrent", store.Same, store.Same, store.Same)
	// uploads are multipart uploads, under BUCKET/ID.
	uploads = store.NewCollection[uploadRecord]("s3", "upload", store.Same, store.Same, store.Same)
	// parts are the parts of uploads, under BUCKET/UPLOAD/NUMBER.
	parts = store.NewCollection[partRecord]("s3", "part")
)

// A bucketRecord is a bucket with its configuration. Settings that are nil or empty are not set.
type bucketRecord struct {
	Name       string
	Created    time.Time
	Versioning string            `json:",omitempty"`
	MFADelete  s3types.MFADelete `json:",omitempty"` // Disabled, if it was set explicitly
	Policy     string            `json:",omitempty"`
	Ownership  string            `json:",omitempty"`
	Tags       map[string]string `json:",omitempty"`
	Accelerate string            `json:",omitempty"`
	Payer      string            `json:",omitempty"`

	Grants       []s3types.Grant                            `json:",omitzero"` // nil means full control for the owner; empty means no grants
	PublicAccess *s3types.PublicAccessBlockConfiguration    `json:",omitempty"`
	Encryption   *s3types.ServerSideEncryptionConfiguration `json:",omitempty"`
	Lifecycle    []s3types.LifecycleRule                    `json:",omitempty"`
	CORS         []s3types.CORSRule                         `json:",omitempty"`
	Website      *s3types.WebsiteConfiguration              `json:",omitempty"`
	Logging      *s3types.LoggingEnabled                    `json:",omitempty"`
	ObjectLock   *s3types.ObjectLockConfiguration           `json:",omitempty"`
	// MinimumSize is TransitionDefaultMinimumObjectSize of the lifecycle configuration.
	MinimumSize string `json:",omitempty"`
}

// nullVersion is the version ID of objects that were written while the bucket was not versioned.
const nullVersion = "null"

// An objectRecord is a version of an object, or a delete marker.
type objectRecord struct {
	Key     string
	Version string
	Marker  bool `json:",omitempty"` // it is a delete marker
	// Sequence orders the versions of a key.
	Sequence int64
	Modified time.Time
	Size     int64
	ETag     string // without quotes
	// Parts are the content, in order. There is only one unless the object was a multipart upload.
	Parts     []contentRecord   `json:",omitempty"`
	Multipart bool              `json:",omitempty"`
	Checksum  checksum          `json:",omitzero"`
	Tags      map[string]string `json:",omitempty"`
	attributes
	Encryption encryptionRecord `json:",omitzero"`
	Grants     []s3types.Grant  `json:",omitzero"` // nil means full control for the owner; empty means no grants
	Lock       lockRecord       `json:",omitzero"`
}

// A contentRecord is a part of an object's content.
type contentRecord struct {
	blobstore.Blob
	Checksum checksum `json:",omitzero"`
}

// attributes are what a client specifies for an object besides its content.
type attributes struct {
	ContentType        string            `json:",omitempty"`
	ContentEncoding    string            `json:",omitempty"`
	ContentDisposition string            `json:",omitempty"`
	ContentLanguage    string            `json:",omitempty"`
	CacheControl       string            `json:",omitempty"`
	Expires            string            `json:",omitempty"`
	Redirect           string            `json:",omitempty"`
	StorageClass       string            `json:",omitempty"`
	Metadata           map[string]string `json:",omitempty"`
}

// An uploadRecord is a multipart upload.
type uploadRecord struct {
	ID        string
	Key       string
	Initiated time.Time
	Initiator string            // ARN
	Algorithm string            `json:",omitempty"`
	Type      string            `json:",omitempty"` // the type of the checksum
	Tags      map[string]string `json:",omitempty"`
	attributes
	Encryption encryptionRecord `json:",omitzero"`
	Grants     []s3types.Grant  `json:",omitzero"`
	Lock       lockRecord       `json:",omitzero"`
}

// A partRecord is an uploaded part.
type partRecord struct {
	Number   int32
	ETag     string
	Modified time.Time
	contentRecord
}

// objectKey returns the key of an object's current version.
func (b *bucket) objectKey(key string) store.Key { return b.below(key) }

// noncurrentKey returns the key of another version of an object.
func (b *bucket) noncurrentKey(o *objectRecord) store.Key {
	return b.below(hex.EncodeToString([]byte(o.Key)) + "/" + fmt.Sprintf("%016x", math.MaxInt64-o.Sequence))
}

func (b *bucket) noncurrentOf(key string) store.Scope {
	return b.all(hex.EncodeToString([]byte(key)) + "/")
}

func (b *bucket) uploadKey(id string) store.Key { return b.below(id) }

func (b *bucket) partKey(upload string, number int32) store.Key {
	return b.below(fmt.Sprintf("%s/%05d", upload, number))
}

func (b *bucket) partsOf(upload string) store.Scope { return b.all(upload + "/") }

// blobs returns the blobs of the version.
func (o *objectRecord) blobs() []blobstore.Blob {
	var out []blobstore.Blob
	for _, p := range o.Parts {
		out = append(out, p.Blob)
	}
	return out
}
