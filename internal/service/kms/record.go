package kms

import (
	"time"

	kmstypes "github.com/aws/aws-sdk-go-v2/service/kms/types"

	"github.com/drydock-dev/drydock/internal/store"
)

var (
	// keys are called by their IDs.
	keys = store.NewCollection[keyRecord]("kms", "key")
	// aliases are called by their names, alias/ included.
	aliases = store.NewCollection[aliasRecord]("kms", "alias")
	// grants are called KEY/GRANT.
	grants = store.NewCollection[grantRecord]("kms", "grant")
	// grantees finds the grants of a key by grantee (granteeKey).
	grantees = store.NewCollection[granteeRecord]("kms", "grantee")
)

// A keyRecord is a key with its material.
type keyRecord struct {
	ID, ARN      string
	Description  string
	Created      time.Time
	Spec         kmstypes.KeySpec
	Usage        kmstypes.KeyUsageType
	Manager      kmstypes.KeyManagerType
	State        kmstypes.KeyState
	DeletionDate *time.Time
	Policy       string // as it was given
	Tags         map[string]string
	Rotation     *rotation // nil: no automatic rotation
	// Materials are all that the key has had; the last is the current one.
	Materials []material
}

// A rotation is a key's automatic rotation.
type rotation struct {
	PeriodInDays int32
	Next         time.Time
}

// A material is key material of one version: random bytes, or a private key in
// PKCS #8.
type material struct {
	ID     string
	Secret []byte
	// Since is when it became current; Rotation says by what, empty for the first.
	Since    time.Time
	Rotation kmstypes.RotationType
}

func (k *keyRecord) current() *material { return &k.Materials[len(k.Materials)-1] }

// symmetric reports whether the key encrypts with AES.
func (k *keyRecord) symmetric() bool { return k.Spec == kmstypes.KeySpecSymmetricDefault }

// gone reports whether the key's waiting period is over: the reconciler may be still
// about to remove it.
func (k *keyRecord) gone(now time.Time) bool {
	return k.State == kmstypes.KeyStatePendingDeletion && k.DeletionDate != nil && !now.Before(*k.DeletionDate)
}

// An aliasRecord is an alias.
type aliasRecord struct {
	Name             string
	KeyID            string
	Created, Updated time.Time
}

// A grantRecord is a grant. It never changes.
type grantRecord struct {
	ID, Name          string
	KeyID, KeyARN     string
	Created           time.Time
	Issuer            string // the account
	Grantee, Retiring string
	Operations        []kmstypes.GrantOperation
	// Subset and Equals are the constraints of the encryption context; nil: none.
	Subset, Equals map[string]string
}

// A granteeRecord says by its key alone that there is a grant.
type granteeRecord struct{}
