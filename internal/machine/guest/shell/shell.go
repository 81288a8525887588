// Package shell runs shell scripts on a simulated machine: bash by mvdan.cc/sh on the machine's file system, with the
// commands that user data uses written in Go. It uses nothing of the host: it starts no process and opens no file.
//
// Every command is in the file with its name; commands.go lists them all.
//
// Everything that the machine does beyond its files (services, the network, joining a cluster) goes through
// Job.Outside. Scripts are untrusted: their commands and time are bounded here, and their memory by package sandbox,
// in whose process they run. May be imported by packages that run or test simulated machines.
package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// A Job is one script to run.
type Job struct {
	FS *vfs.FS
	// Script is the text; a first line #! chooses the interpreter and its flags.
	Script []byte
	// Name is the script's path, $0, and the prefix of its error messages.
	Name string
	Args []string
	Env  []string // KEY=value
	Dir  string   // / if empty
	User string   // root if empty
	Host string   // what hostname prints

	Stdin          io.Reader // nil means empty
	Stdout, Stderr io.Writer
	// Outside runs programs that are not in this package's table: systemctl, curl, aws. It returns false if the
	// machine does not have the program. Nil means that the machine has no other programs.
	Outside func(ctx context.Context, c *Call) (status int, found bool)
	// Programs are the names of the programs that Outside runs, for which and command -v.
	Programs []string
	// MaxCommands bounds how many commands the script may run; 0 means 100,000.
	MaxCommands int64
	// Patience divides the waits of sleep; 0 means 1.
	Patience int
	// Terminal means that the job is one command line of a shell on a terminal. Stdin is the terminal. It is read only
	// when a program reads it, and package sandbox closes it when the job ends if it is an io.Closer. State is what the
	// previous line has left. It is nil for the first line.
	Terminal bool
	State    *State
	// Closing Interrupt ends the job as Ctrl-C does: like the end of ctx, except that the job's changes are kept. Only
	// package sandbox uses it. Pause stops the job, as Ctrl-Z does, when it receives true, until it receives false.
	Interrupt <-chan struct{}
	Pause     <-chan bool
}

// Result is how a script ended.
type Result struct {
	Status int
	// Unknown are the commands that the machine does not have, in order, without repetitions.
	Unknown []string
	// Busy says that background commands did not end with the script although they were told to. What they do from
	// now on belongs to no job.
	Busy bool
	// These are set for a command line on a terminal. State is what it leaves to the next line, or nil if it did not
	// finish. Exited reports whether it ended its shell. Login is the shell that it started on the terminal, or nil.
	State  *State
	Exited bool
	Login  *Login
}

// Exit statuses of the shell itself.
const (
	statusUsage      = 2
	statusNoExec     = 126
	statusNotFound   = 127
	statusKilled     = 137
	maxUnknown       = 50
	maxUnknownName   = 200
	defaultCommands  = 100_000
	maxInterpreters  = 20 // how deeply scripts may run other scripts
	maxScript        = 1 << 20
	searchPath       = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	noSuchFile       = "No such file or directory"
	permissionDenied = "Permission denied"
)

// ErrTooManyCommands says that a script ran more commands than allowed.
var ErrTooManyCommands = errors.New("the script was killed: it ran too many commands")

// A lockedWriter is one of a job's two outputs, to which the commands of a pipeline write at the same time.
type lockedWriter struct {
	mu *sync.Mutex // of both, because they may be the same
	w  io.Writer   // nil discards what is written
}

