// Package etcdserver runs the embedded etcd: one member that listens only on a unix socket, tuned for a
// machine with a single writer rather than for a replicated cluster.
//
// It does not depend on what is stored. Only internal/store imports it.
package etcdserver

import (
	"context"
	"fmt"
	"log/slog"
	"net"
	"net/url"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"go.etcd.io/etcd/api/v3/etcdserverpb"
	clientv3 "go.etcd.io/etcd/client/v3"
	"go.etcd.io/etcd/server/v3/embed"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3client"
	"go.etcd.io/etcd/server/v3/etcdserver/api/v3rpc"
	"go.etcd.io/etcd/server/v3/storage/wal"
	"go.uber.org/zap"
	"google.golang.org/grpc"
	"google.golang.org/grpc/keepalive"
)

const (
	// walSegment is how much is preallocated for each of the two open log files. With etcd's default of 64 MB every
	// throw-away store on tmpfs would take 128 MB.
	walSegment = 8 << 20

	// maxRequest bounds one transaction; etcd's 1.5 MiB is too little for 100
	// large records.
	maxRequest = 8 << 20

	// maxTxnOps is above what any transaction of internal/store needs.
	maxTxnOps = 1024

	// These bound the raft log that is kept in memory and replayed after a crash. etcd's default of 10,000 serves
	// followers that must catch up; there are none here.
	snapshotCount   = 5000
	snapshotCatchUp = 100

	// These set Raft's clock. A lone member elects itself within electionTicks of its start, so the tick decides how
	// fast a store opens and what it costs when idle: 1.6 % of a core at 10 ms, 0.6 % at 50 ms.
	tick          = 50 // milliseconds
	tickThrowAway = 10
	electionTicks = 5

	// closeTimeout bounds Close, which may hang after etcd has failed.
	closeTimeout = time.Second
)

// Config configures the server.
type Config struct {
	// Dir is etcd's data folder. It is created if it does not exist.
	Dir string
	// Socket is the path of the unix socket for other processes.
	Socket string
	// NoSync skips every fsync, for stores that are thrown away.
	NoSync bool
	// QuotaBytes is the database size at which writes are refused.
	QuotaBytes int64
	Log        *slog.Logger
}

// A Server is a running etcd.
type Server struct {
	etcd   *embed.Etcd
	client *clientv3.Client
	grpc   *grpc.Server
	socket string
	served sync.WaitGroup
	fatal  *fatalHook
	silent *atomic.Bool
}

// setSegment runs once because the size is a variable of etcd's wal package that every running server reads without a
// lock.
var setSegment = sync.OnceFunc(func() { wal.SegmentSizeBytes = walSegment })

// Start starts etcd and returns when it serves requests.
func Start(ctx context.Context, cfg Config) (_ *Server, err error) {
	setSegment()
	if cfg.Log == nil {
		cfg.Log = slog.Default()
	}
	fatal := &fatalHook{failed: make(chan struct{})}
	ec := embed.NewConfig()
	ec.Name = "drydock"
	ec.Dir = cfg.Dir
	// Use none of embed's listeners: its peer listener cannot use a socket by path, and its client listener waits for
	// open watches when it is closed.
	ec.ListenPeerUrls, ec.ListenClientUrls, ec.AdvertiseClientUrls = nil, nil, nil
	ec.AdvertisePeerUrls = []url.URL{{Scheme: "http", Host: "localhost:0"}} // only an identity; nothing dials it
	ec.InitialCluster = ec.InitialClusterFromName(ec.Name)
	ec.EnableGRPCGateway = false
	ec.TickMs = tick
	if cfg.NoSync {
		ec.TickMs = tickThrowAway
	}
	ec.ElectionMs = electionTicks * ec.TickMs
	ec.PreVote = false
	ec.UnsafeNoFsync = cfg.NoSync
	ec.QuotaBackendBytes = cfg.QuotaBytes
	ec.MaxRequestBytes = maxRequest
	ec.MaxTxnOps = maxTxnOps
	ec.SnapshotCount, ec.SnapshotCatchUpEntries = snapshotCount, snapshotCatchUp
	ec.MaxSnapFiles, ec.MaxWalFiles = 2, 2
	ec.WarningApplyDuration = 2 * time.Second
	ec.WarningUnaryRequestDuration = 5 * time.Second
	ec.CompactHashCheckTime = 24 * time.Hour
	silent := &atomic.Bool{}
	ec.ZapLoggerBuilder = embed.NewZapLoggerBuilder(zap.New(&slogCore{log: cfg.Log, silent: silent},
		zap.WithFatalHook(fatal), zap.WithPanicHook(fatal)))

	s := &Server{socket: cfg.Socket, fatal: fatal, silent: silent}
	if s.etcd, err = start(ec, fatal); err != nil {
		return nil, err
	}
	select {
	case <-s.etcd.Server.ReadyNotify():
	case <-fatal.failed:
		_ = s.Close()
		return nil, fatal.Err()
	case <-ctx.Done():
		_ = s.Close()
		return nil, ctx.Err()
	}
	s.client = v3client.New(s.etcd.Server)
	if err := s.listen(ctx); err != nil {
		_ = s.Close()
		return nil, err
	}
	return s, nil
}

