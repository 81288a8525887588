package sshd

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/pkg/sftp"
	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// A host runs programs that print their user and command and then echo standard input. It has one port, which echoes.
type host struct{}

func (host) Exec(ctx context.Context, c machine.Command) (machine.Process, error) {
	p := &program{ended: make(chan struct{}), sizes: make(chan machine.Size, 8)}
	go func() {
		defer close(p.ended)
		fmt.Fprintf(c.Stdout, "%s %q %v", c.User, c.Args, c.Terminal != nil)
		if len(c.Args) == 3 && c.Args[2] == "hang" {
			<-ctx.Done()
			return
		}
		_, _ = io.Copy(c.Stdout, c.Stdin)
		_, _ = io.WriteString(c.Stderr, "bye")
		p.status = 3
	}()
	return p, nil
}

func (host) Dial(_ context.Context, host string, port int) (net.Conn, error) {
	switch {
	case host == "nowhere":
		return nil, &net.DNSError{Err: "no such host", Name: host, IsNotFound: true}
	case host == "slow":
		return nil, &net.OpError{Op: "dial", Err: os.ErrDeadlineExceeded}
	case port == 9: // nothing is read there
		near, _ := net.Pipe()
		return near, nil
	case port != 7:
		return nil, &net.OpError{Op: "dial", Err: os.NewSyscallError("connect", syscall.ECONNREFUSED)}
	}
	near, far := net.Pipe()
	go func() {
		defer far.Close()
		_, _ = io.Copy(far, far)
	}()
	return near, nil
}

type program struct {
	ended  chan struct{}
	status int
	sizes  chan machine.Size
}

func (p *program) Wait() (int, error)          { <-p.ended; return p.status, nil }
func (p *program) Signal(machine.Signal) error { return nil }
func (p *program) Resize(s machine.Size) error { p.sizes <- s; return nil }

// A world is a server with users, and a key that may log in as ec2-user.
type world struct {
	t      *testing.T
	fs     *vfs.FS
	key    ssh.Signer
	public string
	server *Server
	wait   sync.WaitGroup
	log    bytes.Buffer
	mu     sync.Mutex
	extra  []string
}

func newWorld(t *testing.T, limits Limits) *world {
	t.Helper()
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, fs: vfs.New(vfs.DefaultLimits, nil)}
	if w.key, err = ssh.NewSignerFromKey(private); err != nil {
		t.Fatal(err)
	}
	w.public = string(ssh.MarshalAuthorizedKey(w.key.PublicKey()))
	for _, dir := range []string{"/bin", "/dev", "/etc/ssh", "/root", "/home/ec2-user/.ssh", "/tmp"} {
		if err := w.fs.MkdirAll(dir, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	w.write("/etc/passwd", "root:x:0:0:root:/root:/bin/bash\nec2-user:x:1000:1000::/home/ec2-user:/bin/bash\nsvc:x:20:20::/home/ec2-user:/sbin/nologin\n", 0o644)
	w.write("/etc/group", "ec2-user:x:1000:\n", 0o644)
	w.write(ConfigFile, "# AuthorizedKeysCommand none\nAuthorizedKeysCommand /bin/eic_run_authorized_keys %u %f\nAuthorizedKeysCommand /second\n", 0o600)
	w.write("/bin/eic_run_authorized_keys", "#!/bin/sh\n", 0o755)
	w.write("/home/ec2-user/.ssh/authorized_keys", "# mine\n"+w.public, 0o600)
	for _, own := range []string{"/home/ec2-user", "/home/ec2-user/.ssh", "/home/ec2-user/.ssh/authorized_keys"} {
		if err := w.fs.Chown(own, 1000, 1000); err != nil {
			t.Fatal(err)
		}
	}
	if err := MakeHostKeys(w.fs, []byte("secret"), "i-1", "ip-10-0-0-1"); err != nil {
		t.Fatal(err)
	}
	w.server = New(Config{
		Host: host{}, FS: w.fs, Version: "OpenSSH_8.7", Limits: limits, HostKeys: func() ([]ssh.Signer, error) { return HostKeys(w.fs) },
		Keys: func(_ context.Context, user string) []string { return w.extra },
		Log: func(text string) {
			w.mu.Lock()
			defer w.mu.Unlock()
			w.log.WriteString(text + "\n")
		},
	})
	t.Cleanup(w.wait.Wait)
	return w
}

func (w *world) write(name, text string, perm fs.FileMode) {
	w.t.Helper()
	if err := w.fs.WriteFile(name, []byte(text), perm); err != nil {
		w.t.Fatal(err)
	}
}

// connect returns the client's end of a TCP connection to the server.
func (w *world) connect() net.Conn {
	w.t.Helper()
	ln, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	defer ln.Close()
	near, err := net.Dial("tcp", ln.Addr().String())
	if err != nil {
		w.t.Fatal(err)
	}
	far, err := ln.Accept()
	if err != nil {
		w.t.Fatal(err)
	}
	w.wait.Go(func() { w.server.Serve(context.Background(), far) })
	w.t.Cleanup(func() { _ = near.Close() })
	return near
}

func (w *world) login(user string) (*ssh.Client, error) {
	w.t.Helper()
	hostKeys, err := HostKeys(w.fs)
	if err != nil {
		w.t.Fatal(err)
	}
	conn, channels, requests, err := ssh.NewClientConn(w.connect(), "", &ssh.ClientConfig{
		User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(w.key)}, HostKeyCallback: ssh.FixedHostKey(hostKeys[1].PublicKey()),
		HostKeyAlgorithms: []string{ssh.KeyAlgoED25519},
	})
	if err != nil {
		return nil, err
	}
	c := ssh.NewClient(conn, channels, requests)
	w.t.Cleanup(func() { _ = c.Close() })
	return c, nil
}

