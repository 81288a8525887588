// Package sshd is the SSH server of a machine, built on golang.org/x/crypto/ssh. It serves shells and commands
// with and without a terminal, sftp and scp on the machine's own files, and connections to hosts that the machine reaches.
//
// It accepts public keys only: those in the user's authorized_keys, and those that Config.Keys adds. Agent, X11 and
// remote port forwarding are off. The server does not trust clients: each connection has limits (Limits), and an error
// ends only the connection that caused it. It uses nothing on the host. Packages machine/simulated and node/containers import it.
package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/crypto/ssh"
	"golang.org/x/time/rate"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// A Host is the machine on which the server runs.
type Host interface {
	Exec(ctx context.Context, c machine.Command) (machine.Process, error)
	Dial(ctx context.Context, host string, port int) (net.Conn, error)
}

// Files are the machine's files, in which the server finds users and their keys.
type Files interface {
	accounts.Files
	Stat(name string) (fs.FileInfo, error)
}

// Config is what a server needs. Host, HostKeys, and either FS or Files are required.
type Config struct {
	Host Host
	// FS has the files of a simulated machine. The server itself does there what sftp and scp ask for.
	FS *vfs.FS
	// Files are those of a machine with real programs. SFTP is the program that serves the subsystem sftp there.
	Files Files
	SFTP  []string
	// Changed stores the disk after sftp or scp has changed it.
	Changed func() error
	// HostKeys returns the machine's host keys.
	HostKeys func() ([]ssh.Signer, error)
	// Keys returns keys of a user beyond those in authorized_keys, as sshd's AuthorizedKeysCommand does. It may be nil.
	Keys func(ctx context.Context, user string) []string
	// Version is the server's version as OpenSSH announces it: OpenSSH_8.7.
	Version string
	// Log writes to the journal of the service.
	Log    func(text string)
	Limits Limits
}

// Limits bound what clients use. Zero values mean the defaults.
type Limits struct {
	Connections int           // of the machine, default 50
	Sessions    int           // of a connection, default 10 as in OpenSSH
	Forwards    int           // of a connection, default 16
	Login       time.Duration // until the client has authenticated; default two minutes, as in OpenSSH
	Idle        time.Duration // without any traffic, default one hour
	Bandwidth   int           // bytes per second of a connection and direction; default 256 MiB
}

func (l *Limits) setDefaults() {
	for _, d := range []struct {
		n     *int
		usual int
	}{{&l.Connections, 50}, {&l.Sessions, 10}, {&l.Forwards, 16}, {&l.Bandwidth, 256 << 20}} {
		if *d.n == 0 {
			*d.n = d.usual
		}
	}
	if l.Login == 0 {
		l.Login = 2 * time.Minute
	}
	if l.Idle == 0 {
		l.Idle = time.Hour
	}
}

// A Server is the SSH server of one machine.
type Server struct {
	cfg  Config
	open atomic.Int64
}

// New returns a server.
func New(cfg Config) *Server {
	cfg.Limits.setDefaults()
	if cfg.Files == nil {
		cfg.Files = cfg.FS
	}
	if cfg.Log == nil {
		cfg.Log = func(string) {}
	}
	if cfg.Changed == nil {
		cfg.Changed = func() error { return nil }
	}
	return &Server{cfg: cfg}
}

// Serve serves one client until the connection ends. It closes conn.
func (s *Server) Serve(ctx context.Context, conn net.Conn) {
	defer conn.Close()
	defer s.open.Add(-1)
	if s.open.Add(1) > int64(s.cfg.Limits.Connections) {
		return // OpenSSH closes connections beyond MaxStartups, too
	}
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	keys, err := s.cfg.HostKeys()
	if err != nil {
		s.cfg.Log("error: Could not load host key: " + err.Error())
		return
	}
	c := &connection{s: s, from: conn.RemoteAddr().String()}
	config := &ssh.ServerConfig{
		MaxAuthTries: 6, ServerVersion: "SSH-2.0-" + s.cfg.Version,
		PublicKeyCallback: func(m ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			return c.authenticate(ctx, m.User(), key)
		},
		// Amazon Linux's sshd offers Kerberos, and clients show what a server offers: Permission denied
		// (publickey,gssapi-keyex,gssapi-with-mic).
		//
		// AWS deviation: x/crypto/ssh cannot offer gssapi-keyex.
		GSSAPIWithMICConfig: &ssh.GSSAPIWithMICConfig{
			Server: noKerberos{}, AllowLogin: func(ssh.ConnMetadata, string) (*ssh.Permissions, error) { return nil, errKerberos },
		},
	}
	for _, k := range keys {
		config.AddHostKey(k)
	}
	metered := newMetered(ctx, conn, s.cfg.Limits.Bandwidth)
	_ = conn.SetDeadline(time.Now().Add(s.cfg.Limits.Login)) // a closed connection fails at the next read
	client, channels, requests, err := ssh.NewServerConn(metered, config)
	if err != nil {
		if _, failed := errors.AsType[*ssh.ServerAuthError](err); failed {
			s.cfg.Log(fmt.Sprintf("Connection closed by authenticating user %s %s [preauth]", c.tried, c.from))
		}
		return
	}
	metered.limitIdle(s.cfg.Limits.Idle)
	s.cfg.Log(fmt.Sprintf("Accepted publickey for %s from %s ssh2: %s", c.user.Name, c.from, client.Permissions.Extensions[extKey]))
	c.grant = grantOf(client.Permissions)
	defer s.cfg.Log("Disconnected from user " + c.user.Name + " " + c.from)
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	// Requests such as those for remote port forwarding are refused. So are keep-alive requests: clients only want an answer.
	go ssh.DiscardRequests(requests) // ends with the connection
	c.serve(ctx, channels)
}

