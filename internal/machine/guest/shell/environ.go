package shell

import (
	"strings"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// nowhere is the folder where the interpreter would create its pipes for <(command). It would do so on the host, so
// the folder is one where it cannot. The interpreter reads TMPDIR when it starts, so the guest must not set that.
const nowhere = "/dev/null/none"

// prelude changes to the guest's folder and restores the guest's TMPDIR.
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

// homes gives the interpreter the home folders for ~USER in its own form: as variables with names that no script can
// use.
func (c *Call) homes() []string {
	var out []string
	b, _ := c.FS.ReadFile("/etc/passwd") // without the file there are no users
	for _, l := range lines(b) {
		if p := strings.Split(l, ":"); len(p) > 5 {
			out = append(out, "HOME "+p[0]+"="+p[5])
		}
	}
	return out
}

func quote(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }

// withEnv returns an environment with more exported variables, as KEY=value.
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

// exported returns an environment with all variables of a shell exported.
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