func (w *world) mustLogin(user string) *ssh.Client {
	w.t.Helper()
	c, err := w.login(user)
	if err != nil {
		w.t.Fatal(err)
	}
	return c
}

func TestCommands(t *testing.T) {
	w := newWorld(t, Limits{})
	c := w.mustLogin("ec2-user")
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	var out, errs bytes.Buffer
	s.Stdin, s.Stdout, s.Stderr = strings.NewReader(" typed"), &out, &errs
	if err := s.Setenv("LANG", "C"); err != nil {
		t.Error(err)
	}
	if err := s.Setenv("LD_PRELOAD", "x"); err == nil {
		t.Error("LD_PRELOAD is accepted")
	}
	err = s.Run("date")
	if e, ok := errors.AsType[*ssh.ExitError](err); !ok || e.ExitStatus() != 3 {
		t.Errorf("exit: %v", err)
	}
	if out.String() != `ec2-user ["bash" "-c" "date"] false typed` || errs.String() != "bye" {
		t.Errorf("%q, %q", &out, &errs)
	}
	s, err = c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RequestPty("xterm", 25, 80, nil); err != nil {
		t.Fatal(err)
	}
	pipe, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.StdinPipe(); err != nil { // keep it open
		t.Fatal(err)
	}
	if err := s.Shell(); err != nil {
		t.Fatal(err)
	}
	b := make([]byte, len("ec2-user [] true"))
	if _, err := io.ReadFull(pipe, b); err != nil || string(b) != "ec2-user [] true" {
		t.Errorf("%q, %v", b, err)
	}
	for _, refused := range []string{"auth-agent-req@openssh.com", "x11-req", "nothing"} {
		if ok, err := s.SendRequest(refused, true, nil); ok || err != nil {
			t.Errorf("%s: %v, %v", refused, ok, err)
		}
	}
	if _, err := c.Listen("tcp", "127.0.0.1:0"); err == nil {
		t.Error("remote port forwarding works")
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	if !strings.Contains(w.log.String(), "Accepted publickey for ec2-user from 127.0.0.1:") {
		t.Errorf("the log is %q", &w.log)
	}
}

func TestWhoMayLogIn(t *testing.T) {
	for name, test := range map[string]struct {
		user   string
		change func(*world)
		ok     bool
	}{
		"the key":                     {"ec2-user", func(*world) {}, true},
		"another user":                {"root", func(*world) {}, false},
		"no such user":                {"nobody", func(*world) {}, false},
		"a number":                    {"1000", func(*world) {}, false},
		"a file that others may edit": {"ec2-user", func(w *world) { _ = w.fs.Chmod("/home/ec2-user/.ssh/authorized_keys", 0o666) }, false},
		"a folder of another user":    {"ec2-user", func(w *world) { _ = w.fs.Chown("/home/ec2-user/.ssh", 99, 99) }, false},
		"a key from elsewhere": {"root", func(w *world) {
			w.extra = []string{"not a key", w.public}
		}, true},
		"a key from elsewhere without the program": {"root", func(w *world) {
			w.extra = []string{w.public}
			_ = w.fs.Remove("/bin/eic_run_authorized_keys")
		}, false},
		"a key from elsewhere without the right to run the program": {"root", func(w *world) {
			w.extra = []string{w.public}
			_ = w.fs.Chmod("/bin/eic_run_authorized_keys", 0o644)
		}, false},
		"a key from elsewhere with another command": {"root", func(w *world) {
			w.extra = []string{w.public}
			w.write(ConfigFile, "AuthorizedKeysCommand /bin/mine\n", 0o600)
		}, false},
		"a key from elsewhere without a command": {"root", func(w *world) {
			w.extra = []string{w.public}
			w.write(ConfigFile, "PasswordAuthentication no\n", 0o600)
		}, false},
		"another address": {"ec2-user", func(w *world) {
			w.write("/home/ec2-user/.ssh/authorized_keys", `from="10.0.0.0/8,192.168.*" `+w.public, 0o600)
		}, false},
		"this address": {"ec2-user", func(w *world) {
			w.write("/home/ec2-user/.ssh/authorized_keys", `FROM="10.0.0.0/8,127.*" `+w.public, 0o600)
		}, true},
		"another address in capitals": {"ec2-user", func(w *world) {
			w.write("/home/ec2-user/.ssh/authorized_keys", `FROM="10.0.0.0/8" `+w.public, 0o600)
		}, false},
		"an expired key": {"ec2-user", func(w *world) {
			w.write("/home/ec2-user/.ssh/authorized_keys", `expiry-time="20200101" `+w.public, 0o600)
		}, false},
		"a key that has not expired": {"ec2-user", func(w *world) {
			w.write("/home/ec2-user/.ssh/authorized_keys", `expiry-time="209901012359Z" `+w.public, 0o600)
		}, true},
		"an expiry that is not a time": {"ec2-user", func(w *world) {
			w.write("/home/ec2-user/.ssh/authorized_keys", `expiry-time="tomorrow" `+w.public, 0o600)
		}, false},
		"a certificate authority": {"ec2-user", func(w *world) {
			w.write("/home/ec2-user/.ssh/authorized_keys", "cert-authority "+w.public, 0o600)
		}, false},
		"harmless options": {"ec2-user", func(w *world) {
			w.write("/home/ec2-user/.ssh/authorized_keys", "no-X11-forwarding,no-agent-forwarding "+w.public, 0o600)
		}, true},
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t, Limits{})
			test.change(w)
			if _, err := w.login(test.user); (err == nil) != test.ok {
				t.Errorf("login: %v", err)
			}
		})
	}
}

