// Package httpapi has the code that handlers of the daemon's own paths below /_drydock/ share: access control, the
// account and region of a request, and writing the response. It does not serve any path itself; app and the packages
// that do import it. The types of requests and responses are in package api, which clients import.
package httpapi

import (
	"cmp"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
)

// maxBody bounds the body of a request.
const maxBody = 1 << 20

// Access admits programs on this machine that present the daemon's token, which only the daemon's user can read. A
// loopback address alone proves nothing: other local users have one, a reverse proxy gives one to everybody, and
// simulated instances have one, too.
type Access struct {
	Token   string // Authorization: Bearer TOKEN; if empty, every request is refused
	Version string // the daemon's version, for the error message
	// Open are paths that programs on this machine may GET without the token.
	Open []string
	// Guest reports whether a remote address belongs to a simulated instance.
	Guest func(remote string) bool
}

// NodeImages and Twin are the paths to which images and recordings are sent.
const (
	NodeImages = "/_drydock/node-images"
	Twin       = "/_drydock/twin"
)

// larger are the paths whose bodies may be larger than maxBody.
var larger = map[string]int64{NodeImages: 20 << 30, Twin: 600 << 20}

// Guard passes admitted requests on to next.
func (a *Access) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := foreign(r, a.Guest); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		open := r.Method == http.MethodGet && slices.Contains(a.Open, r.URL.Path)
		if !open && !a.Shown(r.Header.Get("Authorization")) {
			w.Header().Set("WWW-Authenticate", "Bearer")
			http.Error(w, a.refusal(r.UserAgent()), http.StatusUnauthorized)
			return
		}
		limit := int64(maxBody)
		if l, ok := larger[r.URL.Path]; ok {
			limit = l
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		next.ServeHTTP(w, r)
	})
}

// Shown reports whether an Authorization or Proxy-Authorization header holds the token.
func (a *Access) Shown(header string) bool {
	shown, ok := strings.CutPrefix(header, api.Bearer)
	return ok && a.Token != "" && subtle.ConstantTimeCompare([]byte(shown), []byte(a.Token)) == 1
}

// refusal names both versions, because clients older than the daemon send no token.
func (a *Access) refusal(agent string) string {
	return fmt.Sprintf("missing or invalid token: the daemon is drydock %s, the client is %.60q\n"+
		`Try: eval "$(drydock env)" and the header "Authorization: Bearer $DRYDOCK_TOKEN"`, a.Version, cmp.Or(agent, "unknown"))
}

// foreign returns an error if a request does not come from a program on this machine.
func foreign(r *http.Request, guest func(remote string) bool) string {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !remote.Addr().Unmap().IsLoopback() {
		return "only this machine may use these pages"
	}
	if guest(r.RemoteAddr) {
		return "instances may not use these pages"
	}
	// DNS rebinding uses a name that resolves to loopback.
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && host != "localhost" {
		return "use an IP address or localhost as the host"
	}
	return ""
}

// CheckAccount returns an error unless account is a valid account number.
func CheckAccount(account string) error {
	if len(account) != 12 || strings.Trim(account, "0123456789") != "" {
		return errors.New("account must be 12 digits")
	}
	return nil
}

// Place returns the account and region of a request, ?account= and ?region=, or their defaults.
func Place(r *http.Request) (account, region string, err error) {
	q := r.URL.Query()
	account, region = q.Get("account"), q.Get("region")
	if account == "" {
		account = awsapi.DefaultAccount
	}
	if region == "" {
		region = "us-east-1"
	}
	return account, region, CheckAccount(account)
}

// Answer writes v as JSON.
func Answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // an error means that the client has disconnected
}
