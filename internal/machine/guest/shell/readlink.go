package shell

import (
	"context"
	"fmt"
	"path"
)

func readlink(_ context.Context, c *Call) int {
	f := c.flags()
	follow := f.BoolP("canonicalize", "f", false, "")
	f.BoolVarP(follow, "canonicalize-existing", "e", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	for _, name := range args {
		target, err := c.FS.Readlink(c.Path(name))
		switch {
		case err == nil && *follow && !path.IsAbs(target):
			target = path.Join(path.Dir(c.Path(name)), target)
		case err == nil:
		case *follow:
			target = path.Clean(c.Path(name))
		default:
			return 1
		}
		fmt.Fprintln(c.Stdout, target)
	}
	return 0
}

func realpath(_ context.Context, c *Call) int {
	c.Args = append([]string{c.Args[0], "-f"}, c.Args[1:]...)
	return readlink(context.Background(), c)
}
