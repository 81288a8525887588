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
	show := func(line string, names ...string) {
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
	if len(keys) > found {
		if strings.Contains(c.Args[1], "hosts") && c.m != nil && c.m.outside != nil {
			if status, ok := c.m.outside(ctx, c); ok { // by DNS
				return status
			}
		}
		return 2
	}
	return 0
}
