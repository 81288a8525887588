package kms

import (
	"time"

	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// keys are stored by ID.
	keys = store.NewCollection[keyRecord]("kms", "key")
	// aliases are stored by name, including alias/.
	aliases = store.NewCollection[aliasRecord]("kms", "alias")
	// grants are stored under KEY/GRANT.
	grants = store.NewCollection[grantRecord]("kms", "grant")
	// grantees indexes the grants of a key by grantee (granteeKey).
	grantees = store.NewCollection[granteeRecord]("kms", "grantee")
)

// A keyRecord is a key and its material.
type keyRecord struct {
	ID, ARN      string
	Description  string
	Created      time.Time
	Spec         kmstypes.KeySpec
	Usage        kmstypes.KeyUsageType
	Manager      kmstypes.KeyManagerType
	State        kmstypes.KeyState
	DeletionDate *time.Time
	Policy       string // as it was set
	Tags         map[string]string
	Rotation     *rotation // nil if the key is not rotated automatically
	// Materials are all of the key's materials. The last one is current.
	Materials []material
}

// A rotation has the settings of a key's automatic rotation.
type rotation struct {
	PeriodInDays int32
	Next         time.Time
}

// A material is one version of key material: random bytes, or a private key in PKCS #8.
type material struct {
	ID     string
	Secret []byte
	// Since is when it became current. Rotation is the type of rotation that made it so, or empty
	// for the first material.
	Since    time.Time
	Rotation kmstypes.RotationType
}

func (k *keyRecord) current() *material { return &k.Materials[len(k.Materials)-1] }

// symmetric reports whether the key encrypts with AES.
func (k *keyRecord) symmetric() bool { return k.Spec == kmstypes.KeySpecSymmetricDefault }

// gone reports whether the key's waiting period is over. The reconciler may not have deleted it
// yet.
func (k *keyRecord) gone(now time.Time) bool {
	return k.State == kmstypes.KeyStatePendingDeletion && k.DeletionDate != nil && !now.Before(*k.DeletionDate)
}

// An aliasRecord is an alias.
type aliasRecord struct {
	Name             string
	KeyID            string
	Created, Updated time.Time
}

// A grantRecord is a grant. Grants never change.
type grantRecord struct {
	ID, Name          string
	KeyID, KeyARN     string
	Created           time.Time
	Issuer            string // account ID
	Grantee, Retiring string
	Operations        []kmstypes.GrantOperation
	// Subset and Equals are the constraints on the encryption context, or nil.
	Subset, Equals map[string]string
}

// A granteeRecord marks by its key that there is a grant.
type granteeRecord struct{}
