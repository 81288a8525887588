package shell

import (
	"context"
	"io"
	"os"
)

func tee(_ context.Context, c *Call) int {
	f := c.flags()
	add := f.BoolP("append", "a", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	flag := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if *add {
		flag = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	outs := []io.Writer{c.Stdout}
	status := 0
	for _, name := range args {
		if w := c.m.device(context.Background(), c, name, flag); w != nil {
			defer w.Close()
			outs = append(outs, w)
			continue
		}
		w, err := c.FS.Open(c.Path(name), flag, 0o644)
		if err != nil {
			status = c.Fail("%s: %s", name, reason(err))
			continue
		}
		defer w.Close()
		outs = append(outs, w)
	}
	if _, err := io.Copy(io.MultiWriter(outs...), c.Stdin); err != nil {
		return c.Fail("%s", reason(err))
	}
	return status
}
