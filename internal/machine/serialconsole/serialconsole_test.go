package serialconsole_test

import (
	"bufio"
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/fstest"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/serialconsole"
	"github.com/drydock-dev/drydock/internal/testkit"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

const id = "i-0123456789abcdef0"

// A computer is a machine whose shell repeats each line with the name of its user, until the line is exit.
type computer struct {
	machine.Unsupported
	boot    string
	booted  chan struct{}
	console *console
	shadow  string
	off     context.Context
}

type console struct {
	mu   sync.Mutex
	text string
}

func (c *console) write(s string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.text += s
}

func (c *computer) Instance() machine.Instance {
	return machine.Instance{ID: id, Region: "us-east-1", BootID: c.boot, PrivateDNSName: "ip-10-0-0-9.ec2.internal"}
}
func (c *computer) Abilities() machine.Abilities { return machine.Abilities{machine.Terminal} }
func (c *computer) Booted() <-chan struct{}      { return c.booted }
func (c *computer) Console() []byte {
	c.console.mu.Lock()
	defer c.console.mu.Unlock()
	return []byte(c.console.text)
}
func (c *computer) Stop(context.Context, bool) error { return nil }
func (c *computer) Reboot(context.Context) error     { return nil }

type files struct {
	machine.Files
	fstest.MapFS
}

func (f files) ReadFile(name string) ([]byte, error)       { return f.MapFS.ReadFile(name[1:]) }
func (f files) ReadDir(name string) ([]fs.DirEntry, error) { return f.MapFS.ReadDir(name[1:]) }
func (f files) Stat(name string) (fs.FileInfo, error)      { return f.MapFS.Stat(name[1:]) }

func (c *computer) Files() (machine.Files, error) {
	return files{MapFS: fstest.MapFS{"etc/shadow": {Data: []byte(c.shadow)}}}, nil
}

type process func() (int, error)

func (p process) Wait() (int, error)        { return p() }
func (process) Signal(machine.Signal) error { return nil }
func (process) Resize(machine.Size) error   { return nil }

func (c *computer) Exec(ctx context.Context, cmd machine.Command) (machine.Process, error) {
	lines := make(chan string)
	go func() {
		in := bufio.NewReader(cmd.Stdin)
		for {
			l, err := in.ReadString('\r')
			if err != nil {
				return
			}
			select {
			case lines <- strings.TrimSpace(l):
			case <-ctx.Done():
				return
			}
		}
	}()
	return process(func() (int, error) {
		for {
			select {
			case l := <-lines:
				if l == "exit" {
					return 0, nil
				}
				fmt.Fprintf(cmd.Stdout, "%s said %s\r\n", cmd.User, l)
			case <-c.off.Done():
				return 0, machine.ErrOff
			case <-ctx.Done():
				return 0, ctx.Err()
			}
		}
	}), nil
}

// A client types on a console and waits for what it shows.
type client struct {
	t    *testing.T
	conn *ssh.Client
	in   io.Writer
	mu   sync.Mutex
	seen string
}

func (c *client) Write(b []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.seen += string(b)
	return len(b), nil
}

// expect waits until the console has shown text and forgets everything up to its end. It returns what came before text.
func (c *client) expect(text string) (before string) {
	c.t.Helper()
	testkit.Eventually(c.t, time.Minute, func() error {
		c.mu.Lock()
		defer c.mu.Unlock()
		was, after, ok := strings.Cut(c.seen, text)
		if !ok {
			return fmt.Errorf("no %q in %q", text, c.seen)
		}
		before, c.seen = was, after
		return nil
	})
	return before
}

func (c *client) types(text string) {
	c.t.Helper()
	if _, err := io.WriteString(c.in, text); err != nil {
		c.t.Fatal(err)
	}
}

func TestConsole(t *testing.T) {
	hash, err := accounts.HashPassword("secret")
	if err != nil {
		t.Fatal(err)
	}
	_, private, err := ed25519.GenerateKey(rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	key, err := ssh.NewSignerFromKey(private)
	if err != nil {
		t.Fatal(err)
	}
	shown := &console{text: "old boot\n"}
	off, stop := context.WithCancel(t.Context())
	m := &computer{boot: "1", booted: make(chan struct{}), console: shown, shadow: "root:" + hash + ":::::::\nec2-user:!!:::::::\n", off: off}
	var mu sync.Mutex
	s := serialconsole.New(serialconsole.Config{
		Secret: []byte("secret"), Log: testlog.New(t),
		Keys: func(instance string) []string {
			if instance != id {
				return nil
			}
			return []string{"garbage", string(ssh.MarshalAuthorizedKey(key.PublicKey()))}
		},
		Machine: func(instance string) (machine.Machine, bool) {
			mu.Lock()
			defer mu.Unlock()
			return m, instance == id && m != nil
		},
	})
	var hostKeys []string
	connect := func(user, region string) (*ssh.Client, error) {
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		go func() {
			if conn, err := l.Accept(); err == nil {
				s.Serve(t.Context(), conn, region)
			}
		}()
		return ssh.Dial("tcp", l.Addr().String(), &ssh.ClientConfig{User: user, Auth: []ssh.AuthMethod{ssh.PublicKeys(key)}, Timeout: 20 * time.Second,
			HostKeyCallback: func(_ string, _ net.Addr, k ssh.PublicKey) error {
				hostKeys = append(hostKeys, ssh.FingerprintSHA256(k))
				return nil
			}})
	}
	for _, tc := range [][2]string{{id, "us-east-1"}, {id + ".port1", "us-east-1"}, {id + ".port0", "eu-west-1"}, {"i-0123456789abcdef1.port0", "us-east-1"}} {
		if _, err := connect(tc[0], tc[1]); err == nil || !strings.Contains(err.Error(), "unable to authenticate") {
			t.Errorf("%s in %s: %v", tc[0], tc[1], err)
		}
	}
	conn, err := connect(id+".port0", "us-east-1")
	if err != nil {
		t.Fatal(err)
	}
	if hostKeys[0] != hostKeys[len(hostKeys)-1] || hostKeys[0] == hostKeys[2] {
		t.Errorf("host keys %q", hostKeys)
	}
	testkit.Eventually(t, time.Minute, func() error {
		if !s.InUse(id) || s.InUse("i-0123456789abcdef1") {
			return errors.New("the console is not in use")
		}
		return nil
	})
	if second, err := connect(id+".port0", "us-east-1"); err == nil {
		if _, err := second.NewSession(); err == nil {
			t.Error("a second client has a session")
		}
	}
	session, err := conn.NewSession()
	if err != nil {
		t.Fatal(err)
	}
	if err := session.Run("id"); err == nil {
		t.Error("a console runs commands")
	}
	conn.Close()
	testkit.Eventually(t, time.Minute, func() error {
		if s.InUse(id) {
			return errors.New("the console is in use after its client has gone")
		}
		return nil
	})
	if conn, err = connect(id+".port0", "us-east-1"); err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if session, err = conn.NewSession(); err != nil {
		t.Fatal(err)
	}
	c := &client{t: t, conn: conn}
	session.Stdout = c
	if c.in, err = session.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if err := session.RequestPty("xterm", 40, 100, ssh.TerminalModes{}); err != nil {
		t.Fatal(err)
	}
	if err := session.Shell(); err != nil {
		t.Fatal(err)
	}

	shown.write("booting\n")
	if before := c.expect("booting\r\n"); before != "" {
		t.Errorf("the console has shown %q, which was written before the client came", before)
	}
	close(m.booted)
	c.types("\r")
	c.expect("ip-10-0-0-9 login: ")
	c.types("ec2-user\rsecret\r")
	c.expect("Password: \r\nLogin incorrect\r\n")
	c.types("rooo\bt\rwrong\r")
	c.expect("login: roo")
	c.expect("Login incorrect\r\n")
	c.types("root\rx\x15secret\r")
	c.expect("Password: \r\n")
	c.types("hello\r")
	c.expect("root said hello\r\n")
	c.types("exit\r")
	c.expect("login: ")

	// The console outlives a reboot and shows it.
	c.types("root\rsecret\rhello\r")
	c.expect("root said hello\r\n")
	next := &computer{boot: "2", booted: make(chan struct{}), console: shown, shadow: "root::::::::\n", off: t.Context()}
	mu.Lock()
	m = nil
	mu.Unlock()
	stop()
	mu.Lock()
	m = next
	mu.Unlock()
	shown.write("second boot\n")
	c.expect("second boot\r\n")
	close(next.booted)
	c.types("\rroot\r")
	c.expect("login: root\r\n")
	c.types("again\r")
	c.expect("root said again\r\n")
}
