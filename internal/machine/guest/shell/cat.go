package shell

import (
	"context"
	"fmt"
)

func cat(_ context.Context, c *Call) int {
	f := c.flags()
	number := f.BoolP("number", "n", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	n := 0
	return c.inputs(args, func(_ string, data []byte) error {
		if !*number {
			_, err := c.Stdout.Write(data)
			return err
		}
		for _, l := range lines(data) {
			n++
			if _, err := fmt.Fprintf(c.Stdout, "%6d\t%s\n", n, l); err != nil {
				return err
			}
		}
		return nil
	})
}