// start calls embed.StartEtcd in its own goroutine, because a failure ends that goroutine, or makes it wait forever
// for another one.
func start(cfg *embed.Config, fatal *fatalHook) (*embed.Etcd, error) {
	type result struct {
		etcd *embed.Etcd
		err  error
	}
	started := make(chan result, 1)
	go func() {
		defer func() {
			if r := recover(); r != nil {
				started <- result{nil, fmt.Errorf("%v", r)}
			}
		}()
		etcd, err := embed.StartEtcd(cfg)
		started <- result{etcd, err}
	}()
	select {
	case r := <-started:
		return r.etcd, r.err
	case <-fatal.failed:
		return nil, fatal.Err()
	}
}

func (s *Server) listen(ctx context.Context) error {
	_ = os.Remove(s.socket) // left by a crash: we hold the folder's lock, so no process listens on it
	l, err := (&net.ListenConfig{}).Listen(ctx, "unix", s.socket)
	if err != nil {
		return err
	}
	s.grpc = v3rpc.Server(s.etcd.Server, nil, nil,
		// kube-apiserver pings more often than grpc allows by default.
		grpc.KeepaliveEnforcementPolicy(keepalive.EnforcementPolicy{MinTime: embed.DefaultGRPCKeepAliveMinTime}))
	s.served.Go(func() {
		_ = s.grpc.Serve(l) // ends with Stop
	})
	return nil
}

// Client returns a client inside this process. Close closes it.
func (s *Server) Client() *clientv3.Client { return s.client }

// Endpoint returns the address at which other processes reach the server.
func (s *Server) Endpoint() string { return "unix://" + s.socket }

// Failed is closed when etcd cannot continue, usually because the disk refused a write. No acknowledged write is
// lost; a new Start on a working disk continues from there.
func (s *Server) Failed() <-chan struct{} { return s.fatal.failed }

// Err says why Failed is closed.
func (s *Server) Err() error { return s.fatal.Err() }

// Size returns the size of the database file and how many bytes of it are in use.
func (s *Server) Size() (total, inUse int64) {
	b := s.etcd.Server.Backend()
	return b.Size(), b.SizeInUse()
}

// Revision returns the revision of the last write.
func (s *Server) Revision() int64 { return s.etcd.Server.KV().Rev() }

// Full reports whether the alarm that makes etcd refuse every put is on.
func (s *Server) Full() bool {
	for _, a := range s.etcd.Server.Alarms() {
		if a.Alarm == etcdserverpb.AlarmType_NOSPACE {
			return true
		}
	}
	return false
}

// SetFull turns that alarm on or off.
func (s *Server) SetFull(ctx context.Context, full bool) error {
	action := etcdserverpb.AlarmRequest_DEACTIVATE
	if full {
		action = etcdserverpb.AlarmRequest_ACTIVATE
	}
	_, err := s.etcd.Server.Alarm(ctx, &etcdserverpb.AlarmRequest{
		MemberID: uint64(s.etcd.Server.MemberID()),
		Action:   action,
		Alarm:    etcdserverpb.AlarmType_NOSPACE,
	})
	return err
}

// Defragment rewrites the database file without its holes. Everything else waits in the meantime, and the disk must
// have room for a second copy of the data in use.
func (s *Server) Defragment() error { return s.etcd.Server.Defragment() }

// Close stops the server and its client.
func (s *Server) Close() error {
	s.silent.Store(true) // errors from here on are caused by closing
	done := make(chan struct{})
	go func() {
		defer close(done)
		if s.grpc != nil {
			s.grpc.Stop()
			s.served.Wait()
		}
		if s.client != nil {
			_ = s.client.Close() // reports only the cancellation of its own context
		}
		s.etcd.Close()
	}()
	select {
	case <-done:
		return nil
	case <-s.closeDeadline():
		return fmt.Errorf("etcd did not stop: %w", s.fatal.Err())
	}
}

// closeDeadline fires only after a failure: Close waits as long as it takes for a healthy etcd.
func (s *Server) closeDeadline() <-chan time.Time {
	if s.fatal.Err() == nil {
		return nil
	}
	return time.After(closeTimeout)
}

// A fatalHook replaces os.Exit and panic for the errors that etcd does not survive. It stores the first one and ends
// the goroutine that hit it, so that the daemon can report it and shut down cleanly.
type fatalHook struct {
	once   sync.Once
	failed chan struct{}
	err    error
}

func (h *fatalHook) fail(err error) {
	h.once.Do(func() {
		h.err = err
		close(h.failed)
	})
}

// Err returns the failure, or nil.
func (h *fatalHook) Err() error {
	select {
	case <-h.failed:
		return h.err
	default:
		return nil
	}
}
