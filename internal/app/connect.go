package app

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/drydock-dev/drydock/internal/api/httpapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/machine/serialconsole"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2"
)

// connectTo connects the client, which is drydock ssh, from the laptop's address to port ?port= of ?to=: an instance ID, an
// address or a name. Once connected, it copies data in both directions. Errors have the texts that ssh prints.
func (d *daemon) connectTo(proxy *server.Proxy) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		account, region, err := httpapi.Place(r)
		if err != nil {
			http.Error(w, err.Error(), http.StatusBadRequest)
			return
		}
		q := r.URL.Query()
		to := q.Get("to")
		port, err := strconv.ParseUint(q.Get("port"), 10, 16)
		hijacker, ok := w.(http.Hijacker)
		if err != nil || port == 0 || to == "" || !ok {
			http.Error(w, fmt.Sprintf("invalid destination %q, port %q", to, q.Get("port")), http.StatusBadRequest)
			return
		}
		client := reach.Addr(cmp.Or(d.cfg.ClientAddress, reach.Client))
		if a, err := netip.ParseAddr(to); err == nil {
			region = cmp.Or(ec2.PublicRegion(a), region) // a public address is reachable from every region
		}
		s, err := d.network.Snapshot(r.Context(), account, region)
		if err != nil {
			http.Error(w, err.Error(), http.StatusInternalServerError)
			return
		}
		if !ofAWS(s, client, to) {
			http.Error(w, to+" is not in the network of account "+account+" in "+region, http.StatusMisdirectedRequest)
			return
		}
		_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // connecting may take long
		far, err := d.machines.ConnectFrom(r.Context(), account, region, client, to, int(port))
		if err != nil {
			status, text := dialError(err)
			http.Error(w, text, status)
			return
		}
		proxy.Tunnel(w, hijacker, far)
	}
}

// dialFromEndpoint connects to a private address from an Instance Connect endpoint, whose client is the laptop.
func (d *daemon) dialFromEndpoint(ctx context.Context, account, region, endpoint string, address netip.Addr, port int) (net.Conn, error) {
	from := reach.Endpoint{ID: endpoint, Address: cmp.Or(d.cfg.ClientAddress, reach.Client)}
	return d.machines.ConnectFrom(ctx, account, region, from, address.String(), port)
}

// ofAWS reports whether a destination is in the simulated network, rather than on the internet or the user's own network.
func ofAWS(s *reach.Snapshot, from reach.Endpoint, to string) bool {
	a, err := netip.ParseAddr(to)
	if err != nil {
		to = strings.ToLower(strings.TrimSuffix(to, "."))
		if strings.HasPrefix(to, "i-") && !strings.Contains(to, ".") || server.AWSHost(to) || serialConsole(to) || strings.HasSuffix(to, ".internal") {
			return true
		}
		for _, a := range s.Resolve(from, to).Addresses {
			if hasAddress(s, a) { // the name is in a hosted zone
				return true
			}
		}
		return false
	}
	return hasAddress(s, a)
}

func serialConsole(host string) bool {
	_, ok := serialconsole.Region(host)
	return ok
}

// hasAddress reports whether an address is in a VPC, belongs to a network interface, or is in the ranges from which public
// addresses are assigned here. On the internet, such addresses belong to somebody else.
func hasAddress(s *reach.Snapshot, a netip.Addr) bool {
	if a = a.Unmap(); ec2.PublicRegion(a) != "" {
		return true
	}
	for r := range s.All {
		switch r := r.(type) {
		case *reach.VPC:
			for _, c := range r.CIDRs {
				if c.Contains(a) {
					return true
				}
			}
		case *reach.Interface:
			for _, own := range r.Addresses {
				if own.Public == a || own.Private == a {
					return true
				}
			}
		}
	}
	return false
}

// dialError returns the HTTP status for an error and its text in the words of the C library.
func dialError(err error) (status int, text string) {
	var dns *net.DNSError
	var ne net.Error
	switch {
	case errors.As(err, &dns):
		return http.StatusNotFound, "Name or service not known"
	case errors.Is(err, syscall.ECONNREFUSED):
		return http.StatusBadGateway, "Connection refused"
	case errors.As(err, &ne) && ne.Timeout():
		return http.StatusGatewayTimeout, "Connection timed out"
	}
	return http.StatusInternalServerError, err.Error()
}
