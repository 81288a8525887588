package controlplane

import (
	"context"
	"net"
	"net/netip"
	"time"

	"k8s.io/client-go/rest"
)

// SetAccess changes who may connect to the plane's endpoint. A new plane is public for all.
func (m *Manager) SetAccess(ctx context.Context, id string, a Access) error {
	p := m.find(id)
	if p == nil {
		return ErrNotFound
	}
	return p.update(ctx, func(r *record) error { r.Access = a; return nil })
}

// RESTConfig returns a client configuration with the rights of system:masters. It connects directly to the process,
// whatever the endpoint access, follows it through restarts and renews its certificate. The caller may change its
// copy's QPS, UserAgent and similar fields, but not its Transport.
func (m *Manager) RESTConfig(id string) (*rest.Config, error) { return m.client(id, true) }

// AnonymousRESTConfig is RESTConfig without any identity: set a BearerToken or wrap its transport to add one.
func (m *Manager) AnonymousRESTConfig(id string) (*rest.Config, error) { return m.client(id, false) }

func (m *Manager) client(id string, admin bool) (*rest.Config, error) {
	p := m.find(id)
	if p == nil {
		return nil, ErrNotFound
	}
	return p.clients.config(admin), nil
}

// Released returns a channel that is closed when the plane is released. Its clients no longer work then, even if the cluster
// of a twin that is imported again reuses the ID.
func (m *Manager) Released(id string) <-chan struct{} {
	if p := m.find(id); p != nil {
		return p.released
	}
	none := make(chan struct{})
	close(none)
	return none
}

// Dial connects to the plane's process like a client inside the cluster's network. The connection carries TLS with
// the plane's certificate. If the process is restarting, Dial waits a few seconds for it. The caller must check
// whether the client may connect.
func (m *Manager) Dial(ctx context.Context, id string) (net.Conn, error) {
	p := m.find(id)
	if p == nil {
		return nil, ErrNotFound
	}
	ctx, cancel := context.WithTimeout(ctx, holdTime)
	defer cancel()
	return p.dial(ctx)
}

// DialPublic connects to the plane's process as this machine's users do, by its public
// access. If that does not let them in, it takes as long as a connection that gets no
// answer, and returns a RefusedError.
func (m *Manager) DialPublic(ctx context.Context, id string) (net.Conn, error) {
	p := m.find(id)
	if p == nil {
		return nil, ErrNotFound
	}
	reason := p.snapshot().Access.refusal(m.cfg.ClientAddress)
	if reason == "" {
		return m.Dial(ctx, id)
	}
	m.refused(id, m.cfg.ClientAddress, reason)
	patience := time.NewTimer(m.cfg.RefusalPatience)
	defer patience.Stop()
	select {
	case <-patience.C:
	case <-ctx.Done():
	}
	return nil, &RefusedError{reason}
}

// A RefusedError says why endpoint access does not let a client in.
type RefusedError struct{ Reason string }

func (e *RefusedError) Error() string { return e.Reason }

// refusalPatience is how long kubectl waits for a connection:
// https://github.com/kubernetes/apimachinery/blob/master/pkg/util/net/http.go (SetTransportDefaults)
const refusalPatience = 30 * time.Second

func (m *Manager) refused(id string, from netip.Addr, reason string) {
	m.cfg.Log.Info("connection refused", "plane", id, "from", from, "reason", reason)
	if m.cfg.OnRefused != nil {
		m.cfg.OnRefused(id, from, reason)
	}
}
