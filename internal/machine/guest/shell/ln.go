package shell

import "context"

func ln(_ context.Context, c *Call) int {
	f := c.flags()
	symbolic := f.BoolP("symbolic", "s", false, "")
	force := f.BoolP("force", "f", false, "")
	f.BoolP("no-dereference", "n", false, "")
	f.BoolP("verbose", "v", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 2) {
		return 1
	}
	to := args[len(args)-1]
	status := 0
	for _, from := range args[:len(args)-1] {
		dst := c.into(from, to)
		if *force {
			_ = c.FS.Remove(dst) // the next call reports the error
		}
		var err error
		if *symbolic {
			err = c.FS.Symlink(from, dst)
		} else { // a copy, because the file system has no hard links
			err = c.copyTree(c.Path(from), dst, 0)
		}
		if err != nil {
			status = c.Fail("failed to create link '%s': %s", to, reason(err))
		}
	}
	return status
}
