package shell

import "context"

func mv(_ context.Context, c *Call) int {
	f := c.flags()
	f.BoolP("force", "f", false, "")
	f.BoolP("verbose", "v", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 2) {
		return 1
	}
	to := args[len(args)-1]
	if len(args) > 2 && !c.isDir(to) {
		return c.Fail("target '%s' is not a directory", to)
	}
	status := 0
	for _, from := range args[:len(args)-1] {
		if err := c.FS.Rename(c.Path(from), c.into(from, to)); err != nil {
			status = c.Fail("cannot move '%s' to '%s': %s", from, to, reason(err))
		}
	}
	return status
}
