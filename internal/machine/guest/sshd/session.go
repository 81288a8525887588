package sshd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"strings"
	"syscall"
	"time"

	"golang.org/x/crypto/ssh"

	"github.com/drydock-dev/drydock/internal/machine"
)

// A session runs one shell, command or subsystem.
type session struct {
	c        *connection
	channel  ssh.Channel
	env      []string
	terminal *machine.TerminalSpec
	started  chan machine.Process // receives the program once it runs
}

// Bounds of a session.
const (
	maxVariables = 64
	maxVariable  = 4 << 10
	maxCommand   = 64 << 10
)

func (c *connection) session(ctx context.Context, n ssh.NewChannel) {
	channel, requests, err := n.Accept()
	if err != nil {
		return
	}
	defer channel.Close()
	ctx, cancel := context.WithCancel(ctx)
	s := &session{c: c, channel: channel, started: make(chan machine.Process, 1)}
	var program machine.Process
	done := make(chan struct{})
	running := false
	for r := range requests {
		ok := false
		switch r.Type {
		case "env":
			ok = !running && s.setVariable(r.Payload)
		case "pty-req":
			ok = !running && s.setTerminal(r.Payload)
		case "shell", "exec", "subsystem":
			if running {
				break
			}
			if run := s.program(r.Type, r.Payload); run != nil {
				running, ok = true, true
				go func() {
					defer close(done)
					s.end(run(ctx))
				}()
			}
		case "window-change", "signal":
			if program == nil {
				select {
				case program = <-s.started:
				default:
				}
			}
			ok = program != nil && control(program, r)
		}
		if r.WantReply {
			_ = r.Reply(ok, nil) // the client may be gone
		}
	}
	cancel() // the client has closed the channel
	if running {
		<-done
	}
}

// setVariable adds a variable from the client's environment, if Amazon Linux's AcceptEnv lists it.
func (s *session) setVariable(payload []byte) bool {
	var v struct{ Name, Value string }
	if ssh.Unmarshal(payload, &v) != nil || len(payload) > maxVariable || len(s.env) >= maxVariables || strings.ContainsAny(v.Name, "=\x00") {
		return false
	}
	if v.Name != "LANG" && v.Name != "LANGUAGE" && !strings.HasPrefix(v.Name, "LC_") && v.Name != "XMODIFIERS" {
		return false
	}
	s.env = append(s.env, v.Name+"="+v.Value)
	return true
}

func (s *session) setTerminal(payload []byte) bool {
	var t struct {
		Term                         string
		Columns, Rows, Width, Height uint32
		Modes                        string
	}
	if s.c.grant.noTerminal || ssh.Unmarshal(payload, &t) != nil || len(t.Term) > 256 {
		return false
	}
	s.terminal = &machine.TerminalSpec{Type: t.Term, Size: sizeOf(t.Columns, t.Rows)}
	return true
}

func sizeOf(columns, rows uint32) machine.Size {
	return machine.Size{Columns: int(min(columns, 10_000)), Rows: int(min(rows, 10_000))}
}

// control passes a new window size or a signal on to a program.
func control(p machine.Process, r *ssh.Request) bool {
	if r.Type == "signal" {
		var s struct{ Name string }
		return ssh.Unmarshal(r.Payload, &s) == nil && p.Signal(machine.Signal(s.Name)) == nil
	}
	var w struct{ Columns, Rows, Width, Height uint32 }
	return ssh.Unmarshal(r.Payload, &w) == nil && p.Resize(sizeOf(w.Columns, w.Rows)) == nil
}

// program returns the function that serves a request, or nil if the request is invalid or names an unknown subsystem.
func (s *session) program(kind string, payload []byte) func(context.Context) (int, error) {
	var text struct{ Value string }
	if kind != "shell" && (ssh.Unmarshal(payload, &text) != nil || len(text.Value) > maxCommand) {
		return nil
	}
	shell := shellName(s.c.user)
	forced := s.c.grant.command
	switch {
	case shell == "nologin" || shell == "false" || forced == "" && kind == "shell":
		return s.shell(nil, "")
	case forced != "":
		return s.shell([]string{shell, "-c", forced}, text.Value)
	case kind == "subsystem" && text.Value == "sftp" && s.c.s.cfg.FS == nil:
		return s.shell(s.c.s.cfg.SFTP, "")
	case kind == "subsystem" && text.Value == "sftp":
		return s.sftp
	case kind == "subsystem":
		return nil
	}
	if f := s.c.files(); f.fs != nil && strings.HasPrefix(text.Value, "scp ") {
		if to, ok := scpCommand(f, text.Value); ok {
			return func(ctx context.Context) (int, error) { return s.scp(ctx, f, to) }
		}
	}
	return s.shell([]string{shell, "-c", text.Value}, "")
}

