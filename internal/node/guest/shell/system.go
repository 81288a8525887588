package shell

import (
	"bufio"
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"
)

func date(_ context.Context, c *Call) int {
	f := c.flags()
	f.BoolP("utc", "u", false, "")
	iso := f.StringP("iso-8601", "I", "", "")
	f.Lookup("iso-8601").NoOptDefVal = "date"
	at := f.StringP("date", "d", "", "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	now := time.Now().UTC()
	if *at != "" && *at != "now" {
		if n, err := strconv.ParseInt(strings.TrimPrefix(*at, "@"), 10, 64); err == nil && strings.HasPrefix(*at, "@") {
			now = time.Unix(n, 0).UTC()
		} else {
			return c.Fail("invalid date '%s'", *at)
		}
	}
	format := "%a %b %e %H:%M:%S UTC %Y"
	if len(args) > 0 {
		format = strings.TrimPrefix(args[0], "+")
	} else if *iso == "seconds" {
		format = "%Y-%m-%dT%H:%M:%S+00:00"
	} else if *iso != "" {
		format = "%F"
	}
	fmt.Fprintln(c.Stdout, strings.NewReplacer(
		"%F", now.Format("2006-01-02"), "%T", now.Format("15:04:05"), "%Y", now.Format("2006"), "%m", now.Format("01"), "%d", now.Format("02"), "%e", now.Format("_2"),
		"%H", now.Format("15"), "%M", now.Format("04"), "%S", now.Format("05"), "%s", strconv.FormatInt(now.Unix(), 10), "%N", now.Format("000000000"),
		"%a", now.Format("Mon"), "%b", now.Format("Jan"), "%y", now.Format("06"), "%j", now.Format("002"), "%Z", "UTC", "%z", "+0000", "%%", "%",
	).Replace(format))
	return 0
}

// duration reads what sleep and timeout take: 5, 0.5s, 2m, 1h.
func duration(s string) (time.Duration, error) {
	unit := time.Second
	switch {
	case strings.HasSuffix(s, "s"):
		s = s[:len(s)-1]
	case strings.HasSuffix(s, "m"):
		s, unit = s[:len(s)-1], time.Minute
	case strings.HasSuffix(s, "h"):
		s, unit = s[:len(s)-1], time.Hour
	case strings.HasSuffix(s, "d"):
		s, unit = s[:len(s)-1], 24*time.Hour
	}
	n, err := strconv.ParseFloat(s, 64)
	if err != nil || n < 0 || n > 1e6 {
		return 0, fmt.Errorf("invalid time interval %q", s)
	}
	return time.Duration(n * float64(unit)), nil
}

func sleep(ctx context.Context, c *Call) int {
	if !c.operands(c.Args[1:], 1) {
		return 1
	}
	var total time.Duration
	for _, a := range c.Args[1:] {
		d, err := duration(a)
		if err != nil {
			return c.Fail("invalid time interval '%s'", a)
		}
		total += d
	}
	t := time.NewTimer(total / time.Duration(max(1, c.m.job.Patience)))
	defer t.Stop()
	select {
	case <-t.C:
		return 0
	case <-ctx.Done():
		return statusKilled
	}
}

func hostname(_ context.Context, c *Call) int {
	name := c.m.job.Host
	for _, a := range c.Args[1:] {
		switch a {
		case "-s":
			name, _, _ = strings.Cut(name, ".")
		case "-d":
			_, name, _ = strings.Cut(name, ".")
		case "-f":
		default:
			return c.Fail("you must be root to change the host name")
		}
	}
	fmt.Fprintln(c.Stdout, name)
	return 0
}

// uname speaks for the kernel that the machine says it has in /proc/version.
func uname(_ context.Context, c *Call) int {
	release, arch := "6.1.0-amzn", c.Getenv("HOSTTYPE")
	if b, err := c.FS.ReadFile("/proc/sys/kernel/osrelease"); err == nil {
		release = strings.TrimSpace(string(b))
	}
	if b, err := c.FS.ReadFile("/proc/sys/kernel/arch"); err == nil {
		arch = strings.TrimSpace(string(b))
	}
	if arch == "" {
		arch = "x86_64"
	}
	var out []string
	for _, a := range c.Args[1:] {
		for _, l := range strings.TrimPrefix(a, "-") {
			switch l {
			case 'r':
				out = append(out, release)
			case 'm', 'p', 'i':
				out = append(out, arch)
			case 'n':
				out = append(out, c.m.job.Host)
			case 's':
				out = append(out, "Linux")
			case 'a':
				out = append(out, "Linux", c.m.job.Host, release, "#1 SMP", arch, "GNU/Linux")
			default:
				return c.Fail("invalid option -- '%c'", l)
			}
		}
	}
	if len(out) == 0 {
		out = []string{"Linux"}
	}
	fmt.Fprintln(c.Stdout, strings.Join(out, " "))
	return 0
}

func id(_ context.Context, c *Call) int {
	f := c.flags()
	user := f.BoolP("user", "u", false, "")
	group := f.BoolP("group", "g", false, "")
	name := f.BoolP("name", "n", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	who := c.User
	if len(args) > 0 {
		who = args[0]
	}
	uid := c.userID(who)
	switch {
	case uid < 0:
		return c.Fail("'%s': no such user", who)
	case (*user || *group) && *name:
		fmt.Fprintln(c.Stdout, who)
	case *user || *group:
		fmt.Fprintln(c.Stdout, uid)
	default:
		fmt.Fprintf(c.Stdout, "uid=%d(%s) gid=%d(%s) groups=%d(%s)\n", uid, who, uid, who, uid, who)
	}
	return 0
}

func whoami(_ context.Context, c *Call) int {
	fmt.Fprintln(c.Stdout, c.User)
	return 0
}

func nproc(_ context.Context, c *Call) int {
	n := "2"
	if b, err := c.FS.ReadFile("/proc/sys/kernel/nproc"); err == nil {
		n = strings.TrimSpace(string(b))
	}
	fmt.Fprintln(c.Stdout, n)
	return 0
}

// logger reads its input to the end, so that what writes to it does not end early;
// there is no syslog, but -s shows the lines as the real one does.
func logger(_ context.Context, c *Call) int {
	f := c.flags()
	show := f.BoolP("stderr", "s", false, "")
	tag := f.StringP("tag", "t", c.User, "")
	f.StringP("priority", "p", "", "")
	f.BoolP("id", "i", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	if len(args) > 0 {
		c.Stdin = strings.NewReader(strings.Join(args, " ") + "\n")
	}
	lines := bufio.NewScanner(c.Stdin)
	for lines.Scan() {
		if *show {
			fmt.Fprintf(c.Stderr, "%s %s: %s\n", time.Now().UTC().Format("Jan _2 15:04:05"), *tag, lines.Text())
		}
	}
	return 0
}

// builtins are the names that the shell itself knows.
var builtins = strings.Fields(". : [ alias bg break builtin cd command continue declare dirs echo eval exec exit export false fg getopts hash kill let local mapfile popd printf pushd pwd read readarray readonly return set shift shopt source test times trap true type typeset ulimit umask unalias unset wait")

// commandV is command -v and type: what a name would run, on this machine.
func commandV(_ context.Context, c *Call) int {
	terse, pathOnly := path.Base(c.Args[0]) == "command", false
	status := 0
	for _, name := range c.Args[1:] {
		switch name {
		case "-v", "-t":
			continue
		case "-V":
			terse = false
			continue
		case "-p", "-P":
			terse, pathOnly = true, true
			continue
		}
		_, function := c.m.functions.Load(name)
		where, ok := c.find(name)
		switch {
		case function && terse:
			fmt.Fprintln(c.Stdout, name)
		case function:
			fmt.Fprintf(c.Stdout, "%s is a function\n", name)
		case slices.Contains(builtins, name) && !pathOnly && terse:
			fmt.Fprintln(c.Stdout, name)
		case slices.Contains(builtins, name) && !pathOnly:
			fmt.Fprintf(c.Stdout, "%s is a shell builtin\n", name)
		case ok && terse:
			fmt.Fprintln(c.Stdout, where)
		case ok:
			fmt.Fprintf(c.Stdout, "%s is %s\n", name, where)
		default:
			status = 1
			if !terse {
				fmt.Fprintf(c.Stderr, "bash: type: %s: not found\n", name)
			}
		}
	}
	return status
}

// find looks for a program along PATH.
func (c *Call) find(name string) (string, bool) {
	dirs := strings.Split(c.Getenv("PATH"), ":")
	if strings.Contains(name, "/") {
		dirs, name = []string{path.Dir(c.Path(name))}, path.Base(name)
	}
	for _, dir := range dirs {
		full := path.Join(dir, name)
		if i, err := c.FS.Stat(full); err == nil && i.Mode().IsRegular() && i.Mode()&0o111 != 0 {
			return full, true
		}
	}
	if full := "/usr/bin/" + name; c.m.hasProgram(full) {
		return full, true
	}
	return "", false
}

func which(_ context.Context, c *Call) int {
	status := 0
	for _, name := range c.Args[1:] {
		where, ok := c.find(name)
		if !ok {
			fmt.Fprintf(c.Stderr, "which: no %s in (%s)\n", name, c.Getenv("PATH"))
			status = 1
			continue
		}
		fmt.Fprintln(c.Stdout, where)
	}
	return status
}
