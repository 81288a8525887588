package controlplane

import (
	"cmp"
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

	"golang.org/x/sync/errgroup"
	"k8s.io/client-go/rest"
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
	if cfg.DialCluster == nil {
		cfg.DialCluster = func(context.Context, string, string) (net.Conn, error) { return nil, ErrRunsNothing }
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

// Claim returns the plane that owner has, otherwise a spare, otherwise a new one. The plane may still be starting,
// see WaitReady. Owner is any string that permanently identifies the cluster, such as its ARN and creation token.
func (m *Manager) Claim(ctx context.Context, owner string, key Key) (Plane, error) {
	return m.claim(ctx, owner, key, "", "")
}

// ErrIDTaken means that another plane has the ID.
var ErrIDTaken = errors.New("another cluster has this ID")

// Adopt is Claim for a copy of a cluster on AWS: a new plane gets an ID, 32 upper-case hexadecimal digits, and so the
// cluster's issuer, and its host name on AWS. If host is empty, it follows from the ID.
func (m *Manager) Adopt(ctx context.Context, owner string, key Key, id, host string) (Plane, error) {
	return m.claim(ctx, owner, key, id, host)
}

func (m *Manager) claim(ctx context.Context, owner string, key Key, id, host string) (Plane, error) {
	if owner == "" {
		return Plane{}, errors.New("a control plane needs an owner")
	}
	if err := key.validate(); err != nil {
		return Plane{}, err
	}
	m.birth.Lock()
	defer m.birth.Unlock()
	if m.isClosed() {
		return Plane{}, errClosed
	}
	p, err := m.assign(ctx, owner, key, id, host)
	if err != nil {
		return Plane{}, err
	}
	if err := p.listen(ctx); err != nil {
		return Plane{}, err
	}
	if err := p.boot(ctx); err != nil {
		return Plane{}, err
	}
	p.applyFaults() // those of a cluster of the same name
	m.wakeSpares()
	return p.describe(), nil
}

// assign finds or creates the plane for owner.
func (m *Manager) assign(ctx context.Context, owner string, key Key, id, host string) (*plane, error) {
	var spare *plane
	for _, p := range m.all() {
		rec := p.snapshot()
		switch {
		case rec.Releasing:
		case rec.Owner == owner:
			return p, nil
		case id != "":
		case rec.Owner == "" && rec.Key.kind() == key.kind():
			if spare == nil || p.currentStatus().State == Ready {
				spare = p
			}
		}
	}
	if spare != nil {
		err := spare.update(ctx, func(r *record) error {
			if r.Releasing {
				return store.ErrNotFound
			}
			r.Owner, r.Key, r.CreatedAt = owner, key, m.cfg.Clock.Now()
			return nil
		})
		switch {
		case err == nil:
			return spare, m.remember(ctx, key)
		case !errors.Is(err, store.ErrNotFound): // otherwise it was just released
			return nil, err
		}
	}
	if id != "" {
		if m.find(id) != nil {
			return nil, fmt.Errorf("%w: %s", ErrIDTaken, id)
		}
		return m.bear(ctx, owner, key, id, host)
	}
	p, err := m.bear(ctx, owner, key, "", "")
	if err != nil {
		return nil, err
	}
	return p, m.remember(ctx, key)
}

// bear creates a new plane with its identity; owner is empty for a spare, and id and host are empty if they are not
// given.
func (m *Manager) bear(ctx context.Context, owner string, key Key, id, host string) (*plane, error) {
	now := m.cfg.Clock.Now()
	rec := newRecord(key, owner, now)
	rec.ID, rec.Host = cmp.Or(id, rec.ID), host
	sec, err := newSecrets(now)
	if err != nil {
		return nil, err
	}
	err = m.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		return errors.Join(
			records.Create(tx, recordKey(rec.ID), rec),
			secretRecords.Create(tx, recordKey(rec.ID), sec),
		)
	})
	if err != nil {
		return nil, err
	}
	p := newPlane(m, rec, sec)
	m.mu.Lock()
	m.planes[rec.ID] = p
	m.mu.Unlock()
	return p, nil
}

// remember stores the key that was claimed last, for spares.
func (m *Manager) remember(ctx context.Context, key Key) error {
	if m.cfg.WarmSpares == 0 || key.IPFamily == "ipv6" { // the service range of an IPv6 cluster is random
		return nil
	}
	return m.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		return lastKeys.Put(tx, recordKey("last"), key.kind())
	})
}

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

// Release removes a plane and everything that belongs to it: process, listener, files, Kubernetes state, record.
// Releasing a missing plane does nothing. After an error, call it again; a new Manager continues a release by itself.
func (m *Manager) Release(ctx context.Context, id string) error {
	p := m.find(id)
	if p == nil {
		return nil
	}
	if err := p.update(ctx, func(r *record) error { r.Releasing = true; return nil }); err != nil && !errors.Is(err, store.ErrNotFound) {
		return err
	}
	p.set(func() { p.rec.Releasing = true }) // also if a reset has already removed the record
	// Nothing of it is needed any more, so it need not end in good order.
	p.halt((*childproc.Supervisor).Kill)
	if err := os.RemoveAll(string(p.dir())); err != nil {
		return err
	}
	if err := m.cfg.Store.DeleteClusterPrefix(ctx, id); err != nil {
		return fmt.Errorf("removing the state of control plane %s: %w", id, err)
	}
	err := m.cfg.Store.Update(ctx, func(tx *store.Tx) error {
		records.Delete(tx, recordKey(id))
		secretRecords.Delete(tx, recordKey(id))
		usages.Delete(tx, recordKey(id))
		return nil
	})
	if err != nil {
		return err
	}
	m.mu.Lock()
	delete(m.planes, id)
	m.mu.Unlock()
	p.set(func() { p.gone = true })
	return nil
}

// ReleaseAll releases the planes of an account, or all planes and spares if account is empty. It uses the running
// planes rather than the records, because a reset of the store may have removed the records already.
func (m *Manager) ReleaseAll(ctx context.Context, account string) error {
	group, ctx := errgroup.WithContext(ctx)
	for _, p := range m.all() {
		rec := p.snapshot()
		if account == "" || rec.Owner != "" && rec.Key.Account == account {
			group.Go(func() error { return m.Release(ctx, p.id) })
		}
	}
	return group.Wait()
}

// SetAccess changes who may connect to the plane's endpoint. A new plane is public for all.
func (m *Manager) SetAccess(ctx context.Context, id string, a Access) error {
	p := m.find(id)
	if p == nil {
		return ErrNotFound
	}
	return p.update(ctx, func(r *record) error { r.Access = a; return nil })
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

func (m *Manager) refused(id string, from netip.Addr, reason string) {
	m.cfg.Log.Info("connection refused", "plane", id, "from", from, "reason", reason)
	if m.cfg.OnRefused != nil {
		m.cfg.OnRefused(id, from, reason)
	}
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
