package shell

import (
	"context"
	"fmt"
	"strings"
)

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

// uname reports the kernel in the machine's /proc/version.
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

func nproc(_ context.Context, c *Call) int {
	n := "2"
	if b, err := c.FS.ReadFile("/proc/sys/kernel/nproc"); err == nil {
		n = strings.TrimSpace(string(b))
	}
	fmt.Fprintln(c.Stdout, n)
	return 0
}
