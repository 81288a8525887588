package shell

import (
	"cmp"
	"context"
	"fmt"
	"io/fs"
	"path"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

func ls(_ context.Context, c *Call) int {
	f := c.flags()
	l := lister{c: c}
	f.BoolVarP(&l.all, "all", "a", false, "")
	f.BoolVarP(&l.almostAll, "almost-all", "A", false, "")
	f.BoolVarP(&l.long, "l", "l", false, "")
	f.BoolVarP(&l.self, "directory", "d", false, "")
	f.BoolVarP(&l.recursive, "recursive", "R", false, "")
	f.BoolVarP(&l.reverse, "reverse", "r", false, "")
	f.BoolVarP(&l.byTime, "t", "t", false, "")
	f.BoolVarP(&l.bySize, "S", "S", false, "")
	f.BoolVarP(&l.classify, "classify", "F", false, "")
	f.BoolVarP(&l.human, "human-readable", "h", false, "")
	f.BoolVarP(&l.numeric, "numeric-uid-gid", "n", false, "")
	f.StringP("color", "", "", "")
	f.Lookup("color").NoOptDefVal = "auto"
	f.BoolP("1", "1", false, "")
	args, ok := c.parse(f)
	if !ok {
		return statusUsage
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	l.long = l.long || l.numeric
	l.named = len(args) > 1 || l.recursive
	var folders []string
	var single []entry
	for _, name := range args {
		look := c.FS.Stat
		if l.long || l.self {
			look = c.FS.Lstat
		}
		switch i, err := look(c.Path(name)); {
		case err != nil:
			c.Fail("cannot access '%s': %s", name, reason(err))
			l.status = statusUsage
		case i.IsDir() && !l.self:
			folders = append(folders, name)
		default:
			single = append(single, entry{name, i})
		}
	}
	l.show("", single)
	for i, name := range folders {
		if i > 0 || len(single) > 0 {
			fmt.Fprintln(c.Stdout)
		}
		l.folder(name, 0)
	}
	return l.status
}

// A lister is one run of ls.
type lister struct {
	c *Call

	all, almostAll, long, self, recursive, reverse, byTime, bySize, classify, human, numeric bool

	named  bool // folders are listed with their name above
	status int
}

type entry struct {
	name string
	info fs.FileInfo
}

func (l *lister) folder(name string, depth int) {
	list, err := l.c.FS.ReadDir(l.c.Path(name))
	if err != nil {
		l.c.Fail("cannot open directory '%s': %s", name, reason(err))
		l.status = statusUsage
		return
	}
	if l.named {
		fmt.Fprintf(l.c.Stdout, "%s:\n", name)
	}
	var entries []entry
	if l.all {
		for _, dots := range []string{".", ".."} {
			if i, err := l.c.FS.Stat(path.Join(l.c.Path(name), dots)); err == nil {
				entries = append(entries, entry{dots, i})
			}
		}
	}
	for _, e := range list {
		if i, err := e.Info(); err == nil && (l.all || l.almostAll || !strings.HasPrefix(e.Name(), ".")) {
			entries = append(entries, entry{e.Name(), i})
		}
	}
	if l.long {
		blocks := int64(0)
		for _, e := range entries {
			blocks += (e.info.Size() + 4095) / 4096 * 4
		}
		fmt.Fprintf(l.c.Stdout, "total %d\n", blocks)
	}
	l.show(l.c.Path(name), entries)
	if !l.recursive || depth > maxDepth {
		return
	}
	for _, e := range list {
		if e.IsDir() && (l.all || l.almostAll || !strings.HasPrefix(e.Name(), ".")) {
			fmt.Fprintln(l.c.Stdout)
			l.folder(strings.TrimSuffix(name, "/")+"/"+e.Name(), depth+1)
		}
	}
}

// show prints the entries of a folder, or the operands if it is "".
func (l *lister) show(folder string, entries []entry) {
	slices.SortStableFunc(entries, func(a, b entry) int {
		order := 0
		switch {
		case l.byTime:
			order = b.info.ModTime().Compare(a.info.ModTime())
		case l.bySize:
			order = cmp.Compare(b.info.Size(), a.info.Size())
		}
		order = cmp.Or(order, strings.Compare(a.name, b.name))
		if l.reverse {
			return -order
		}
		return order
	})
	for _, e := range entries {
		name := e.name
		if l.classify {
			name += mark(e.info.Mode())
		}
		if !l.long {
			fmt.Fprintln(l.c.Stdout, name)
			continue
		}
		uid, gid := 0, 0
		if v, ok := e.info.(*vfs.Info); ok {
			uid, gid = v.UID, v.GID
		}
		owner, group := l.c.userName(uid), l.c.groupName(gid)
		if l.numeric {
			owner, group = fmt.Sprint(uid), fmt.Sprint(gid)
		}
		size := fmt.Sprint(e.info.Size())
		if l.human {
			size = humanSize(e.info.Size())
		}
		if e.info.Mode()&fs.ModeSymlink != 0 {
			full := e.name
			if folder != "" {
				full = path.Join(folder, e.name)
			}
			target, _ := l.c.FS.Readlink(l.c.Path(full)) // it is one
			name += " -> " + target
		}
		fmt.Fprintf(l.c.Stdout, "%s 1 %s %s %s %s %s\n", listedMode(e.info.Mode()), owner, group, size, e.info.ModTime().UTC().Format("Jan _2 15:04"), name)
	}
}

func mark(m fs.FileMode) string {
	switch {
	case m.IsDir():
		return "/"
	case m&fs.ModeSymlink != 0:
		return "@"
	case m&0o111 != 0:
		return "*"
	}
	return ""
}

// listedMode formats a mode as ls -l does: drwxr-xr-x.
func listedMode(m fs.FileMode) string {
	out := []byte("-rwxrwxrwx")
	switch {
	case m.IsDir():
		out[0] = 'd'
	case m&fs.ModeSymlink != 0:
		out[0] = 'l'
	}
	for i := range 9 {
		if m&(1<<(8-i)) == 0 {
			out[1+i] = '-'
		}
	}
	for at, s := range map[int]struct {
		has   fs.FileMode
		x, no byte
	}{3: {fs.ModeSetuid, 's', 'S'}, 6: {fs.ModeSetgid, 's', 'S'}, 9: {fs.ModeSticky, 't', 'T'}} {
		if m&s.has == 0 {
			continue
		}
		if out[at] == 'x' {
			out[at] = s.x
		} else {
			out[at] = s.no
		}
	}
	return string(out)
}

// humanSize formats a size as -h does: rounded up, 1.5K or 15M.
func humanSize(n int64) string {
	if n < 1024 {
		return fmt.Sprint(n)
	}
	size, unit := float64(n), ""
	for _, u := range []string{"K", "M", "G", "T", "P"} {
		if size < 1024 {
			break
		}
		size, unit = size/1024, u
	}
	if size < 10 {
		tenths := int64(size * 10)
		if float64(tenths) < size*10 {
			tenths++
		}
		if tenths < 100 {
			return fmt.Sprintf("%d.%d%s", tenths/10, tenths%10, unit)
		}
		return fmt.Sprintf("%d%s", tenths/10, unit)
	}
	whole := int64(size)
	if float64(whole) < size {
		whole++
	}
	return fmt.Sprintf("%d%s", whole, unit)
}
