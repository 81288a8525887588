package app

import (
	"bytes"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/controlplane"
)

// The daemon's own pages change and show things without a signature, so only
// programs on this machine may ask.
func TestPagesAreForProgramsOnThisMachine(t *testing.T) {
	guest, other := net.Pipe()
	defer guest.Close()
	defer other.Close()
	var d daemon
	d.origins.add(guestAt{guest, "127.0.0.1:50001"}, guestOrigin{})
	for _, tt := range []struct {
		name, remote, host string
		allowed            bool
	}{
		{"a program", "127.0.0.1:50000", "127.0.0.1:4566", true},
		{"by name", "[::1]:50000", "localhost:4566", true},
		{"an instance", "127.0.0.1:50001", "127.0.0.1:4566", false},
		{"another machine", "192.0.2.1:50000", "127.0.0.1:4566", false},
		{"a rebound name", "127.0.0.1:50000", "evil.example:4566", false},
	} {
		t.Run(tt.name, func(t *testing.T) {
			r := httptest.NewRequest("POST", "/_drydock/reset", nil)
			r.RemoteAddr, r.Host = tt.remote, tt.host
			if why := d.foreign(r); (why == "") != tt.allowed {
				t.Errorf("foreign: %q, allowed should be %v", why, tt.allowed)
			}
		})
	}
}

// Guests' connections come from this machine; the proxy is not for them.
func TestProxyIsNotForGuests(t *testing.T) {
	guest, other := net.Pipe()
	defer guest.Close()
	defer other.Close()
	d := daemon{planes: new(controlplane.Manager)}
	conn := d.origins.add(guestAt{guest, "127.0.0.1:50001"}, guestOrigin{})
	h := d.handler(server.NewProxy(nil, slog.New(slog.DiscardHandler)))
	ask := func() int {
		r := httptest.NewRequest(http.MethodConnect, "http://db.internal:5432", nil)
		r.RemoteAddr = "127.0.0.1:50001"
		w := httptest.NewRecorder()
		h.ServeHTTP(w, r)
		return w.Code
	}
	if got := ask(); got != http.StatusForbidden {
		t.Errorf("a guest's CONNECT: %d", got)
	}
	_ = conn.Close()
	if got := ask(); got != http.StatusBadRequest { // the proxy's answer: this connection cannot be taken over
		t.Errorf("when its port is another program's: %d", got)
	}
}

// guestAt is a connection from an address of this machine.
type guestAt struct {
	net.Conn
	address string
}

func (c guestAt) LocalAddr() net.Addr {
	return net.TCPAddrFromAddrPort(netip.MustParseAddrPort(c.address))
}

// What is alive in the daemon can be asked for, as go tool pprof reads it: gzip.
func TestHeapPage(t *testing.T) {
	var d daemon
	r := httptest.NewRequest(http.MethodGet, "http://127.0.0.1:4566/_drydock/heap", nil)
	r.RemoteAddr = "127.0.0.1:50000"
	w := httptest.NewRecorder()
	d.pages().ServeHTTP(w, r)
	if got := w.Body.Bytes(); w.Code != http.StatusOK || !bytes.HasPrefix(got, []byte{0x1f, 0x8b}) {
		t.Errorf("%d, %.20q", w.Code, got)
	}
}
