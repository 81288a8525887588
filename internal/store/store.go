// Package store keeps all of Drydock's state. It alone talks to etcd.
//
// Records live in typed collections (Collection) keyed by account, region and ID. Reads come from an in-memory view
// that holds every record; a read sees every write that completed before it. Writes are optimistic transactions:
// Update runs its function against the view and commits only if nothing it read has changed; otherwise it runs the
// function again. Watchers are level-triggered: they name the keys that changed, never lose one and never block a
// writer.
//
// # How it works
//
// Everything is under one prefix of etcd, so that one etcd can hold several Drydocks:
//
//	PREFIX/aws/SERVICE/TYPE/ACCOUNT/REGION/ID   a record (REGION is "-" for global services)
//	PREFIX/clusters/PLANE/                      a cluster's Kubernetes state, written by its API server
//	PREFIX/data-version                         which versions can read the records; see DataVersion
//	PREFIX/gone/SERVICE/TYPE/BUCKET             touched by deletions, only if etcd is shared; see commit
//	compact_rev_key                             as kube-apiserver's compactor keeps it
//
// The view follows an etcd watch and is always exactly the state of one revision. Update returns when the view has
// reached the revision of its own write, so readers and watchers see all changes in one order, no matter who made
// them. If the watch is lost, the view is reloaded and the differences are reported.
//
// The embedded etcd (package etcdserver) answers a write after its log is synced; kill -9 at any time loses no
// acknowledged write.
//
// A transaction may have at most MaxWrites writes. To make a larger change atomic, make it visible with one last
// record.
package store

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"time"

	clientv3 "go.etcd.io/etcd/client/v3"
	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/store/etcdserver"
)

// MaxWrites is how many records one transaction may write.
const MaxWrites = 100

var (
	// ErrClosed is returned after Close.
	ErrClosed = errors.New("the store is closed")
	// ErrConflict is returned by Update when other processes kept changing what
	// it read.
	ErrConflict = errors.New("other processes keep changing the same records")
	// ErrTooLarge is returned by Update for a transaction that is too large for etcd; retrying does not help.
	ErrTooLarge = errors.New("transaction too large")
	// ErrUnavailable is returned when etcd does not answer. The write may still
	// succeed.
	ErrUnavailable = errors.New("the store is unavailable")
	// ErrOutOfSpace is returned by Update if there is no space left to write. Transactions that only delete still
	// succeed.
	ErrOutOfSpace = errors.New("the store is out of space")
	// ErrInUse is returned by Open if another process has the data folder open.
	ErrInUse = errors.New("data folder is in use")
)

// DefaultPrefix is the store's prefix in etcd unless Config sets another.
const DefaultPrefix = "/drydock"

// Config says where the store is: in Dir, in memory only (Ephemeral) or in a user's etcd (Endpoints).
type Config struct {
	// Dir is the data folder of the embedded etcd. It is created if it does not exist.
	Dir string
	// Ephemeral keeps nothing. The store uses a private temporary folder without fsync, in memory if the system has a
	// large enough tmpfs, and Close removes it.
	Ephemeral bool

	// Endpoints are the URLs of an external etcd.
	Endpoints []string
	// CAFile verifies the external etcd; CertFile and KeyFile identify this client to it.
	CAFile, CertFile, KeyFile string
	// Username and Password log in to it. Kubernetes API servers can only use certificates; see EtcdAccess.
	Username, Password string

	// Prefix separates this store from others in the same etcd. Empty means DefaultPrefix.
	Prefix string
	// QuotaBytes bounds the embedded etcd's database; 0 means 8 GiB.
	QuotaBytes int64
	// MinFreeBytes is how much disk space the embedded etcd leaves free. Below it, every put is refused, including
	// those of API servers. 0 means 64 MiB.
	MinFreeBytes int64

	// Version is the program's version. It is shown to users who open the data with an older program.
	Version string

	// BeforeCommit, if set, is called before every transaction that writes. If it returns an error, Update returns
	// that error and writes nothing. Tests use it to stop a daemon between two writes.
	BeforeCommit func(context.Context) error

	Log   *slog.Logger     // nil means slog.Default()
	Clock clock.WithTicker // for maintenance; nil means the real clock
}

// A Store is the open store. Its methods may be called concurrently.
type Store struct {
	cfg    Config
	root   string // PREFIX without a trailing slash
	log    *slog.Logger
	client *clientv3.Client
	server *etcdserver.Server // nil if external
	home   *home              // nil if external
	access EtcdAccess

	view    *view
	lineup  lineup
	damage  damage
	version DataVersion
	// spaceCheck asks the maintainer to check the space now.
	spaceCheck chan struct{}

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	alive  context.Context // ends with Close or when etcd has failed

	mu     sync.Mutex
	closed bool           // set when no more goroutines may start
	owned  sync.WaitGroup // counts running goroutines

	closeOnce sync.Once
	closeErr  error
}

