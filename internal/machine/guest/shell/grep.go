package shell

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A grepper is one run of grep, egrep or fgrep.
type grepper struct {
	c  *Call
	re *regexp.Regexp

	invert, quiet, count, only, numbers, list, listWithout, names bool
	most, before, after                                           int
	include, exclude, excludeDir                                  []string

	found  bool
	status int
}

func grep(_ context.Context, c *Call) int {
	g := &grepper{c: c}
	f := c.flags()
	name := path.Base(c.Args[0])
	var p grepPattern
	f.BoolVarP(&p.extended, "extended-regexp", "E", name == "egrep", "")
	f.BoolVarP(&p.perl, "perl-regexp", "P", false, "")
	f.BoolVarP(&p.fixed, "fixed-strings", "F", name == "fgrep", "")
	f.BoolP("basic-regexp", "G", false, "")
	f.BoolVarP(&p.fold, "ignore-case", "i", false, "")
	f.BoolVarP(&p.fold, "y", "y", false, "")
	f.BoolVarP(&p.word, "word-regexp", "w", false, "")
	f.BoolVarP(&p.whole, "line-regexp", "x", false, "")
	f.BoolVarP(&g.invert, "invert-match", "v", false, "")
	f.BoolVarP(&g.quiet, "quiet", "q", false, "")
	f.BoolVarP(&g.quiet, "silent", "", false, "")
	f.BoolVarP(&g.count, "count", "c", false, "")
	f.BoolVarP(&g.only, "only-matching", "o", false, "")
	f.BoolVarP(&g.numbers, "line-number", "n", false, "")
	f.BoolVarP(&g.list, "files-with-matches", "l", false, "")
	f.BoolVarP(&g.listWithout, "files-without-match", "L", false, "")
	silent := f.BoolP("no-messages", "s", false, "")
	noName := f.BoolP("no-filename", "h", false, "")
	withName := f.BoolP("with-filename", "H", false, "")
	recursive := f.BoolP("recursive", "r", false, "")
	f.BoolVarP(recursive, "dereference-recursive", "R", false, "")
	f.IntVarP(&g.most, "max-count", "m", -1, "")
	f.IntVarP(&g.after, "after-context", "A", 0, "")
	f.IntVarP(&g.before, "before-context", "B", 0, "")
	around := f.IntP("context", "C", 0, "")
	f.StringArrayVar(&g.include, "include", nil, "")
	f.StringArrayVar(&g.exclude, "exclude", nil, "")
	f.StringArrayVar(&g.excludeDir, "exclude-dir", nil, "")
	f.StringP("color", "", "", "")
	f.Lookup("color").NoOptDefVal = "auto"
	f.BoolP("text", "a", false, "")
	f.BoolP("line-buffered", "", false, "")
	patterns := f.StringArrayP("regexp", "e", nil, "")
	from := f.StringArrayP("file", "f", nil, "")
	args, ok := c.parse(f)
	if !ok {
		return statusUsage
	}
	for _, file := range *from {
		b, err := c.read(file)
		if err != nil {
			c.Fail("%s: %s", file, reason(err))
			return statusUsage
		}
		*patterns = append(*patterns, lines(b)...)
	}
	if len(*patterns) == 0 && len(*from) == 0 {
		if len(args) == 0 {
			c.Fail("usage: grep [OPTION]... PATTERNS [FILE]...")
			return statusUsage
		}
		*patterns, args = args[:1], args[1:]
	}
	var err error
	if g.re, err = p.compile(*patterns); err != nil {
		c.Fail("%s", err)
		return statusUsage
	}
	if *around > 0 {
		g.before, g.after = max(g.before, *around), max(g.after, *around)
	}
	errs := c.Stderr
	if *silent {
		c.Stderr = io.Discard
	}
	g.names = (len(args) > 1 || *recursive || *withName) && !*noName
	switch {
	case *recursive && len(args) == 0:
		g.tree(".", "", 0)
	case *recursive:
		for _, a := range args {
			g.tree(a, a, 0)
		}
	default:
		if len(args) == 0 {
			args = []string{"-"}
		}
		for _, a := range args {
			if c.isDir(a) {
				c.Fail("%s: Is a directory", a)
				g.status = statusUsage
				continue
			}
			g.file(a, a)
		}
	}
	c.Stderr = errs
	switch {
	case g.found && (g.quiet || g.status == 0):
		return 0
	case g.status != 0:
		return statusUsage
	}
	return 1
}

// A grepPattern says how to read patterns.
type grepPattern struct{ extended, perl, fixed, fold, word, whole bool }

