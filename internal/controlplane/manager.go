package controlplane

import (
	"context"
	"errors"
	"net"
	"net/http"

	"k8s.io/client-go/rest"
)

// ErrNotFound is returned for the ID of a plane that is not there.
var ErrNotFound = errors.New("no such control plane")

// A Manager runs the control planes. Its methods may be called concurrently.
type Manager struct{ cfg Config }

// Open starts a Manager: the endpoints of all planes in the store listen when
// it returns, and their processes are starting. Close it when done.
func Open(ctx context.Context, cfg Config) (*Manager, error) { return &Manager{cfg}, nil }

// Close stops all processes and returns when they are gone. What is in the
// store stays: Open runs it again.
func (m *Manager) Close() error { return nil }

// Claim gives owner a plane: the one it has, else a spare, else a new one. The
// plane may still be starting, see WaitReady. Owner is any string that names the
// cluster for good, such as its ARN and creation token.
func (m *Manager) Claim(ctx context.Context, owner string, key Key) (Plane, error) {
	return Plane{}, errors.ErrUnsupported
}

// Get returns a claimed plane, or ErrNotFound.
func (m *Manager) Get(id string) (Plane, error) { return Plane{}, ErrNotFound }

// Planes returns all claimed planes, ordered by ID.
func (m *Manager) Planes() []Plane { return nil }

// WaitReady waits until the plane answers requests. It returns an error when ctx
// ends, with the reason why the plane is not ready, and ErrNotFound when the
// plane is released.
func (m *Manager) WaitReady(ctx context.Context, id string) error { return ErrNotFound }

// Status reports how a plane's process is, or ErrNotFound.
func (m *Manager) Status(id string) (Status, error) { return Status{}, ErrNotFound }

// Release removes a plane and everything of it: process, listener, files,
// Kubernetes state, record. Releasing what is not there does nothing.
func (m *Manager) Release(ctx context.Context, id string) error { return nil }

// ReleaseAll releases the planes of an account, or all planes and spares if
// account is empty. It works on what runs, also when a reset of the store has
// removed the records already.
func (m *Manager) ReleaseAll(ctx context.Context, account string) error { return nil }

// SetAccess changes who may connect to the plane's endpoint. A new plane is
// public for all.
func (m *Manager) SetAccess(ctx context.Context, id string, a Access) error { return ErrNotFound }

// RESTConfig returns a client configuration with the rights of system:masters.
// It goes straight to the process, whatever the endpoint access, follows it
// through restarts and renews its certificate. The caller may change its copy's
// QPS, UserAgent and the like but not its Transport.
func (m *Manager) RESTConfig(id string) (*rest.Config, error) { return nil, ErrNotFound }

// AnonymousRESTConfig is RESTConfig without any identity: set a BearerToken or
// wrap its transport to give it one.
func (m *Manager) AnonymousRESTConfig(id string) (*rest.Config, error) { return nil, ErrNotFound }

// Dial connects to the plane's process as a client inside the cluster's network
// does. The connection carries TLS with the plane's certificate. While the
// process starts again it waits a few seconds for it.
func (m *Manager) Dial(ctx context.Context, id string) (net.Conn, error) { return nil, ErrNotFound }

// OIDCHandler serves the issuers' public documents:
// /id/ID/.well-known/openid-configuration and /id/ID/keys.
func (m *Manager) OIDCHandler() http.Handler { return http.NotFoundHandler() }

// JWKS returns the key set that verifies the plane's service account tokens.
func (m *Manager) JWKS(id string) ([]byte, error) { return nil, ErrNotFound }
