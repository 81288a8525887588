package imds

import (
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"time"
)

// tokens creates and checks session tokens. Nothing is stored: a token contains when it expires and a MAC over that
// and the instance that it is for. It looks like AWS's, with 56 characters.
type tokens struct{ key []byte }

func newTokens(secret []byte) tokens {
	mac := hmac.New(sha256.New, secret)
	mac.Write([]byte("instance metadata tokens")) // separates this use of the secret from others
	return tokens{mac.Sum(nil)}
}

const (
	tokenNonce = 8
	tokenMAC   = 24
)

func (t tokens) issue(instanceID string, ends time.Time) string {
	b := binary.BigEndian.AppendUint64(nil, uint64(ends.Unix()))
	nonce := make([]byte, tokenNonce)
	_, _ = rand.Read(nonce) // never fails
	b = append(b, nonce...)
	return base64.StdEncoding.EncodeToString(append(b, t.mac(instanceID, b)...))
}

func (t tokens) mac(instanceID string, b []byte) []byte {
	mac := hmac.New(sha256.New, t.key)
	mac.Write(b)
	mac.Write([]byte(instanceID))
	return mac.Sum(nil)[:tokenMAC]
}

// check returns when a token expires, or false if it is not a token of the instance or has expired.
func (t tokens) check(instanceID, token string, now time.Time) (time.Time, bool) {
	b, err := base64.StdEncoding.DecodeString(token)
	if err != nil || len(b) != 8+tokenNonce+tokenMAC {
		return time.Time{}, false
	}
	head, mac := b[:8+tokenNonce], b[8+tokenNonce:]
	if !hmac.Equal(mac, t.mac(instanceID, head)) {
		return time.Time{}, false
	}
	ends := time.Unix(int64(binary.BigEndian.Uint64(head)), 0)
	return ends, now.Before(ends)
}
