// Package pages is what the daemon's own paths below /_drydock/ have in common: who may
// ask, about which account and region, and how the answer looks. It knows none of the
// paths; app and the packages that answer one of them import it.
package pages

import (
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
)

// maxBody bounds what a page is sent.
const maxBody = 1 << 20

// Guard lets programs on this machine ask, and nobody else: pages are for commands and
// for test suites, and the front door keeps browsers out, whose web pages could otherwise
// empty an account. Connections of guests come from this machine, too; guest knows them
// by their remote address.
func Guard(next http.Handler, guest func(remote string) bool) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if why := foreign(r, guest); why != "" {
			http.Error(w, why, http.StatusForbidden)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, maxBody)
		next.ServeHTTP(w, r)
	})
}

// foreign says why a request does not come from a program on this machine.
func foreign(r *http.Request, guest func(remote string) bool) string {
	remote, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil || !remote.Addr().Unmap().IsLoopback() {
		return "only this machine may ask"
	}
	if guest(r.RemoteAddr) {
		return "instances may not ask"
	}
	// A name that resolves to loopback is how a page rebinds DNS.
	host, _, err := net.SplitHostPort(r.Host)
	if err != nil {
		host = r.Host
	}
	if _, err := netip.ParseAddr(strings.Trim(host, "[]")); err != nil && host != "localhost" {
		return "ask by address or localhost"
	}
	return ""
}

// CheckAccount is the error for what is no account number.
func CheckAccount(account string) error {
	if len(account) != 12 || strings.Trim(account, "0123456789") != "" {
		return errors.New("account must be 12 digits")
	}
	return nil
}

// Place is the account and region that a question is about, ?account= and ?region=,
// which a user may leave out.
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

// Answer answers v as JSON.
func Answer(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the client is gone if this fails
}
