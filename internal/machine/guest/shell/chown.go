package shell

import (
	"context"
	"path"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// chown also implements chgrp.
func chown(_ context.Context, c *Call) int {
	f := c.flags()
	recursive := f.BoolP("recursive", "R", false, "")
	f.BoolP("verbose", "v", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 2) {
		return 1
	}
	owner, group, both := strings.Cut(args[0], ":")
	if path.Base(c.Args[0]) == "chgrp" {
		owner, group, both = "", args[0], true
	}
	uid, gid := -1, -1
	if owner != "" {
		if uid = c.userID(owner); uid < 0 {
			return c.Fail("invalid user: '%s'", args[0])
		}
		if u, ok := accounts.FindUser(c.FS, owner); ok && both && group == "" { // USER: means the user's group, too
			gid = u.GID
		}
	}
	if both && group != "" {
		if gid = c.groupID(group); gid < 0 {
			return c.Fail("invalid group: '%s'", args[0])
		}
	}
	return c.each(args[1:], *recursive, func(name string) error { return c.FS.Chown(c.Path(name), uid, gid) })
}

// userID finds the ID of a user, or -1 if there is none.
func (c *Call) userID(name string) int {
	if u, ok := accounts.FindUser(c.FS, name); ok {
		return u.UID
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 0 {
		return n
	}
	if name == "root" {
		return 0
	}
	return -1
}

// groupID finds the ID of a group, or -1 if there is none. A user's own group is known even if /etc/group does not
// list it.
func (c *Call) groupID(name string) int {
	if g, ok := accounts.FindGroup(c.FS, name); ok {
		return g.GID
	}
	if u, ok := accounts.FindUser(c.FS, name); ok {
		return u.GID
	}
	if n, err := strconv.Atoi(name); err == nil && n >= 0 {
		return n
	}
	if name == "root" {
		return 0
	}
	return -1
}

// userName returns a user's name, or the number if the user has none.
func (c *Call) userName(uid int) string {
	if u, ok := accounts.FindUser(c.FS, strconv.Itoa(uid)); ok && u.UID == uid {
		return u.Name
	}
	if uid == 0 {
		return "root"
	}
	return strconv.Itoa(uid)
}

// groupName is userName for a group.
func (c *Call) groupName(gid int) string {
	if g, ok := accounts.FindGroup(c.FS, strconv.Itoa(gid)); ok && g.GID == gid {
		return g.Name
	}
	for _, u := range accounts.Users(c.FS) {
		if u.GID == gid {
			return u.Name
		}
	}
	if gid == 0 {
		return "root"
	}
	return strconv.Itoa(gid)
}
