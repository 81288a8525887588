package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
)

func mktemp(_ context.Context, c *Call) int {
	f := c.flags()
	folder := f.BoolP("directory", "d", false, "")
	f.BoolP("quiet", "q", false, "")
	f.BoolP("t", "t", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	template := "/tmp/tmp.XXXXXXXXXX"
	if len(args) > 0 {
		template = c.Path(args[0])
	}
	base := strings.TrimRight(template, "X")
	if len(template)-len(base) < 3 {
		return c.Fail("too few X's in template '%s'", template)
	}
	for n := range 10000 {
		name := base + fmt.Sprintf("%0*d", len(template)-len(base), n)
		var err error
		if *folder {
			err = c.FS.Mkdir(name, 0o700)
		} else {
			var w io.WriteCloser
			if w, err = c.FS.Open(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
				err = w.Close()
			}
		}
		switch {
		case err == nil:
			fmt.Fprintln(c.Stdout, name)
			return 0
		case !errors.Is(err, syscall.EEXIST):
			return c.Fail("failed to create file via template '%s': %s", template, reason(err))
		}
	}
	return c.Fail("failed to create file via template '%s': File exists", template)
}
