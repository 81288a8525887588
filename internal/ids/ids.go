// Package ids generates identifiers in AWS's formats from the system's random source.
package ids

import (
	"crypto/rand"
	"encoding/base32"
	"encoding/hex"
	"strings"

	"github.com/google/uuid"
)

// Resource returns an EC2-style ID: prefix, "-0" and 16 hexadecimal digits,
// as in i-0abcdef0123456789.
func Resource(prefix string) string { return prefix + "-0" + Hex(16) }

// Hex returns n random lower-case hexadecimal digits.
func Hex(n int) string {
	b := make([]byte, (n+1)/2)
	rand.Read(b) // never fails, see crypto/rand
	return hex.EncodeToString(b)[:n]
}

// UUID returns a random UUID.
func UUID() string { return uuid.NewString() }

// Derived returns a UUID that is always the same for the same names.
func Derived(names ...string) string {
	return uuid.NewSHA1(uuid.NameSpaceURL, []byte(strings.Join(names, "/"))).String()
}

// IAM returns an IAM unique ID of 21 characters: a four-letter prefix (AIDA user,
// AROA role, AIPA instance profile, ANPA managed policy, AGPA group, ASCA
// certificate) and 17 of base 32.
// https://docs.aws.amazon.com/IAM/latest/UserGuide/reference_identifiers.html#identifiers-unique-ids
func IAM(prefix string) string { return prefix + base32String(17) }

func base32String(n int) string {
	b := make([]byte, (n*5+7)/8)
	rand.Read(b)
	return base32.StdEncoding.WithPadding(base32.NoPadding).EncodeToString(b)[:n]
}
