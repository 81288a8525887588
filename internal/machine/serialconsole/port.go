package serialconsole

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

const (
	// maxTyped is how many characters may wait for the machine. The client waits when there are more.
	maxTyped = 4 << 10
	// maxLine is the longest line that getty and login read.
	maxLine = 256
	// look is how often the port looks for output of the boot.
	look = 100 * time.Millisecond
	// loginLimit is LOGIN_TIMEOUT of Amazon Linux's login.
	loginLimit = time.Minute
	// wrongLimit is how many wrong passwords login accepts before getty starts again.
	wrongLimit = 3
)

// A port is serial port 0 of a machine, with one client. It outlives reboots.
type port struct {
	machine func() (machine.Machine, bool)
	line    io.Writer
	typed   chan byte
	before  []byte // what the machine had written to its console before the client came, which is not shown
}

func newPort(m func() (machine.Machine, bool), line io.Writer) *port {
	p := &port{machine: m, line: line, typed: make(chan byte, maxTyped)}
	if m, ok := m(); ok {
		p.before = m.Console()
	}
	return p
}

// read takes what the client types until it stops or ctx ends.
func (p *port) read(ctx context.Context, from io.Reader) {
	in := bufio.NewReader(from)
	for {
		b, err := in.ReadByte()
		if err != nil {
			return
		}
		select {
		case p.typed <- b:
		case <-ctx.Done():
			return
		}
	}
}

// serve shows boots and lets the client log in until ctx ends.
func (p *port) serve(ctx context.Context) {
	shown := p.before
	for ctx.Err() == nil {
		m, ok := p.machine()
		if !ok {
			pause(ctx, look)
			continue
		}
		shown = p.boot(ctx, m, shown)
		if m.Abilities().Has(machine.Terminal) && m.Instance().Image.Family != images.Bottlerocket {
			p.getty(ctx, m)
		} else {
			pause(ctx, look) // the image has no login on its serial port
		}
	}
}

func pause(ctx context.Context, d time.Duration) {
	select {
	case <-time.After(d):
	case <-ctx.Done():
	}
}

// boot copies what the machine writes to its console after shown, until the machine has booted or is off. It returns all
// of the console's output.
func (p *port) boot(ctx context.Context, m machine.Machine, shown []byte) []byte {
	for booted := false; !booted && ctx.Err() == nil; {
		select {
		case <-m.Booted():
			booted = true
		case <-time.After(look):
			if now, ok := p.machine(); !ok || now.Instance().BootID != m.Instance().BootID {
				return shown
			}
		case <-ctx.Done():
			return shown
		}
		all := m.Console()
		p.print(strings.ReplaceAll(string(after(all, shown)), "\n", "\r\n"))
		shown = all
	}
	return shown
}

// after returns what a console has written since it had written old. A console keeps only the end of its output.
func after(all, old []byte) []byte {
	for n := len(old); n > 0; n-- {
		if len(all) >= n && bytes.HasPrefix(all, old[len(old)-n:]) {
			return all[n:]
		}
	}
	return all
}

func (p *port) print(format string, args ...any) {
	if len(args) > 0 {
		format = fmt.Sprintf(format, args...)
	}
	_, _ = io.WriteString(p.line, format) // reading fails, too, when the client is gone
}

// errOff means that the machine was switched off.
var errOff = errors.New("the machine is off")

// errSlow means that the user took too long to log in.
var errSlow = errors.New("login timed out")

// key returns the next character that is typed.
func (p *port) key(ctx context.Context, m machine.Machine, patience <-chan time.Time) (byte, error) {
	for {
		select {
		case b := <-p.typed:
			return b, nil
		case <-patience:
			return 0, errSlow
		case <-time.After(look):
			if now, ok := p.machine(); !ok || now.Instance().BootID != m.Instance().BootID {
				return 0, errOff
			}
		case <-ctx.Done():
			return 0, ctx.Err()
		}
	}
}

