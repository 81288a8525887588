package shell

import (
	"context"
	"io"
	"path"
	"strings"
)

func env(ctx context.Context, m *machine, c *Call) (int, error) {
	args := c.Args[1:]
	for len(args) > 0 && args[0] == "-i" {
		c.env, args = withEnv(nil, []string{"PATH=" + searchPath}), args[1:]
	}
	assigned := 0
	for assigned < len(args) && strings.Contains(args[assigned], "=") {
		assigned++
	}
	d := *c
	d.env = withEnv(c.env, args[:assigned])
	if assigned < len(args) {
		return d.run(ctx, m, args[assigned:])
	}
	for _, e := range d.Environ() {
		if _, err := io.WriteString(c.Stdout, e+"\n"); err != nil {
			return 1, nil //nolint:nilerr // the reader has gone
		}
	}
	return 0, nil
}

// wrapper runs the command that follows its options.
func wrapper(ctx context.Context, m *machine, c *Call) (int, error) {
	args := c.Args[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if a := args[0]; (a == "-n" || a == "-c") && len(args) > 1 {
			args = args[1:]
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return 0, nil
	}
	return c.run(ctx, m, args)
}

// builtin runs a command that is both a builtin of the shell and a program.
func builtin(ctx context.Context, m *machine, c *Call) (int, error) {
	name := path.Base(c.Args[0])
	return m.bash(ctx, c, name, []byte(name+` "$@"`), nil, c.Args[1:])
}
