package shell

import (
	"context"
	"io/fs"
)

func mkdir(_ context.Context, c *Call) int {
	f := c.flags()
	parents := f.BoolP("parents", "p", false, "")
	mode := f.StringP("mode", "m", "755", "")
	f.BoolP("verbose", "v", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	perm, ok := changeMode(fs.ModeDir|0o755, *mode)
	if !ok {
		return c.Fail("invalid mode '%s'", *mode)
	}
	status := 0
	for _, name := range args {
		make := c.FS.Mkdir
		if *parents {
			make = c.FS.MkdirAll
		}
		err := make(c.Path(name), perm.Perm())
		if err == nil && f.Changed("mode") {
			err = c.FS.Chmod(c.Path(name), perm)
		}
		if err != nil {
			status = c.Fail("cannot create directory '%s': %s", name, reason(err))
		}
	}
	return status
}