// Open opens the store. Close it when done. Its errors are one line that says what to do.
func Open(ctx context.Context, cfg Config) (_ *Store, err error) {
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	if cfg.Clock == nil {
		cfg.Clock = clock.RealClock{}
	}
	if cfg.QuotaBytes == 0 {
		cfg.QuotaBytes = 8 << 30
	}
	if cfg.MinFreeBytes == 0 {
		cfg.MinFreeBytes = 64 << 20
	}
	root := strings.TrimRight(cfg.Prefix, "/")
	if root == "" {
		root = DefaultPrefix
	}
	if !strings.HasPrefix(root, "/") {
		root = "/" + root
	}
	s := &Store{cfg: cfg, root: root, log: cfg.Log, spaceCheck: make(chan struct{}, 1)}
	s.view = newView(s.unreadable)
	s.ctx, s.cancel = context.WithCancel(context.WithoutCancel(ctx))
	s.alive = s.ctx
	defer func() {
		if err != nil {
			_ = s.Close() // report only the first error, on one line
		}
	}()
	if len(cfg.Endpoints) > 0 {
		err = s.dial(ctx)
	} else {
		err = s.serve(ctx)
	}
	if err != nil {
		return nil, err
	}
	rev, err := s.load(ctx)
	if err != nil {
		return nil, fmt.Errorf("reading the store: %w", s.explain(err))
	}
	if err := s.checkVersion(ctx); err != nil {
		return nil, err
	}
	s.spawn(func() { s.follow(rev) })
	s.migrate(ctx)
	s.spawn(s.maintain)
	return s, nil
}

// spawn runs f in a goroutine that Close waits for. It returns false if the store is already closing.
func (s *Store) spawn(f func()) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return false
	}
	s.owned.Go(f)
	return true
}

// serve starts the embedded etcd.
func (s *Store) serve(ctx context.Context) error {
	var err error
	if s.cfg.Ephemeral {
		s.home, err = ephemeralHome()
	} else {
		s.home, err = openHome(s.cfg.Dir)
	}
	if err != nil {
		return err
	}
	s.server, err = etcdserver.Start(ctx, etcdserver.Config{
		Dir:        s.home.data(),
		Socket:     s.home.socket,
		NoSync:     s.cfg.Ephemeral,
		QuotaBytes: s.cfg.QuotaBytes,
		Log:        s.log,
	})
	if err != nil {
		return fmt.Errorf("starting the store in %s: %w", s.home.dir, err)
	}
	s.client = s.server.Client()
	s.access = EtcdAccess{Endpoints: []string{s.server.Endpoint()}}
	alive, end := context.WithCancelCause(s.ctx)
	s.alive = alive
	s.spawn(func() {
		select {
		case <-s.server.Failed():
			s.log.Error("store failed", "err", s.Err())
			end(s.Err())
		case <-alive.Done():
			end(nil)
		}
	})
	return nil
}

// Close ends the store and every watcher. Reads keep returning the last known state.
func (s *Store) Close() error {
	s.closeOnce.Do(func() {
		s.cancel()
		s.mu.Lock()
		s.closed = true
		s.mu.Unlock()
		s.view.close()
		s.owned.Wait()
		var errs []error
		switch {
		case s.server != nil:
			errs = append(errs, s.server.Close())
		case s.client != nil:
			_ = s.client.Close() // closing the connection loses nothing
		}
		if s.home != nil {
			errs = append(errs, s.home.close())
		}
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}

// Failed returns a channel that is closed when the embedded etcd cannot continue, usually because its disk refused a
// write. Err then says why. No acknowledged write is lost; the daemon should report the error and exit. For an
// external etcd it is never closed.
func (s *Store) Failed() <-chan struct{} {
	if s.server == nil {
		return nil
	}
	return s.server.Failed()
}

// Err returns why Failed is closed, or nil if it is not.
func (s *Store) Err() error {
	if s.server == nil {
		return nil
	}
	if err := s.server.Err(); err != nil {
		return fmt.Errorf("%w: %w; free space or repair the disk of %s, then start Drydock again: no acknowledged write is lost",
			ErrUnavailable, err, s.home.dir)
	}
	return nil
}

// Changed returns a channel that is closed at the next change of any record.
func (s *Store) Changed() <-chan struct{} {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	return s.view.changed
}

func (s *Store) get(coll, path string) (*entry, bool) { return s.view.snap.Load().get(coll, path) }
func (s *Store) list(coll, prefix string) []*entry    { return s.view.snap.Load().list(coll, prefix) }

// commitTimeout is how long etcd may take to answer a write.
const commitTimeout = 10 * time.Second
