package shell

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// nowhere is where the interpreter would make its pipes for <(command), which it
// does on the host: there it cannot. It takes the folder from TMPDIR when it
// starts, so no guest may choose that.
const nowhere = "/dev/null/none"

// prelude goes to the guest's folder and gives it back its TMPDIR.
func prelude(c *Call) *syntax.File {
	text := "cd " + quote(c.Dir) + " 2>/dev/null\nunset TMPDIR"
	if dir := c.Getenv("TMPDIR"); dir != "" {
		text += "\nexport TMPDIR=" + quote(dir)
	}
	f, err := syntax.NewParser().Parse(strings.NewReader(text), "")
	if err != nil {
		return &syntax.File{}
	}
	return f
}

// homes tells the interpreter the home folders for ~USER, in its own way: as
// variables with a name that no script can use.
func (c *Call) homes() []string {
	var out []string
	b, _ := c.FS.ReadFile("/etc/passwd") // without it no user exists
	for _, l := range lines(b) {
		if p := strings.Split(l, ":"); len(p) > 5 {
			out = append(out, "HOME "+p[0]+"="+p[5])
		}
	}
	return out
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// withEnv is an environment with some more exported variables, as KEY=value.
func withEnv(env expand.Environ, more []string) expand.Environ {
	vars := map[string]string{}
	if env != nil {
		env.Each(func(name string, v expand.Variable) bool {
			if v.Exported && v.Kind == expand.String {
				vars[name] = v.Str
			}
			return true
		})
	}
	for _, e := range more {
		k, v, _ := strings.Cut(e, "=")
		vars[k] = v
	}
	list := make([]string, 0, len(vars))
	for k, v := range vars {
		list = append(list, k+"="+v)
	}
	return expand.ListEnviron(list...)
}

// exported is an environment with all variables of a shell exported.
func exported(env expand.Environ) expand.Environ {
	var list []string
	if env != nil {
		env.Each(func(name string, v expand.Variable) bool {
			if v.Kind == expand.String {
				list = append(list, name+"="+v.Str)
			}
			return true
		})
	}
	return expand.ListEnviron(list...)
}
