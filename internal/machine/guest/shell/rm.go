package shell

import (
	"context"
	"errors"
	"path"
	"strings"
	"syscall"
)

func rm(_ context.Context, c *Call) int {
	f := c.flags()
	force := f.BoolP("force", "f", false, "")
	recursive := f.BoolP("recursive", "r", false, "")
	f.BoolVarP(recursive, "Recursive", "R", false, "")
	f.BoolP("verbose", "v", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	if len(args) == 0 && !*force && !c.operands(args, 1) {
		return 1
	}
	status := 0
	for _, name := range args {
		full := strings.TrimRight(c.Path(name), "/") // links are never followed
		if full == "" {
			full = "/"
		}
		i, err := c.FS.Lstat(full)
		switch {
		case err != nil && *force && errors.Is(err, syscall.ENOENT):
			continue
		case err != nil:
		case i.IsDir() && !*recursive:
			err = syscall.EISDIR
		case path.Clean(full) == "/":
			status = c.Fail("it is dangerous to operate recursively on '/'\nrm: use --no-preserve-root to override this failsafe")
			continue
		default:
			err = c.FS.RemoveAll(full)
		}
		if err != nil {
			status = c.Fail("cannot remove '%s': %s", name, reason(err))
		}
	}
	return status
}

func rmdir(_ context.Context, c *Call) int {
	args, ok := c.parse(c.flags())
	if !ok || !c.operands(args, 1) {
		return 1
	}
	status := 0
	for _, name := range args {
		if err := c.FS.Remove(c.Path(name)); err != nil {
			status = c.Fail("failed to remove '%s': %s", name, reason(err))
		}
	}
	return status
}
