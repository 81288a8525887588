package app

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/server"
	"github.com/drydock-dev/drydock/internal/controlplane"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
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
	connect := access.Guard(d.connectTo(proxy))
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
			if host, port, err := net.SplitHostPort(r.Host); err == nil && port == "443" {
				if plane, ok := (planes{d.planes, d.store}).ByHost(host); ok {
					d.connectPlane(w, r, proxy, &plane)
					return
				}
			}
			if d.connectBalancer(w, r, proxy) {
				return
			}
			proxy.ServeHTTP(w, r)
			return
		}
		if r.URL.Path == api.Prefix+"connect" {
			connect.ServeHTTP(w, r)
			return
		}
		if strings.HasPrefix(r.Host, "oidc.eks.") {
			oidc.ServeHTTP(w, r)
			return
		}
		d.serveAWS(w, r)
	})
}

// serveAWS answers requests to the AWS API and, by name or path, those of registry clients.
func (d *daemon) serveAWS(w http.ResponseWriter, r *http.Request) {
	if d.registry.Serves(r) {
		d.registry.ServeHTTP(w, r)
		return
	}
	if d.ssm.ServesChannel(r) {
		d.ssm.ServeChannel(w, r)
		return
	}
	if d.connect.ServesTunnel(r) {
		d.connect.ServeTunnel(w, r)
		return
	}
	if cloudformation.ServesHandle(r) {
		if !server.RefuseBrowser(w, r, d.cfg.AllowHosts) {
			d.serveHandle(w, r)
		}
		return
	}
	d.server.ServeHTTP(w, r)
}

// connectPlane connects a program of `drydock run` with a cluster's endpoint by the name that
// it has on AWS. A program that may not connect waits, as for packets that are dropped.
func (d *daemon) connectPlane(w http.ResponseWriter, r *http.Request, proxy *server.Proxy, plane *controlplane.Plane) {
	hijacker, ok := w.(http.Hijacker)
	if !ok {
		http.Error(w, "want CONNECT HOST:PORT in HTTP/1.1", http.StatusBadRequest)
		return
	}
	_ = http.NewResponseController(w).SetWriteDeadline(time.Time{}) // the answer may take long
	far, err := d.planes.DialPublic(r.Context(), plane.ID)
	if err == nil {
		proxy.Tunnel(w, hijacker, far)
		return
	}
	if _, refused := errors.AsType[*controlplane.RefusedError](err); !refused {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	var addresses []string
	if s, err := d.network.Snapshot(r.Context(), plane.Key.Account, plane.Key.Region); err == nil {
		for _, a := range s.Resolve(reach.Addr(d.cfg.ClientAddress), strings.ToLower(plane.AWSHost)).Addresses {
			addresses = append(addresses, a.String())
		}
	}
	http.Error(w, fmt.Sprintf("%s, which is %s: i/o timeout: %v\nTry: drydock why cluster %s", r.Host, strings.Join(addresses, ", "), err, plane.Key.Name), http.StatusGatewayTimeout)
}
