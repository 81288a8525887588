package controlplane

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/netip"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/childproc"
	"github.com/drydock-dev/drydock/internal/controlplane/launch"
	"github.com/drydock-dev/drydock/internal/controlplane/logqueue"
	"github.com/drydock-dev/drydock/internal/ids"
)

// A plane is a running control plane: its listener, its process, its sockets.
//
//	         boot                 report ready
//	(record) ────→ starting ───────────────────→ ready
//	                  ↑    ↘ exit         exit ↙
//	                  └────── failed (backoff)
type plane struct {
	m  *Manager
	id string

	// released is closed when the plane is released, and releasing is held during the release. Another plane may have
	// its ID afterwards.
	releasing sync.Mutex
	released  chan struct{}

	// upgrading is held during an upgrade. Lock it before lifecycle.
	upgrading sync.Mutex

	// lifecycle guards boot and halt, which may take long.
	lifecycle sync.Mutex
	endpoint  *endpoint
	egress    *unixServer
	kms       *unixServer
	owned     *unixServer
	process   *process           // nil before boot and after halt; changing it takes mu, too
	successor *process           // replaces process during an upgrade, see Manager.Upgrade
	retiring  *process           // has been replaced, and completes its requests
	unlog     context.CancelFunc // ends writing the authenticator's log

	// encryption is held while the EncryptionConfiguration is updated to the record's key. Lock it after lifecycle
	// and before mu.
	encryption sync.Mutex

	faulting sync.Mutex // held while the faults in force are read and recorded

	// authentication is held while the AuthenticationConfiguration is written.
	authentication sync.Mutex

	mu      sync.Mutex
	secrets secrets
	rec     record
	status  Status
	backend string // host:port of the process if it is ready
	// kmsError is the last error from KMS, for a plane with encryption.
	kmsError    error
	stubbed     map[string]int // calls of a copy's admission webhooks
	unconverted []string       // the CustomResourceDefinitions of a copy that have lost their conversion webhooks
	faults      faults
	autoMode    *automode.Setting // nil if EKS Auto Mode is disabled
	changed     chan struct{}     // closed at the next change of the above

	// authenticator has the lines of the authenticator's log, which the daemon writes itself.
	authenticator *logqueue.Queue
	clients       clients
}

func newPlane(m *Manager, rec record, sec secrets) *plane {
	p := &plane{
		m: m, id: rec.ID, secrets: sec, rec: rec,
		status:  Status{State: Starting, Reason: "waiting to be started", Since: m.cfg.Clock.Now()},
		changed: make(chan struct{}), released: make(chan struct{}), authenticator: logqueue.New(),
	}
	p.clients.plane = p
	return p
}

func (p *plane) isReleased() bool {
	select {
	case <-p.released:
		return true
	default:
		return false
	}
}

func (p *plane) dir() launch.Files { return launch.Files(filepath.Join(p.m.cfg.Dir, p.id)) }

func (p *plane) snapshot() record {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.rec
}

// cluster returns the ID of the cluster's own plane. For a copy, that is the original.
func (p *plane) cluster() string { return cmp.Or(p.snapshot().CopyOf, p.id) }

// set changes the guarded fields and wakes everyone who waits for a change.
func (p *plane) set(fn func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	fn()
	close(p.changed)
	p.changed = make(chan struct{})
}

func (p *plane) setStatus(state State, reason string) {
	p.set(func() {
		p.status.State, p.status.Reason, p.status.Since = state, reason, p.m.cfg.Clock.Now()
	})
}

// listen opens the plane's endpoint, before anything else.
func (p *plane) listen(ctx context.Context) error {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	rec := p.snapshot()
	if rec.Releasing {
		return ErrNotFound
	}
	if p.endpoint != nil {
		return nil
	}
	l, err := listen(ctx, p.m.cfg.ListenAddress, p.id, rec.Port)
	if err != nil && rec.Port != 0 {
		p.m.cfg.Log.Error("the port of a cluster's endpoint is in use; it gets another one, "+
			"and kubeconfig files that name the old one need `aws eks update-kubeconfig`",
			"cluster", rec.Key.Name, "plane", p.id, "port", rec.Port, "err", err)
		l, err = listen(ctx, p.m.cfg.ListenAddress, p.id, 0)
	}
	if err != nil {
		return fmt.Errorf("listening for control plane %s: %w", p.id, err)
	}
	port := l.Addr().(*net.TCPAddr).Port
	if port != rec.Port {
		if err := p.update(ctx, func(r *record) error { r.Port = port; return nil }); err != nil {
			l.Close()
			return err
		}
	}
	p.endpoint = &endpoint{
		listener: l,
		seenAs:   p.m.seenAs,
		refusal:  func(from netip.Addr) string { return p.snapshot().Access.refusal(from) },
		refused:  func(from netip.Addr, reason string) { p.m.refused(p.id, from, reason) },
		silence:  p.m.cfg.RefusalPatience,
		dial:     p.dial,
	}
	p.endpoint.serve()
	return nil
}

