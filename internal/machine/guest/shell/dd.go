package shell

import (
	"context"
	"fmt"
	"io"
	"os"
	"strings"
)

// dd copies blocks. Its input may be /dev/zero, from which scripts make swap files.
func dd(ctx context.Context, c *Call) int {
	opt := map[string]string{"bs": "512", "if": "-", "of": ""}
	for _, a := range c.Args[1:] {
		k, v, ok := strings.Cut(a, "=")
		if !ok {
			return c.Fail("unrecognized operand '%s'", a)
		}
		opt[k] = v
	}
	bs, err := number(opt["bs"])
	count := int64(-1)
	if err == nil && opt["count"] != "" {
		count, err = number(opt["count"])
	}
	if err != nil || bs <= 0 {
		return c.Fail("invalid number")
	}
	var out io.Writer = c.Stdout
	if opt["of"] != "" {
		w, err := c.FS.Open(c.Path(opt["of"]), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return c.Fail("failed to open '%s': %s", opt["of"], reason(err))
		}
		defer w.Close()
		out = w
	}
	var in io.Reader = zeros{}
	if name := opt["if"]; name != "/dev/zero" && name != "/dev/urandom" {
		b, err := c.read(name)
		if err != nil {
			return c.Fail("failed to open '%s': %s", name, reason(err))
		}
		in = strings.NewReader(string(b))
	} else if count < 0 || count > (1<<62)/bs {
		count = (1 << 40) / bs // until the disk is full
	}
	if count >= 0 {
		in = io.LimitReader(in, bs*count)
	}
	n, err := io.Copy(out, until{ctx, in})
	if err != nil {
		return c.Fail("error writing '%s': %s", opt["of"], reason(err))
	}
	fmt.Fprintf(c.Stderr, "%d+0 records in\n%d+0 records out\n%d bytes copied\n", n/bs, n/bs, n)
	return 0
}

// until reads until ctx ends.
type until struct {
	ctx context.Context //nolint:containedctx // of one copy
	io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }
