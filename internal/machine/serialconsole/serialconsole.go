// Package serialconsole is the EC2 Serial Console: an SSH server of the Region that connects a user to serial port 0 of
// an instance, whatever the state of the instance's network, security groups and sshd. The port shows the boot messages,
// and then the login prompt of getty, which accepts users with a password in the machine's /etc/shadow.
//
// It uses machines only through package machine. Package compute connects clients to it.
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/connect-to-serial-console.html
package serialconsole

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/sha256"
	"errors"
	"log/slog"
	"net"
	"regexp"
	"strings"
	"sync"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/machine"
)

const (
	// sessionLimit ends a session, as on EC2.
	sessionLimit = time.Hour
	// signInLimit bounds the SSH handshake.
	signInLimit = time.Minute
	// maxConnections is how many clients may be connected at once, signed in or not.
	maxConnections = 50
)

// Config is what a Server needs. All of it is required.
type Config struct {
	// Secret is the secret of the installation from which the host keys are derived, so that they never change.
	Secret []byte
	// Keys returns the public keys that may open the console of an instance now.
	Keys func(instanceID string) []string
	// Machine returns the machine of an instance that is on.
	Machine func(instanceID string) (machine.Machine, bool)
	Log     *slog.Logger
}

// A Server serves the consoles of all instances.
type Server struct {
	cfg Config

	mu    sync.Mutex
	open  int
	inUse map[string]bool // instances with a session
}

// New returns a server.
func New(cfg Config) *Server { return &Server{cfg: cfg, inUse: map[string]bool{}} }

var hostName = regexp.MustCompile(`^serial-console\.ec2-instance-connect\.([a-z0-9-]+)\.aws$`)

// Region returns the Region of the serial console with a host name.
func Region(host string) (string, bool) {
	m := hostName.FindStringSubmatch(strings.ToLower(strings.TrimSuffix(host, ".")))
	if m == nil {
		return "", false
	}
	return m[1], true
}

// InUse reports whether an instance's console has a session. It can have one.
func (s *Server) InUse(instanceID string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.inUse[instanceID]
}

// Dial connects a client to the console server of a Region. The connection is served until the client closes it.
func (s *Server) Dial(region string) (net.Conn, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open >= maxConnections {
		return nil, errors.New("too many connections to the serial console")
	}
	s.open++
	near, far := net.Pipe()
	go func() { // ends with the connection
		defer func() {
			s.mu.Lock()
			defer s.mu.Unlock()
			s.open--
		}()
		s.Serve(context.Background(), far, region)
	}()
	return near, nil
}

// Serve serves one client of a Region's console and closes its connection.
func (s *Server) Serve(ctx context.Context, conn net.Conn, region string) {
	defer conn.Close()
	hostKey, err := s.hostKey(region)
	if err != nil {
		s.cfg.Log.Error("the serial console has no host key", "error", err)
		return
	}
	config := &ssh.ServerConfig{
		MaxAuthTries: 6,
		PublicKeyCallback: func(c ssh.ConnMetadata, key ssh.PublicKey) (*ssh.Permissions, error) {
			return nil, s.admit(region, c.User(), key)
		},
	}
	config.AddHostKey(hostKey)
	_ = conn.SetDeadline(time.Now().Add(signInLimit)) // a closed connection fails at the next read
	client, channels, requests, err := ssh.NewServerConn(conn, config)
	if err != nil {
		return // no key, or no client of SSH
	}
	defer client.Close()
	_ = conn.SetDeadline(time.Now().Add(sessionLimit))
	id := instanceOf(client.User())
	if !s.take(id) {
		return
	}
	defer s.release(id)
	ctx, cancel := context.WithTimeout(ctx, sessionLimit)
	defer cancel()
	defer context.AfterFunc(ctx, func() { _ = client.Close() })()
	go ssh.DiscardRequests(requests) // ends with the connection
	var running sync.WaitGroup
	defer running.Wait()
	taken := false
	for n := range channels {
		if taken || n.ChannelType() != "session" {
			_ = n.Reject(ssh.Prohibited, "open failed") // the client may be gone
			continue
		}
		taken = true
		running.Go(func() {
			s.session(ctx, n, id)
			_ = client.Close()
		})
	}
	cancel() // the client has gone
}

// hostKey returns the key of a Region's server.
func (s *Server) hostKey(region string) (ssh.Signer, error) {
	seed, err := hkdf.Key(sha256.New, s.cfg.Secret, nil, "serial console "+region, ed25519.SeedSize)
	if err != nil {
		return nil, err
	}
	return ssh.NewSignerFromKey(ed25519.NewKeyFromSeed(seed))
}

var userName = regexp.MustCompile(`^(i-[0-9a-f]{8,17})\.port0$`)

// instanceOf returns the instance in the user name of a client, i-….port0, or an empty string.
func instanceOf(user string) string {
	if m := userName.FindStringSubmatch(user); m != nil {
		return m[1]
	}
	return ""
}

// admit returns nil if a key may open the console that a user name stands for.
func (s *Server) admit(region, user string, key ssh.PublicKey) error {
	id := instanceOf(user)
	m, ok := s.cfg.Machine(id)
	if ok && m.Instance().Region == region {
		for _, line := range s.cfg.Keys(id) {
			known, _, _, _, err := ssh.ParseAuthorizedKey([]byte(line))
			if err == nil && bytes.Equal(known.Marshal(), key.Marshal()) {
				return nil
			}
		}
	}
	return errors.New("permission denied")
}

func (s *Server) take(id string) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.inUse[id] {
		return false
	}
	s.inUse[id] = true
	return true
}

func (s *Server) release(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.inUse, id)
}

// session connects a channel to an instance's serial port once the client asks for a shell, until either ends.
func (s *Server) session(ctx context.Context, n ssh.NewChannel, id string) {
	channel, requests, err := n.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	var running sync.WaitGroup
	defer running.Wait()
	defer context.AfterFunc(ctx, func() { _ = channel.Close() })()
	started := false
	for r := range requests {
		// A serial line has no size, so window changes are accepted and ignored.
		ok := r.Type == "pty-req" || r.Type == "window-change" || r.Type == "shell" && !started
		if ok && r.Type == "shell" {
			started = true
			p := newPort(func() (machine.Machine, bool) { return s.cfg.Machine(id) }, channel)
			running.Go(func() { p.serve(ctx) })
			running.Go(func() { p.read(ctx, channel) })
		}
		if r.WantReply {
			_ = r.Reply(ok, nil) // the client may be gone
		}
	}
	cancel() // the client has closed the channel
}