// boot starts the plane's process if it has not been started.
func (p *plane) boot(ctx context.Context) error {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	if p.snapshot().Releasing {
		return ErrNotFound
	}
	if p.process != nil {
		return nil
	}
	if err := os.MkdirAll(string(p.dir()), 0o700); err != nil {
		return err
	}
	if p.egress == nil {
		e, err := serveEgress(ctx, p.m.socketPath(p.id), func(ctx context.Context, address string) (net.Conn, error) {
			if p.snapshot().CopyOf != "" {
				return nil, errCopy
			}
			return p.m.hooks.DialCluster(ctx, p.id, address)
		})
		if err != nil {
			return fmt.Errorf("egress of control plane %s: %w", p.id, err)
		}
		p.egress = e
	}
	if err := errors.Join(p.serveOwnedKey(ctx), p.serveKMS(ctx)); err != nil {
		return err
	}
	p.setStatus(Starting, "its process is starting")
	var logging context.Context
	logging, p.unlog = context.WithCancel(p.m.ctx)
	p.m.wg.Go(func() {
		p.authenticator.Run(logging, p.writeLogs, func(err error) { p.m.cfg.Log.Warn("writing the authenticator's log", "plane", p.id, "err", err) })
	})
	p.start(ctx, &process{})
	return nil
}

// A process is a supervised child of a plane.
type process struct {
	*childproc.Supervisor
	unboot context.CancelFunc // cancels what its start waits for

	*succession // nil unless it began as a successor

	// pid and instance belong to the current run and are guarded by the plane's mu. The instance is part of the names
	// of log streams.
	pid      int
	instance string
	leads    bool   // its controllers run
	bundle   []byte // the authorities that it was started with
	settings Settings
}

// end stops a process for good. stop is the function that ends it.
func (proc *process) end(stop func(*childproc.Supervisor)) {
	proc.unboot()
	stop(proc.Supervisor)
}

// start starts a process: the plane's own, or its successor. The caller holds p.lifecycle.
func (p *plane) start(ctx context.Context, proc *process) {
	var booting context.Context
	booting, proc.unboot = context.WithCancel(context.WithoutCancel(ctx))
	if proc.succession == nil {
		p.set(func() { p.process = proc })
	} else {
		p.successor = proc
	}
	proc.Supervisor = childproc.Supervise(context.WithoutCancel(ctx), childproc.Spec{
		Mode:       launch.Mode,
		Executable: p.m.cfg.Executable,
		Args:       p.m.cfg.ChildArgs,
		Env:        childEnv(),
		Dir:        string(p.dir()),
		Config:     func() ([]byte, error) { return p.prepare(booting, proc) },
		OnStart:    func(pid int) { p.onStart(proc, pid) },
		OnReport:   func(msg []byte) { p.onReport(proc, msg) },
		OnExit:     func(err error) { p.onExit(proc, err) },
		LogFile:    p.dir().Log(),
		Log:        p.m.cfg.Log.With("plane", p.id),
	})
}

// serves reports whether proc is the plane's process, rather than its successor or one that is retiring.
func (p *plane) serves(proc *process) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.process == proc
}

// childEnv returns a child's environment. It contains nothing that changes the behaviour of Kubernetes' or Go's
// libraries, in particular no proxies.
func childEnv() []string {
	var env []string
	for _, name := range []string{"PATH", "HOME", "TMPDIR", "TZ", "SSL_CERT_FILE", "SSL_CERT_DIR", "GOTRACEBACK", "GOCOVERDIR"} {
		if v, ok := os.LookupEnv(name); ok {
			env = append(env, name+"="+v)
		}
	}
	return env
}

