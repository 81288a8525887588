package simulated

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"sync"

	"golang.org/x/term"
	"mvdan.cc/sh/v3/syntax"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// A terminal is a terminal of the machine with the shells that run on it, each started from the previous one. A shell
// that waits at its prompt is a goroutine of this package. Only its command lines run in package sandbox.
type terminal struct {
	c      *Computer
	screen *term.Terminal
	env    []string

	mu        sync.Mutex
	changed   *sync.Cond
	typed     []byte
	hungUp    bool // nothing more will be typed
	reading   bool // a line is being edited
	edited    bool // part of that line has been typed
	fed       int  // how many bytes of that line the line editor has received
	escape    int  // how many of the next bytes may belong to an escape sequence
	part      bool // the editor's last line continues in the next one
	cancelled bool // Ctrl-C ended the editor's last line
	busy      bool // line is running
	front     *job // in the foreground; nil if none is running
	pending   bool // Ctrl-C was typed while no line was being edited and no command was running
	history   commands
	set       settings

	jobs sync.WaitGroup
}

// Bounds of a terminal.
const (
	maxTyped   = 1 << 20  // bytes typed ahead
	maxEdited  = 4000     // bytes of a line that the line editor gets at once; it drops everything beyond 4,096 characters
	maxCommand = 64 << 10 // bytes of a command with several lines
	maxHistory = 500
	maxShells  = 50 // started from one another
)

// A loginShell is one of the shells on a terminal.
type loginShell struct {
	user  accounts.User
	name  string // bash or sh
	login bool
	env   []string
	state *shell.State
	// started says that the shell has read its profile.
	started bool
	jobs    []*job // in the background or stopped, ordered by number; the terminal's mu guards them
	warned  bool   // that there are stopped jobs, by the last command
}

func newTerminal(c *Computer, cmd *machine.Command) *terminal {
	t := &terminal{c: c, env: slices.Concat([]string{"TERM=" + cmp.Or(cmd.Terminal.Type, "xterm-256color")}, c.image.Env, cmd.Env)}
	t.changed = sync.NewCond(&t.mu)
	t.screen = term.NewTerminal(struct {
		io.Reader
		io.Writer
	}{t, orDiscard(cmd.Stdout)}, "")
	t.screen.History = lines{t}
	t.set.size = machine.Size{Columns: 80, Rows: 24}
	t.resize(cmd.Terminal.Size)
	return t
}

// maxSize bounds the columns and rows of a terminal.
const maxSize = 10_000

func (t *terminal) resize(s machine.Size) {
	if s.Columns > 0 && s.Rows > 0 && s.Columns < maxSize && s.Rows < maxSize {
		t.mu.Lock()
		t.set.size = s
		t.mu.Unlock()
		_ = t.screen.SetSize(s.Columns, s.Rows) // it fails only if the client has stopped reading
	}
}

// onTerminal runs a program on a terminal until it ends.
func (c *Computer) onTerminal(ctx context.Context, t *terminal, user accounts.User, cmd machine.Command) (int, error) {
	defer t.jobs.Wait()
	ctx, end := context.WithCancel(ctx)
	defer end() // of jobs that still run
	defer context.AfterFunc(ctx, t.hangUp)()
	defer t.hangUp()          // otherwise listen could wait for room in typed forever
	go t.listen(stdinOf(cmd)) // ends when the client hangs up
	first := &loginShell{user: user, name: path.Base(cmp.Or(user.Shell, "/bin/bash")), login: true, env: t.env}
	dir := cmp.Or(cmd.Dir, user.Home)
	switch {
	case len(cmd.Args) == 0 && (first.name == "nologin" || first.name == "false"):
		_, _ = io.WriteString(t.screen, "This account is currently not available.\n")
		return 1, nil
	case len(cmd.Args) == 0:
	case len(cmd.Args) == 1 && slices.Contains([]string{"sh", "bash"}, path.Base(cmd.Args[0])):
		first.name, first.login = path.Base(cmd.Args[0]), false
	default:
		first.name, first.login, first.state = "bash", false, &shell.State{Dir: dir}
		quoted := make([]string, len(cmd.Args))
		for i, a := range cmd.Args {
			quoted[i] = quote(a)
		}
		res, err := t.run(ctx, first, strings.Join(quoted, " "))
		if err == nil && res.Login != nil {
			return t.shells(ctx, t.started(res.Login))
		}
		return res.Status, err
	}
	first.state = &shell.State{Dir: dir}
	return t.shells(ctx, first)
}

func quote(word string) string { return "'" + strings.ReplaceAll(word, "'", `'\''`) + "'" }

func stdinOf(cmd machine.Command) io.Reader {
	if cmd.Stdin == nil {
		return strings.NewReader("")
	}
	return cmd.Stdin
}

