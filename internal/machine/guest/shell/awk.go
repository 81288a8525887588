package shell

import (
	"context"
	"errors"
	"io"
	"os"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/awk"
)

// awkCommand is awk and gawk, with -F, -v and -f.
func awkCommand(ctx context.Context, c *Call) int {
	cfg := awk.Config{Environ: c.Environ(), Stdout: c.Stdout, Stderr: c.Stderr, Read: c.read}
	cfg.Create = func(name string, add bool) (io.WriteCloser, error) {
		flag := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
		if add {
			flag = os.O_CREATE | os.O_WRONLY | os.O_APPEND
		}
		return c.FS.Open(c.Path(name), flag, 0o644)
	}
	var text string
	given := false
	args := c.Args[1:]
	for len(args) > 0 && len(args[0]) > 1 && args[0][0] == '-' {
		a := args[0]
		args = args[1:]
		if a == "--" {
			break
		}
		letter, v := a[1], a[2:]
		if strings.IndexByte("Fvf", letter) < 0 {
			c.Fail("unknown option %s", a)
			return statusUsage
		}
		if v == "" {
			if len(args) == 0 {
				c.Fail("option requires an argument -- %c", letter)
				return statusUsage
			}
			v, args = args[0], args[1:]
		}
		switch letter {
		case 'F':
			if v == "t" { // POSIX: t means a tab
				v = `\t`
			}
			cfg.Assign = append(cfg.Assign, [2]string{"FS", v})
		case 'v':
			name, value, ok := strings.Cut(v, "=")
			if !ok {
				c.Fail("`%s' argument to `-v' not in `var=value' form", v)
				return statusUsage
			}
			cfg.Assign = append(cfg.Assign, [2]string{name, value})
		case 'f':
			b, err := c.read(v)
			if err != nil {
				c.Fail("fatal: cannot open source file `%s' for reading: %s", v, reason(err))
				return statusUsage
			}
			text, given = text+string(b)+"\n", true
		}
	}
	if !given {
		if len(args) == 0 {
			c.Fail("usage: awk [-F fs] [-v var=value] [-f progfile | 'prog'] [file ...]")
			return statusUsage
		}
		text, args = args[0], args[1:]
	}
	cfg.Operands = args
	p, err := awk.Parse(text)
	status := 0
	if err == nil {
		status, err = p.Run(ctx, cfg)
	}
	switch {
	case ctx.Err() != nil:
		return statusKilled
	case errors.Is(err, io.ErrClosedPipe):
		return statusUsage // the reader may be closed
	case err != nil:
		c.Fail("fatal: %s", reason(err))
		return statusUsage
	}
	return status
}