// readLine reads a line as a terminal in canonical mode does. echo says whether it shows what is typed.
func (p *port) readLine(ctx context.Context, m machine.Machine, echo bool, patience <-chan time.Time) (string, error) {
	var out []byte
	for {
		b, err := p.key(ctx, m, patience)
		if err != nil {
			return "", err
		}
		switch {
		case b == '\r' || b == '\n':
			p.print("\r\n")
			return string(out), nil
		case (b == 0x7f || b == '\b') && len(out) > 0:
			out = out[:len(out)-1]
			if echo {
				p.print("\b \b")
			}
		case b == 0x15: // Ctrl-U
			if echo {
				p.print(strings.Repeat("\b \b", len(out)))
			}
			out = nil
		case b >= ' ' && b < 0x7f && len(out) < maxLine:
			out = append(out, b)
			if echo {
				p.print("%c", b)
			}
		}
	}
}

// getty asks for a user until one has logged in and out, or the machine is off. Like the real one, it has written its
// prompt before the client connects, and writes it again for an empty line.
func (p *port) getty(ctx context.Context, m machine.Machine) {
	for {
		name, err := p.readLine(ctx, m, true, nil)
		if err != nil {
			return
		}
		if name == "" {
			p.prompt(m)
			continue
		}
		switch name, err = p.login(ctx, m, name); {
		case errors.Is(err, errSlow):
			p.print("\r\nLogin timed out after %.0f seconds.\r\n", loginLimit.Seconds())
		case err != nil:
			return
		case name != "":
			p.shell(ctx, m, name)
			return
		}
		p.prompt(m)
	}
}

func (p *port) prompt(m machine.Machine) {
	p.print("\r\n%s login: ", hostOf(m))
}

// hostOf returns the name of a machine without its domain.
func hostOf(m machine.Machine) string {
	name := m.Instance().PrivateDNSName
	if files, err := m.Files(); err == nil {
		if b, err := files.ReadFile("/etc/hostname"); err == nil {
			name = strings.TrimSpace(string(b))
		}
	}
	name, _, _ = strings.Cut(name, ".")
	return name
}

// login asks for a user's password. It returns the user who has logged in, or an empty name after too many attempts.
func (p *port) login(ctx context.Context, m machine.Machine, name string) (string, error) {
	patience := time.After(loginLimit)
	for tries := 1; ; tries++ {
		field := accounts.Locked
		if files, err := m.Files(); err == nil {
			field = accounts.Password(files, name)
		}
		if field == "" {
			return name, nil
		}
		p.print("Password: ")
		password, err := p.readLine(ctx, m, false, patience)
		if err != nil {
			return "", err
		}
		if accounts.PasswordMatches(field, password) {
			return name, nil
		}
		p.print("Login incorrect\r\n")
		if tries == wrongLimit {
			return "", nil
		}
		for name = ""; name == ""; {
			p.prompt(m)
			if name, err = p.readLine(ctx, m, true, patience); err != nil {
				return "", err
			}
		}
	}
}

// shell runs a user's login shell on the port.
func (p *port) shell(ctx context.Context, m machine.Machine, user string) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	// A serial port does not know its terminal's size, so it is that of a VT220.
	terminal := &machine.TerminalSpec{Type: "vt220", Size: machine.Size{Columns: 80, Rows: 24}}
	_, err := machine.Run(ctx, m, machine.Command{User: user, Stdin: &keyboard{ctx, p.typed}, Stdout: p.line, Terminal: terminal})
	switch {
	case errors.Is(err, machine.ErrOff):
		return
	case err != nil && ctx.Err() == nil:
		p.print("\r\n%s\r\n", err)
	}
	p.prompt(m)
}

// A keyboard reads what is typed until its context ends.
type keyboard struct {
	ctx   context.Context
	typed <-chan byte
}

// Read implements io.Reader.
func (k *keyboard) Read(to []byte) (n int, err error) {
	if len(to) == 0 {
		return 0, nil
	}
	select {
	case to[0] = <-k.typed:
	case <-k.ctx.Done():
		return 0, io.EOF
	}
	for n = 1; n < len(to); n++ {
		select {
		case to[n] = <-k.typed:
		default:
			return n, nil
		}
	}
	return n, nil
}
