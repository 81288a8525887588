package app

import (
	"bytes"
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/compute"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/podrun"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// Guests' connections come from this machine, but they must not use the proxy.
func TestProxyIsNotForGuests(t *testing.T) {
	d := daemon{info: api.DaemonInfo{Token: "right"}, planes: new(controlplane.Manager), podRuns: podrun.New(podrun.Config{})}
	d.origins.Set("127.0.0.1:50001", compute.Origin{})
	h := d.handler(server.NewProxy(nil, testkit.Log(t)))
	token := "Bearer right"
	ask := func() int {
		r := httptest.NewRequest(http.MethodConnect, "http://db.internal:5432", nil)
		r.RemoteAddr = "127.0.0.1:50001"
		r.Header.Set("Proxy-Authorization", token)
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	if got := ask(); got != http.StatusForbidden {
		t.Errorf("a guest's CONNECT: %d", got)
	}
	d.origins.Forget("127.0.0.1:50001")
	if got := ask(); got != http.StatusBadRequest { // the proxy's answer: this connection cannot be hijacked
		t.Errorf("when its port is another program's: %d", got)
	}
	for _, token = range []string{"", "Bearer wrong", "Basic cmlnaHQ="} {
		if got := ask(); got != http.StatusProxyAuthRequired {
			t.Errorf("another user of this machine, with %q: %d", token, got)
		}
	}
}

// The daemon serves a profile of its live objects for go tool pprof, gzipped.
func TestHeapPage(t *testing.T) {
	d := daemon{info: api.DaemonInfo{Token: "right"}}
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:4566/_drydock/heap", nil)
	r.RemoteAddr = "127.0.0.1:50000"
	r.Header.Set("Authorization", "Bearer right")
	w := httptest.NewRecorder()
	d.addDaemonAPI()
	d.access().Guard(&d.daemonAPI).ServeHTTP(w, r)
	if got := w.Body.Bytes(); w.Code != http.StatusOK || !bytes.HasPrefix(got, []byte{0x1f, 0x8b}) {
		t.Errorf("%d, %.20q", w.Code, got)
	}
}
