package shell

import (
	"context"
	"io/fs"
	"path"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// each calls fn for every operand, and for everything below it if recursive.
func (c *Call) each(names []string, recursive bool, fn func(name string) error) int {
	status := 0
	var visit func(name string, depth int) error
	visit = func(name string, depth int) error {
		if err := fn(name); err != nil {
			return err
		}
		if !recursive || !c.isDir(name) || depth > maxDepth {
			return nil
		}
		list, err := c.FS.ReadDir(c.Path(name))
		if err != nil {
			return err
		}
		for _, e := range list {
			if e.Type()&fs.ModeSymlink != 0 {
				continue
			}
			if err := visit(path.Join(name, e.Name()), depth+1); err != nil {
				return err
			}
		}
		return nil
	}
	for _, n := range names {
		if err := visit(n, 0); err != nil {
			status = c.Fail("cannot access '%s': %s", n, reason(err))
		}
	}
	return status
}

func chmod(_ context.Context, c *Call) int {
	args := c.Args[1:]
	recursive := false
	for len(args) > 0 && (args[0] == "-R" || args[0] == "-v" || args[0] == "-f" || args[0] == "--") {
		recursive = recursive || args[0] == "-R"
		args = args[1:]
	}
	if !c.operands(args, 2) {
		return 1
	}
	if _, ok := changeMode(0, args[0]); !ok {
		return c.Fail("invalid mode: '%s'", args[0])
	}
	return c.each(args[1:], recursive, func(name string) error {
		i, err := c.FS.Stat(c.Path(name))
		if err != nil {
			return err
		}
		mode, _ := changeMode(i.Mode(), args[0])
		return c.FS.Chmod(c.Path(name), mode)
	})
}

// changeMode applies 0644, u+x,go-w or a=r to a mode.
func changeMode(mode fs.FileMode, how string) (fs.FileMode, bool) {
	if n, err := strconv.ParseUint(how, 8, 12); err == nil {
		if mode.IsDir() && len(how) < 5 { // GNU keeps a folder's bits, unless the mode has five digits
			n |= uint64(vfs.UnixMode(mode) & 0o6000)
		}
		return vfs.FileMode(mode, uint32(n)), true
	}
	perm := vfs.UnixMode(mode)
	for clause := range strings.SplitSeq(how, ",") {
		at := strings.IndexAny(clause, "+-=")
		if at < 0 {
			return 0, false
		}
		var who, special, what uint32
		for _, r := range clause[:at] {
			switch r {
			case 'u':
				who |= 0o700
				special |= 0o4000
			case 'g':
				who |= 0o070
				special |= 0o2000
			case 'o':
				who |= 0o007
			case 'a':
				who |= 0o777
				special |= 0o6000
			default:
				return 0, false
			}
		}
		if at == 0 {
			who, special = 0o777, 0o6000
		}
		for _, r := range clause[at+1:] {
			switch r {
			case 'r':
				what |= 0o444 & who
			case 'w':
				what |= 0o222 & who
			case 'x':
				what |= 0o111 & who
			case 'X':
				if mode.IsDir() || perm&0o111 != 0 {
					what |= 0o111 & who
				}
			case 's':
				what |= special
			case 't':
				what |= 0o1000
			case 'u', 'g', 'o': // copies the bits of that class
				shift := map[rune]uint{'u': 6, 'g': 3, 'o': 0}[r]
				what |= (perm >> shift & 7) * 0o111 & who
			default:
				return 0, false
			}
		}
		switch clause[at] {
		case '+':
			perm |= what
		case '-':
			perm &^= what
		case '=':
			if !mode.IsDir() {
				perm &^= special
			}
			perm = perm&^who | what
		}
	}
	return vfs.FileMode(mode, perm), true
}
