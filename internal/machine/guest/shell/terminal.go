package shell

import (
	"bytes"
	"context"
	"errors"
	"io"
	"maps"
	"os"
	"path"
	"slices"
	"strconv"
	"strings"
	"sync"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// A shell on a terminal runs one job per command line. Nothing runs between two lines. A State carries what one line
// leaves to the next.

// A State is what a command line leaves to the next one of its shell: the folder, and a script that restores the
// variables, functions and aliases.
type State struct {
	Dir    string
	Script []byte
	Status int // of the last command
	// Background is $!, the process ID of the last job that the shell has started in the background, or 0.
	Background int
}

// A Login is a shell that a command line has started on its terminal, as sudo -i, su - ec2-user and bash do.
type Login struct {
	User  string
	Login bool   // a login shell, which reads profiles and starts in the user's home
	Name  string // bash or sh
	Dir   string
	Env   []string
}

// maxState bounds the variables, functions and aliases that a shell on a terminal keeps, in bytes.
const maxState = 256 << 10

// A terminal connects a job's terminal with the interpreter. The interpreter's standard input is a pipe, which is
// filled only when a program reads. What is typed ahead of the next prompt thus stays in the terminal.
type terminal struct {
	in     io.Reader
	r, w   *os.File
	state  *State // at first the job's, in the end what the line leaves
	exited bool
	login  *Login

	mu      sync.Mutex
	aliases map[string]string // of the line's shell
}

func newTerminal(job *Job) (*terminal, error) {
	r, w, err := os.Pipe()
	if err != nil {
		return nil, err
	}
	return &terminal{in: job.Stdin, r: r, w: w, state: job.State, aliases: map[string]string{}}, nil
}

func (t *terminal) close() { _, _ = t.r.Close(), t.w.Close() } // they are pipes

// stdin returns the standard input of a program: the terminal itself instead of the pipe.
func (t *terminal) stdin(r io.Reader) io.Reader {
	if t != nil && r == io.Reader(t.r) {
		return t.in
	}
	return r
}

// isTerminal reports whether a command's standard input is the job's terminal.
func (c *Call) isTerminal() bool {
	return c.m != nil && c.m.terminal != nil && c.Stdin == c.m.terminal.in
}

// OnTerminal is isTerminal for programs that Job.Outside runs.
func (c *Call) OnTerminal() bool { return c.Terminal || c.isTerminal() }

// file returns the standard input of a script for the interpreter: the pipe instead of the terminal.
func (t *terminal) file(r io.Reader) io.Reader {
	if t != nil && r == t.in {
		return t.r
	}
	return r
}

// alias records what the commands alias and unalias do, because the interpreter does not list its aliases unambiguously.
func (t *terminal) alias(args []string) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, arg := range args[1:] {
		name, text, set := strings.Cut(arg, "=")
		switch {
		case args[0] == "alias" && set:
			t.aliases[name] = text
		case args[0] == "unalias" && arg == "-a":
			clear(t.aliases)
		case args[0] == "unalias":
			delete(t.aliases, arg)
		}
	}
}

// prompt writes a line into the pipe for the interpreter's own read command. It returns false at the end of input.
func (t *terminal) prompt() bool {
	b := make([]byte, 4<<10)
	n, err := t.in.Read(b)
	if n == 0 && err != nil {
		return false
	}
	_, err = t.w.Write(b[:n]) // it fits into the pipe
	return err == nil
}

// start records that a command starts a shell on the terminal. The shell runs after the command line.
func (c *Call) start(login bool, name string) int {
	c.m.terminal.login = &Login{User: c.User, Login: login, Name: name, Dir: c.Dir, Env: c.Environ()}
	return 0
}