func TestForcedCommand(t *testing.T) {
	w := newWorld(t, Limits{})
	w.write("/home/ec2-user/.ssh/authorized_keys", `no-port-forwarding,no-pty,command="echo 'log in as \"x\"';exit 142" `+w.public, 0o600)
	c := w.mustLogin("ec2-user")
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if s.RequestPty("xterm", 25, 80, nil) == nil {
		t.Error("a terminal")
	}
	out, _ := s.Output("id")
	if want := `ec2-user ["bash" "-c" "echo 'log in as \"x\"';exit 142"] false`; string(out) != want {
		t.Errorf("%s", out)
	}
	if _, err := c.Dial("tcp", "there:7"); err == nil {
		t.Error("port forwarding")
	}
}

// TestRestricted checks that an option can allow what restrict has forbidden.
func TestRestricted(t *testing.T) {
	w := newWorld(t, Limits{})
	w.write("/home/ec2-user/.ssh/authorized_keys", "restrict,pty,Port-Forwarding "+w.public, 0o600)
	c := w.mustLogin("ec2-user")
	s, err := c.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RequestPty("xterm", 25, 80, nil); err != nil {
		t.Error(err)
	}
	if _, err := c.Dial("tcp", "there:7"); err != nil {
		t.Error(err)
	}
}

// TestJournal checks that a client that has not logged in cannot forge lines of the journal.
func TestJournal(t *testing.T) {
	w := newWorld(t, Limits{})
	if _, err := w.login("x\n" + strings.Repeat("y", 10_000)); err == nil {
		t.Fatal("logged in")
	}
	w.wait.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.log.Len() > 500 || !strings.Contains(w.log.String(), `Invalid user x\nyy`) || strings.Contains(w.log.String(), "\ny") {
		t.Errorf("%q", w.log.String())
	}
}

