package shell

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

func sortLines(_ context.Context, c *Call) int {
	f := c.flags()
	reverse := f.BoolP("reverse", "r", false, "")
	numeric := f.BoolP("numeric-sort", "n", false, "")
	version := f.BoolP("version-sort", "V", false, "")
	unique := f.BoolP("unique", "u", false, "")
	key := f.StringP("key", "k", "", "")
	sep := f.StringP("field-separator", "t", "", "")
	args, ok := c.parse(f)
	if !ok {
		return statusUsage
	}
	var all []string
	status := c.inputs(args, func(_ string, data []byte) error {
		all = append(all, lines(data)...)
		return nil
	})
	field, _, _ := strings.Cut(*key, ",")
	at, _ := strconv.Atoi(strings.TrimRight(field, "nrV"))
	of := func(l string) string {
		if at <= 0 {
			return l
		}
		parts := strings.Fields(l)
		if *sep != "" {
			parts = strings.Split(l, *sep)
		}
		if at > len(parts) {
			return ""
		}
		return parts[at-1]
	}
	slices.SortStableFunc(all, func(a, b string) int {
		x, y := of(a), of(b)
		order := strings.Compare(x, y)
		switch {
		case *numeric || strings.Contains(*key, "n"):
			p, _ := strconv.ParseFloat(strings.TrimSpace(x), 64) // anything that is not a number counts as 0
			q, _ := strconv.ParseFloat(strings.TrimSpace(y), 64)
			if p < q {
				order = -1
			} else if p > q {
				order = 1
			}
		case *version:
			order = compareVersions(x, y)
		}
		if *reverse {
			return -order
		}
		return order
	})
	if *unique {
		all = slices.Compact(all)
	}
	for _, l := range all {
		if _, err := fmt.Fprintln(c.Stdout, l); err != nil {
			return 1
		}
	}
	return status
}

var versionParts = regexp.MustCompile(`[0-9]+|[^0-9]+`)

func compareVersions(a, b string) int {
	x, y := versionParts.FindAllString(a, -1), versionParts.FindAllString(b, -1)
	for i := range min(len(x), len(y)) {
		p, err1 := strconv.ParseUint(x[i], 10, 64)
		q, err2 := strconv.ParseUint(y[i], 10, 64)
		switch {
		case err1 == nil && err2 == nil && p != q:
			if p < q {
				return -1
			}
			return 1
		case (err1 != nil || err2 != nil) && x[i] != y[i]:
			return strings.Compare(x[i], y[i])
		}
	}
	return len(x) - len(y)
}