// Write implements io.Writer.
func (l lockedWriter) Write(p []byte) (int, error) {
	if l.w == nil {
		return len(p), nil
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.w.Write(p)
}

// Run runs a job. It returns an error if the script did not finish because it was cancelled or exceeded a limit.
func Run(ctx context.Context, job Job) (Result, error) {
	if job.MaxCommands == 0 {
		job.MaxCommands = defaultCommands
	}
	if job.Dir == "" {
		job.Dir = "/"
	}
	if job.User == "" {
		job.User = "root"
	}
	m := &machine{job: job, outside: job.Outside, lookup: lookup}
	m.left.Store(job.MaxCommands)
	var user accounts.User // root's IDs if the user does not exist
	if u, ok := accounts.FindUser(job.FS, job.User); ok {
		user = u
	}
	uid, gid := strconv.Itoa(user.UID), strconv.Itoa(user.GID)
	job.Env = append([]string{"PATH=" + searchPath, "UID=" + uid, "EUID=" + uid, "GID=" + gid, "HOSTNAME=" + job.Host}, job.Env...)
	var output sync.Mutex
	c := &Call{
		m: m, main: true, FS: job.FS.As(user.UID, user.GID), Dir: job.Dir, User: job.User, env: withEnv(nil, job.Env),
		Args: append([]string{job.Name}, job.Args...), Stdin: job.Stdin, Stdout: lockedWriter{&output, job.Stdout}, Stderr: lockedWriter{&output, job.Stderr},
	}
	if c.Stdin == nil {
		c.Stdin = strings.NewReader("")
	}
	if job.Terminal {
		t, err := newTerminal(&job)
		if err != nil {
			return Result{}, err
		}
		defer t.close()
		m.terminal = t
		if t.state != nil {
			c.Dir, t.state.Script = t.state.Dir, fmt.Appendf(slices.Clip(t.state.Script), "(exit %d)\n", t.state.Status)
		}
	}
	running, end := context.WithCancel(ctx)
	defer end()
	status, err := m.script(running, c, job.Name, job.Script, job.Args)
	m.pipes.close(running)
	// bash would leave background commands to init; here they end.
	end()
	busy := !m.idle(50 * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	res := Result{Status: status, Unknown: m.unknown, Busy: busy}
	if t := m.terminal; t != nil && err == nil {
		res.State, res.Exited, res.Login = t.state, t.exited, t.login
	}
	return res, err
}

// machine is shared by all commands of one job.
type machine struct {
	job     Job
	outside func(context.Context, *Call) (int, bool)
	// The table of programs is reached through a function, because the programs cannot refer to it themselves.
	lookup func(name string) (program, bool)
	left   atomic.Int64 // remaining commands
	depth  atomic.Int32
	// terminal is set if the job is a command line on a terminal.
	terminal *terminal

	active atomic.Int32 // running programs
	pipes  substitutions

	functions sync.Map // names of the shell functions that scripts define
	sources   sync.Map // texts that source reads, by file

	mu      sync.Mutex
	unknown []string
}

// idle waits briefly until no program is running.
func (m *machine) idle(patience time.Duration) bool {
	for deadline := time.Now().Add(patience); m.active.Load() > 0 || !m.pipes.idle(); {
		if time.Now().After(deadline) {
			return false
		}
		runtime.Gosched()
	}
	return true
}

func (m *machine) missing(name string) {
	name = name[:min(len(name), maxUnknownName)]
	m.mu.Lock()
	defer m.mu.Unlock()
	if !slices.Contains(m.unknown, name) && len(m.unknown) < maxUnknown {
		m.unknown = append(m.unknown, name)
	}
}

// script runs a script's text with the interpreter that its first line names.
func (m *machine) script(ctx context.Context, c *Call, name string, text []byte, args []string) (int, error) {
	var flags []string
	if line, ok := bytes.CutPrefix(text, []byte("#!")); ok {
		line, _, _ = bytes.Cut(line, []byte("\n"))
		words := strings.Fields(string(line))
		if len(words) > 1 && path.Base(words[0]) == "env" {
			words = words[1:]
			if words[0] == "-S" {
				words = words[1:]
			}
		}
		if len(words) == 0 {
			return c.shellFail(name, "bad interpreter: "+noSuchFile, statusNoExec), nil
		}
		switch path.Base(words[0]) {
		case "sh", "bash", "dash":
			flags = words[1:]
		default:
			m.missing(words[0])
			return c.shellFail(name, words[0]+": bad interpreter: "+noSuchFile, statusNoExec), nil
		}
	}
	return m.bash(ctx, c, name, text, flags, args)
}

// bash interprets text.
func (m *machine) bash(ctx context.Context, c *Call, name string, text []byte, flags, args []string) (int, error) {
	if m.depth.Add(1) > maxInterpreters {
		m.depth.Add(-1)
		return c.shellFail(name, "Resource temporarily unavailable", statusNoExec), nil
	}
	defer m.depth.Add(-1)
	if len(text) > maxScript {
		return c.shellFail(name, "File too large", statusNoExec), nil
	}
	prog, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(bytes.NewReader(text), name)
	if err != nil {
		if pe := (syntax.ParseError{}); errors.As(err, &pe) {
			return c.shellFail(name, fmt.Sprintf("line %d: syntax error: %s", pe.Pos.Line(), pe.Text), statusUsage), nil
		}
		return c.shellFail(name, "syntax error: "+err.Error(), statusUsage), nil
	}
	line := m.terminal != nil && c.main // not a script that the line runs
	if line {
		m.terminal.last(prog)
	}
	m.rewrite(c, prog)
	r, err := interp.New(
		interp.Env(withEnv(c.env, append(c.homes(), "TMPDIR="+nowhere))),
		interp.Dir("/"), // a folder of the host, which New checks; the prelude changes to the guest's
		interp.StdIO(m.terminal.file(c.Stdin), c.Stdout, c.Stderr),
		interp.CallHandler(func(ctx context.Context, args []string) ([]string, error) { return m.count(ctx, c, args) }),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc {
			return func(ctx context.Context, args []string) error { return m.exec(ctx, c, name, args) }
		}),
		interp.OpenHandler(func(ctx context.Context, file string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error) {
			hc := interp.HandlerCtx(ctx)
			if f := m.device(ctx, &Call{m: m, FS: c.FS, Dir: hc.Dir, User: c.User, env: hc.Env, Args: []string{name}, Stdin: m.terminal.stdin(hc.Stdin), Stdout: hc.Stdout, Stderr: hc.Stderr}, file, flag); f != nil {
				return f, nil
			}
			f, err := c.FS.Open(join(hc.Dir, file), flag, perm)
			if err != nil {
				return nil, worded(name, file, err)
			}
			return &redirected{ReadWriteCloser: f, report: func(err error) { fmt.Fprintf(hc.Stderr, "%s: write error: %s\n", path.Base(name), reason(err)) }}, nil
		}),
		interp.ReadDirHandler2(func(ctx context.Context, dir string) ([]fs.DirEntry, error) {
			return c.FS.ReadDir(join(interp.HandlerCtx(ctx).Dir, dir))
		}),
		interp.StatHandler(m.stat),
		interp.AccessHandler(m.access),
	)
	if err == nil {
		err = r.Run(ctx, prelude(c))
	}
	if err == nil {
		err = interp.Params(slices.Concat(flags, []string{"--"}, args)...)(r)
	}
	if err != nil && ctx.Err() == nil {
		return c.shellFail(name, err.Error(), statusUsage), nil
	}
	if line {
		if err := m.terminal.resume(ctx, r); err != nil && ctx.Err() == nil {
			return c.shellFail(name, err.Error(), statusUsage), nil
		}
	}
	err = r.Run(ctx, prog)
	var status interp.ExitStatus
	finished := err == nil || errors.As(err, &status)
	if line && finished && ctx.Err() == nil {
		m.terminal.keep(r, int(status))
	}
	switch {
	case ctx.Err() != nil:
		return statusKilled, ctx.Err()
	case finished:
		return int(status), nil
	case errors.Is(err, ErrTooManyCommands):
		return statusKilled, ErrTooManyCommands
	}
	return c.shellFail(name, err.Error(), 1), nil
}

// A redirected is a file that the shell has opened for a command. It reports that the disk is full, because the
// interpreter's own commands do not, and succeed.
type redirected struct {
	io.ReadWriteCloser
	report   func(error)
	told     atomic.Bool
	failures atomic.Int64
}

func (r *redirected) Write(p []byte) (int, error) {
	n, err := r.ReadWriteCloser.Write(p)
	if errors.Is(err, syscall.ENOSPC) {
		r.failures.Add(1)
		if !r.told.Swap(true) {
			r.report(err)
		}
	}
	return n, err
}

// checked is the prefix that count gives the interpreter's own commands that print to a file. No script can use it, because
// it contains a NUL.
const checked = "checked\x00"

// checkedBuiltin runs a command of the interpreter, and fails if the command has found the disk full.
func (r *redirected) checkedBuiltin(ctx context.Context, hc *interp.HandlerContext, args []string) error {
	before := r.failures.Load()
	err := hc.Builtin(ctx, args)
	if err == nil && r.failures.Load() > before {
		err = interp.ExitStatus(1)
	}
	return err
}

// count runs before every command, including builtins and functions.
func (m *machine) count(ctx context.Context, c *Call, args []string) ([]string, error) {
	if m.left.Add(-1) < 0 {
		return nil, ErrTooManyCommands
	}
	switch args[0] {
	case "read":
		if m.terminal != nil && interp.HandlerCtx(ctx).Stdin == io.Reader(m.terminal.r) && !m.terminal.prompt() {
			return []string{"false"}, ctx.Err() // Ctrl-D
		}
	case "wait":
		switch line := m.terminal != nil && c.main; {
		case !line || len(args) > 1 && strings.HasPrefix(args[1], "g"): // the interpreter waits for its own background commands
		case len(args) > 1:
			args = append([]string{"/usr/bin/wait"}, args[1:]...)
		default:
			args = []string{"eval", "builtin wait; /usr/bin/wait"}
		}
	case "umask", "ulimit", "kill", "hash", "history", "jobs", "fg", "bg", "disown":
		// The interpreter reserves these names and rejects them.
		args = append([]string{"/usr/bin/" + args[0]}, args[1:]...)
	case "command":
		if len(args) > 2 && (args[1] == "-v" || args[1] == "-V") {
			args = append([]string{"/usr/bin/command"}, args[1:]...) // it would look on the host
		}
	case "type":
		args = append([]string{"/usr/bin/type"}, args[1:]...)
	case "printf":
		if args = printfTo(args); args[0] == "eval" {
			args[1] = m.rewritten(c, args[1])
		}
	case "eval":
		args = []string{"eval", m.rewritten(c, strings.Join(args[1:], " "))}
	case "trap":
		args = slices.Clone(args)
		for i := range args[1:] {
			args[i+1] = m.rewritten(c, args[i+1])
		}
	case "unalias":
		if m.terminal != nil && c.main {
			m.terminal.alias(args)
		}
	case "alias":
		if m.terminal != nil && c.main {
			m.terminal.alias(args)
		}
		args = slices.Clone(args)
		for i, arg := range args[1:] {
			if name, text, ok := strings.Cut(arg, "="); ok {
				args[i+1] = name + "=" + m.aliased(c, text)
			}
		}
	case "source", ".":
		args = m.sourced(c, interp.HandlerCtx(ctx).Dir, args)
	}
	if args[0] == "echo" || args[0] == "printf" {
		_, toFile := interp.HandlerCtx(ctx).Stdout.(*redirected)
		if _, function := m.functions.Load(args[0]); toFile && !function {
			args = append([]string{checked + args[0]}, args[1:]...)
		}
	}
	return args, ctx.Err()
}
