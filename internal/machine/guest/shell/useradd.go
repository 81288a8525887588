package shell

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// Exit statuses of the shadow tools.
// https://man7.org/linux/man-pages/man8/useradd.8.html#EXIT_VALUES
const (
	shadowUsage   = 2
	shadowBadArg  = 3
	shadowIDTaken = 4
	shadowMissing = 6
	shadowExists  = 9
)

// useradd creates a home folder, as /etc/login.defs of Amazon Linux says.
func useradd(_ context.Context, c *Call) int {
	f := c.flags()
	comment := f.StringP("comment", "c", "", "")
	home := f.StringP("home-dir", "d", "", "")
	group := f.StringP("gid", "g", "", "")
	more := f.StringP("groups", "G", "", "")
	shell := f.StringP("shell", "s", "/bin/bash", "")
	uid := f.IntP("uid", "u", -1, "")
	system := f.BoolP("system", "r", false, "")
	makeHome := f.BoolP("create-home", "m", false, "")
	noHome := f.BoolP("no-create-home", "M", false, "")
	f.BoolP("user-group", "U", false, "")
	noGroup := f.BoolP("no-user-group", "N", false, "")
	password := f.StringP("password", "p", accounts.Locked, "")
	args, ok := c.parse(f)
	if !ok {
		return shadowUsage
	}
	if len(args) != 1 {
		c.Fail("Usage: useradd [options] LOGIN")
		return shadowUsage
	}
	u := accounts.User{Name: args[0], UID: *uid, Comment: *comment, Home: *home, Shell: *shell}
	switch {
	case !accounts.ValidName(u.Name):
		c.Fail("invalid user name '%s': use --badname to ignore", u.Name)
		return shadowBadArg
	case strings.ContainsAny(u.Comment+u.Home+u.Shell+*password, ":\n"):
		c.Fail("invalid field '%s'", u.Comment)
		return shadowBadArg
	}
	if known, ok := accounts.FindUser(c.FS, u.Name); ok && known.Name == u.Name {
		c.Fail("user '%s' already exists", u.Name)
		return shadowExists
	}
	if u.UID < 0 {
		u.UID = accounts.NextUID(c.FS, *system)
	} else if slices.ContainsFunc(accounts.Users(c.FS), func(o accounts.User) bool { return o.UID == u.UID }) {
		c.Fail("UID %d is not unique", u.UID)
		return shadowIDTaken
	}
	if u.Home == "" {
		u.Home = "/home/" + u.Name
	}
	var err error
	switch g, ok := accounts.FindGroup(c.FS, *group); {
	case *group != "" && !ok:
		c.Fail("group '%s' does not exist", *group)
		return shadowMissing
	case *group != "":
		u.GID = g.GID
	case *noGroup:
		u.GID = 100 // users
	default:
		if own, ok := accounts.FindGroup(c.FS, u.Name); ok && own.Name == u.Name {
			c.Fail("group %s exists - if you want to add this user to that group, use -g.", u.Name)
			return shadowExists
		}
		u.GID = u.UID
		if slices.ContainsFunc(accounts.Groups(c.FS), func(o accounts.Group) bool { return o.GID == u.GID }) {
			u.GID = accounts.NextGID(c.FS, *system)
		}
		err = accounts.PutGroup(c.FS, accounts.Group{Name: u.Name, GID: u.GID})
	}
	if status := c.join(u.Name, *more, true); status != 0 {
		return status
	}
	err = errors.Join(err, accounts.PutUser(c.FS, u), accounts.SetPassword(c.FS, u.Name, *password))
	if err == nil && !*noHome && (*makeHome || !*system) {
		err = c.makeHome(u)
	}
	if err != nil {
		return c.Fail("cannot open /etc/passwd: %s", reason(err))
	}
	return 0
}

func (c *Call) makeHome(u accounts.User) error {
	home := path.Clean("/" + u.Home)
	if _, err := c.FS.Stat(home); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if err := c.FS.MkdirAll(path.Dir(home), 0o755); err != nil {
		return err
	}
	return errors.Join(c.FS.Mkdir(home, 0o700), c.FS.Chown(home, u.UID, u.GID))
}

