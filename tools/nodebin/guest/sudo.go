//go:build linux

package main

import (
	"bufio"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
)

// securePath is what programs of sudo have as PATH, as the option secure_path of Amazon Linux's sudoers sets it.
const securePath = "/opt/drydock/sbin:/opt/drydock/bin:/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"

type user struct {
	name, home, shell string
	uid, gid          int
}

// records returns the lines of a file such as /etc/passwd, each with n fields at least.
func records(name string, n int) [][]string {
	b, _ := os.ReadFile(name) // without it, there are none
	var out [][]string
	for line := range strings.Lines(string(b)) {
		if f := strings.Split(strings.TrimRight(line, "\n"), ":"); len(f) >= n {
			out = append(out, f)
		}
	}
	return out
}

// find returns the user with a name or, written as #ID, an ID.
func find(name string) (user, bool) {
	for _, f := range records("/etc/passwd", 7) {
		uid, err := strconv.Atoi(f[2])
		gid, gerr := strconv.Atoi(f[3])
		if err == nil && gerr == nil && (f[0] == name || "#"+f[2] == name) {
			shell := f[6]
			if shell == "" {
				shell = "/bin/bash"
				if _, err := os.Stat(shell); err != nil { // an image may lack it
					shell = "/bin/sh"
				}
			}
			return user{f[0], f[5], shell, uid, gid}, true
		}
	}
	return user{}, false
}

// groups returns the groups that list a user, by name.
func groups(u user) map[string]int {
	out := map[string]int{}
	for _, f := range records("/etc/group", 4) {
		gid, err := strconv.Atoi(f[2])
		if err == nil && (gid == u.gid || slices.Contains(strings.Split(f[3], ","), u.name)) {
			out[f[0]] = gid
		}
	}
	return out
}

// allowed reports whether a user may become any other one: root, the members of wheel, and those whom a file of
// /etc/sudoers.d or /etc/sudoers lets do everything without a password.
func allowed(u user) bool {
	in := groups(u)
	if _, ok := in["wheel"]; ok || u.uid == 0 {
		return true
	}
	files, _ := filepath.Glob("/etc/sudoers.d/*") // the pattern is valid
	for _, name := range append(files, "/etc/sudoers") {
		f, err := os.Open(name)
		if err != nil {
			continue
		}
		for lines := bufio.NewScanner(f); lines.Scan(); {
			words := strings.Fields(lines.Text())
			if len(words) < 2 || !strings.Contains(lines.Text(), "NOPASSWD") || words[len(words)-1] != "ALL" && !strings.HasSuffix(words[len(words)-1], ":ALL") {
				continue
			}
			_, group := in[strings.TrimPrefix(words[0], "%")]
			if words[0] == u.name || strings.HasPrefix(words[0], "%") && group {
				_ = f.Close()
				return true
			}
		}
		_ = f.Close()
	}
	return false
}

