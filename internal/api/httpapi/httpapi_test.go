package httpapi

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"strings"
	"testing"
)

// The daemon's own pages change and show things without a signature, so only programs on this machine that present
// its token may use them.
func TestPagesAreForProgramsOnThisMachine(t *testing.T) {
	a := Access{Token: "right", Guest: func(remote string) bool { return remote == "127.0.0.1:50001" }, Open: []string{"/_drydock/ping"}}
	h := a.Guard(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNoContent) }))
	const reset, ping = "POST /_drydock/reset", "GET /_drydock/ping"
	for _, tt := range []struct {
		name, ask, remote, host, token string
		status                         int
	}{
		{"a program", reset, "127.0.0.1:50000", "127.0.0.1:4566", "Bearer right", http.StatusNoContent},
		{"by name", reset, "[::1]:50000", "localhost:4566", "Bearer right", http.StatusNoContent},
		{"an instance", reset, "127.0.0.1:50001", "127.0.0.1:4566", "Bearer right", http.StatusForbidden},
		{"another machine", reset, "192.0.2.1:50000", "127.0.0.1:4566", "Bearer right", http.StatusForbidden},
		{"a rebound name", reset, "127.0.0.1:50000", "evil.example:4566", "Bearer right", http.StatusForbidden},
		{"another user of the machine", reset, "127.0.0.1:50000", "127.0.0.1:4566", "", http.StatusUnauthorized},
		{"who guesses", reset, "127.0.0.1:50000", "127.0.0.1:4566", "Bearer wrong", http.StatusUnauthorized},
		{"a token without its scheme", reset, "127.0.0.1:50000", "127.0.0.1:4566", "right", http.StatusUnauthorized},
		{"an open page", ping, "127.0.0.1:50000", "127.0.0.1:4566", "", http.StatusNoContent},
		{"an open page of an instance", ping, "127.0.0.1:50001", "127.0.0.1:4566", "", http.StatusForbidden},
		{"more than reading it", "POST /_drydock/ping", "127.0.0.1:50000", "127.0.0.1:4566", "", http.StatusUnauthorized},
		{"a page below it", "GET /_drydock/ping/../status", "127.0.0.1:50000", "127.0.0.1:4566", "", http.StatusUnauthorized},
	} {
		t.Run(tt.name, func(t *testing.T) {
			method, path, _ := strings.Cut(tt.ask, " ")
			r := httptest.NewRequest(method, path, nil)
			r.RemoteAddr, r.Host = tt.remote, tt.host
			r.Header.Set("Authorization", tt.token)
			w := httptest.NewRecorder()
			if h.ServeHTTP(w, r); w.Code != tt.status {
				t.Errorf("status %d: %s", w.Code, w.Body)
			}
		})
	}
}

// Without a configured token every request is refused.
func TestNoTokenLetsNobodyIn(t *testing.T) {
	for _, header := range []string{"", "Bearer ", "Bearer"} {
		if new(Access).Shown(header) {
			t.Errorf("%q is let in", header)
		}
	}
}

// The error names both versions, so that users notice an outdated command.
func TestRefusalNamesVersions(t *testing.T) {
	h := (&Access{Token: "right", Version: "2.0", Guest: func(string) bool { return false }}).Guard(http.NotFoundHandler())
	r := httptest.NewRequest("GET", "http://localhost/_drydock/status", nil)
	r.RemoteAddr = "127.0.0.1:50000"
	r.Header.Set("User-Agent", "drydock/1.0")
	w := httptest.NewRecorder()
	h.ServeHTTP(w, r)
	if said := w.Body.String(); w.Code != http.StatusUnauthorized || !strings.Contains(said, "drydock 2.0") || !strings.Contains(said, "drydock/1.0") || !strings.Contains(said, "\nTry: ") {
		t.Errorf("%d %s", w.Code, said)
	}
}

// The attack: a reverse proxy on this machine forwards a stranger's request from loopback.
func TestStrangersBehindAReverseProxy(t *testing.T) {
	daemon := httptest.NewServer((&Access{Token: "right", Guest: func(string) bool { return false }}).Guard(http.HandlerFunc(func(http.ResponseWriter, *http.Request) { t.Error("the request got through") })))
	defer daemon.Close()
	to, err := url.Parse(daemon.URL)
	if err != nil {
		t.Fatal(err)
	}
	front := httptest.NewServer(&httputil.ReverseProxy{Rewrite: func(p *httputil.ProxyRequest) { p.SetURL(to) }})
	defer front.Close()
	resp, err := http.Post(front.URL+"/_drydock/reset", "", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusUnauthorized {
		t.Errorf("%s", resp.Status)
	}
}

// However much is sent, only as much is read as a page can need.
func TestPagesAreBounded(t *testing.T) {
	var err error
	a := Access{Token: "right", Guest: func(string) bool { return false }}
	h := a.Guard(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { _, err = io.Copy(io.Discard, r.Body) }))
	r := httptest.NewRequest("POST", "http://localhost/_drydock/faults", strings.NewReader(strings.Repeat("x", maxBody+1)))
	r.RemoteAddr = "127.0.0.1:50000"
	r.Header.Set("Authorization", "Bearer right")
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
