package shell

import (
	"context"
	"path"
	"strings"
)

func bash(ctx context.Context, m *machine, c *Call) (int, error) {
	args := c.Args[1:]
	var options []string
	login := false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" {
		a := args[0]
		args = args[1:]
		if a == "--" {
			break
		}
		if letters := strings.TrimPrefix(a, "-"); !strings.HasPrefix(letters, "-") && strings.Contains(letters, "c") {
			if rest := strings.NewReplacer("c", "", "l", "", "i", "").Replace(letters); rest != "" {
				options = append(options, "-"+rest)
			}
			if len(args) == 0 {
				return c.shellFail("bash", "-c: option requires an argument", statusUsage), nil
			}
			name := path.Base(c.Args[0])
			if len(args) > 1 {
				name = args[1]
			}
			return m.bash(ctx, c, name, []byte(args[0]), options, args[min(2, len(args)):])
		}
		if a == "-o" && len(args) > 0 {
			options, args = append(options, a, args[0]), args[1:]
			continue
		}
		login = login || a == "--login" || !strings.HasPrefix(a, "--") && strings.Contains(a, "l")
		if a = strings.NewReplacer("l", "", "i", "").Replace(a); a != "-" && !strings.HasPrefix(a, "--") {
			options = append(options, a)
		}
	}
	if len(args) == 0 && c.isTerminal() {
		return c.start(login, path.Base(c.Args[0])), nil
	}
	if len(args) == 0 || args[0] == "-s" || args[0] == "-" {
		text, err := c.read("-")
		if err != nil {
			return c.Fail("%s", reason(err)), nil
		}
		return m.bash(ctx, c, "bash", text, options, nil)
	}
	text, err := c.FS.ReadFile(c.Path(args[0]))
	if err != nil {
		return c.shellFail("bash", args[0]+": "+reason(err), statusNotFound), nil
	}
	return m.bash(ctx, c, args[0], text, options, args[1:])
}
