// Package machinetest tests implementations of package machine. Every runtime passes Run, so its callers need not
// know which one they use. For tests only.
package machinetest

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/drydock-dev/drydock/internal/machine"
)

// A World creates what is tested.
type World struct {
	// Runtime returns a new runtime. A later one finds the disks of an earlier one.
	Runtime func(t *testing.T) machine.Runtime
	// Instance returns an instance to start. Its image has a user ec2-user and prints something to its console while
	// it boots.
	Instance machine.Instance
	// KernelTerminals says that the terminals are those of Linux, whose lines have at most 4,095 bytes, and whose input waits
	// when nothing reads it.
	KernelTerminals bool
	// Interfaces returns the network interfaces that the machine's own programs see, as a list of MAC addresses.
	// Needed if the ability is declared.
	Interfaces func(t *testing.T, m machine.Machine) []string
}

// Run tests an implementation.
func Run(t *testing.T, w World) {
	t.Run("power", func(t *testing.T) { power(t, w) })
	t.Run("undeclared abilities", func(t *testing.T) { undeclared(t, w) })
	for _, tc := range []struct {
		ability machine.Ability
		test    func(*testing.T, World, machine.Machine)
	}{
		{machine.Exec, programs},
		{machine.Terminal, terminals},
		{machine.FileAccess, files},
		{machine.Dial, ports},
		{machine.Interfaces, interfaces},
	} {
		t.Run(string(tc.ability), func(t *testing.T) {
			m := w.boot(t, w.Runtime(t))
			if !m.Abilities().Has(tc.ability) {
				t.Skipf("%T does not declare it", m)
			}
			tc.test(t, w, m)
		})
	}
}

const patience = 30 * time.Second

// boot starts the instance and waits until it is up.
func (w World) boot(t *testing.T, r machine.Runtime) machine.Machine {
	t.Helper()
	t.Cleanup(func() {
		if err := r.Shutdown(context.Background()); err != nil {
			t.Errorf("shutting down: %v", err)
		}
	})
	if err := r.Start(t.Context(), w.Instance); err != nil {
		t.Fatal(err)
	}
	return w.await(t, r)
}

func (w World) await(t *testing.T, r machine.Runtime) machine.Machine {
	t.Helper()
	m, ok := r.Machine(w.Instance.ID)
	if !ok {
		t.Fatal("the machine is not on after its start")
	}
	select {
	case <-m.Booted():
	case <-time.After(patience):
		t.Fatal("the machine does not boot")
	}
	return m
}

func power(t *testing.T, w World) {
	ctx := t.Context()
	r := w.Runtime(t)
	if _, ok := r.Machine(w.Instance.ID); ok {
		t.Error("there is a machine before its start")
	}
	m := w.boot(t, r)
	if got := m.Instance(); got.ID != w.Instance.ID || got.BootID != w.Instance.BootID {
		t.Errorf("the machine says it is %s, boot %s", got.ID, got.BootID)
	}
	if err := r.Start(ctx, w.Instance); err != nil {
		t.Errorf("starting it twice: %v", err)
	}
	if again, _ := r.Machine(w.Instance.ID); again != m {
		t.Error("a second start booted it anew")
	}
	for deadline := time.Now().Add(patience); len(m.Console()) == 0; {
		if time.Now().After(deadline) {
			t.Fatal("nothing is on the console")
		}
	}
	before := m.Console()
	if err := m.Reboot(ctx); err != nil {
		t.Fatal(err)
	}
	if err := m.Reboot(ctx); !errors.Is(err, machine.ErrOff) {
		t.Errorf("rebooting a boot that is over: %v, want ErrOff", err)
	}
	next := w.await(t, r)
	if next == m || !bytes.HasPrefix(next.Console(), before) {
		t.Error("after a reboot it is the same boot, or the console was lost")
	}
	if err := m.Stop(ctx, true); err != nil {
		t.Errorf("stopping a boot that is over: %v", err)
	}
	if _, ok := r.Machine(w.Instance.ID); !ok {
		t.Error("that stopped the next one")
	}
	for _, force := range []bool{false, true} {
		if err := machine.Stop(ctx, r, w.Instance.ID, force); err != nil {
			t.Errorf("stopping, force %v: %v", force, err)
		}
		if _, ok := r.Machine(w.Instance.ID); ok {
			t.Error("a stopped machine is on")
		}
		if next.Abilities().Has(machine.FileAccess) {
			if f, err := next.Files(); err != nil {
				t.Error(err)
			} else if _, err := f.ReadFile("/etc/passwd"); !errors.Is(err, machine.ErrOff) {
				t.Errorf("reading a file of a machine that is off: %v, want ErrOff", err)
			}
		}
		if err := machine.Stop(ctx, r, w.Instance.ID, force); err != nil {
			t.Errorf("stopping it twice: %v", err)
		}
		if err := r.Start(ctx, w.Instance); err != nil {
			t.Fatal(err)
		}
		next = w.await(t, r)
	}
	if err := r.Shutdown(ctx); err != nil {
		t.Fatal(err)
	}
	if err := r.Start(ctx, w.Instance); !errors.Is(err, machine.ErrShutdown) {
		t.Errorf("starting in a runtime that has shut down: %v, want ErrShutdown", err)
	}
}

