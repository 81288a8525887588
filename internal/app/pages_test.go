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
