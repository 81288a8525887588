package app

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
)

func (d *daemon) verifyPresigned(ctx context.Context, r *http.Request) (awsapi.Principal, error) {
	u := *r.URL
	u.Host = r.Host
	return d.server.Verifier().VerifyPresigned(ctx, &u, r.Header, r.Method)
}

// ownHost reports whether host is this endpoint, by any address of this machine that a client may have used and
// signed.
func (d *daemon) ownHost(host string) bool {
	_, own, err := net.SplitHostPort(strings.TrimPrefix(d.info.URL, "http://"))
	if err != nil {
		return false
	}
	name, port, err := net.SplitHostPort(host)
	if err != nil || port != own && !d.podListeners.Has(host) {
		return false
	}
	_, err = netip.ParseAddr(name)
	return err == nil || name == "localhost"
}

// handler serves the AWS API and, by host name, the clusters' OIDC issuers, whose documents are public. Connections
// from programs that run as pods are handled the same way.
func (d *daemon) handler(proxy *server.Proxy) http.Handler {
	oidc, access := d.planes.OIDCHandler(), d.access()
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.podRuns.Serve(w, r, proxy) {
			return
		}
		if r.Method == http.MethodConnect {
			if d.origins.Has(r.RemoteAddr) { // the proxy would let an instance bypass its network
				http.Error(w, "instances may not use the proxy", http.StatusForbidden)
				return
			}
			if !access.Shown(r.Header.Get("Proxy-Authorization")) {
				w.Header().Set("Proxy-Authenticate", "Bearer")
				http.Error(w, "the proxy requires a token; use drydock run", http.StatusProxyAuthRequired)
				return
			}
			proxy.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.Host, "oidc.eks.") {
			oidc.ServeHTTP(w, r)
			return
		}
		d.server.ServeHTTP(w, r)
	})
}
