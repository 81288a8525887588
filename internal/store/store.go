// Package store keeps everything Drydock remembers. It alone talks to etcd.
//
// Records live in typed collections (Collection) keyed by account, region and
// ID. Reads come from an in-memory view that holds every record; a read sees
// every write answered before it. Writes are optimistic transactions: Update
// runs its function against the view and commits only if nothing it read has
// changed, else it runs it again. Watchers are level-triggered: they name the
// keys that changed, never lose one and never block a writer.
//
// # How it works
//
// Everything is under one prefix of etcd, so that one etcd can hold several
// Drydocks:
//
//	PREFIX/aws/SERVICE/TYPE/ACCOUNT/REGION/ID   a record (REGION is "-" for global services)
//	PREFIX/clusters/PLANE/                      a cluster's Kubernetes state, written by its API server
//	PREFIX/data-version                         what can read the records; see DataVersion
//	PREFIX/gone/SERVICE/TYPE/BUCKET             touched by deletions, only if etcd is shared; see commit
//	compact_rev_key                             as kube-apiserver's compactor keeps it
//
// The view follows an etcd watch and is always exactly the state of one revision.
// Update returns when the view has reached the revision of its own write; so there
// is one order of changes for readers and watchers, no matter who made them. If
// the watch is lost, the view is reloaded and the differences are reported.
//
// The embedded etcd (package etcdserver) answers a write after its log is synced;
// kill -9 at any time loses nothing that was answered.
//
// It does not support transactions of more than MaxWrites writes. Make a larger
// change visible by one last record.
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
	// ErrTooLarge is returned by Update for a transaction that etcd would refuse
	// for its size; running it again does not help.
	ErrTooLarge = errors.New("transaction too large")
	// ErrUnavailable is returned when etcd does not answer. The write may still
	// succeed.
	ErrUnavailable = errors.New("the store is unavailable")
	// ErrOutOfSpace is returned by Update if there is no space left to write.
	// Transactions that only delete still go through.
	ErrOutOfSpace = errors.New("the store is out of space")
	// ErrInUse is returned by Open when another process has the data folder.
	ErrInUse = errors.New("data folder is in use")
)

// DefaultPrefix is where in etcd the store is unless Config says otherwise.
const DefaultPrefix = "/drydock"

// Config says where the store is: in Dir, nowhere (Ephemeral) or in an etcd of
// the user's (Endpoints).
type Config struct {
	// Dir is the data folder of the embedded etcd. It is made if it is not there.
	Dir string
	// Ephemeral keeps nothing: the store lives in a private temporary folder, in
	// memory where the system has a large enough tmpfs, without fsync, and is
	// removed by Close.
	Ephemeral bool

	// Endpoints are the URLs of an external etcd.
	Endpoints []string
	// CAFile verifies the external etcd; CertFile and KeyFile are shown to it.
	CAFile, CertFile, KeyFile string
	// Username and Password log in to it. Kubernetes API servers know only
	// certificates, see EtcdAccess.
	Username, Password string

	// Prefix separates this store from others in the same etcd; empty means
	// DefaultPrefix.
	Prefix string
	// QuotaBytes bounds the embedded etcd's database; 0 means 8 GiB.
	QuotaBytes int64
	// MinFreeBytes is how much of the disk the embedded etcd leaves free: below
	// it every put is refused, also those of API servers. 0 means 64 MiB.
	MinFreeBytes int64

	// Version is the program's, for those who open its data with an older one.
	Version string

	// BeforeCommit, if set, is called before every transaction that writes; its
	// error is Update's, and nothing is written. Tests stop a daemon between two
	// writes with it.
	BeforeCommit func(context.Context) error

	Log   *slog.Logger     // nil: slog.Default()
	Clock clock.WithTicker // for maintenance; nil: the real one
}

// A Store is the open store. Its methods may be called concurrently.
type Store struct {
	cfg    Config
	root   string // PREFIX without a slash at its end
	log    *slog.Logger
	client *clientv3.Client
	server *etcdserver.Server // nil: external
	home   *home              // nil: external
	access EtcdAccess

	view    *view
	lineup  lineup
	damage  damage
	version DataVersion
	// spaceCheck asks the maintainer to look at the space now.
	spaceCheck chan struct{}

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	alive  context.Context // ends with Close or when etcd has failed

	mu     sync.Mutex
	closed bool           // no more goroutines
	owned  sync.WaitGroup // goroutines

	closeOnce sync.Once
	closeErr  error
}

// Open opens the store. Close it when done. Its errors are one line that says
// what to do.
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
			_ = s.Close() // the first error is the one to tell, on one line
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

// spawn runs f in a goroutine that Close waits for; false if it is too late.
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

// Close ends the store and every watcher. Reads go on to answer what was last
// known.
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
			_ = s.client.Close() // nothing is lost with the connection
		}
		if s.home != nil {
			errs = append(errs, s.home.close())
		}
		s.closeErr = errors.Join(errs...)
	})
	return s.closeErr
}

// Failed returns a channel that is closed when the embedded etcd cannot go on,
// usually because its disk refused a write. Err then says why. Nothing answered
// is lost; the daemon should say so and end. An external etcd never closes it.
func (s *Store) Failed() <-chan struct{} {
	if s.server == nil {
		return nil
	}
	return s.server.Failed()
}

// Err says why Failed is closed, nil if it is not.
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

// Changed returns a channel that is closed by the next change of any record.
func (s *Store) Changed() <-chan struct{} {
	s.view.mu.Lock()
	defer s.view.mu.Unlock()
	return s.view.changed
}

func (s *Store) get(coll, path string) (*entry, bool) { return s.view.snap.Load().get(coll, path) }
func (s *Store) list(coll, prefix string) []*entry    { return s.view.snap.Load().list(coll, prefix) }

// commitTimeout is how long etcd may take to answer a write.
const commitTimeout = 10 * time.Second