func undeclared(t *testing.T, w World) {
	m := w.boot(t, w.Runtime(t))
	ctx := t.Context()
	for ability, try := range map[machine.Ability]func() error{
		machine.Exec: func() error { _, err := machine.Run(ctx, m, machine.Command{Args: []string{"true"}}); return err },
		machine.Terminal: func() error {
			_, err := machine.Run(ctx, m, machine.Command{Args: []string{"true"}, Terminal: &machine.TerminalSpec{Type: "xterm"}})
			return err
		},
		machine.FileAccess: func() error { _, err := m.Files(); return err },
		machine.Dial: func() error {
			c, err := m.Dial(ctx, "localhost", 1)
			if err == nil {
				err = c.Close()
			}
			return err
		},
		machine.Interfaces: func() error { return m.SetInterfaces(ctx, m.Instance().Interfaces) },
		machine.Volumes:    func() error { return m.SetVolumes(ctx, m.Instance().Volumes) },
	} {
		unsupported, ok := errors.AsType[*machine.UnsupportedError](try())
		switch {
		case ok == m.Abilities().Has(ability):
			t.Errorf("%q: declared %v, unsupported error %v", ability, m.Abilities().Has(ability), unsupported)
		case ok && unsupported.ID != w.Instance.ID:
			t.Errorf("%q: the error is of %q", ability, unsupported.ID)
		}
	}
}

