package shell

import (
	"errors"
	"fmt"
	"io"
	"path"
	"slices"
	"strings"
	"syscall"

	"mvdan.cc/sh/v3/expand"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// A Call is one command being run.
type Call struct {
	Args           []string // including the command's name
	FS             *vfs.FS
	Dir            string
	User           string
	Stdin          io.Reader
	Stdout, Stderr io.Writer

	// Terminal says that standard input is the job's terminal, for a call of NewCall.
	Terminal bool

	m    *machine
	main bool // it runs the job's own script
	env  expand.Environ
}

// A Flusher is the standard output of a program that keeps running after it has printed something, such as journalctl -f.
type Flusher interface {
	// Flush passes on what has been printed so far. An error means that the output is no longer read.
	Flush() error
}

// NewCall returns a call of a program, for code outside the shell that runs such programs.
func NewCall(args, environ []string) *Call { return &Call{Args: args, env: withEnv(nil, environ)} }

// become makes the call that of another user, who will own the files that it creates.
func (c *Call) become(user string) {
	u, _ := accounts.FindUser(c.FS, user) // root's IDs if the user does not exist
	c.User, c.FS = user, c.FS.As(u.UID, u.GID)
}

// Getenv returns an environment variable, or "" if it is not set.
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

// reason returns the C library's text for an error.
func reason(err error) string {
	if errno := syscall.Errno(0); errors.As(err, &errno) {
		s := errno.Error()
		return strings.ToUpper(s[:1]) + s[1:]
	}
	return err.Error()
}

func (c *Call) shellFail(name, what string, status int) int {
	fmt.Fprintf(c.Stderr, "%s: %s\n", name, what)
	return status
}