// prepare writes the files of a process's next run and returns its configuration.
func (p *plane) prepare(ctx context.Context, proc *process) ([]byte, error) {
	if err := p.awaitUp(ctx); err != nil {
		return nil, err
	}
	rec, err := p.prepareEncryption(ctx)
	if err != nil {
		return nil, err
	}
	successor := !p.serves(proc)
	switch {
	case successor && proc.succession == nil:
		return nil, errors.New("another process has replaced it")
	case successor:
		rec.Key.Version = proc.version
	}
	sec := p.keys()
	if err := p.writeFiles(rec, sec); err != nil {
		return nil, err
	}
	if _, err := p.writeAuthentication(); err != nil {
		return nil, err
	}
	p.set(func() { proc.instance, proc.bundle, proc.settings = ids.Hex(32), sec.bundle(), rec.Key.Settings })
	return json.Marshal(launch.Config{
		Dir:         string(p.dir()),
		Version:     rec.Key.Version,
		GitVersion:  rec.Key.gitVersion(),
		Etcd:        p.m.etcd(p.id),
		ServiceCIDR: rec.Key.ServiceCIDR,
		Issuer:      rec.issuer(),
		AWSHost:     rec.awsHost(),
		Settings:    rec.Key.Settings,
		Copy:        rec.CopyOf != "",
		// Controllers end if they do not trust the API server, and would take it with them.
		Successor: successor || p.expired() != nil,
	})
}

// writeFiles writes the files of the plane's processes.
func (p *plane) writeFiles(rec record, sec secrets) error {
	sec, err := p.expire(sec)
	if err != nil {
		return err
	}
	return writeFiles(rec, sec, p.dir(), p.m.webhooks.ca, p.m.webhooks.url, p.m.socketPath(p.id), p.m.cfg.ListenAddress, p.m.cfg.Clock.Now())
}

func (p *plane) onStart(proc *process, pid int) {
	p.set(func() {
		if proc.pid = pid; p.process != proc {
			return
		}
		p.status.State, p.status.Reason, p.status.Since = Starting, "its process is starting", p.m.cfg.Clock.Now()
		p.status.PID = pid
	})
}

func (p *plane) onReport(proc *process, msg []byte) {
	var r launch.Report
	if err := json.Unmarshal(msg, &r); err != nil {
		p.m.cfg.Log.Error("report of a control plane", "plane", p.id, "err", err)
		return
	}
	if !p.serves(proc) {
		proc.succession.heard(r)
		return
	}
	switch r.Event {
	case launch.Listening:
		p.setStatus(Starting, "its API server is starting")
	case launch.Serving:
		// It was restarted as a successor just before it became the plane's process, or its certificates have expired.
		f := p.expired()
		p.set(func() {
			if p.backend = net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port)); f != nil {
				p.status.State, p.status.Reason = Ready, f.Why()
			}
		})
		if f != nil {
			return
		}
		if err := proc.Send([]byte(launch.Lead)); err != nil {
			p.m.cfg.Log.Warn("the process of a control plane ended early", "plane", p.id, "err", err)
		}
	case launch.Ready:
		p.set(func() {
			proc.leads = true
			now := p.m.cfg.Clock.Now()
			p.m.cfg.Log.Info("control plane ready", "plane", p.id, "after", now.Sub(p.status.Since).Round(time.Millisecond))
			p.status = Status{State: Ready, PID: p.status.PID, Restarts: p.status.Restarts, Since: now}
			p.backend = net.JoinHostPort("127.0.0.1", strconv.Itoa(r.Port))
		})
		p.m.wakeSpares()
	case launch.Fatal:
		p.set(func() { p.status.Reason = r.Reason })
	}
}

func (p *plane) onExit(proc *process, err error) {
	if !p.serves(proc) {
		proc.succession.over(err)
		return
	}
	p.set(func() {
		p.backend, proc.leads = "", false
		reason := p.status.Reason // the child's own error, if it was not ready yet
		if p.status.State == Ready || reason == "" {
			reason = fmt.Sprintf("its process ended: %v", err)
		} else {
			reason = fmt.Sprintf("its process ended: %v: %s", err, reason)
		}
		p.status.State, p.status.Reason, p.status.Since = Failed, reason, p.m.cfg.Clock.Now()
		p.status.PID = 0
		p.status.Restarts++
	})
	p.clients.closeIdle()
}

// halt stops the endpoint, the process and its sockets. stop is the function that ends the process.
func (p *plane) halt(stop func(*childproc.Supervisor)) {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	if p.endpoint != nil {
		p.endpoint.close()
		p.endpoint = nil
	}
	if p.successor != nil {
		p.successor.end(stop)
		p.successor = nil
	}
	if p.retiring != nil {
		p.retiring.end(stop)
		p.retiring = nil
	}
	if p.process != nil {
		p.unlog()
		p.process.end(stop)
		p.set(func() { p.process = nil })
	}
	if p.egress != nil {
		p.egress.close()
		p.egress = nil
	}
	if p.kms != nil {
		p.kms.close()
		p.kms = nil
	}
	if p.owned != nil {
		p.owned.close()
		p.owned = nil
	}
	p.clients.closeIdle()
}

