package pages

import (
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// The daemon's own pages change and show things without a signature, so only
// programs on this machine may ask.
func TestPagesAreForProgramsOnThisMachine(t *testing.T) {
	guest := func(remote string) bool { return remote == "127.0.0.1:50001" }
	h := Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }), guest)
	for _, tt := range []struct {
		name, remote, host string
		status             int
	}{
		{"a program", "127.0.0.1:50000", "127.0.0.1:4566", http.StatusNoContent},
		{"by name", "[::1]:50000", "localhost:4566", http.StatusNoContent},
		{"an instance", "127.0.0.1:50001", "127.0.0.1:4566", http.StatusForbidden},
		{"another machine", "192.0.2.1:50000", "127.0.0.1:4566", http.StatusForbidden},
		{"a rebound name", "127.0.0.1:50000", "evil.example:4566", http.StatusForbidden},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/_drydock/reset", nil)
			r.RemoteAddr, r.Host = tt.remote, tt.host
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != tt.status {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
}

// However much is sent, no more than a page can need is read.
func TestPagesAreBounded(t *testing.T) {
	var err error
	h := Guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, err = io.Copy(io.Discard, r.Body) }), func(string) bool { return false })
	r := httptest.NewRequest("POST", "http://localhost/_drydock/faults", strings.NewReader(strings.Repeat("x", maxBody+1)))
	r.RemoteAddr = "127.0.0.1:50000"
	if h.ServeHTTP(httptest.NewRecorder(), r); err == nil {
		t.Error("all of it was read")
	}
}

func TestPlace(t *testing.T) {
	for _, tt := range []struct {
		query, account, region string
		ok                     bool
	}{
		{"", "000000000000", "us-east-1", true},
		{"?account=111122223333&region=eu-west-1", "111122223333", "eu-west-1", true},
		{"?account=1", "1", "us-east-1", false},
		{"?account=11112222333x", "11112222333x", "us-east-1", false},
	} {
		account, region, err := Place(httptest.NewRequest("GET", "/_drydock/nodes"+tt.query, nil))
		if account != tt.account || region != tt.region || (err == nil) != tt.ok {
			t.Errorf("%q: %s in %s, %v", tt.query, account, region, err)
		}
	}
}