func (p grepPattern) compile(patterns []string) (*regexp.Regexp, error) {
	var any []string
	for _, text := range strings.Split(strings.Join(patterns, "\n"), "\n") {
		switch {
		case p.fixed:
			text = regexp.QuoteMeta(text)
		case !p.extended && !p.perl:
			text = basicRegexp(text)
		}
		any = append(any, "(?:"+text+")")
	}
	pattern := strings.Join(any, "|")
	if p.word {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if p.whole {
		pattern = "^(?:" + pattern + ")$"
	}
	return compile(pattern, true, p.fold)
}

// tree searches a file, or everything below a folder; shown is its name in the output.
func (g *grepper) tree(name, shown string, depth int) {
	i, err := g.c.FS.Lstat(g.c.Path(name))
	if err == nil && !i.IsDir() && depth == 0 {
		i, err = g.c.FS.Stat(g.c.Path(name))
	}
	match := func(globs []string) bool {
		return slices.ContainsFunc(globs, func(p string) bool {
			ok, err := path.Match(p, path.Base(name))
			return ok && err == nil
		})
	}
	switch {
	case err != nil:
		g.c.Fail("%s: %s", name, reason(err))
		g.status = statusUsage
	case i.IsDir():
		if depth > maxDepth || depth > 0 && match(g.excludeDir) {
			return
		}
		if shown != "" {
			shown = strings.TrimSuffix(shown, "/") + "/"
		}
		list, _ := g.c.FS.ReadDir(g.c.Path(name)) // it is a folder
		for _, e := range list {
			g.tree(strings.TrimSuffix(name, "/")+"/"+e.Name(), shown+e.Name(), depth+1)
		}
	case !i.Mode().IsRegular() || match(g.exclude) || len(g.include) > 0 && !match(g.include):
	default:
		g.file(name, shown)
	}
}

// file searches one file and prints what was asked for.
func (g *grepper) file(name, shown string) {
	if name == "-" && g.before+g.after == 0 {
		g.follow()
		return
	}
	data, err := g.c.read(name)
	if err != nil {
		g.c.Fail("%s: %s", name, reason(err))
		g.status = statusUsage
		return
	}
	if name == "-" {
		shown = "(standard input)"
	}
	all := lines(data)
	n, printed := 0, -1 // the last line that was printed
	owed := -1          // lines after a match are printed up to this one
	for i, l := range all {
		matched := g.re.MatchString(l) != g.invert && (g.most < 0 || n < g.most)
		if matched {
			n++
			g.found = true
		}
		switch {
		case g.quiet || g.count || g.list || g.listWithout: // its message is printed below
		case matched:
			first := max(i-g.before, printed+1)
			if printed >= 0 && first > printed+1 && g.before+g.after > 0 {
				fmt.Fprintln(g.c.Stdout, "--")
			}
			for j := first; j < i && !g.only; j++ {
				g.line(shown, "-", j, all[j])
			}
			g.match(shown, i, l)
			printed, owed = i, i+g.after
		case i <= owed && !g.only:
			g.line(shown, "-", i, l)
			printed = i
		}
	}
	g.summary(shown, n)
}

// follow searches the standard input line by line, because the program that writes to it may never end.
func (g *grepper) follow() {
	const shown = "(standard input)"
	in, n := bufio.NewReader(g.c.Stdin), 0
	for i := 0; g.most < 0 || n < g.most; i++ {
		l, err := in.ReadString('\n')
		if l == "" && err != nil {
			break
		}
		l = strings.TrimSuffix(l, "\n")
		if g.re.MatchString(l) == g.invert {
			continue
		}
		n++
		g.found = true
		if g.quiet || g.list || g.listWithout {
			break
		}
		if !g.count {
			g.match(shown, i, l)
		}
	}
	g.summary(shown, n)
}

// summary prints what grep prints at the end of a file: its name or the number of matches, if asked for.
func (g *grepper) summary(shown string, n int) {
	switch {
	case g.quiet:
	case g.list && n > 0, g.listWithout && n == 0:
		fmt.Fprintln(g.c.Stdout, shown)
	case g.count && !g.list && !g.listWithout:
		if g.names {
			fmt.Fprintf(g.c.Stdout, "%s:", shown)
		}
		fmt.Fprintln(g.c.Stdout, n)
	}
}

func (g *grepper) match(name string, i int, l string) {
	if !g.only {
		g.line(name, ":", i, l)
		return
	}
	if g.invert {
		return
	}
	for _, s := range g.re.FindAllString(l, -1) {
		if s != "" {
			g.line(name, ":", i, s)
		}
	}
}

// line prints a line. Context lines have a dash after their name and number.
func (g *grepper) line(name, mark string, i int, text string) {
	prefix := ""
	if g.names {
		prefix = name + mark
	}
	if g.numbers {
		prefix += strconv.Itoa(i+1) + mark
	}
	fmt.Fprintf(g.c.Stdout, "%s%s\n", prefix, text)
}
