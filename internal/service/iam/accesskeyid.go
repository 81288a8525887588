package iam

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/base64"
	"encoding/binary"
	"fmt"
	"strconv"
)

// Access key IDs contain the account: the ten bytes after the prefix are, in base 32, a set bit,
// the account in 40 bits, and 39 random bits. So a key is found without an index, and
// GetAccessKeyInfo works even for keys that were deleted long ago.
// https://hackingthe.cloud/aws/enumeration/get-account-id-from-keys/

// NewAccessKeyID returns a new access key ID for the account. prefix is AKIA for a user's key and
// ASIA for temporary credentials.
func (s *Service) NewAccessKeyID(prefix, account string) string {
	n, err := strconv.ParseUint(account, 10, 40)
	if err != nil {
		n = 0 // not an account; no one will look up such a key
	}
	b := make([]byte, 10)
	rand.Read(b) // never fails
	head := uint64(1)<<63 | n<<23 | binary.BigEndian.Uint64(b)&(1<<23-1)
	binary.BigEndian.PutUint64(b, head)
	return prefix + base32.StdEncoding.EncodeToString(b)
}

// AccessKeyAccount returns the account in an access key ID.
func (s *Service) AccessKeyAccount(id string) (account string, ok bool) {
	if len(id) != 20 {
		return "", false
	}
	b, err := base32.StdEncoding.DecodeString(id[4:])
	if err != nil {
		return "", false
	}
	head := binary.BigEndian.Uint64(b)
	n := head << 1 >> 24
	if head>>63 != 1 || n > 999_999_999_999 {
		return "", false
	}
	return fmt.Sprintf("%012d", n), true
}

// newSecret returns a secret access key of 40 characters.
func newSecret() string {
	b := make([]byte, 30)
	rand.Read(b) // never fails
	return base64.StdEncoding.EncodeToString(b)
}
