package controlplane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/store"
)

// ErrNotFound is returned if no plane has the given ID.
var ErrNotFound = errors.New("no such control plane")

var errClosed = errors.New("control planes are shutting down")

// renewInterval is how often certificates are checked.
const renewInterval = 12 * time.Hour

// A Manager runs the control planes. Its methods may be called concurrently.
type Manager struct {
	cfg       Config
	hooks     Hooks // set by Start
	webhooks  *webhooks
	socketDir string // for egress sockets if Dir's path is too long; otherwise ""

	// birth is held while a plane is claimed, created or released, so that an owner never gets two planes and a spare
	// never gets two owners.
	birth sync.Mutex

	mu     sync.Mutex
	planes map[string]*plane

	spares  chan struct{} // wakes keepSpares
	closing chan struct{}
	once    sync.Once
	ctx     context.Context // ends with closing; for background work
	cancel  context.CancelFunc
	wg      sync.WaitGroup
}

// Open starts a Manager. When it returns, the endpoints of all planes in the store listen, and their processes are
// starting. Close it when done; ctx applies to Open only.
func Open(ctx context.Context, cfg Config) (*Manager, error) {
	if cfg.Dir == "" || cfg.Store == nil {
		return nil, errors.New("controlplane.Config lacks Dir or Store")
	}
	if cfg.Store.EtcdAccess().NeedsPassword {
		return nil, errors.New("API servers cannot log in to etcd with a password; give the etcd user a client certificate instead")
	}
	if cfg.ListenAddress == "" {
		cfg.ListenAddress = "127.0.0.1"
	}
	if cfg.RefusalPatience == 0 {
		cfg.RefusalPatience = refusalPatience
	}
	if !cfg.ClientAddress.IsValid() {
		cfg.ClientAddress = netip.MustParseAddr("203.0.113.10")
	}
	if cfg.KeyPause == 0 {
		cfg.KeyPause = longestKeyPause
	}
	if cfg.Silence == 0 {
		cfg.Silence = longestSilence
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	var err error
	if cfg.Dir, err = filepath.Abs(cfg.Dir); err != nil {
		return nil, err
	}
	if err := os.MkdirAll(cfg.Dir, 0o700); err != nil {
		return nil, err
	}
	m := &Manager{
		cfg:     cfg,
		planes:  map[string]*plane{},
		spares:  make(chan struct{}, 1),
		closing: make(chan struct{}),
	}
	m.ctx, m.cancel = context.WithCancel(context.WithoutCancel(ctx))
	if err := m.load(ctx); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// load reads the planes of an earlier run.
func (m *Manager) load(ctx context.Context) error {
	for _, item := range records.All(m.cfg.Store, store.Scope{}) {
		rec := item.Value
		sec, err := secretRecords.Get(m.cfg.Store, recordKey(rec.ID))
		if errors.Is(err, store.ErrUnreadable) {
			continue // the other planes continue
		}
		if err != nil {
			return fmt.Errorf("keys of control plane %s: %w", rec.ID, err)
		}
		if err := m.renewAuthorities(ctx, rec, &sec); err != nil {
			return err
		}
		m.planes[rec.ID] = newPlane(m, rec, sec)
	}
	return nil
}

// Start boots the planes that have an owner and keeps them and the spares running until Close. No plane can be
// claimed before.
func (m *Manager) Start(ctx context.Context, hooks Hooks) error {
	if hooks.Authenticate == nil {
		return errors.New("controlplane.Hooks lacks Authenticate")
	}
	if hooks.DialCluster == nil {
		hooks.DialCluster = func(context.Context, string, string) (net.Conn, error) { return nil, ErrRunsNothing }
	}
	m.hooks = hooks
	var err error
	if len(m.socketPath(strings.Repeat("0", 32))) > maxSocketPath {
		if m.socketDir, err = os.MkdirTemp("", "drydock-"); err != nil {
			return err
		}
	}
	if m.webhooks, err = serveWebhooks(ctx, m.cfg, hooks, m.find); err != nil {
		return fmt.Errorf("listening for webhooks: %w", err)
	}
	m.removeStrayFolders()
	for _, p := range m.all() {
		rec := p.snapshot()
		if rec.Releasing || rec.CopyOf != "" { // a rehearsal does not survive a restart
			m.wg.Go(func() {
				if err := m.Release(m.ctx, p.id); err != nil && !m.isClosed() {
					m.cfg.Log.Error("finishing the release of a control plane", "plane", p.id, "err", err)
				}
			})
			continue
		}
		if err := p.listen(ctx); err != nil {
			return err
		}
		if rec.Owner != "" {
			if err := p.boot(ctx); err != nil {
				return err
			}
			if !rec.Sealed {
				m.wg.Go(func() {
					if err := p.sealOld(m.ctx); err != nil && !m.isClosed() {
						m.cfg.Log.Warn("older data is encrypted after the next start", "plane", p.id, "err", err)
					}
				})
			}
		}
	}
	m.wg.Go(m.keepSpares)
	m.wg.Go(m.keepCertificates)
	m.wg.Go(m.endHanging)
	m.wg.Go(m.followFaults)
	return m.removeStrayState(ctx)
}

// renewAuthorities reissues a plane's authorities that expire soon, and adds the key for its data if there is none.
func (m *Manager) renewAuthorities(ctx context.Context, rec record, sec *secrets) error {
	renewed := false
	if sec.DataKey == nil { // it was created by an older Drydock
		sec.DataKey, renewed = newDataKey(), true
	}
	all := []*authority{&sec.CA, &sec.FrontProxy}
	for i := range sec.Trusted {
		all = append(all, &sec.Trusted[i])
	}
	for _, a := range all {
		one, err := a.renew(m.cfg.Clock.Now())
		if err != nil {
			return fmt.Errorf("keys of control plane %s: %w", rec.ID, err)
		}
		renewed = renewed || one
	}
	if !renewed {
		return nil
	}
	m.cfg.Log.Info("renewed the keys of a control plane", "cluster", rec.Key.Name, "plane", rec.ID)
	return secretRecords.UpdateOne(ctx, m.cfg.Store, recordKey(rec.ID), func(s *secrets) error { *s = *sec; return nil })
}

// removeStrayState deletes the Kubernetes state of planes without a record. A crash in the middle of a reset leaves
// such state, because a reset removes the records first.
func (m *Manager) removeStrayState(ctx context.Context) error {
	ids, err := m.cfg.Store.ClusterIDs(ctx)
	if err != nil {
		return err
	}
	for _, id := range ids {
		if m.find(id) != nil {
			continue
		}
		if _, err := records.Get(m.cfg.Store, recordKey(id)); !errors.Is(err, store.ErrNotFound) {
			continue // a record exists, even if it cannot be read
		}
		m.wg.Go(func() {
			if err := m.cfg.Store.DeleteClusterPrefix(m.ctx, id); err != nil && !m.isClosed() {
				m.cfg.Log.Error("deleting the state of a forgotten control plane", "plane", id, "err", err)
			}
		})
	}
	return nil
}

// Close stops all processes and returns when they have ended. The data in the store stays: Open starts the planes
// again.
func (m *Manager) Close() error {
	m.once.Do(func() {
		close(m.closing)
		m.cancel()
	})
	m.wg.Wait()
	m.birth.Lock()
	defer m.birth.Unlock()
	var group sync.WaitGroup
	for _, p := range m.all() {
		group.Go(func() { p.halt((*childproc.Supervisor).Stop) })
	}
	group.Wait()
	if m.webhooks != nil {
		m.webhooks.close()
	}
	if m.socketDir != "" {
		return os.RemoveAll(m.socketDir)
	}
	return nil
}

func (m *Manager) isClosed() bool { return m.ctx.Err() != nil }

// Get returns a claimed plane, or ErrNotFound.
func (m *Manager) Get(id string) (Plane, error) {
	p := m.find(id)
	if p == nil || p.snapshot().Owner == "" {
		return Plane{}, ErrNotFound
	}
	return p.describe(), nil
}

// Planes returns all claimed planes except copies, ordered by ID.
func (m *Manager) Planes() []Plane {
	var out []Plane
	for _, p := range m.all() {
		if rec := p.snapshot(); rec.Owner != "" && rec.CopyOf == "" {
			out = append(out, p.describe())
		}
	}
	return out
}

// WaitReady waits until the plane answers requests. If ctx ends, it returns an error with the reason why the plane is
// not ready. If the plane is released, it returns ErrNotFound.
func (m *Manager) WaitReady(ctx context.Context, id string) error {
	p := m.find(id)
	if p == nil {
		return ErrNotFound
	}
	_, err := p.waitReady(ctx)
	return err
}

// Status returns the status of a plane's process, or ErrNotFound.
func (m *Manager) Status(id string) (Status, error) {
	p := m.find(id)
	if p == nil {
		return Status{}, ErrNotFound
	}
	return p.currentStatus(), nil
}

// SetLogging changes which components' logs go to Hooks.WriteLogs, without a restart.
func (m *Manager) SetLogging(ctx context.Context, id string, components []string) error {
	p := m.find(id)
	if p == nil {
		return ErrNotFound
	}
	if slices.Equal(p.snapshot().Logging, components) {
		return nil
	}
	return p.update(ctx, func(r *record) error { r.Logging = components; return nil })
}

// SetIdentityProvider changes the OIDC provider whose tokens the API server accepts, without a restart; nil means none.
// It returns when the API server uses the new configuration. If the provider does not answer, SetIdentityProvider stops
// waiting, and the API server tries again about once a minute.
func (m *Manager) SetIdentityProvider(ctx context.Context, id string, idp *IdentityProvider) error {
	p := m.find(id)
	if p == nil {
		return ErrNotFound
	}
	if err := p.update(ctx, func(r *record) error { r.IdentityProvider = idp; return nil }); err != nil {
		return err
	}
	config, err := p.writeAuthentication()
	if config == nil {
		return err
	}
	return p.awaitAuthentication(ctx, config)
}

func (m *Manager) find(id string) *plane {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.planes[id]
}

// all returns the planes ordered by ID.
func (m *Manager) all() []*plane {
	m.mu.Lock()
	defer m.mu.Unlock()
	out := make([]*plane, 0, len(m.planes))
	for _, p := range m.planes {
		out = append(out, p)
	}
	slices.SortFunc(out, func(a, b *plane) int { return strings.Compare(a.id, b.id) })
	return out
}

// maxSocketPath is the maximum length in sockaddr_un on macOS; Linux has 4 bytes more.
const maxSocketPath = 103

func (m *Manager) socketPath(id string) string { return m.besidePath(id + ".sock") }

// besidePath returns the path of one of a plane's sockets.
func (m *Manager) besidePath(name string) string {
	if m.socketDir != "" {
		return filepath.Join(m.socketDir, name)
	}
	return filepath.Join(m.cfg.Dir, name)
}

// removeStrayFolders removes folders left by a reset of the store, or by a release that was interrupted between
// record and folder.
func (m *Manager) removeStrayFolders() {
	entries, err := os.ReadDir(m.cfg.Dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		id := strings.TrimSuffix(strings.TrimSuffix(strings.TrimSuffix(e.Name(), ".sock"), kmsSocket), ownedSocket)
		if len(id) == 32 && m.find(id) == nil {
			_ = os.RemoveAll(filepath.Join(m.cfg.Dir, e.Name()))
		}
	}
}

// keepCertificates renews certificates before they expire.
func (m *Manager) keepCertificates() {
	for {
		timer := m.cfg.Clock.NewTimer(renewInterval)
		select {
		case <-m.closing:
			timer.Stop()
			return
		case <-timer.C():
		}
		for _, p := range m.all() {
			if err := p.renew(); err != nil {
				m.cfg.Log.Error("renewing certificates", "plane", p.id, "err", err)
			}
		}
	}
}