func programs(t *testing.T, w World, m machine.Machine) {
	ctx := t.Context()
	run := func(c machine.Command) (stdout, stderr string, status int) {
		t.Helper()
		var out, errs bytes.Buffer
		c.Stdout, c.Stderr = &out, &errs
		status, err := machine.Run(ctx, m, c)
		if err != nil {
			t.Fatalf("%v: %v", c.Args, err)
		}
		return out.String(), errs.String(), status
	}
	for _, tc := range []struct {
		name           string
		c              machine.Command
		stdout, stderr string
		status         int
	}{
		{"arguments that no shell sees", machine.Command{Args: []string{"echo", "$HOME", "a  b"}}, "$HOME a  b\n", "", 0},
		{"standard input", machine.Command{Args: []string{"cat"}, Stdin: strings.NewReader("typed")}, "typed", "", 0},
		{"an exit status and standard error", machine.Command{Args: []string{"sh", "-c", "echo no >&2; exit 3"}}, "", "no\n", 3},
		{"root, by default", machine.Command{Args: []string{"sh", "-c", "id -un; pwd; echo $HOME $USER"}}, "root\n/root\n/root root\n", "", 0},
		{"another user", machine.Command{Args: []string{"sh", "-c", "id -un; pwd; echo $HOME $USER"}, User: "ec2-user"}, "ec2-user\n/home/ec2-user\n/home/ec2-user ec2-user\n", "", 0},
		{"a folder and an environment", machine.Command{Args: []string{"sh", "-c", "pwd; echo $COLOUR"}, Dir: "/tmp", Env: []string{"COLOUR=blue"}}, "/tmp\nblue\n", "", 0},
		{"a login shell that reads commands", machine.Command{User: "ec2-user", Stdin: strings.NewReader("cd /tmp\npwd\nexit 4\n")}, "/tmp\n", "", 4},
	} {
		stdout, stderr, status := run(tc.c)
		if stdout != tc.stdout || stderr != tc.stderr || status != tc.status {
			t.Errorf("%s: wrote %q and %q, status %d; want %q and %q, status %d", tc.name, stdout, stderr, status, tc.stdout, tc.stderr, tc.status)
		}
	}
	if _, stderr, status := run(machine.Command{Args: []string{"no-such-program"}}); status != 127 || !strings.Contains(stderr, "no-such-program") {
		t.Errorf("a program that is not there: status %d, %q", status, stderr)
	}
	if _, err := machine.Run(ctx, m, machine.Command{Args: []string{"true"}, User: "nobody-at-all"}); !errors.Is(err, machine.ErrNoUser) {
		t.Errorf("a user who is not there: %v, want ErrNoUser", err)
	}
	if _, _, status := run(machine.Command{Args: []string{"useradd", "-m", "ssm-user"}}); status != 0 {
		t.Fatalf("useradd: status %d", status)
	}
	if stdout, _, _ := run(machine.Command{Args: []string{"sh", "-c", `test "$(id -u)" = "$UID" -a "$UID" -gt 1000; echo $? $(id -un)`}, User: "ssm-user"}); stdout != "0 ssm-user\n" {
		t.Errorf("a user created in the meantime: %q", stdout)
	}
	if stdout, stderr, _ := run(machine.Command{Args: []string{"sh", "-c", "sudo -u ssm-user touch ~ssm-user/x && stat -c %U ~ssm-user ~ssm-user/x"}}); stdout != "ssm-user\nssm-user\n" {
		t.Errorf("the home folder of a new user, and a file of its own there, belong to %q (%s)", stdout, stderr)
	}
	if m.Abilities().Has(machine.FileAccess) {
		f, err := m.Files()
		if err != nil {
			t.Fatal(err)
		}
		run(machine.Command{Args: []string{"sh", "-c", "echo written > /tmp/by-program"}})
		if data, err := f.ReadFile("/tmp/by-program"); string(data) != "written\n" {
			t.Errorf("a program's file is %q (%v)", data, err)
		}
		if err := f.WriteFile("/tmp/from-outside", []byte("seen"), 0o644); err != nil {
			t.Fatal(err)
		}
		if stdout, _, _ := run(machine.Command{Args: []string{"cat", "/tmp/from-outside"}}); stdout != "seen" {
			t.Errorf("a program reads %q", stdout)
		}
	}

	// Ways in which a program may end early.
	stuck := func(ctx context.Context) machine.Process {
		t.Helper()
		in, w := io.Pipe()
		t.Cleanup(func() { _ = w.Close() })
		p, err := m.Exec(ctx, machine.Command{Args: []string{"cat"}, Stdin: in})
		if err != nil {
			t.Fatal(err)
		}
		return p
	}
	p := stuck(ctx)
	if err := p.Signal(machine.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); status != 128+15 || err != nil {
		t.Errorf("after SIGTERM: status %d, %v", status, err)
	}
	if err := p.Signal(machine.SIGTERM); err != nil {
		t.Errorf("a signal to a program that has ended: %v", err)
	}
	limited, cancel := context.WithCancel(ctx)
	p = stuck(limited)
	cancel()
	if _, err := p.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %v", err)
	}
	p = stuck(ctx)
	if err := m.Stop(ctx, true); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); !errors.Is(err, machine.ErrOff) {
		t.Errorf("after the power went: %v, want ErrOff", err)
	}
	if _, err := m.Exec(ctx, machine.Command{Args: []string{"true"}}); !errors.Is(err, machine.ErrOff) {
		t.Errorf("on a machine that is off: %v, want ErrOff", err)
	}
}

// A screen collects what a terminal shows.
type screen struct {
	mu      sync.Mutex
	text    []byte
	changed chan struct{}
}

func (s *screen) Write(p []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.text = append(s.text, p...)
	select {
	case s.changed <- struct{}{}:
	default:
	}
	return len(p), nil
}