// TestStarted checks that the environment and the terminal of a running program cannot be changed.
func TestStarted(t *testing.T) {
	s, err := newWorld(t, Limits{}).mustLogin("ec2-user").NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Start("hang"); err != nil {
		t.Fatal(err)
	}
	if s.Setenv("LANG", "C") == nil || s.RequestPty("xterm", 25, 80, nil) == nil {
		t.Error("the session has changed")
	}
}

// TestGoneClient checks that a connection ends with its client, even if the client's data has not been read.
func TestGoneClient(t *testing.T) {
	w := newWorld(t, Limits{})
	c := w.mustLogin("ec2-user")
	conn, err := c.Dial("tcp", "there:9")
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write(make([]byte, 1000)); err != nil {
		t.Fatal(err)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	w.wait.Wait()
}

// TestBrokenAttributes checks that a packet without its attributes, or with a huge number of them, is only an error for its
// client.
func TestBrokenAttributes(t *testing.T) {
	s, err := newWorld(t, Limits{}).mustLogin("ec2-user").NewSession()
	if err != nil {
		t.Fatal(err)
	}
	in, err := s.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := s.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := s.RequestSubsystem("sftp"); err != nil {
		t.Fatal(err)
	}
	const setstat, status, badMessage = 9, 101, 5
	call := func(b ...byte) []byte {
		t.Helper()
		if _, err := in.Write(append(binary.BigEndian.AppendUint32(nil, uint32(len(b))), b...)); err != nil {
			t.Fatal(err)
		}
		size := make([]byte, 4)
		if _, err := io.ReadFull(out, size); err != nil {
			t.Fatal(err)
		}
		answer := make([]byte, binary.BigEndian.Uint32(size))
		if _, err := io.ReadFull(out, answer); err != nil {
			t.Fatal(err)
		}
		return answer
	}
	call(1, 0, 0, 0, 3) // version 3
	for name, attributes := range map[string][]byte{
		"a size": {0, 0, 0, 1}, "owners": {0, 0, 0, 2, 0}, "extensions": {0x80, 0, 0, 0, 0xff, 0xff, 0xff, 0xff},
	} {
		if got := call(append([]byte{setstat, 0, 0, 0, 1, 0, 0, 0, 4, '/', 't', 'm', 'p'}, attributes...)...); got[0] != status || got[8] != badMessage {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestForwarding(t *testing.T) {
	c := newWorld(t, Limits{}).mustLogin("ec2-user")
	conn, err := c.Dial("tcp", "there:7")
	if err != nil {
		t.Fatal(err)
	}
	data := bytes.Repeat([]byte("0123456789"), 100_000)
	go func() { _, _ = conn.Write(data) }()
	got := make([]byte, len(data))
	if _, err := io.ReadFull(conn, got); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	for to, want := range map[string]string{"nowhere:7": "Name or service not known", "slow:7": "Connection timed out", "there:8": "Connection refused"} {
		if _, err := c.Dial("tcp", to); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", to, err)
		}
	}
}

func TestFiles(t *testing.T) {
	w := newWorld(t, Limits{})
	w.write("/root/secret", "s", 0o600)
	if err := w.fs.Chmod("/root", 0o700); err != nil {
		t.Fatal(err)
	}
	if err := w.fs.Symlink("/root/secret", "/tmp/link"); err != nil {
		t.Fatal(err)
	}
	c, err := sftp.NewClient(w.mustLogin("ec2-user"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	data := bytes.Repeat([]byte("0123456789"), 50_000)
	put := func(name string) error {
		f, err := c.OpenFile(name, os.O_RDWR|os.O_CREATE|os.O_TRUNC)
		if err != nil {
			return err
		}
		_, err = f.ReadFrom(bytes.NewReader(data))
		return errors.Join(err, f.Close())
	}
	for _, name := range []string{"up", "/dev/null"} {
		if err := put(name); err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	if got, err := w.fs.ReadFile("/home/ec2-user/up"); err != nil || !bytes.Equal(got, data) {
		t.Errorf("%d bytes, %v", len(got), err)
	}
	if i, err := w.fs.Stat("/home/ec2-user/up"); err != nil || i.(*vfs.Info).UID != 1000 {
		t.Errorf("the owner is %+v, %v", i, err)
	}
	if err := put("/etc/new"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("/etc/new: %v", err)
	}
	for _, name := range []string{"/root/secret", "/tmp/link"} {
		if _, err := c.Open(name); !errors.Is(err, fs.ErrPermission) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if err := put("/home/ec2-user/too-large"); err != nil {
		t.Error(err)
	}
	if f, err := c.OpenFile("sparse", os.O_WRONLY|os.O_CREATE); err != nil {
		t.Error(err)
	} else if _, err := f.WriteAt([]byte("x"), 1<<40); err == nil {
		t.Error("a terabyte")
	}
	mtime := time.Unix(1_700_000_000, 0)
	if err := errors.Join(c.Mkdir("d"), c.Rename("up", "d/up"), c.Chmod("d/up", 0o700), c.Chtimes("d/up", mtime, mtime), c.Symlink("d/up", "to")); err != nil {
		t.Error(err)
	}
	if i, err := c.Stat("to"); err != nil || i.Mode() != 0o700 || !i.ModTime().Equal(mtime) || i.Size() != int64(len(data)) {
		t.Errorf("%+v, %v", i, err)
	}
	if at, err := c.RealPath("to/.."); err != nil || at != "/home/ec2-user" && at != "/home/ec2-user/d" {
		t.Errorf("%s, %v", at, err)
	}
	if err := c.Remove("d"); err == nil {
		t.Error("a folder that is not empty was removed")
	}
	if list, err := c.ReadDir("."); err != nil || len(list) != 5 {
		t.Errorf("%v, %v", list, err)
	}
}

// TestStoring checks that a session with many changes stores the disk only a few times, and always when it ends.
func TestStoring(t *testing.T) {
	w := newWorld(t, Limits{})
	stored, found := 0, false
	w.server.cfg.Changed = func() error {
		stored++
		_, err := w.fs.Stat("/home/ec2-user/99")
		found = err == nil
		return nil
	}
	login := w.mustLogin("ec2-user")
	c, err := sftp.NewClient(login)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 100 {
		if err := c.Mkdir(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	if err := errors.Join(c.Close(), login.Close()); err != nil {
		t.Log(err)
	}
	w.wait.Wait()
	if stored > 50 || !found {
		t.Errorf("the disk was stored %d times, with everything: %v", stored, found)
	}
}

// TestAppend checks that appending works with offsets from the start of the file and from its end.
func TestAppend(t *testing.T) {
	w := newWorld(t, Limits{})
	c, err := sftp.NewClient(w.mustLogin("ec2-user"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for _, start := range []int64{0, 3} {
		w.write("/tmp/f", "abc", 0o666)
		f, err := c.OpenFile("/tmp/f", os.O_WRONLY|os.O_APPEND)
		if err != nil {
			t.Fatal(err)
		}
		for i := range int64(5) {
			if _, err := f.Seek(start+i, io.SeekStart); err != nil {
				t.Fatal(err)
			}
			if _, err := f.Write([]byte{'d' + byte(i)}); err != nil {
				t.Fatal(err)
			}
		}
		if b, err := w.fs.ReadFile("/tmp/f"); err != nil || string(b) != "abcdefgh" {
			t.Errorf("from %d: %s, %v", start, b, err)
		}
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOpenFiles checks that the number of open files is limited, and that closing some lets the client open others.
func TestOpenFiles(t *testing.T) {
	c, err := sftp.NewClient(newWorld(t, Limits{}).mustLogin("ec2-user"))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var open []*sftp.File
	for range maxOpen {
		f, err := c.Open("/etc/passwd")
		if err != nil {
			t.Fatal(err)
		}
		open = append(open, f)
	}
	if _, err := c.Open("/etc/passwd"); err == nil {
		t.Error("one more file")
	}
	if _, err := c.ReadDir("/etc"); err == nil {
		t.Error("one more folder")
	}
	if err := open[0].Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 { // a listing is closed, too
		if _, err := c.ReadDir("/etc"); err != nil {
			t.Error(err)
		}
	}
}

// TestLimits checks that a client beyond a limit is refused, and that the others stay connected.
func TestLimits(t *testing.T) {
	w := newWorld(t, Limits{Connections: 2, Sessions: 1, Forwards: 1, Idle: 200 * time.Millisecond})
	c := w.mustLogin("ec2-user")
	if _, err := c.NewSession(); err != nil {
		t.Fatal(err)
	}
	if _, err := c.NewSession(); err == nil {
		t.Error("a second session")
	}
	if _, err := c.Dial("tcp", "there:7"); err != nil {
		t.Error(err)
	}
	if _, err := c.Dial("tcp", "there:7"); err == nil {
		t.Error("a second forwarded connection")
	}
	hostile := w.connect()
	if _, err := hostile.Write(bytes.Repeat([]byte("GET / HTTP/1.1\r\n"), 1000)); err != nil {
		t.Log(err)
	}
	if _, err := w.login("ec2-user"); err == nil && w.server.open.Load() > 2 {
		t.Error("a third connection")
	}
	if err := c.Wait(); err == nil { // idle
		t.Log("closed")
	}
}

func TestOldSCP(t *testing.T) {
	w := newWorld(t, Limits{})
	c := w.mustLogin("ec2-user")
	run := func(command, in string) string {
		t.Helper()
		s, err := c.NewSession()
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		s.Stdin = strings.NewReader(in)
		out, _ := s.Output(command)
		return string(out)
	}
	if out := run("scp -r -t .", "D0755 0 dir\nT1700000000 0 0 0\nC0640 3 f\nabc\x00E\n"); out != "\x00\x00\x00\x00\x00\x00" {
		t.Errorf("%q", out)
	}
	if b, err := w.fs.ReadFile("/home/ec2-user/dir/f"); err != nil || string(b) != "abc" {
		t.Errorf("%q, %v", b, err)
	}
	if out := run("scp -f dir/f", "\x00\x00\x00"); out != "C0640 3 f\nabc\x00" {
		t.Errorf("%q", out)
	}
	w.write("/home/ec2-user/dir/g.log", "d", 0o644)
	w.write("/home/ec2-user/dir/a\nb", "e", 0o644)
	for command, want := range map[string]string{
		"scp -f dir/*.log": "C0644 1 g.log\nd\x00", "scp -f ~/dir/f": "C0640 3 f\nabc\x00", "scp -f ~ec2-user/dir/g.log": "C0644 1 g.log\nd\x00",
		"scp -f $HOME/d*/f": "C0640 3 f\nabc\x00", "scp -f dir/a*b": "C0644 1 a\\^Jb\ne\x00", "scp -f ~daemon": "\x01scp: /home/ec2-user/~daemon: no such file or directory\n",
	} {
		if out := run(command, "\x00\x00\x00"); out != want {
			t.Errorf("%s: %q", command, out)
		}
	}
	for _, command := range []string{"scp -t <(id)", "scp -t {1..9}", "scp -t {1..999999999}", "scp -t $((9**9))", "scp -t $(id)", "scp -t ${x:=y}"} {
		if out := run(command, ""); !strings.HasPrefix(out, "ec2-user [") { // the shell's
			t.Errorf("%s: %q", command, out)
		}
	}
	for command, in := range map[string]string{
		"scp -t /tmp/x": "C0644 1 x\x1b[2J\nx\x00",
		"scp -t /etc/x": "C0644 1 x\nx\x00", "scp -t .": "C0644 -1 x\n", "scp -t x": "C0644 1 ../x\n", "scp -f /none": "\x00", "scp -f dir": "\x00",
	} {
		if out := run(command, in); !strings.Contains(out, "\x01scp: ") {
			t.Errorf("%s: %q", command, out)
		}
	}
}

func TestHostKeysAreStable(t *testing.T) {
	a, b := newWorld(t, Limits{}), newWorld(t, Limits{})
	first, second := Announce(a.fs), Announce(b.fs)
	if first != second || !strings.Contains(first, "256 SHA256:") || !strings.Contains(first, "root@ip-10-0-0-1 (ED25519)") {
		t.Errorf("%s\n%s", first, second)
	}
	other := vfs.New(vfs.DefaultLimits, nil)
	if err := errors.Join(other.MkdirAll("/etc/ssh", 0o755), MakeHostKeys(other, []byte("secret"), "i-2", "ip-10-0-0-1")); err != nil {
		t.Fatal(err)
	}
	if Announce(other) == first {
		t.Error("another instance has the same keys")
	}
}

func TestPermitOpen(t *testing.T) {
	w := newWorld(t, Limits{})
	w.write("/home/ec2-user/.ssh/authorized_keys", `permitopen="there:7",permitopen="[::1]:*" `+w.public, 0o600)
	c := w.mustLogin("ec2-user")
	for to, ok := range map[string]bool{"there:7": true, "there:8": false, "elsewhere:7": false, "[::1]:9": true} {
		conn, err := c.Dial("tcp", to)
		if prohibited := err != nil && strings.Contains(err.Error(), "administratively prohibited"); prohibited == ok {
			t.Errorf("%s: %v", to, err)
		}
		if err == nil {
			_ = conn.Close()
		}
	}
}
