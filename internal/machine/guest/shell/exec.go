package shell

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"slices"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/interp"
)

// exec runs a command that is neither a builtin nor a function.
func (m *machine) exec(ctx context.Context, parent *Call, script string, args []string) error {
	hc := interp.HandlerCtx(ctx)
	if name, ok := strings.CutPrefix(args[0], checked); ok {
		return hc.Stdout.(*redirected).checkedBuiltin(ctx, &hc, append([]string{name}, args[1:]...))
	}
	c := &Call{
		m: m, FS: parent.FS, Dir: hc.Dir, User: parent.User, env: hc.Env,
		Args: args, Stdin: m.terminal.stdin(hc.Stdin), Stdout: hc.Stdout, Stderr: hc.Stderr,
	}
	where := script
	if m.terminal == nil || !parent.main { // bash prints no line numbers for typed commands
		where = fmt.Sprintf("%s: line %d", script, hc.Pos.Line())
	}
	status, err := m.start(ctx, c, where)
	switch {
	case err != nil:
		return err
	case status != 0:
		return interp.ExitStatus(uint8(status)) //nolint:gosec // a status is a byte
	}
	return nil
}

// start runs the program that c names. where is the prefix of the shell's error messages.
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

// program runs one of this package's programs or one that Job.Outside runs.
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

// programAt returns the program at a path in the usual folders.
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
	case mode&interp.AccessExec != 0 && i.Mode()&0o111 == 0: // root may read and write everything
		return &fs.PathError{Op: "access", Path: name, Err: syscall.EACCES}
	}
	return nil
}

// hasProgram reports whether a path is one of the machine's programs.
func (m *machine) hasProgram(full string) bool {
	base, ok := programAt(full)
	if !ok {
		return false
	}
	_, a := m.lookup(base)
	_, b := interpreterOf(base)
	return a || b || slices.Contains(m.job.Programs, base)
}

// join makes a name from the interpreter absolute.
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
