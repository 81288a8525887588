package shell

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// groupsOf returns the IDs of a user's groups, the user's own first.
func (c *Call) groupsOf(u accounts.User) []int {
	out := []int{u.GID}
	for _, g := range accounts.Groups(c.FS) {
		if slices.Contains(g.Members, u.Name) && !slices.Contains(out, g.GID) {
			out = append(out, g.GID)
		}
	}
	return out
}

// account finds a user. root exists even without any file.
func (c *Call) account(name string) (accounts.User, bool) {
	u, ok := accounts.FindUser(c.FS, name)
	if !ok && (name == "root" || name == "0") {
		return accounts.User{Name: "root", Home: "/root"}, true
	}
	return u, ok
}

func id(_ context.Context, c *Call) int {
	f := c.flags()
	user := f.BoolP("user", "u", false, "")
	group := f.BoolP("group", "g", false, "")
	all := f.BoolP("groups", "G", false, "")
	name := f.BoolP("name", "n", false, "")
	f.BoolP("real", "r", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	who := c.User
	if len(args) > 0 {
		who = args[0]
	}
	u, ok := c.account(who)
	if !ok {
		return c.Fail("'%s': no such user", who)
	}
	gids := c.groupsOf(u)
	switch {
	case *all:
		var out []string
		for _, g := range gids {
			if *name {
				out = append(out, c.groupName(g))
			} else {
				out = append(out, strconv.Itoa(g))
			}
		}
		fmt.Fprintln(c.Stdout, strings.Join(out, " "))
	case *user && *name:
		fmt.Fprintln(c.Stdout, u.Name)
	case *user:
		fmt.Fprintln(c.Stdout, u.UID)
	case *group && *name:
		fmt.Fprintln(c.Stdout, c.groupName(u.GID))
	case *group:
		fmt.Fprintln(c.Stdout, u.GID)
	default:
		var named []string
		for _, g := range gids {
			named = append(named, fmt.Sprintf("%d(%s)", g, c.groupName(g)))
		}
		fmt.Fprintf(c.Stdout, "uid=%d(%s) gid=%d(%s) groups=%s\n", u.UID, u.Name, u.GID, c.groupName(u.GID), strings.Join(named, ","))
	}
	return 0
}

// groups prints the names of a user's groups.
func groups(_ context.Context, c *Call) int {
	names := c.Args[1:]
	if len(names) == 0 {
		names = []string{c.User}
	}
	status := 0
	for _, n := range names {
		u, ok := c.account(n)
		if !ok {
			status = c.Fail("'%s': no such user", n)
			continue
		}
		var out []string
		for _, g := range c.groupsOf(u) {
			out = append(out, c.groupName(g))
		}
		prefix := ""
		if len(c.Args) > 1 {
			prefix = n + " : "
		}
		fmt.Fprintln(c.Stdout, prefix+strings.Join(out, " "))
	}
	return status
}

func whoami(_ context.Context, c *Call) int {
	fmt.Fprintln(c.Stdout, c.User)
	return 0
}
