package shell

import (
	"bytes"
	"context"
	"slices"
	"strings"
)

func xargs(ctx context.Context, m *machine, c *Call) (int, error) {
	args := c.Args[1:]
	per, replace := 0, ""
	null, noRun := false, false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		a := args[0]
		args = args[1:]
		switch {
		case (a == "-n" || a == "-I" || a == "-L") && len(args) > 0:
			if a == "-I" {
				replace = args[0]
			} else if n, err := number(args[0]); err == nil {
				per = int(n)
			}
			args = args[1:]
		case strings.HasPrefix(a, "-I"):
			replace = a[2:]
		case strings.HasPrefix(a, "-n"):
			if n, err := number(a[2:]); err == nil {
				per = int(n)
			}
		case a == "-0":
			null = true
		case a == "-r" || a == "--no-run-if-empty":
			noRun = true
		case a == "-t" || strings.HasPrefix(a, "-P"):
		default:
			return c.Fail("invalid option -- '%s'", strings.TrimLeft(a, "-")), nil
		}
	}
	if len(args) == 0 {
		args = []string{"echo"}
	}
	in, err := c.read("-")
	if err != nil {
		return c.Fail("%s", reason(err)), nil
	}
	var items []string
	switch {
	case null:
		items = slices.DeleteFunc(strings.Split(string(in), "\x00"), func(s string) bool { return s == "" })
	case replace != "":
		items, per = lines(bytes.TrimSpace(in)), 1
	default:
		items = strings.Fields(strings.NewReplacer(`"`, "", `'`, "").Replace(string(in)))
	}
	if len(items) == 0 && (noRun || replace != "") {
		return 0, nil
	}
	if per <= 0 {
		per = max(len(items), 1)
	}
	d := *c
	d.Stdin = strings.NewReader("")
	worst := 0
	for chunk := range slices.Chunk(items, per) {
		line := slices.Concat(args, chunk)
		if replace != "" {
			line = slices.Clone(args)
			for i := range line {
				line[i] = strings.ReplaceAll(line[i], replace, chunk[0])
			}
		}
		status, err := d.run(ctx, m, line)
		if err != nil {
			return status, err
		}
		if status != 0 {
			worst = 123
		}
	}
	if len(items) == 0 {
		return d.run(ctx, m, args)
	}
	return worst, nil
}
