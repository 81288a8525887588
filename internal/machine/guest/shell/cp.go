package shell

import (
	"context"
	"errors"
	"path"
	"syscall"
)

// into returns the path that a file called name gets when it is copied or moved to to.
func (c *Call) into(name, to string) string {
	if c.isDir(to) {
		return path.Join(c.Path(to), path.Base(name))
	}
	return c.Path(to)
}

func cp(_ context.Context, c *Call) int {
	f := c.flags()
	recursive := f.BoolP("recursive", "r", false, "")
	f.BoolVarP(recursive, "Recursive", "R", false, "")
	archive := f.BoolP("archive", "a", false, "")
	f.BoolP("force", "f", false, "")
	f.BoolP("preserve", "p", false, "")
	f.BoolP("verbose", "v", false, "")
	noClobber := f.BoolP("no-clobber", "n", false, "")
	target := f.StringP("target-directory", "t", "", "")
	args, ok := c.parse(f)
	if ok && *target != "" {
		args = append(args, *target)
	}
	if !ok || !c.operands(args, 2) {
		return 1
	}
	to := args[len(args)-1]
	if len(args) > 2 && !c.isDir(to) {
		return c.Fail("target '%s' is not a directory", to)
	}
	status := 0
	for _, from := range args[:len(args)-1] {
		dst := c.into(from, to)
		if _, err := c.FS.Lstat(dst); err == nil && *noClobber {
			continue
		}
		if c.isDir(from) && !*recursive && !*archive {
			status = c.Fail("-r not specified; omitting directory '%s'", from)
			continue
		}
		if err := c.copyTree(c.Path(from), dst, 0); err != nil {
			verb := "copy"
			if errors.Is(err, syscall.ENOENT) {
				verb = "stat"
			}
			status = c.Fail("cannot %s '%s': %s", verb, from, reason(err))
		}
	}
	return status
}

const maxDepth = 64

func (c *Call) copyTree(from, to string, depth int) error {
	if depth > maxDepth {
		return syscall.ELOOP
	}
	i, err := c.FS.Stat(from)
	if err != nil {
		return err
	}
	if !i.IsDir() {
		b, err := c.FS.ReadFile(from)
		if err != nil {
			return err
		}
		if err := c.FS.WriteFile(to, b, i.Mode().Perm()); err != nil {
			return err
		}
		return c.FS.Chmod(to, i.Mode().Perm())
	}
	if err := c.FS.MkdirAll(to, i.Mode().Perm()); err != nil {
		return err
	}
	list, err := c.FS.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := c.copyTree(path.Join(from, e.Name()), path.Join(to, e.Name()), depth+1); err != nil {
			return err
		}
	}
	return nil
}
