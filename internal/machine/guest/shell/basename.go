package shell

import (
	"context"
	"fmt"
	"path"
	"strings"
)

func basename(_ context.Context, c *Call) int {
	if !c.operands(c.Args[1:], 1) {
		return 1
	}
	b := path.Base(c.Args[1])
	if len(c.Args) > 2 && b != c.Args[2] {
		b = strings.TrimSuffix(b, c.Args[2])
	}
	fmt.Fprintln(c.Stdout, b)
	return 0
}

func dirname(_ context.Context, c *Call) int {
	if !c.operands(c.Args[1:], 1) {
		return 1
	}
	fmt.Fprintln(c.Stdout, path.Dir(c.Args[1]))
	return 0
}
