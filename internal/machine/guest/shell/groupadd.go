package shell

import (
	"context"
	"slices"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

func groupadd(_ context.Context, c *Call) int {
	f := c.flags()
	gid := f.IntP("gid", "g", -1, "")
	system := f.BoolP("system", "r", false, "")
	force := f.BoolP("force", "f", false, "")
	args, ok := c.parse(f)
	if !ok {
		return shadowUsage
	}
	if len(args) != 1 {
		c.Fail("Usage: groupadd [options] GROUP")
		return shadowUsage
	}
	g := accounts.Group{Name: args[0], GID: *gid}
	if !accounts.ValidName(g.Name) {
		c.Fail("'%s' is not a valid group name", g.Name)
		return shadowBadArg
	}
	known := accounts.Groups(c.FS)
	if slices.ContainsFunc(known, func(o accounts.Group) bool { return o.Name == g.Name }) {
		if *force {
			return 0
		}
		c.Fail("group '%s' already exists", g.Name)
		return shadowExists
	}
	taken := slices.ContainsFunc(known, func(o accounts.Group) bool { return o.GID == g.GID })
	switch {
	case g.GID < 0, taken && *force:
		g.GID = accounts.NextGID(c.FS, *system)
	case taken:
		c.Fail("GID '%d' already exists", g.GID)
		return shadowIDTaken
	}
	if err := accounts.PutGroup(c.FS, g); err != nil {
		return c.Fail("cannot open /etc/group: %s", reason(err))
	}
	return 0
}

func groupdel(_ context.Context, c *Call) int {
	if len(c.Args) != 2 {
		c.Fail("Usage: groupdel [options] GROUP")
		return shadowUsage
	}
	g, ok := accounts.FindGroup(c.FS, c.Args[1])
	if !ok || g.Name != c.Args[1] {
		c.Fail("group '%s' does not exist", c.Args[1])
		return shadowMissing
	}
	for _, u := range accounts.Users(c.FS) {
		if u.GID == g.GID {
			c.Fail("cannot remove the primary group of user '%s'", u.Name)
			return 8
		}
	}
	if err := accounts.RemoveGroup(c.FS, g.Name); err != nil {
		return c.Fail("cannot open /etc/group: %s", reason(err))
	}
	return 0
}
