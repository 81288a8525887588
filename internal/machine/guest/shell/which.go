package shell

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

// builtins are the names of the shell's own commands.
var builtins = strings.Fields(". : [ alias bg break builtin cd command continue declare dirs disown echo eval exec exit export false fg getopts hash jobs kill let local mapfile popd printf pushd pwd read readarray readonly return set shift shopt source test times trap true type typeset ulimit umask unalias unset wait")

// commandV is command -v and type: it says what a name would run on this machine.
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

// find looks for a program in PATH.
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
