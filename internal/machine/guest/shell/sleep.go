package shell

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"
)

// duration parses the argument of sleep and timeout: 5, 0.5s, 2m, 1h.
func duration(s string) (time.Duration, error) {
	unit := time.Second
	switch {
	case strings.HasSuffix(s, "s"):
		s = s[:len(s)-1]
	case strings.HasSuffix(s, "m"):
		s, unit = s[:len(s)-1], time.Minute
	case strings.HasSuffix(s, "h"):
		s, unit = s[:len(s)-1], time.Hour
	case strings.HasSuffix(s, "d"):
		s, unit = s[:len(s)-1], 24*time.Hour
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n < 0 || n > 1e6 {
		return 0, fmt.Errorf("invalid time interval %q", s)
	}
	return time.Duration(n * float64(unit)), nil
}

func sleep(ctx context.Context, c *Call) int {
	if !c.operands(c.Args[1:], 1) {
		return 1
	}
	var total time.Duration
	for _, a := range c.Args[1:] {
		d, err := duration(a)
		if err != nil {
			return c.Fail("invalid time interval '%s'", a)
		}
		total += d
	}
	t := time.NewTimer(total / time.Duration(max(1, c.m.job.Patience)))
	defer t.Stop()
	select {
	case <-t.C:
		return 0
	case <-ctx.Done():
		return statusKilled
	}
}

func timeout(ctx context.Context, m *machine, c *Call) (int, error) {
	args := c.Args[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if (args[0] == "-k" || args[0] == "-s") && len(args) > 1 {
			args = args[1:]
		}
		args = args[1:]
	}
	if len(args) < 2 {
		return c.Fail("missing operand"), nil
	}
	d, err := duration(args[0])
	if err != nil {
		return c.Fail("invalid time interval '%s'", args[0]), nil //nolint:nilerr // said
	}
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	status, err := c.run(limited, m, args[1:])
	if limited.Err() != nil && ctx.Err() == nil {
		return 124, nil
	}
	return status, err
}
