package shell

import (
	"context"
	"fmt"
	"strconv"
)

func seq(ctx context.Context, c *Call) int {
	nums := []int64{1, 1, 1}
	args := c.Args[1:]
	var err error
	read := func(s string) (n int64) {
		if err == nil {
			n, err = strconv.ParseInt(s, 10, 64)
		}
		return n
	}
	switch len(args) {
	case 1:
		nums[2] = read(args[0])
	case 2:
		nums[0], nums[2] = read(args[0]), read(args[1])
	case 3:
		nums[0], nums[1], nums[2] = read(args[0]), read(args[1]), read(args[2])
	default:
		return c.Fail("missing operand")
	}
	if err != nil || nums[1] == 0 {
		return c.Fail("invalid argument")
	}
	for n := nums[0]; (nums[1] > 0 && n <= nums[2] || nums[1] < 0 && n >= nums[2]) && ctx.Err() == nil; n += nums[1] {
		if _, err := fmt.Fprintln(c.Stdout, n); err != nil {
			return 1
		}
	}
	return 0
}
