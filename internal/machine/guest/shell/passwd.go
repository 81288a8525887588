package shell

import (
	"bufio"
	"context"
	"fmt"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
)

// passwd supports -l, -u, -d, -e, -S and --stdin.
func passwd(_ context.Context, c *Call) int {
	f := c.flags()
	lock := f.BoolP("lock", "l", false, "")
	unlock := f.BoolP("unlock", "u", false, "")
	remove := f.BoolP("delete", "d", false, "")
	f.BoolP("force", "f", false, "")
	expire := f.BoolP("expire", "e", false, "")
	show := f.BoolP("status", "S", false, "")
	stdin := f.BoolP("stdin", "", false, "")
	args, ok := c.parse(f)
	if !ok {
		return shadowUsage
	}
	name := c.User
	if len(args) > 0 {
		name = args[0]
	}
	u, ok := c.account(name)
	if !ok {
		fmt.Fprintf(c.Stderr, "passwd: Unknown user name '%s'.\n", name)
		return 1
	}
	was, next := accounts.Password(c.FS, u.Name), ""
	switch {
	case *show:
		state := "PS"
		switch {
		case was == "":
			state = "NP"
		case strings.HasPrefix(was, "!"):
			state = "LK"
		}
		fmt.Fprintf(c.Stdout, "%s %s\n", u.Name, state)
		return 0
	case *lock:
		fmt.Fprintf(c.Stdout, "Locking password for user %s.\n", u.Name)
		next = "!!" + strings.TrimLeft(was, "!")
	case *unlock:
		fmt.Fprintf(c.Stdout, "Unlocking password for user %s.\n", u.Name)
		next = strings.TrimLeft(was, "!")
		if next == "" {
			fmt.Fprintln(c.Stdout, "passwd: Warning: unlocked password would be empty.")
			return 1
		}
	case *remove:
		fmt.Fprintf(c.Stdout, "Removing password for user %s.\n", u.Name)
	case *expire:
		fmt.Fprintf(c.Stdout, "Expiring password for user %s.\n", u.Name)
		next = was
	default:
		fmt.Fprintf(c.Stdout, "Changing password for user %s.\n", u.Name)
		line, err := bufio.NewReader(c.Stdin).ReadString('\n')
		if line == "" && err != nil || !*stdin && strings.TrimSpace(line) == "" {
			fmt.Fprintln(c.Stderr, "passwd: Authentication token manipulation error")
			return 1
		}
		if next, err = accounts.HashPassword(strings.TrimRight(line, "\r\n")); err != nil {
			return c.Fail("%s", reason(err))
		}
	}
	if err := accounts.SetPassword(c.FS, u.Name, next); err != nil {
		return c.Fail("%s", reason(err))
	}
	fmt.Fprintln(c.Stdout, "passwd: Success")
	return 0
}

// chpasswd sets passwords from lines USER:PASSWORD. It supports -e: the passwords are encrypted already.
func chpasswd(_ context.Context, c *Call) int {
	f := c.flags()
	encrypted := f.BoolP("encrypted", "e", false, "")
	if _, ok := c.parse(f); !ok {
		return shadowUsage
	}
	b, err := c.read("-")
	if err != nil {
		return c.Fail("%s", reason(err))
	}
	status := 0
	for i, l := range lines(b) {
		name, password, ok := strings.Cut(l, ":")
		u, known := c.account(name)
		switch {
		case !ok:
			status = c.Fail("line %d: missing new password", i+1)
		case !known:
			status = c.Fail("line %d: user '%s' does not exist", i+1, name)
		default:
			field := password
			if !*encrypted {
				if field, err = accounts.HashPassword(password); err != nil {
					return c.Fail("%s", reason(err))
				}
			}
			if err := accounts.SetPassword(c.FS, u.Name, field); err != nil {
				return c.Fail("%s", reason(err))
			}
		}
	}
	return status
}
