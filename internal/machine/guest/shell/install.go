package shell

import (
	"context"
	"path"
)

func install(_ context.Context, c *Call) int {
	f := c.flags()
	mode := f.StringP("mode", "m", "755", "")
	owner := f.StringP("owner", "o", "", "")
	group := f.StringP("group", "g", "", "")
	folders := f.BoolP("directory", "d", false, "")
	parents := f.BoolP("D", "D", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	perm, ok := changeMode(0, *mode)
	if !ok {
		return c.Fail("invalid mode '%s'", *mode)
	}
	finish := func(name string) int {
		err := c.FS.Chmod(name, perm)
		if uid := c.userID(*owner); err == nil && *owner != "" && uid >= 0 {
			err = c.FS.Chown(name, uid, -1)
		}
		if gid := c.groupID(*group); err == nil && *group != "" && gid >= 0 {
			err = c.FS.Chown(name, -1, gid)
		}
		if err != nil {
			return c.Fail("cannot change '%s': %s", name, reason(err))
		}
		return 0
	}
	if *folders {
		for _, name := range args {
			if err := c.FS.MkdirAll(c.Path(name), perm.Perm()); err != nil {
				return c.Fail("cannot create directory '%s': %s", name, reason(err))
			}
			if s := finish(c.Path(name)); s != 0 {
				return s
			}
		}
		return 0
	}
	if !c.operands(args, 2) {
		return 1
	}
	to := args[len(args)-1]
	for _, from := range args[:len(args)-1] {
		dst := c.into(from, to)
		if *parents {
			if err := c.FS.MkdirAll(path.Dir(dst), 0o755); err != nil {
				return c.Fail("cannot create directory '%s': %s", path.Dir(dst), reason(err))
			}
		}
		if err := c.copyTree(c.Path(from), dst, 0); err != nil {
			return c.Fail("cannot stat '%s': %s", from, reason(err))
		}
		if s := finish(dst); s != 0 {
			return s
		}
	}
	return 0
}