// shows waits until the terminal shows a text.
func (s *screen) shows(text string, patience time.Duration) bool {
	late := time.After(patience)
	for {
		s.mu.Lock()
		found := bytes.Contains(s.text, []byte(text))
		s.mu.Unlock()
		if found {
			return true
		}
		select {
		case <-s.changed:
		case <-late:
			return false
		}
	}
}

// await waits until the terminal shows a text, and discards everything up to its end.
func (s *screen) await(t *testing.T, text string) {
	t.Helper()
	found := s.shows(text, patience)
	s.mu.Lock()
	defer s.mu.Unlock()
	if !found {
		t.Fatalf("the terminal does not show %q, but %q", text, s.text)
	}
	s.text = s.text[bytes.Index(s.text, []byte(text))+len(text):]
}

func terminals(t *testing.T, w World, m machine.Machine) {
	ctx := t.Context()
	open := func(ctx context.Context, c machine.Command) (machine.Process, *screen, io.WriteCloser) {
		t.Helper()
		in, keys := io.Pipe()
		t.Cleanup(func() { _ = keys.Close() })
		shown := &screen{changed: make(chan struct{}, 1)}
		c.Stdin, c.Stdout, c.Terminal = in, shown, &machine.TerminalSpec{Type: "xterm", Size: machine.Size{Columns: 200, Rows: 40}}
		p, err := m.Exec(ctx, c)
		if err != nil {
			t.Fatal(err)
		}
		return p, shown, keys
	}
	p, shown, keys := open(ctx, machine.Command{User: "ec2-user"})
	type step struct{ keys, want string }
	interrupt := step{"\x03", "$ "} // typed again until it works: bash loses some, while it starts a program or begins to read a line
	steps := []step{
		{"", "$ "},
		{"cd /tmp; x=kept; f() { echo \"$x by $1\"; }\r", "$ "},
		{"f f$(pwd)\r", "kept by f/tmp\r\n"},
		{"ech\x7fho r\x7fed\"ite\"d\r", "edited\r\n"},
		{"\x1b[A\r", "edited\r\n"},
		{"for i in 1 2; do\r", "> "},
		{"echo n$i; done\r", "n1\r\nn2\r\n"},
		{"echo ready; cat\r", "ready\r\n"},
		{"typed\r\x04", "typed\r\ntyped\r\n"},
		{"echo ready; read a b; echo \"$b,$a\"\r", "ready\r\n"},
		{"one two\r", "two,one\r\n"},
		{"", "$ "},                                  // a terminal of the kernel echoes what is typed before the prompt, and Ctrl-C would discard it
		{"(echo ready; sleep 1000)\r", "ready\r\n"}, // before that, Ctrl-C would interrupt the shell instead
		interrupt,
		{"echo status $?\r", "status 130\r\n"},
		{"", "$ "},
		{"echo not this", "echo not this"}, // it reads the line
		interrupt,
		{"false\r", "$ "},
		{"echo status $?\r", "status 1\r\n"},
		{"sudo -i\r", "# "},
		{"echo $(whoami) in $PWD; echo written > /root/by-terminal\r", "root in /root\r\n"},
		{"exit\r", "logout\r\n"},
		{"whoami; echo last", "last"},
		{"\r", "ec2-user\r\nlast\r\n"},
		{"no-such-program\r", "no-such-program: command not found\r\n"},
	}
	if !w.KernelTerminals {
		steps = append(steps, []step{
			{"", "$ "},
			{"alias hi='echo \"it is\"'\r", "$ "},
			{"hi kept\r", "it is kept\r\n"},
			{"", "$ "},
			{"unalias hi\r", "$ "},
			{"hi\r", "hi: command not found\r\n"},
			{"", "$ "},
			{"echo \"alias ld='ls -ld'\" >> ~/.bashrc; bash\r", "$ "},
			{"ld /tmp; echo done\r", "/tmp\r\ndone\r\n"},
			{"", "$ "},
			{"exit\r", "exit\r\nexit\r\n"},
			{"", "$ "},
			{strings.Repeat("x", 3998) + "\x03", "^C"},
			{strings.Repeat("x", 5000) + "\x03", "^C"},
			{"echo status $?\r", "status 130\r\n"},
			{"echo " + strings.Repeat("é", 5000) + "|wc -c\r", "10001\r\n"}, // longer than the line editor accepts at once
			{"cat > long\r" + strings.Repeat("x", 9000) + "\ry\r\x04", "y\r\n"},
			{"wc -c < long\r", "9003\r\n"},
			{"sleep 1000\r", "sleep 1000\r\n"},
			{strings.Repeat("x\r", 40<<10) + "\x03", "^C\r\n"},
			{"echo status $?\r", "status 130\r\n"},
			{"", "$ "},
			{"stty size; tput cols; echo $LINES,$COLUMNS\r", "40 200\r\n200\r\n40,200\r\n"},
			{"stty -a | grep -o 'columns.*'; echo x | stty size\r", "columns 200; line = 0;\r\nstty: 'standard input': Inappropriate ioctl for device\r\n"},
			{"stty rows 50 cols 90 -ixon && stty size; stty raw\r", "50 90\r\nstty: raw: simulated terminals cannot change this setting\r\n"},
			{"saved=$(stty -g); stty -echo; stty -a | grep -o ' -echo '; stty $saved; stty -a | grep -o ' echo '; stty sane rows 40 cols 200\r", " -echo \r\n echo \r\n"},
			{"", "$ "},
			{"stty -echo; echo r'e'ady; read p; stty echo; echo \"got ${#p}\"\r", "ready\r\n"},
		}...)
	}
	for _, step := range steps {
		for typed := 0; ; typed++ {
			if _, err := io.WriteString(keys, step.keys); err != nil {
				t.Fatal(err)
			}
			if step != interrupt || typed > 10 || shown.shows(step.want, 2*time.Second) {
				break
			}
		}
		shown.await(t, step.want)
	}
	if !w.KernelTerminals {
		if _, err := io.WriteString(keys, "secret\r"); err != nil {
			t.Fatal(err)
		}
		if !shown.shows("got 6\r\n", patience) || shown.shows("secret", 0) {
			t.Errorf("with stty -echo, the terminal shows %q", shown.text)
		}
	}
	if err := p.Resize(machine.Size{Columns: 20, Rows: 5}); err != nil {
		t.Error(err)
	}
	if !w.KernelTerminals {
		if _, err := io.WriteString(keys, "stty size; echo $LINES-$COLUMNS; tput lines\r"); err != nil {
			t.Fatal(err)
		}
		shown.await(t, "5 20\r\n5-20\r\n5\r\n")
	}
	if _, err := io.WriteString(keys, "exit 4\r"); err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); status != 4 || err != nil {
		t.Errorf("after exit 4: %d, %v", status, err)
	}
	f, err := m.Files()
	if err != nil {
		t.Fatal(err)
	}
	if data, err := f.ReadFile("/root/by-terminal"); string(data) != "written\n" {
		t.Errorf("the terminal's file is %q (%v)", data, err)
	}

	p, shown, _ = open(ctx, machine.Command{Args: []string{"sh", "-c", "echo one; exit 3"}})
	shown.await(t, "one\r\n")
	if status, err := p.Wait(); status != 3 || err != nil {
		t.Errorf("a program on a terminal: %d, %v", status, err)
	}

	// The ways in which a terminal can end.
	p, shown, keys = open(ctx, machine.Command{User: "ec2-user"})
	shown.await(t, "$ ")
	if err := keys.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); err != nil {
		t.Errorf("after the client hung up: %v", err)
	}
	limited, cancel := context.WithCancel(ctx)
	p, shown, _ = open(limited, machine.Command{User: "ec2-user"})
	shown.await(t, "$ ")
	cancel()
	if _, err := p.Wait(); !errors.Is(err, context.Canceled) {
		t.Errorf("after its context ended: %v", err)
	}
	p, shown, keys = open(ctx, machine.Command{User: "ec2-user"})
	shown.await(t, "$ ")
	if _, err := io.WriteString(keys, "sleep 1000\r"); err != nil {
		t.Fatal(err)
	}
	shown.await(t, "\r\n")
	if err := p.Signal(machine.SIGHUP); err != nil {
		t.Fatal(err)
	}
	if status, err := p.Wait(); status != 128+1 || err != nil {
		t.Errorf("after SIGHUP: %d, %v", status, err)
	}
	p, shown, _ = open(ctx, machine.Command{User: "ec2-user"})
	shown.await(t, "$ ")
	if err := m.Stop(ctx, true); err != nil {
		t.Fatal(err)
	}
	if _, err := p.Wait(); !errors.Is(err, machine.ErrOff) {
		t.Errorf("after the power went: %v, want ErrOff", err)
	}
}

