package registry

import (
	"context"
	"net"
	"net/http"
	"time"

	"github.com/drydock-dev/drydock/internal/service/ecr"
)

// Own returns how the registries at the given address of this machine are reached by their names. ECR uses it for pull-through cache
// rules whose upstream registry is one of Drydock's.
func Own(address string) http.RoundTripper {
	return own{&http.Transport{
		DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
			return (&net.Dialer{Timeout: 10 * time.Second}).DialContext(ctx, "tcp", address)
		},
		ResponseHeaderTimeout: time.Minute, IdleConnTimeout: time.Minute,
	}}
}

type own struct{ *http.Transport }

// RoundTrip implements http.RoundTripper. The connection does not leave this machine, so it needs no TLS.
func (o own) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.URL.Scheme = "http"
	r.Header.Set(ecr.UpstreamHeader, "true")
	return o.Transport.RoundTrip(r)
}
