package shell

import (
	"context"
	"crypto/md5" //nolint:gosec // md5sum
	"crypto/sha256"
	"fmt"
	"path"
)

func digest(_ context.Context, c *Call) int {
	args, ok := c.parse(c.flags())
	if !ok {
		return 1
	}
	return c.inputs(args, func(name string, data []byte) error {
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		if path.Base(c.Args[0]) == "md5sum" {
			sum = fmt.Sprintf("%x", md5.Sum(data)) //nolint:gosec // md5sum
		}
		_, err := fmt.Fprintf(c.Stdout, "%s  %s\n", sum, name)
		return err
	})
}
