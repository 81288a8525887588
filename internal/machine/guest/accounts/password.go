package accounts

import (
	"regexp"
	"strconv"

	"github.com/GehirnInc/crypt"
	_ "github.com/GehirnInc/crypt/sha256_crypt" // $5$
	"github.com/GehirnInc/crypt/sha512_crypt"   // $6$
)

// HashPassword returns a password as /etc/shadow holds it, by SHA-512 as on Amazon Linux.
func HashPassword(password string) (string, error) {
	return sha512_crypt.New().Generate([]byte(password), nil)
}

var rounds = regexp.MustCompile(`^\$[56]\$rounds=(\d+)\$`)

// maxRounds bounds the work that a password field of a machine can ask for. The usual number is 5,000.
const maxRounds = 100_000

// PasswordMatches reports whether a password is the one in a password field of /etc/shadow. It is not if the account is
// locked or the field's method is neither SHA-256 nor SHA-512. Like login, it accepts any password if the field is empty.
func PasswordMatches(field, password string) bool {
	if field == "" {
		return true
	}
	if m := rounds.FindStringSubmatch(field); m != nil {
		if n, err := strconv.Atoi(m[1]); err != nil || n > maxRounds {
			return false
		}
	}
	return crypt.IsHashSupported(field) && crypt.NewFromHash(field).Verify(field, []byte(password)) == nil
}
