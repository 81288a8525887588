// Package shell runs shell scripts on a simulated machine: bash by mvdan.cc/sh
// over the machine's file system, with the commands that user data uses written in
// Go. Nothing of the host is reached: no process is started, no file is opened.
//
// What the machine does beyond its files (services, the network, joining a
// cluster) is behind Job.Outside. Scripts are untrusted: their commands and time
// are bounded here, their memory by package sandbox, in whose process they run.
// May be imported by packages below internal/node/guest.
package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/interp"
	"mvdan.cc/sh/v3/syntax"

	"github.com/drydock-dev/drydock/internal/node/guest/vfs"
)

// A Job is one script to run.
type Job struct {
	FS *vfs.FS
	// Script is the text; a first line #! chooses the interpreter and its flags.
	Script []byte
	// Name is the script's path, $0 and the prefix of its error messages.
	Name string
	Args []string
	Env  []string // KEY=value
	Dir  string   // / if empty
	User string   // root if empty
	Host string   // what hostname prints

	Stdin          io.Reader // nil: empty
	Stdout, Stderr io.Writer
	// Outside runs what is not in this package's table: systemctl, curl, aws. False
	// means that the machine has no such program. Nil: it has none.
	Outside func(ctx context.Context, c *Call) (status int, found bool)
	// Programs are the names that Outside knows, for which and command -v.
	Programs []string
	// MaxCommands bounds how many commands the script may run; 0 means 100,000.
	MaxCommands int64
	// Patience divides what sleep waits; 0 means 1.
	Patience int
}

// Result is how a script ended.
type Result struct {
	Status int
	// Unknown are the commands that the machine does not have, in order, once each.
	Unknown []string
	// Busy says that commands in the background did not end with the script, though
	// they were told to: what they go on to do is of no job.
	Busy bool
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
	maxInterpreters  = 20 // scripts that run scripts
	maxScript        = 1 << 20
	searchPath       = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
	noSuchFile       = "No such file or directory"
	permissionDenied = "Permission denied"
)

// ErrTooManyCommands says that a script ran more commands than it may.
var ErrTooManyCommands = errors.New("the script was killed: it ran too many commands")

// Run runs a job. The error is of a script that did not come to an end: it was
// cancelled or ran into a limit.
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
	id := "0"
	if job.User != "root" {
		id = "1000"
	}
	job.Env = append([]string{"PATH=" + searchPath, "UID=" + id, "EUID=" + id, "GID=" + id, "HOSTNAME=" + job.Host}, job.Env...)
	c := &Call{
		m: m, FS: job.FS, Dir: job.Dir, User: job.User, env: withEnv(nil, job.Env),
		Args: append([]string{job.Name}, job.Args...), Stdin: job.Stdin, Stdout: job.Stdout, Stderr: job.Stderr,
	}
	if c.Stdin == nil {
		c.Stdin = strings.NewReader("")
	}
	running, end := context.WithCancel(ctx)
	defer end()
	status, err := m.script(running, c, job.Name, job.Script, job.Args)
	m.pipes.close(running)
	// bash would leave commands in the background to init; here they end.
	end()
	busy := !m.idle(50 * time.Millisecond)
	m.mu.Lock()
	defer m.mu.Unlock()
	return Result{Status: status, Unknown: m.unknown, Busy: busy}, err
}

// machine is what all commands of one job share.
type machine struct {
	job     Job
	outside func(context.Context, *Call) (int, bool)
	// The table of programs, which its functions cannot name themselves.
	lookup func(name string) (program, bool)
	left   atomic.Int64 // commands
	depth  atomic.Int32

	active atomic.Int32 // programs under way
	pipes  substitutions

	functions sync.Map // names of the shell functions that scripts declare

	mu      sync.Mutex
	unknown []string
}

// idle waits until no program is under way, for a moment.
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

// A Call is one command being run.
type Call struct {
	Args           []string // with its name
	FS             *vfs.FS
	Dir            string
	User           string
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	m   *machine
	env expand.Environ
}

// NewCall returns a call of a program outside, for those who run such programs in
// another place than the shell.
func NewCall(args, environ []string) *Call { return &Call{Args: args, env: withEnv(nil, environ)} }

// Getenv returns an environment variable, empty if it is not there.
func (c *Call) Getenv(name string) string {
	if c.env == nil {
		return ""
	}
	return c.env.Get(name).String()
}

