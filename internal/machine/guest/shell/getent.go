package shell

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// getent supports the databases passwd, group and hosts. The machine resolves hosts that are not in /etc/hosts.
func getent(ctx context.Context, c *Call) int {
	if len(c.Args) < 2 {
		c.Fail("wrong number of arguments")
		return 1
	}
	keys, found := c.Args[2:], 0
	var missing []string
	show := func(line string, names ...string) {
		missing = slices.DeleteFunc(missing, func(k string) bool { return slices.Contains(names, k) })
		if len(keys) == 0 || slices.ContainsFunc(names, func(n string) bool { return slices.Contains(keys, n) }) {
			found++
			fmt.Fprintln(c.Stdout, line)
		}
	}
	switch c.Args[1] {
	case "passwd":
		for _, u := range accounts.Users(c.FS) {
			show(u.String(), u.Name, fmt.Sprint(u.UID))
		}
	case "group":
		for _, g := range accounts.Groups(c.FS) {
			show(g.String(), g.Name, fmt.Sprint(g.GID))
		}
	case "hosts", "ahosts", "ahostsv4":
		missing = slices.Clone(keys)
		b, _ := c.FS.ReadFile("/etc/hosts") // without the file no host is known
		for _, l := range lines(b) {
			l, _, _ = strings.Cut(l, "#")
			if p := strings.Fields(l); len(p) > 1 {
				show(fmt.Sprintf("%-15s %s", p[0], strings.Join(p[1:], " ")), p...)
			}
		}
	default:
		c.Fail("Unknown database: %s", c.Args[1])
		return 1
	}
	if len(missing) > 0 && c.m != nil && c.m.outside != nil {
		dns := *c
		dns.Args = append([]string{c.Args[0], c.Args[1]}, missing...)
		if status, ok := c.m.outside(ctx, &dns); ok {
			return status
		}
	}
	if len(missing) > 0 || len(keys) > found {
		return 2
	}
	return 0
}