// loginShell starts a shell as the command's user. If standard input is not the terminal, it runs the commands that it
// reads from there instead. login means a login shell.
func (m *machine) loginShell(ctx context.Context, c *Call, login bool) (int, error) {
	name := "bash"
	if u, ok := accounts.FindUser(c.FS, c.User); ok {
		switch name = path.Base(u.Shell); {
		case name == "nologin" || name == "false":
			_, _ = io.WriteString(c.Stdout, "This account is currently not available.\n") // the reader may be closed
			return 1, nil
		case name == "":
			name = "bash"
		}
		if login {
			c.Dir = u.Home
		}
		c.env = withEnv(c.env, []string{"HOME=" + u.Home, "USER=" + u.Name, "LOGNAME=" + u.Name, "SHELL=" + u.Shell})
	} else {
		return c.Fail("unknown user: %s", c.User), nil
	}
	if c.isTerminal() {
		return c.start(login, name), nil
	}
	text, err := c.read("-")
	if err != nil {
		return c.Fail("%s", reason(err)), nil
	}
	return m.bash(ctx, c, name, text, nil, nil)
}

// resume restores what earlier lines have left.
func (t *terminal) resume(ctx context.Context, r *interp.Runner) error {
	if t.state == nil {
		return nil
	}
	prog, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(t.state.Script), "")
	if err != nil {
		return err
	}
	err = r.Run(ctx, prog)
	if status := interp.ExitStatus(0); errors.As(err, &status) {
		return nil // the status of the last line
	}
	return err
}

// last replaces $! by the process ID of the shell's last job, unless the line itself starts commands in the background.
func (t *terminal) last(prog *syntax.File) {
	starts := false
	syntax.Walk(prog, func(n syntax.Node) bool {
		s, ok := n.(*syntax.Stmt)
		starts = starts || ok && s.Background
		return true
	})
	if t.state == nil || t.state.Background == 0 || starts {
		return
	}
	replace := func(parts []syntax.WordPart) {
		for i, part := range parts {
			if p, ok := part.(*syntax.ParamExp); ok && p.Short && p.Param != nil && p.Param.Value == "!" {
				parts[i] = &syntax.Lit{ValuePos: p.Pos(), ValueEnd: p.End(), Value: strconv.Itoa(t.state.Background)}
			}
		}
	}
	syntax.Walk(prog, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.FuncDecl: // it may be called later
			return false
		case *syntax.Word:
			replace(n.Parts)
		case *syntax.DblQuoted:
			replace(n.Parts)
		}
		return true
	})
}

// keep records what a line leaves to the next.
func (t *terminal) keep(r *interp.Runner, status int) {
	t.exited = r.Exited()
	background := 0
	if t.state != nil {
		background = t.state.Background
	}
	t.state = &State{Dir: r.Dir, Status: status, Background: background}
	b := *bytes.NewBufferString("shopt -s expand_aliases\n") // as in all shells on a terminal
	t.mu.Lock()
	for _, name := range slices.Sorted(maps.Keys(t.aliases)) {
		b.WriteString("alias " + quote(name+"="+t.aliases[name]) + "\n")
	}
	t.mu.Unlock()
	for _, name := range slices.Sorted(maps.Keys(r.Vars)) {
		v := r.Vars[name]
		if !syntax.ValidName(name) || v.ReadOnly || slices.Contains([]string{"UID", "EUID", "GID", "PWD", "OLDPWD", "IFS", "OPTIND", "PPID", "TMPDIR"}, name) {
			continue
		}
		switch v.Kind {
		case expand.String:
			if v.Exported {
				b.WriteString("export ")
			}
			b.WriteString(name + "=" + quote(v.Str) + "\n")
		case expand.Indexed:
			b.WriteString(name + "=(")
			for _, s := range v.List {
				b.WriteString(quote(s) + " ")
			}
			b.WriteString(")\n")
		case expand.Associative:
			b.WriteString("declare -A " + name + "\n")
			for _, k := range slices.Sorted(maps.Keys(v.Map)) {
				b.WriteString(name + "[" + quote(k) + "]=" + quote(v.Map[k]) + "\n")
			}
		}
	}
	printer := syntax.NewPrinter()
	for _, name := range slices.Sorted(maps.Keys(r.Funcs)) {
		var body bytes.Buffer
		if printer.Print(&body, r.Funcs[name]) == nil {
			b.WriteString(name + "() " + strings.TrimSpace(body.String()) + "\n")
		}
	}
	if b.Len() <= maxState {
		t.state.Script = b.Bytes()
	}
}