// join makes a user a member of groups and, unless add is set, of no others.
func (c *Call) join(user, list string, add bool) int {
	if list == "" {
		return 0
	}
	names := strings.Split(list, ",")
	for _, n := range names {
		if _, ok := accounts.FindGroup(c.FS, n); !ok {
			c.Fail("group '%s' does not exist", n)
			return shadowMissing
		}
	}
	for _, g := range accounts.Groups(c.FS) {
		wanted := slices.Contains(names, g.Name)
		is := slices.Contains(g.Members, user)
		switch {
		case wanted && !is:
			g.Members = append(g.Members, user)
		case !wanted && is && !add:
			g.Members = slices.DeleteFunc(g.Members, func(m string) bool { return m == user })
		default:
			continue
		}
		if err := accounts.PutGroup(c.FS, g); err != nil {
			return c.Fail("cannot open /etc/group: %s", reason(err))
		}
	}
	return 0
}

func usermod(_ context.Context, c *Call) int {
	f := c.flags()
	add := f.BoolP("append", "a", false, "")
	more := f.StringP("groups", "G", "", "")
	comment := f.StringP("comment", "c", "", "")
	home := f.StringP("home", "d", "", "")
	move := f.BoolP("move-home", "m", false, "")
	group := f.StringP("gid", "g", "", "")
	shell := f.StringP("shell", "s", "", "")
	uid := f.IntP("uid", "u", -1, "")
	lock := f.BoolP("lock", "L", false, "")
	unlock := f.BoolP("unlock", "U", false, "")
	password := f.StringP("password", "p", "", "")
	args, ok := c.parse(f)
	if !ok {
		return shadowUsage
	}
	if len(args) != 1 {
		c.Fail("Usage: usermod [options] LOGIN")
		return shadowUsage
	}
	u, ok := accounts.FindUser(c.FS, args[0])
	if !ok || u.Name != args[0] {
		c.Fail("user '%s' does not exist", args[0])
		return shadowMissing
	}
	if strings.ContainsAny(*comment+*home+*shell+*password, ":\n") {
		c.Fail("invalid field '%s'", *comment)
		return shadowBadArg
	}
	var err error
	if f.Changed("home") {
		if *move {
			err = c.FS.Rename(path.Clean("/"+u.Home), path.Clean("/"+*home))
		}
		u.Home = *home
	}
	if f.Changed("comment") {
		u.Comment = *comment
	}
	if f.Changed("shell") {
		u.Shell = *shell
	}
	if *uid >= 0 {
		u.UID = *uid
	}
	if *group != "" {
		g, ok := accounts.FindGroup(c.FS, *group)
		if !ok {
			c.Fail("group '%s' does not exist", *group)
			return shadowMissing
		}
		u.GID = g.GID
	}
	if status := c.join(u.Name, *more, *add); status != 0 {
		return status
	}
	err = errors.Join(err, accounts.PutUser(c.FS, u))
	switch was := accounts.Password(c.FS, u.Name); {
	case f.Changed("password"):
		err = errors.Join(err, accounts.SetPassword(c.FS, u.Name, *password))
	case *lock && !strings.HasPrefix(was, "!"):
		err = errors.Join(err, accounts.SetPassword(c.FS, u.Name, "!"+was))
	case *unlock:
		err = errors.Join(err, accounts.SetPassword(c.FS, u.Name, strings.TrimPrefix(was, "!")))
	}
	if err != nil {
		return c.Fail("cannot open /etc/passwd: %s", reason(err))
	}
	return 0
}

func userdel(_ context.Context, c *Call) int {
	f := c.flags()
	home := f.BoolP("remove", "r", false, "")
	f.BoolP("force", "f", false, "")
	args, ok := c.parse(f)
	if !ok || len(args) != 1 {
		return shadowUsage
	}
	u, ok := accounts.FindUser(c.FS, args[0])
	if !ok || u.Name != args[0] {
		c.Fail("user '%s' does not exist", args[0])
		return shadowMissing
	}
	err := accounts.RemoveUser(c.FS, u.Name)
	for _, g := range accounts.Groups(c.FS) {
		switch {
		case g.Name == u.Name && g.GID == u.GID:
			err = errors.Join(err, accounts.RemoveGroup(c.FS, g.Name))
		case slices.Contains(g.Members, u.Name):
			g.Members = slices.DeleteFunc(g.Members, func(m string) bool { return m == u.Name })
			err = errors.Join(err, accounts.PutGroup(c.FS, g))
		}
	}
	if *home && u.Home != "" && path.Clean(u.Home) != "/" {
		err = errors.Join(err, c.FS.RemoveAll(path.Clean("/"+u.Home)))
	}
	if err != nil {
		return c.Fail("%s", reason(err))
	}
	return 0
}