// A connection is the server's end of one client's connection.
type connection struct {
	s     *Server
	from  string
	tried string // the user name in the last attempt
	user  accounts.User
	grant grant
}

func (c *connection) serve(ctx context.Context, channels <-chan ssh.NewChannel) {
	var running sync.WaitGroup
	defer running.Wait()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var sessions, forwards atomic.Int64
	for n := range channels {
		var open *atomic.Int64
		var limit int
		var serve func(context.Context, ssh.NewChannel)
		switch n.ChannelType() {
		case "session":
			open, limit, serve = &sessions, c.s.cfg.Limits.Sessions, c.session
		case "direct-tcpip":
			open, limit, serve = &forwards, c.s.cfg.Limits.Forwards, c.forward
		default:
			_ = n.Reject(ssh.UnknownChannelType, "unsupported channel type") // the client may be gone
			continue
		}
		if open.Add(1) > int64(limit) {
			open.Add(-1)
			_ = n.Reject(ssh.ResourceShortage, "open failed") // the client may be gone
			continue
		}
		running.Go(func() {
			defer open.Add(-1)
			serve(ctx, n)
		})
	}
}

var errKerberos = errors.New("there is no Kerberos here")

// noKerberos refuses all tickets.
type noKerberos struct{}

func (noKerberos) AcceptSecContext([]byte) ([]byte, string, bool, error) {
	return nil, "", false, errKerberos
}
func (noKerberos) VerifyMIC([]byte, []byte) error { return errKerberos }
func (noKerberos) DeleteSecContext() error        { return nil }

// A metered connection has a limited bandwidth, and ends if it is idle for too long.
type metered struct {
	net.Conn
	ctx      context.Context
	in, out  *rate.Limiter
	idle     atomic.Int64 // a time.Duration; 0 before the login
	extended atomic.Int64 // when the deadline was last extended, in Unix seconds
}

// burst is how many bytes may pass at once. It is larger than any packet.
const burst = 1 << 20

func newMetered(ctx context.Context, conn net.Conn, bandwidth int) *metered {
	return &metered{Conn: conn, ctx: ctx, in: rate.NewLimiter(rate.Limit(bandwidth), burst), out: rate.NewLimiter(rate.Limit(bandwidth), burst)}
}

func (m *metered) limitIdle(d time.Duration) {
	m.idle.Store(int64(d))
	m.extended.Store(0)
	m.extend()
}

func (m *metered) extend() {
	idle, now := time.Duration(m.idle.Load()), time.Now()
	if last := m.extended.Load(); idle > 0 && last != now.Unix() && m.extended.CompareAndSwap(last, now.Unix()) {
		_ = m.Conn.SetDeadline(now.Add(idle)) // a closed connection fails at the next read
	}
}

func (m *metered) Read(p []byte) (int, error) {
	n, err := m.Conn.Read(p[:min(len(p), burst)])
	if n > 0 {
		m.extend()
		if slow := m.in.WaitN(m.ctx, n); err == nil {
			err = slow
		}
	}
	return n, err
}

func (m *metered) Write(p []byte) (done int, err error) {
	for part := range slices.Chunk(p, burst) {
		if err := m.out.WaitN(m.ctx, len(part)); err != nil {
			return done, err
		}
		n, err := m.Conn.Write(part)
		done += n
		if err != nil {
			return done, err
		}
	}
	m.extend()
	return done, nil
}

// A closeWriter can half-close: it stops sending but still receives.
type closeWriter interface{ CloseWrite() error }

// join copies between a channel and a connection until both directions have ended or one has failed.
func join(channel ssh.Channel, conn net.Conn) {
	var back sync.WaitGroup
	back.Go(func() {
		_, err := io.Copy(channel, conn)
		if err == nil {
			err = channel.CloseWrite()
		}
		if err != nil {
			_ = channel.Close() // the other direction ends
		}
	})
	_, err := io.Copy(conn, channel)
	half, ok := conn.(closeWriter)
	if err == nil && ok {
		err = half.CloseWrite()
	}
	if err != nil || !ok {
		_ = conn.Close() // the other direction ends
	}
	back.Wait()
	_, _ = channel.Close(), conn.Close() // both may be closed already
}

// shellName returns the name of a user's shell.
func shellName(u accounts.User) string {
	if i := strings.LastIndexByte(u.Shell, '/'); u.Shell != "" {
		return u.Shell[i+1:]
	}
	return "bash"
}