// Environ returns the exported variables as KEY=value, sorted.
func (c *Call) Environ() []string {
	var out []string
	if c.env != nil {
		c.env.Each(func(name string, v expand.Variable) bool {
			if v.Exported && v.Kind == expand.String && !strings.Contains(name, " ") {
				out = append(out, name+"="+v.Str)
			}
			return true
		})
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// Path makes a name absolute.
func (c *Call) Path(name string) string {
	if name == "" || path.IsAbs(name) {
		return name
	}
	return path.Join(c.Dir, name) + trailingSlash(name)
}

func trailingSlash(name string) string {
	if strings.HasSuffix(name, "/") {
		return "/"
	}
	return ""
}

// Fail prints NAME: message to standard error and returns 1.
func (c *Call) Fail(format string, args ...any) int {
	fmt.Fprintf(c.Stderr, "%s: %s\n", path.Base(c.Args[0]), fmt.Sprintf(format, args...))
	return 1
}

// reason is what the C library says of an error.
func reason(err error) string {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		s := errno.Error()
		return strings.ToUpper(s[:1]) + s[1:]
	}
	return err.Error()
}

// script runs a script's text by the interpreter that its first line names.
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

func (c *Call) shellFail(name, what string, status int) int {
	fmt.Fprintf(c.Stderr, "%s: %s\n", name, what)
	return status
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
	m.rewrite(c, prog)
	r, err := interp.New(
		interp.Env(withEnv(c.env, append(c.homes(), "TMPDIR="+nowhere))),
		interp.Dir("/"), // of the host, which New looks at; the prelude goes to the guest's
		interp.StdIO(c.Stdin, c.Stdout, c.Stderr),
		interp.CallHandler(m.count),
		interp.ExecHandlers(func(interp.ExecHandlerFunc) interp.ExecHandlerFunc {
			return func(ctx context.Context, args []string) error { return m.exec(ctx, c, name, args) }
		}),
		interp.OpenHandler(func(ctx context.Context, file string, flag int, perm fs.FileMode) (io.ReadWriteCloser, error) {
			hc := interp.HandlerCtx(ctx)
			if f := m.device(ctx, &Call{m: m, FS: c.FS, Dir: hc.Dir, User: c.User, env: hc.Env, Args: []string{name}, Stdin: hc.Stdin, Stdout: hc.Stdout, Stderr: hc.Stderr}, file, flag); f != nil {
				return f, nil
			}
			f, err := c.FS.Open(join(hc.Dir, file), flag, perm)
			return f, worded(name, file, err)
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
	err = r.Run(ctx, prog)
	var status interp.ExitStatus
	switch {
	case ctx.Err() != nil:
		return statusKilled, ctx.Err()
	case err == nil:
		return 0, nil
	case errors.As(err, &status):
		return int(status), nil
	case errors.Is(err, ErrTooManyCommands):
		return statusKilled, ErrTooManyCommands
	}
	return c.shellFail(name, err.Error(), 1), nil
}

// nowhere is where the interpreter would make its pipes for <(command), which it
// does on the host: there it cannot. It takes the folder from TMPDIR when it
// starts, so no guest may choose that.
const nowhere = "/dev/null/none"

// prelude goes to the guest's folder and gives it back its TMPDIR.
func prelude(c *Call) *syntax.File {
	text := "cd " + quote(c.Dir) + " 2>/dev/null\nunset TMPDIR"
	if dir := c.Getenv("TMPDIR"); dir != "" {
		text += "\nexport TMPDIR=" + quote(dir)
	}
	f, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return &syntax.File{}
	}
	return f
}

// homes tells the interpreter the home folders for ~USER, in its own way: as
// variables with a name that no script can use.
func (c *Call) homes() []string {
	var out []string
	b, _ := c.FS.ReadFile("/etc/passwd") // without it nobody has one
	for _, l := range lines(b) {
		if p := strings.Split(l, ":"); len(p) > 5 {
			out = append(out, "HOME "+p[0]+"="+p[5])
		}
	}
	return out
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// withEnv is an environment with some more exported variables, as KEY=value.
func withEnv(env expand.Environ, more []string) expand.Environ {
	vars := map[string]string{}
	if env != nil {
		env.Each(func(name string, v expand.Variable) bool {
			if v.Exported && v.Kind == expand.String {
				vars[name] = v.Str
			}
			return true
		})
	}
	for _, e := range more {
		k, v, _ := strings.Cut(e, "=")
		vars[k] = v
	}
	list := make([]string, 0, len(vars))
	for k, v := range vars {
		list = append(list, k+"="+v)
	}
	return expand.ListEnviron(list...)
}

// exported is an environment with all variables of a shell exported.
func exported(env expand.Environ) expand.Environ {
	var list []string
	if env != nil {
		env.Each(func(name string, v expand.Variable) bool {
			if v.Kind == expand.String {
				list = append(list, name+"="+v.Str)
			}
			return true
		})
	}
	return expand.ListEnviron(list...)
}

// count runs before every command, builtins and functions included.
func (m *machine) count(ctx context.Context, args []string) ([]string, error) {
	if m.left.Add(-1) < 0 {
		return nil, ErrTooManyCommands
	}
	switch args[0] {
	case "umask", "ulimit", "kill", "hash":
		// The interpreter knows these names, and refuses them.
		args = append([]string{"/usr/bin/" + args[0]}, args[1:]...)
	case "command":
		if len(args) > 2 && (args[1] == "-v" || args[1] == "-V") {
			args = append([]string{"/usr/bin/command"}, args[1:]...) // it would look on the host
		}
	case "type":
		args = append([]string{"/usr/bin/type"}, args[1:]...)
	}
	return args, ctx.Err()
}

// exec runs a command that is neither a builtin nor a function.
func (m *machine) exec(ctx context.Context, parent *Call, script string, args []string) error {
	hc := interp.HandlerCtx(ctx)
	c := &Call{
		m: m, FS: parent.FS, Dir: hc.Dir, User: parent.User, env: hc.Env,
		Args: args, Stdin: hc.Stdin, Stdout: hc.Stdout, Stderr: hc.Stderr,
	}
	status, err := m.start(ctx, c, fmt.Sprintf("%s: line %d", script, hc.Pos.Line()))
	switch {
	case err != nil:
		return err
	case status != 0:
		return interp.ExitStatus(uint8(status)) //nolint:gosec // a status is a byte
	}
	return nil
}

// start runs the program that c names; where begins the shell's complaints.
func (m *machine) start(ctx context.Context, c *Call, where string) (int, error) {
	m.active.Add(1)
	defer m.active.Add(-1)
	name := c.Args[0]
	if strings.Contains(name, "/") {
		full := path.Clean(c.Path(name))
		if base, ok := programAt(full); ok {
			if status, found, err := m.program(ctx, c, base); found || err != nil {
				return status, err
			}
		} else if status, found := m.beyond(ctx, c); found {
			return status, nil
		}
		return m.file(ctx, c, full, where)
	}
	if status, found, err := m.program(ctx, c, name); found || err != nil {
		return status, err
	}
	for _, dir := range strings.Split(c.Getenv("PATH"), ":") {
		full := path.Join(dir, name)
		if i, err := c.FS.Stat(full); err == nil && i.Mode().IsRegular() && i.Mode()&0o111 != 0 {
			return m.file(ctx, c, full, where)
		}
	}
	m.missing(name)
	return c.shellFail(where, name+": command not found", statusNotFound), nil
}

// program runs one of this package's programs or of those outside.
func (m *machine) program(ctx context.Context, c *Call, base string) (status int, found bool, err error) {
	if p, ok := m.lookup(base); ok {
		status = p(ctx, c)
		return status, true, ctx.Err()
	}
	if p, ok := interpreterOf(base); ok {
		status, err = p(ctx, m, c)
		return status, true, err
	}
	status, found = m.beyond(ctx, c)
	return status, found, nil
}

func (m *machine) beyond(ctx context.Context, c *Call) (int, bool) {
	if m.outside == nil {
		return 0, false
	}
	return m.outside(ctx, c)
}

// file runs an executable file, which can only be a script.
func (m *machine) file(ctx context.Context, c *Call, full, where string) (int, error) {
	i, err := c.FS.Stat(full)
	switch {
	case err != nil:
		m.missing(full)
		return c.shellFail(where, c.Args[0]+": "+reason(err), statusNotFound), nil
	case i.IsDir():
		return c.shellFail(where, c.Args[0]+": Is a directory", statusNoExec), nil
	case i.Mode()&0o111 == 0:
		return c.shellFail(where, c.Args[0]+": "+permissionDenied, statusNoExec), nil
	}
	text, err := c.FS.ReadFile(full)
	if err != nil {
		return c.shellFail(where, c.Args[0]+": "+reason(err), statusNoExec), nil
	}
	return m.script(ctx, c, c.Args[0], text, c.Args[1:])
}

// programAt says which program stands at a path of the usual folders.
func programAt(full string) (string, bool) {
	switch dir, base := path.Split(full); dir {
	case "/bin/", "/sbin/", "/usr/bin/", "/usr/sbin/", "/usr/local/bin/":
		return base, true
	}
	return "", false
}

func (m *machine) stat(ctx context.Context, name string, follow bool) (fs.FileInfo, error) {
	name = join(interp.HandlerCtx(ctx).Dir, name)
	i, err := m.job.FS.Lstat(name)
	if follow {
		i, err = m.job.FS.Stat(name)
	}
	if err != nil && (m.hasProgram(name) || isDevice(name)) {
		return programInfo(path.Base(name)), nil
	}
	return i, err
}

func (m *machine) access(ctx context.Context, name string, mode interp.AccessMode) error {
	name = join(interp.HandlerCtx(ctx).Dir, name)
	i, err := m.job.FS.Stat(name)
	switch {
	case err != nil && (m.hasProgram(name) || isDevice(name)):
		return nil
	case err != nil:
		return err
	case mode&interp.AccessExec != 0 && i.Mode()&0o111 == 0: // root may read and write anything
		return &fs.PathError{Op: "access", Path: name, Err: syscall.EACCES}
	}
	return nil
}

// hasProgram says whether a path is one of the machine's programs.
func (m *machine) hasProgram(full string) bool {
	base, ok := programAt(full)
	if !ok {
		return false
	}
	_, a := m.lookup(base)
	_, b := interpreterOf(base)
	return a || b || slices.Contains(m.job.Programs, base)
}

// join makes a name of the interpreter absolute.
func join(dir, name string) string {
	if path.IsAbs(name) {
		return name
	}
	return path.Join(dir, name) + trailingSlash(name)
}

// worded makes the interpreter print what bash prints: SCRIPT: FILE: Reason.
func worded(script, file string, err error) error {
	if pe := (*fs.PathError)(nil); errors.As(err, &pe) {
		return &os.PathError{Op: script + ":", Path: file, Err: errors.New(reason(pe.Err))}
	}
	return err
}
