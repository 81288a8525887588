package shell

import (
	"context"
	"io"
	"slices"
	"strings"
)

// charset expands a-z, [:upper:], \n.
func charset(s string) []rune {
	for class, members := range map[string]string{"upper": "A-Z", "lower": "a-z", "digit": "0-9", "alpha": "A-Za-z", "alnum": "A-Za-z0-9", "space": ` \t\n\v\f\r`, "blank": ` \t`} {
		s = strings.ReplaceAll(s, "[:"+class+":]", members)
	}
	s = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\v`, "\v", `\f`, "\f", `\\`, `\`, `\0`, "\x00").Replace(s)
	var out []rune
	in := []rune(s)
	for i := 0; i < len(in); i++ {
		if i+2 < len(in) && in[i+1] == '-' && in[i] <= in[i+2] && in[i+2]-in[i] < 256 {
			for r := in[i]; r <= in[i+2]; r++ {
				out = append(out, r)
			}
			i += 2
			continue
		}
		out = append(out, in[i])
	}
	return out
}

func tr(_ context.Context, c *Call) int {
	f := c.flags()
	remove := f.BoolP("delete", "d", false, "")
	squeeze := f.BoolP("squeeze-repeats", "s", false, "")
	complement := f.BoolP("complement", "c", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	from := charset(args[0])
	var to []rune
	if len(args) > 1 {
		to = charset(args[1])
	}
	if !*remove && !*squeeze && len(to) == 0 {
		return c.Fail("missing operand after '%s'", args[0])
	}
	data, err := c.read("-")
	if err != nil {
		return c.Fail("%s", reason(err))
	}
	var out strings.Builder
	last := rune(-1)
	for _, r := range string(data) {
		i := slices.Index(from, r)
		in := (i >= 0) != *complement
		switch {
		case in && *remove:
			continue
		case in && len(to) > 0:
			r = to[min(max(i, 0), len(to)-1)]
			if *complement {
				r = to[len(to)-1]
			}
		}
		if in && *squeeze && r == last {
			continue
		}
		last = -1
		if in {
			last = r
		}
		out.WriteRune(r)
	}
	_, err = io.WriteString(c.Stdout, out.String())
	return failed(err)
}