// running reports whether boot has been called.
func (p *plane) running() bool {
	p.lifecycle.Lock()
	defer p.lifecycle.Unlock()
	return p.process != nil
}

func (p *plane) currentStatus() Status {
	p.mu.Lock()
	s, kmsError := p.status, p.kmsError
	p.mu.Unlock()
	if s.State != Ready && kmsError != nil {
		s.Reason += "; its key cannot be used: " + kmsError.Error()
	}
	if s.State == Failed {
		s.LogTail = childproc.LogTail(p.dir().Log())
	}
	return s
}

// waitReady waits until the process is ready and returns its address.
func (p *plane) waitReady(ctx context.Context) (backend string, err error) {
	for {
		p.mu.Lock()
		backend, down, changed := p.backend, p.faults.down, p.changed
		p.mu.Unlock()
		switch {
		case p.isReleased():
			return "", ErrNotFound
		case down != nil:
			return "", p.isDown(down)
		}
		if backend != "" {
			return backend, nil
		}
		select {
		case <-changed:
		case <-p.m.closing:
			return "", errClosed
		case <-ctx.Done():
			status := p.currentStatus()
			return "", fmt.Errorf("control plane %s is %s: %s: %w", p.id, status.State, status.Reason, ctx.Err())
		}
	}
}

// dial connects to the process, waiting for it until ctx ends.
func (p *plane) dial(ctx context.Context) (net.Conn, error) {
	var d net.Dialer
	for {
		backend, err := p.waitReady(ctx)
		if err != nil {
			return nil, err
		}
		conn, err := d.DialContext(ctx, "tcp", backend)
		if err == nil {
			return conn, nil
		}
		// The process has just died, and its exit has not been noticed yet.
		select {
		case <-ctx.Done():
			return nil, err
		case <-time.After(20 * time.Millisecond):
		}
	}
}

// seenAs returns the address by which AWS would see a client.
func (m *Manager) seenAs(from net.Addr) netip.Addr {
	ap, err := netip.ParseAddrPort(from.String())
	if addr := ap.Addr().Unmap(); err == nil && !addr.IsLoopback() {
		return addr
	}
	return m.cfg.ClientAddress
}

// refusal says why a client at an address may not use the endpoint, or returns "".
func (a Access) refusal(from netip.Addr) string {
	if !a.Public {
		return "the cluster's endpoint has no public access"
	}
	for _, prefix := range a.PublicCIDRs {
		if prefix.Contains(from) {
			return ""
		}
	}
	if len(a.PublicCIDRs) == 0 {
		return ""
	}
	return fmt.Sprintf("%s is not in the cluster's public access CIDRs", from)
}

// update changes the record, first in the store and then here.
func (p *plane) update(ctx context.Context, fn func(*record) error) error {
	var next record
	err := records.UpdateOne(ctx, p.m.cfg.Store, recordKey(p.id), func(r *record) error {
		err := fn(r)
		next = *r
		return err
	})
	if err != nil {
		return err
	}
	p.set(func() { p.rec = next })
	return nil
}

// renew replaces certificates that expire soon.
func (p *plane) renew() error {
	dir := p.dir()
	if _, err := os.Stat(dir.Serving()); errors.Is(err, os.ErrNotExist) {
		return nil // never started
	}
	if p.expired() != nil {
		return nil
	}
	all := leaves(p.snapshot(), p.keys(), p.m.webhooks.ca, dir, p.m.cfg.ListenAddress)
	return renewLeaves(all, true, p.m.cfg.Clock.Now())
}

func (p *plane) describe() Plane {
	rec := p.snapshot()
	host := p.m.cfg.ListenAddress
	if ip := net.ParseIP(host); ip != nil && ip.IsUnspecified() {
		host = "127.0.0.1"
	}
	return Plane{
		ID:         rec.ID,
		Owner:      rec.Owner,
		Key:        rec.Key,
		Endpoint:   "https://" + net.JoinHostPort(host, strconv.Itoa(rec.Port)),
		AWSHost:    rec.awsHost(),
		CAPEM:      p.keys().bundle(),
		Issuer:     rec.issuer(),
		GitVersion: rec.Key.gitVersion(),
		CreatedAt:  rec.CreatedAt,
	}
}
