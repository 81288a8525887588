package shell

import (
	"context"
	"fmt"
	"strings"
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

// pager prints everything at once, as less and more do if their output is not a terminal. Its options only concern the screen.
func pager(_ context.Context, c *Call) int {
	var files []string
	for _, a := range c.Args[1:] {
		if a == "-" || !strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "+") {
			files = append(files, a)
		}
	}
	return c.inputs(files, func(_ string, data []byte) error {
		_, err := c.Stdout.Write(data)
		return err
	})
}

// editor stands for the editors of the image.
func editor(_ context.Context, c *Call) int {
	return c.Fail("full-screen programs do not work on simulated machines; cat, less, tail and sed -n show files, and sed -i, tee and cat > FILE change them, or scp copies them")
}