// shell returns a function that runs a command, or a login shell if args is empty. original is the command that the
// client asked for, if a forced command replaces it.
func (s *session) shell(args []string, original string) func(context.Context) (int, error) {
	return func(ctx context.Context) (int, error) {
		typed, keys := io.Pipe()
		go func() { // ends with the channel
			_, err := io.Copy(keys, s.channel)
			_ = keys.CloseWithError(err) // always returns nil
		}()
		defer typed.Close()
		cmd := machine.Command{
			Args: args, User: s.c.user.Name, Env: append(s.env, s.connectionVariables()...), Stdin: typed,
			Stdout: s.channel, Stderr: s.channel.Stderr(), Terminal: s.terminal, Streamed: true,
		}
		if original != "" {
			cmd.Env = append(cmd.Env, "SSH_ORIGINAL_COMMAND="+original)
		}
		p, err := s.c.s.cfg.Host.Exec(ctx, cmd)
		if err != nil {
			return 255, err
		}
		s.started <- p
		return p.Wait()
	}
}

// connectionVariables returns the variables in which sshd describes the connection.
func (s *session) connectionVariables() []string {
	host, port, err := net.SplitHostPort(s.c.from)
	if err != nil {
		return nil
	}
	out := []string{"SSH_CLIENT=" + host + " " + port + " 22"}
	if s.terminal != nil {
		out = append(out, "SSH_TTY=/dev/pts/0")
	}
	return out
}

// end sends the program's exit status to the client and closes the channel.
func (s *session) end(status int, err error) {
	defer s.channel.Close()
	if err != nil && !errors.Is(err, context.Canceled) {
		if errors.Is(err, machine.ErrOff) {
			return // the connection goes down with the machine
		}
		_, _ = fmt.Fprintln(s.channel.Stderr(), reason(err)) // the client may be gone
		if status == 0 {
			status = 137
		}
	}
	_ = s.channel.CloseWrite() // the client may be gone
	_, _ = s.channel.SendRequest("exit-status", false, ssh.Marshal(struct{ Status uint32 }{uint32(status & 0xff)}))
}

func reason(err error) string {
	if errors.Is(err, machine.ErrKilled) {
		return "Killed"
	}
	return err.Error()
}

// drainIn is how long a forwarded connection stays open after the client has closed its channel, so that the data that
// the client has already sent arrives.
const drainIn = 10 * time.Second

// forward connects a channel to a port, as a program on the machine would.
func (c *connection) forward(ctx context.Context, n ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		OriginHost string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(n.ExtraData(), &to); err != nil || to.Port == 0 || to.Port > 65535 || len(to.Host) > 255 {
		_ = n.Reject(ssh.ConnectionFailed, "bad destination") // the client may be gone
		return
	}
	if !c.grant.forwards(to.Host, to.Port) {
		_ = n.Reject(ssh.Prohibited, "open failed") // the client may be gone
		return
	}
	conn, err := c.s.cfg.Host.Dial(ctx, to.Host, int(to.Port))
	if err != nil {
		_ = n.Reject(ssh.ConnectionFailed, dialReason(err)) // the client may be gone
		return
	}
	defer conn.Close()
	channel, requests, err := n.Accept()
	if err != nil {
		return
	}
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })() // the client is gone
	go func() {                                                 // ends with the channel
		ssh.DiscardRequests(requests)
		_ = conn.SetDeadline(time.Now().Add(drainIn)) // the connection may be closed already
	}()
	join(channel, conn)
}

// dialReason describes an error in sshd's words, which are those of strerror and gai_strerror.
func dialReason(err error) string {
	var dns *net.DNSError
	var ne net.Error
	switch {
	case errors.As(err, &dns) && dns.IsNotFound:
		return "Name or service not known"
	case errors.As(err, &dns):
		return "Temporary failure in name resolution"
	case errors.Is(err, syscall.ECONNREFUSED):
		return "Connection refused"
	case errors.Is(err, os.ErrDeadlineExceeded), errors.As(err, &ne) && ne.Timeout():
		return "Connection timed out"
	case errors.Is(err, syscall.ENETUNREACH):
		return "Network is unreachable"
	}
	return "Connection refused"
}
