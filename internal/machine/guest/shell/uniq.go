package shell

import (
	"context"
	"fmt"
)

func uniq(_ context.Context, c *Call) int {
	f := c.flags()
	count := f.BoolP("count", "c", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	return c.inputs(args, func(_ string, data []byte) error {
		all := lines(data)
		for i := 0; i < len(all); {
			j := i
			for j < len(all) && all[j] == all[i] {
				j++
			}
			prefix := ""
			if *count {
				prefix = fmt.Sprintf("%7d ", j-i)
			}
			if _, err := fmt.Fprintf(c.Stdout, "%s%s\n", prefix, all[i]); err != nil {
				return err
			}
			i = j
		}
		return nil
	})
}
