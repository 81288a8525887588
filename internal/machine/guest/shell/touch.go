package shell

import (
	"context"
	"errors"
	"syscall"
)

func touch(_ context.Context, c *Call) int {
	f := c.flags()
	noCreate := f.BoolP("no-create", "c", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	status := 0
	for _, name := range args {
		err := c.FS.Touch(c.Path(name))
		if errors.Is(err, syscall.ENOENT) && !*noCreate {
			err = c.FS.WriteFile(c.Path(name), nil, 0o644)
		}
		if err != nil && !*noCreate {
			status = c.Fail("cannot touch '%s': %s", name, reason(err))
		}
	}
	return status
}
