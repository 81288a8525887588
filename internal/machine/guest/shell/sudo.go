package shell

import (
	"context"
	"strings"
)

// sudo runs a command as root, as everything runs anyway, or with -u USER as that user.
func sudo(ctx context.Context, m *machine, c *Call) (int, error) {
	d := *c
	d.become("root")
	login, shell := false, false
	args := c.Args[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
		case (a == "-u" || a == "-g" || a == "--user") && len(args) > 0:
			if a != "-g" {
				d.become(args[0])
			}
			args = args[1:]
			continue
		case strings.HasSuffix(a, "u") && len(a) > 2 && strings.Trim(a, "-EHinSsku") == "" && len(args) > 0: // -iu USER
			login, shell = login || strings.Contains(a, "i"), shell || strings.Contains(a, "s")
			d.become(args[0])
			args = args[1:]
			continue
		case a == "--login":
			login = true
			continue
		case strings.Trim(a, "-EHinSsk") == "" || strings.HasPrefix(a, "--preserve-env"):
			login, shell = login || strings.Contains(a, "i"), shell || strings.Contains(a, "s")
			continue
		default:
			return c.Fail("unrecognized option '%s'", a), nil
		}
		break
	}
	assigned := len(args)
	for i, a := range args {
		if !strings.Contains(a, "=") || strings.HasPrefix(a, "=") {
			assigned = i
			break
		}
	}
	d.env = withEnv(d.env, args[:assigned])
	args = args[assigned:]
	if len(args) == 0 {
		if login || shell {
			return m.loginShell(ctx, &d, login)
		}
		return 0, nil
	}
	return d.run(ctx, m, args)
}

func su(ctx context.Context, m *machine, c *Call) (int, error) {
	d := *c
	d.become("root")
	var command string
	login := false
	for i := 1; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case (a == "-c" || a == "-s" || a == "-u") && i+1 < len(c.Args):
			i++
			switch a {
			case "-c":
				command = c.Args[i]
			case "-u":
				d.become(c.Args[i])
			}
		case a == "--":
			return d.run(ctx, m, c.Args[i+1:])
		case a == "-" || a == "-l" || a == "--login":
			login = true
		case !strings.HasPrefix(a, "-"):
			d.become(a)
		}
	}
	if command == "" {
		return m.loginShell(ctx, &d, login)
	}
	return m.bash(ctx, &d, "bash", []byte(command), nil, nil)
}
