package shell

import (
	"context"
	"fmt"
	"io/fs"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"mvdan.cc/sh/v3/pattern"

	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// find runs the tests and actions below, joined by -a, -o, ! and parentheses. It rejects any other predicate before
// it looks at files.
func find(ctx context.Context, m *machine, c *Call) (int, error) {
	f := &finder{c: c, m: m, ctx: ctx, most: maxDepth}
	args := c.Args[1:]
	for len(args) > 0 && (args[0] == "-P" || args[0] == "-H") {
		args = args[1:]
	}
	var roots []string
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") && args[0] != "(" && args[0] != "!" {
		roots, args = append(roots, args[0]), args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	f.args = args
	match, err := f.parse()
	if err != nil {
		return c.Fail("%s", err), nil
	}
	for _, r := range roots {
		f.visit(r, 0, match)
	}
	for _, b := range f.batches {
		b.flush(f)
	}
	return f.status, f.err
}

// A finder is one run of find.
type finder struct {
	c   *Call
	m   *machine
	ctx context.Context //nolint:containedctx // of one command

	args        []string
	least, most int
	depthFirst  bool
	acts        bool // an action is given, so -print is not implied
	nesting     int
	batches     []*batch

	status int
	quit   bool
	pruned bool
	err    error
}

// A found is a file that find looks at.
type found struct {
	name string
	info fs.FileInfo
}

type predicate func(f *finder, x found) bool

func (f *finder) parse() (predicate, error) {
	if len(f.args) == 0 {
		return printed, nil
	}
	p, err := f.either()
	if err == nil && len(f.args) > 0 {
		err = fmt.Errorf("paths must precede expression: `%s'", f.args[0])
	}
	if err != nil || f.acts {
		return p, err
	}
	return func(f *finder, x found) bool { return p(f, x) && printed(f, x) }, nil
}

// either parses a -o b.
func (f *finder) either() (predicate, error) {
	if f.nesting++; f.nesting > maxDepth {
		return nil, fmt.Errorf("the expression is nested too deeply")
	}
	defer func() { f.nesting-- }()
	p, err := f.both()
	for err == nil && len(f.args) > 0 && (f.args[0] == "-o" || f.args[0] == "-or") {
		f.args = f.args[1:]
		a := p
		var b predicate
		if b, err = f.both(); err == nil {
			p = func(f *finder, x found) bool { return a(f, x) || b(f, x) }
		}
	}
	return p, err
}

// both parses a b and a -a b.
func (f *finder) both() (predicate, error) {
	p, err := f.not()
	for err == nil && len(f.args) > 0 && f.args[0] != "-o" && f.args[0] != "-or" && f.args[0] != ")" {
		if f.args[0] == "-a" || f.args[0] == "-and" {
			f.args = f.args[1:]
		}
		a := p
		var b predicate
		if b, err = f.not(); err == nil {
			p = func(f *finder, x found) bool { return a(f, x) && b(f, x) }
		}
	}
	return p, err
}

func (f *finder) not() (predicate, error) {
	negated := false
	for len(f.args) > 0 && (f.args[0] == "!" || f.args[0] == "-not") {
		negated, f.args = !negated, f.args[1:]
	}
	if len(f.args) == 0 {
		return nil, fmt.Errorf("expected an expression")
	}
	var p predicate
	var err error
	if f.args[0] == "(" {
		f.args = f.args[1:]
		if p, err = f.either(); err == nil && (len(f.args) == 0 || f.args[0] != ")") {
			err = fmt.Errorf("invalid expression; I was expecting to find a ')' somewhere but did not see one.") //nolint:staticcheck // find's text
		}
		if err == nil {
			f.args = f.args[1:]
		}
	} else {
		p, err = f.primary()
	}
	if err != nil || !negated {
		return p, err
	}
	return func(f *finder, x found) bool { return !p(f, x) }, nil
}

func yes(*finder, found) bool { return true }

func printed(f *finder, x found) bool {
	_, err := fmt.Fprintln(f.c.Stdout, x.name)
	f.quit = f.quit || err != nil // the reader may be closed
	return true
}

// primary parses a test, an action or an option.
func (f *finder) primary() (predicate, error) {
	name := f.args[0]
	f.args = f.args[1:]
	switch name {
	case "-print":
		f.acts = true
		return printed, nil
	case "-print0":
		f.acts = true
		return func(f *finder, x found) bool { fmt.Fprintf(f.c.Stdout, "%s\x00", x.name); return true }, nil
	case "-delete":
		f.acts, f.depthFirst = true, true
		return deleted, nil
	case "-quit":
		f.acts = true
		return func(f *finder, _ found) bool { f.quit = true; return true }, nil
	case "-prune":
		return func(f *finder, _ found) bool { f.pruned = true; return true }, nil
	case "-depth":
		f.depthFirst = true
		return yes, nil
	case "-xdev", "-mount", "-true":
		return yes, nil // there is only one file system
	case "-false":
		return func(*finder, found) bool { return false }, nil
	case "-empty":
		return func(f *finder, x found) bool {
			if !x.info.IsDir() {
				return x.info.Mode().IsRegular() && x.info.Size() == 0
			}
			list, err := f.c.FS.ReadDir(f.c.Path(x.name))
			return err == nil && len(list) == 0
		}, nil
	case "-exec":
		f.acts = true
		return f.exec()
	}
	if !slices.Contains([]string{"-name", "-iname", "-path", "-wholename", "-ipath", "-type", "-maxdepth", "-mindepth", "-size", "-mtime", "-mmin", "-newer", "-user", "-group", "-perm"}, name) {
		return nil, fmt.Errorf("unknown predicate `%s'", name)
	}
	if len(f.args) == 0 {
		return nil, fmt.Errorf("missing argument to `%s'", name)
	}
	arg := f.args[0]
	f.args = f.args[1:]
	return f.test(name, arg)
}

// test parses a predicate with an argument.
func (f *finder) test(name, arg string) (predicate, error) {
	switch name {
	case "-maxdepth", "-mindepth":
		n, err := strconv.Atoi(arg)
		if err != nil || n < 0 {
			return nil, fmt.Errorf("Expected a positive decimal integer argument to %s, but got '%s'", name, arg) //nolint:staticcheck // find's text
		}
		if name == "-maxdepth" {
			f.most = min(n, maxDepth)
		} else {
			f.least = n
		}
		return yes, nil
	case "-name", "-iname", "-path", "-wholename", "-ipath":
		mode := pattern.EntireString
		if strings.HasPrefix(name, "-i") {
			mode |= pattern.NoGlobCase
		}
		text, err := pattern.Regexp(arg, mode)
		if err != nil { // as in fnmatch, an invalid pattern matches itself
			text = "^(?:" + regexp.QuoteMeta(arg) + ")$"
		}
		re, err := regexp.Compile(text)
		if err != nil {
			return nil, err
		}
		whole := strings.HasSuffix(name, "path") || name == "-wholename"
		return func(_ *finder, x found) bool {
			if whole {
				return re.MatchString(x.name)
			}
			return re.MatchString(path.Base(x.name))
		}, nil
	case "-type":
		for _, k := range strings.Split(arg, ",") {
			if len(k) != 1 || !strings.Contains("fdlbcps", k) {
				return nil, fmt.Errorf("Unknown argument to -type: %s", k) //nolint:staticcheck // find's text
			}
		}
		return func(_ *finder, x found) bool {
			k := "f"
			switch {
			case x.info.IsDir():
				k = "d"
			case x.info.Mode()&fs.ModeSymlink != 0:
				k = "l"
			}
			return strings.Contains(arg, k)
		}, nil
	case "-user", "-group":
		id := f.c.userID(arg)
		if name == "-group" {
			id = f.c.groupID(arg)
		}
		if id < 0 {
			return nil, fmt.Errorf("'%s' is not the name of a known %s", arg, name[1:])
		}
		return func(_ *finder, x found) bool {
			v, ok := x.info.(*vfs.Info)
			return ok && (name == "-user" && v.UID == id || name == "-group" && v.GID == id)
		}, nil
	case "-newer":
		i, err := f.c.FS.Stat(f.c.Path(arg))
		if err != nil {
			return nil, fmt.Errorf("'%s': %s", arg, reason(err))
		}
		return func(_ *finder, x found) bool { return x.info.ModTime().After(i.ModTime()) }, nil
	case "-perm":
		return permTest(arg)
	}
	return numberTest(name, arg)
}

// permTest is -perm MODE, -perm -MODE (all of these bits) or -perm /MODE (any).
func permTest(arg string) (predicate, error) {
	text := strings.TrimLeft(arg, "-/")
	mode, ok := changeMode(0, text)
	if !ok {
		return nil, fmt.Errorf("invalid mode '%s'", arg)
	}
	want := vfs.UnixMode(mode)
	return func(_ *finder, x found) bool {
		is := vfs.UnixMode(x.info.Mode())
		switch arg[0] {
		case '-':
			return is&want == want
		case '/':
			return want == 0 || is&want != 0
		}
		return is == want
	}, nil
}

// numberTest is -size, -mtime and -mmin: N, +N for more, -N for less.
func numberTest(name, arg string) (predicate, error) {
	invalid := fmt.Errorf("invalid argument `%s' to `%s'", arg, name)
	text := strings.TrimLeft(arg, "+-")
	unit := int64(512)
	if name == "-size" && text != "" {
		if u, ok := map[byte]int64{'c': 1, 'w': 2, 'b': 512, 'k': 1 << 10, 'M': 1 << 20, 'G': 1 << 30}[text[len(text)-1]]; ok {
			unit, text = u, text[:len(text)-1]
		}
	}
	n, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return nil, invalid
	}
	return func(_ *finder, x found) bool {
		var is int64
		switch name {
		case "-size":
			is = (x.info.Size() + unit - 1) / unit
		case "-mtime":
			is = int64(time.Since(x.info.ModTime()) / (24 * time.Hour))
		default:
			is = int64((time.Since(x.info.ModTime()) + time.Minute - 1) / time.Minute)
		}
		switch arg[0] {
		case '+':
			return is > n
		case '-':
			return is < n
		}
		return is == n
	}, nil
}

func deleted(f *finder, x found) bool {
	if x.name == "." {
		return true
	}
	if err := f.c.FS.Remove(f.c.Path(x.name)); err != nil {
		f.status = f.c.Fail("cannot delete '%s': %s", x.name, reason(err))
		return false
	}
	return true
}

// A batch is -exec … {} +.
type batch struct {
	command []string
	names   []string
}

// maxBatch is how many names one command gets.
const maxBatch = 1000

func (b *batch) flush(f *finder) {
	if len(b.names) == 0 || f.err != nil {
		return
	}
	args := slices.Concat(b.command, b.names)
	b.names = nil
	if status, err := f.c.run(f.ctx, f.m, args); err != nil || status != 0 {
		f.status, f.err = 1, err
	}
}

// exec parses -exec COMMAND ; or -exec COMMAND {} +.
func (f *finder) exec() (predicate, error) {
	end := slices.IndexFunc(f.args, func(a string) bool { return a == ";" || a == "+" })
	for end > 0 && f.args[end] == "+" && f.args[end-1] != "{}" {
		next := slices.IndexFunc(f.args[end+1:], func(a string) bool { return a == ";" || a == "+" })
		if next < 0 {
			end = -1
			break
		}
		end += 1 + next
	}
	if end <= 0 {
		return nil, fmt.Errorf("missing argument to `-exec'")
	}
	command, plus := f.args[:end], f.args[end] == "+"
	f.args = f.args[end+1:]
	if plus {
		b := &batch{command: command[:len(command)-1]}
		f.batches = append(f.batches, b)
		return func(f *finder, x found) bool {
			if b.names = append(b.names, x.name); len(b.names) >= maxBatch {
				b.flush(f)
			}
			return true
		}, nil
	}
	return func(f *finder, x found) bool {
		args := make([]string, len(command))
		for i, a := range command {
			args[i] = strings.ReplaceAll(a, "{}", x.name)
		}
		status, err := f.c.run(f.ctx, f.m, args)
		if err != nil {
			f.err, f.quit = err, true
		}
		return status == 0
	}, nil
}

// visit looks at a file and everything below it.
func (f *finder) visit(at string, depth int, match predicate) {
	i, err := f.c.FS.Lstat(f.c.Path(at))
	switch {
	case f.quit:
		return
	case err != nil && depth > 0:
		return // an action has removed it
	case err != nil:
		f.status = f.c.Fail("'%s': %s", at, reason(err))
		return
	}
	f.pruned = false
	look := func() {
		if depth >= f.least && !f.quit {
			match(f, found{at, i})
		}
	}
	if !f.depthFirst {
		look()
	}
	if i.IsDir() && depth < f.most && !f.pruned {
		list, _ := f.c.FS.ReadDir(f.c.Path(at)) // an action may have removed it
		for _, e := range list {
			f.visit(strings.TrimSuffix(at, "/")+"/"+e.Name(), depth+1, match)
		}
	}
	if f.depthFirst {
		look()
	}
}
