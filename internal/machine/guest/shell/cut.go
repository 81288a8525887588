package shell

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
)

// ranges parses cut's list: 1,3-5,7-
func ranges(s string) ([][2]int, bool) {
	var out [][2]int
	for p := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(p, "-")
		a, b := 1, 1<<30
		var err1, err2 error
		if from != "" {
			a, err1 = strconv.Atoi(from)
		}
		if !isRange {
			b = a
		} else if to != "" {
			b, err2 = strconv.Atoi(to)
		}
		if err1 != nil || err2 != nil || a < 1 || b < a {
			return nil, false
		}
		out = append(out, [2]int{a, b})
	}
	return out, true
}

func cut(_ context.Context, c *Call) int {
	f := c.flags()
	delimiter := f.StringP("delimiter", "d", "\t", "")
	fields := f.StringP("fields", "f", "", "")
	chars := f.StringP("characters", "c", "", "")
	f.StringVarP(chars, "bytes", "b", "", "")
	only := f.BoolP("only-delimited", "s", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	spec := *fields
	if spec == "" {
		spec = *chars
	}
	want, ok := ranges(spec)
	if !ok {
		return c.Fail("you must specify a list of bytes, characters, or fields")
	}
	return c.inputs(args, func(_ string, data []byte) error {
		for _, l := range lines(data) {
			parts, join := strings.Split(l, *delimiter), *delimiter
			if *fields == "" {
				parts, join = strings.Split(l, ""), ""
			} else if len(parts) == 1 {
				if !*only {
					fmt.Fprintln(c.Stdout, l)
				}
				continue
			}
			var kept []string
			for i, p := range parts {
				if slices.ContainsFunc(want, func(r [2]int) bool { return r[0] <= i+1 && i+1 <= r[1] }) {
					kept = append(kept, p)
				}
			}
			if _, err := fmt.Fprintln(c.Stdout, strings.Join(kept, join)); err != nil {
				return err
			}
		}
		return nil
	})
}