// shells runs a shell, and those started from it, until it exits.
func (t *terminal) shells(ctx context.Context, first *loginShell) (int, error) {
	stack := []*loginShell{first}
	for {
		s := stack[len(stack)-1]
		profile := s.profile(t.c.image.FS)
		t.screen.AutoCompleteCallback = func(line string, pos int, key rune) (string, int, bool) {
			if key != '\t' {
				return "", 0, false
			}
			return t.complete(s.state.Dir, line, pos)
		}
		command, err := profile, error(nil)
		if profile == "" {
			t.notify(s)
			command, err = t.command(s)
		}
		if ctx.Err() != nil {
			return 0, context.Cause(ctx)
		}
		var res shell.Result
		switch {
		case errors.Is(err, errCancelled):
			s.state.Status = 130
			continue
		case err != nil: // Ctrl-D
			res = shell.Result{Status: s.state.Status, Exited: true}
		case strings.TrimSpace(command) == "":
			continue
		default:
			if res, err = t.run(ctx, s, command); err != nil {
				return res.Status, err
			}
		}
		switch {
		case res.Exited && !t.leave(s):
			s.state.Status = 1
			continue
		case res.Exited:
			word := "exit"
			if s.login {
				word = "logout"
			}
			_, _ = fmt.Fprintln(t.screen, word) // the client may be gone
			if stack = stack[:len(stack)-1]; len(stack) == 0 {
				return res.Status, nil
			}
			stack[len(stack)-1].state.Status = res.Status
		case res.Login != nil && len(stack) >= maxShells:
			_, _ = fmt.Fprintf(t.screen, "%s: fork: retry: Resource temporarily unavailable\n", s.name)
		case res.Login != nil:
			stack = append(stack, t.started(res.Login))
		}
		s.warned = false
	}
}

// profile returns the commands that a shell runs when it starts: they read its profile, or its .bashrc. It returns "" if the
// shell has no such file, and from the second call on.
func (s *loginShell) profile(files *vfs.FS) string {
	if s.started {
		return ""
	}
	s.started = true
	candidates := [][]string{}
	switch {
	case s.login && s.name == "sh":
		candidates = [][]string{{"/etc/profile"}, {s.user.Home + "/.profile"}}
	case s.login:
		candidates = [][]string{{"/etc/profile"}, {s.user.Home + "/.bash_profile", s.user.Home + "/.bash_login", s.user.Home + "/.profile"}}
	case s.name == "bash":
		candidates = [][]string{{s.user.Home + "/.bashrc"}}
	case s.name == "sh":
		for _, v := range s.env {
			if file, ok := strings.CutPrefix(v, "ENV="); ok {
				candidates = [][]string{{file}}
			}
		}
	}
	var out strings.Builder
	for _, names := range candidates {
		for _, name := range names {
			if i, err := files.Stat(name); err == nil && i.Mode().IsRegular() {
				fmt.Fprintf(&out, "[ -r %s ] && . %[1]s\n", quote(name))
				break
			}
		}
	}
	if out.Len() > 0 {
		out.WriteString("true")
	}
	return out.String()
}

// started returns a shell that a command line has started.
func (t *terminal) started(l *shell.Login) *loginShell {
	out := &loginShell{user: accounts.User{Name: l.User, Home: "/"}, name: l.Name, login: l.Login, env: l.Env, state: &shell.State{Dir: l.Dir}}
	if u, ok := accounts.FindUser(t.c.image.FS, l.User); ok {
		out.user = u
	}
	return out
}

// command reads a command, which may have several lines.
func (t *terminal) command(s *loginShell) (string, error) {
	prompt, text := t.prompt(s), ""
	for {
		line, whole, err := t.line(prompt)
		if err != nil {
			return "", err
		}
		if len(text) <= maxCommand {
			text += line
		}
		if !whole {
			prompt = ""
			continue
		}
		if len(text) > maxCommand {
			_, _ = fmt.Fprintf(t.screen, "%s: the command is too long for this terminal\n", s.name) // the client may be gone
			return "", errCancelled
		}
		_, err = syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text+"\n"), "")
		if !syntax.IsIncomplete(err) {
			t.history.add(text)
			return text, nil
		}
		text += "\n"
		prompt = "> "
	}
}

// prompt returns a prompt like that of Amazon Linux's shells: sh-5.2$ or [ec2-user@ip-10-0-0-1 ~]$.
func (t *terminal) prompt(s *loginShell) string {
	if t.c.image.Prompt != nil {
		return t.c.image.Prompt(s.user.Name, s.env)
	}
	sign := "$"
	if s.user.UID == 0 {
		sign = "#"
	}
	if s.name == "sh" {
		version := "5.2"
		if t.c.in.Image.Family == images.AL2 {
			version = "4.2"
		}
		return "sh-" + version + sign + " "
	}
	host, _, _ := strings.Cut(t.c.in.PrivateDNSName, ".")
	dir := path.Base(s.state.Dir)
	if s.state.Dir == s.user.Home {
		dir = "~"
	}
	return fmt.Sprintf("[%s@%s %s]%s ", s.user.Name, host, dir, sign)
}

// run runs one command line.
func (t *terminal) run(ctx context.Context, s *loginShell, command string) (shell.Result, error) {
	var res shell.Result
	for _, p := range parts(command) {
		if p.background {
			t.background(ctx, s, p.text)
			continue
		}
		j := t.launch(ctx, s, p.text, false)
		status := j.wait()
		if ctx.Err() != nil {
			return j.res, context.Cause(ctx)
		}
		t.mu.Lock()
		var err error
		ended, interrupted := j.ended, j.interrupted
		if res = (shell.Result{Status: status}); ended {
			res, err = j.res, j.err
		}
		t.mu.Unlock()
		if res.State != nil {
			s.state = res.State
		} else {
			s.state.Status = res.Status
		}
		if err != nil || !ended || interrupted || res.Exited || res.Login != nil {
			return res, err
		}
	}
	return res, nil
}

// environment returns the variables that a login sets for a user's programs.
func environment(u accounts.User) []string {
	return []string{"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name, "SHELL=" + cmp.Or(u.Shell, "/bin/bash")}
}
