package shell

import "context"

func truncate(_ context.Context, c *Call) int {
	f := c.flags()
	size := f.StringP("size", "s", "", "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	n, err := number(*size)
	if err != nil {
		return c.Fail("Invalid number: '%s'", *size)
	}
	for _, name := range args {
		b, _ := c.FS.ReadFile(c.Path(name)) // a missing file is created
		if int64(len(b)) < n {
			if n > maxInput {
				return c.Fail("failed to truncate '%s': No space left on device", name)
			}
			b = append(b, make([]byte, n-int64(len(b)))...)
		}
		if err := c.FS.WriteFile(c.Path(name), b[:n], 0o644); err != nil {
			return c.Fail("cannot open '%s' for writing: %s", name, reason(err))
		}
	}
	return 0
}