func files(t *testing.T, w World, m machine.Machine) {
	ctx := t.Context()
	f, err := m.Files()
	if err != nil {
		t.Fatal(err)
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	must(f.MkdirAll("/srv/a/b", 0o750))
	must(f.WriteFile("/srv/a/b/file", []byte("one"), 0o640))
	must(f.WriteFile("/srv/a/b/file", []byte("two"), 0o600))
	must(f.Chown("/srv/a/b/file", 1000, 1000))
	if info, err := f.Stat("/srv/a/b/file"); err != nil || info.Size() != 3 || info.Mode() != 0o640 || info.IsDir() {
		t.Errorf("a file: %v (%v)", info, err)
	}
	must(f.Chmod("/srv/a/b/file", 0o400))
	must(f.Rename("/srv/a/b/file", "/srv/a/moved"))
	if list, err := f.ReadDir("/srv/a"); err != nil || len(list) != 2 || list[0].Name() != "b" || !list[0].IsDir() || list[1].Name() != "moved" {
		t.Errorf("a folder: %v (%v)", list, err)
	}
	must(f.RemoveAll("/srv/a/b"))
	for name, try := range map[string]func() error{
		"reading": func() error { _, err := f.ReadFile("/srv/a/b/file"); return err },
		"listing": func() error { _, err := f.ReadDir("/srv/a/b"); return err },
		"stat":    func() error { _, err := f.Stat("/srv/a/b"); return err },
		"writing": func() error { return f.WriteFile("/srv/a/b/file", nil, 0o644) },
	} {
		if err := try(); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s where nothing is: %v, want fs.ErrNotExist", name, err)
		}
	}
	// Everything is still there after a stop, and after a restart of the daemon.
	r := w.Runtime(t)
	must(m.Stop(ctx, true))
	again := w.Instance
	again.BootID += "/again"
	for range 2 {
		must(r.Start(ctx, again))
		f, err := w.await(t, r).Files()
		must(err)
		if data, err := f.ReadFile("/srv/a/moved"); string(data) != "two" {
			t.Errorf("after a boot the file is %q (%v)", data, err)
		}
		must(r.Shutdown(ctx))
		r = w.Runtime(t)
	}
}