// sudo runs a program as another user. It returns an exit status if it could not be started.
func sudo(args []string) int {
	fail := func(format string, a ...any) int {
		fmt.Fprintf(os.Stderr, "sudo: "+format+"\n", a...)
		return 1
	}
	me, ok := find("#" + strconv.Itoa(syscall.Getuid()))
	if !ok {
		return fail("you do not exist in the passwd database")
	}
	to, group := "root", ""
	var login, shell, keep, list bool
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" {
		a := args[0]
		args = args[1:]
		if a == "--" {
			break
		}
		if name, value, ok := strings.Cut(a, "="); ok && name == "--user" {
			to = value
			continue
		}
		if a == "--preserve-env" || strings.HasPrefix(a, "--preserve-env=") {
			keep = true
			continue
		}
		long := map[string]string{"--login": "i", "--shell": "s", "--user": "u", "--group": "g", "--non-interactive": "n", "--set-home": "H", "--list": "l", "--validate": "v"}
		letters, ok := long[a]
		if !ok {
			letters = a[1:]
		}
		for i, l := range letters {
			switch l {
			case 'i':
				login = true
			case 's':
				shell = true
			case 'E':
				keep = true
			case 'l', 'v', 'k', 'K':
				list = true
			case 'n', 'H', 'S', 'b':
			case 'u', 'g', 'p':
				value := letters[i+1:]
				if value == "" && len(args) > 0 {
					value, args = args[0], args[1:]
				}
				switch l {
				case 'u':
					to = value
				case 'g':
					group = value
				}
			default:
				return fail("invalid option -- '%c'", l)
			}
			if strings.ContainsRune("ugp", l) { // what follows was its value
				break
			}
		}
	}
	if !allowed(me) {
		fmt.Fprintf(os.Stderr, "%s is not in the sudoers file.\n", me.name)
		return 1
	}
	target, ok := find(to)
	if !ok {
		return fail("unknown user %s", to)
	}
	var added []string
	for len(args) > 0 && strings.Contains(args[0], "=") && !strings.HasPrefix(args[0], "=") && !strings.Contains(args[0], "/=") {
		added, args = append(added, args[0]), args[1:]
	}
	if len(args) == 0 && list && !login && !shell {
		fmt.Printf("User %s may run the following commands on this machine:\n    (ALL) NOPASSWD: ALL\n", me.name)
		return 0
	}
	if len(args) == 0 && !login && !shell {
		return fail("a command is missing: sudo COMMAND, sudo -i or sudo -s")
	}
	env := environment(keep && !login, me, target, append([]string{}, args...))
	env = append(env, added...)
	ids := []int{target.gid}
	for _, gid := range groups(target) {
		if gid != target.gid {
			ids = append(ids, gid)
		}
	}
	gid := target.gid
	if group != "" {
		found := false
		for _, f := range records("/etc/group", 3) {
			if f[0] == group || "#"+f[2] == group {
				n, err := strconv.Atoi(f[2])
				gid, found = n, err == nil
			}
		}
		if !found {
			return fail("unknown group %s", group)
		}
	}
	if err := errors.Join(syscall.Setgroups(ids), syscall.Setresgid(gid, gid, gid), syscall.Setresuid(target.uid, target.uid, target.uid)); err != nil {
		return fail("unable to change to user %s: %v", target.name, err)
	}
	argv := args
	if login || shell {
		path := target.shell
		name := filepath.Base(path)
		if login {
			name = "-" + name
			_ = os.Chdir(target.home) // it may not exist
		}
		argv = []string{name}
		if len(args) > 0 {
			argv = append(argv, "-c", quoted(args))
		}
		err := syscall.Exec(path, argv, env)
		return fail("unable to execute %s: %v", path, err)
	}
	path, err := look(argv[0])
	if err != nil {
		return fail("%s: command not found", argv[0])
	}
	err = syscall.Exec(path, argv, env)
	return fail("unable to execute %s: %v", path, err)
}

// environment returns the variables of sudo's programs.
func environment(keep bool, me, to user, command []string) []string {
	var out []string
	for _, v := range os.Environ() {
		name, _, _ := strings.Cut(v, "=")
		switch {
		case slices.Contains([]string{"HOME", "USER", "LOGNAME", "SHELL", "PATH"}, name), strings.HasPrefix(name, "LD_"), strings.HasPrefix(name, "SUDO_"):
		case keep, slices.Contains([]string{"TERM", "LANG", "DISPLAY", "XAUTHORITY", "SSL_CERT_FILE", "COLORTERM"}, name), strings.HasPrefix(name, "LC_"):
			out = append(out, v)
		}
	}
	return append(out, "HOME="+to.home, "USER="+to.name, "LOGNAME="+to.name, "SHELL="+to.shell, "PATH="+securePath,
		"SUDO_USER="+me.name, "SUDO_UID="+strconv.Itoa(me.uid), "SUDO_GID="+strconv.Itoa(me.gid), "SUDO_COMMAND="+strings.Join(command, " "))
}

// look finds a program in securePath.
func look(name string) (string, error) {
	if strings.Contains(name, "/") {
		return name, nil
	}
	for _, dir := range filepath.SplitList(securePath) {
		p := filepath.Join(dir, name)
		if st, err := os.Stat(p); err == nil && st.Mode().IsRegular() && st.Mode()&0o111 != 0 {
			return p, nil
		}
	}
	return "", os.ErrNotExist
}

// quoted joins words into a command line for a shell, as sudo -i and -s do.
func quoted(words []string) string {
	var out []string
	for _, w := range words {
		var b strings.Builder
		for _, r := range w {
			if (r < '0' || r > '9') && (r < 'A' || r > 'Z') && (r < 'a' || r > 'z') && !strings.ContainsRune("_-$", r) {
				b.WriteByte('\\')
			}
			b.WriteRune(r)
		}
		out = append(out, b.String())
	}
	return strings.Join(out, " ")
}