func ports(t *testing.T, w World, m machine.Machine) {
	for _, host := range []string{"localhost", "127.0.0.1", w.Instance.PrivateIP.String()} {
		if c, err := m.Dial(t.Context(), host, 9); !errors.Is(err, syscall.ECONNREFUSED) {
			t.Errorf("a port of %s where nothing listens: %v, %v, want connection refused", host, c, err)
		} else if _, ok := errors.AsType[*net.OpError](err); !ok {
			t.Errorf("the error is a %T, want *net.OpError", err)
		}
	}
}

func interfaces(t *testing.T, w World, m machine.Machine) {
	ctx := t.Context()
	second := machine.Interface{ID: "eni-2", Device: 1, MAC: "02:00:00:00:00:02", Addresses: []netip.Addr{netip.MustParseAddr("10.0.0.99")}}
	own := w.Instance.Interfaces
	for _, all := range [][]machine.Interface{append(own[:len(own):len(own)], second), own} {
		if err := m.SetInterfaces(ctx, all); err != nil {
			t.Fatal(err)
		}
		got := w.Interfaces(t, m)
		for _, i := range append(own[:len(own):len(own)], second) {
			if has, want := slices.Contains(got, i.MAC), slices.ContainsFunc(all, func(a machine.Interface) bool { return a.ID == i.ID }); has != want {
				t.Errorf("of %d interfaces, programs see %v; %s there: %v, want %v", len(all), got, i.MAC, has, want)
			}
		}
	}
}
