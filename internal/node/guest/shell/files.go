package shell

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"syscall"

	"github.com/drydock-dev/drydock/internal/node/guest/vfs"
)

func cat(_ context.Context, c *Call) int {
	f := c.flags()
	number := f.BoolP("number", "n", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	n := 0
	return c.inputs(args, func(_ string, data []byte) error {
		if !*number {
			_, err := c.Stdout.Write(data)
			return err
		}
		for _, l := range lines(data) {
			n++
			if _, err := fmt.Fprintf(c.Stdout, "%6d\t%s\n", n, l); err != nil {
				return err
			}
		}
		return nil
	})
}

// into is where a file called name lands when it is copied or moved to to.
func (c *Call) into(name, to string) string {
	if c.isDir(to) {
		return path.Join(c.Path(to), path.Base(name))
	}
	return c.Path(to)
}

func cp(_ context.Context, c *Call) int {
	f := c.flags()
	recursive := f.BoolP("recursive", "r", false, "")
	f.BoolVarP(recursive, "Recursive", "R", false, "")
	archive := f.BoolP("archive", "a", false, "")
	f.BoolP("force", "f", false, "")
	f.BoolP("preserve", "p", false, "")
	f.BoolP("verbose", "v", false, "")
	noClobber := f.BoolP("no-clobber", "n", false, "")
	target := f.StringP("target-directory", "t", "", "")
	args, ok := c.parse(f)
	if ok && *target != "" {
		args = append(args, *target)
	}
	if !ok || !c.operands(args, 2) {
		return 1
	}
	to := args[len(args)-1]
	if len(args) > 2 && !c.isDir(to) {
		return c.Fail("target '%s' is not a directory", to)
	}
	status := 0
	for _, from := range args[:len(args)-1] {
		dst := c.into(from, to)
		if _, err := c.FS.Lstat(dst); err == nil && *noClobber {
			continue
		}
		if c.isDir(from) && !*recursive && !*archive {
			status = c.Fail("-r not specified; omitting directory '%s'", from)
			continue
		}
		if err := c.copyTree(c.Path(from), dst, 0); err != nil {
			verb := "copy"
			if errors.Is(err, syscall.ENOENT) {
				verb = "stat"
			}
			status = c.Fail("cannot %s '%s': %s", verb, from, reason(err))
		}
	}
	return status
}

const maxDepth = 64

func (c *Call) copyTree(from, to string, depth int) error {
	if depth > maxDepth {
		return syscall.ELOOP
	}
	i, err := c.FS.Stat(from)
	if err != nil {
		return err
	}
	if !i.IsDir() {
		b, err := c.FS.ReadFile(from)
		if err != nil {
			return err
		}
		if err := c.FS.WriteFile(to, b, i.Mode().Perm()); err != nil {
			return err
		}
		return c.FS.Chmod(to, i.Mode().Perm())
	}
	if err := c.FS.MkdirAll(to, i.Mode().Perm()); err != nil {
		return err
	}
	list, err := c.FS.ReadDir(from)
	if err != nil {
		return err
	}
	for _, e := range list {
		if err := c.copyTree(path.Join(from, e.Name()), path.Join(to, e.Name()), depth+1); err != nil {
			return err
		}
	}
	return nil
}

func mv(_ context.Context, c *Call) int {
	f := c.flags()
	f.BoolP("force", "f", false, "")
	f.BoolP("verbose", "v", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 2) {
		return 1
	}
	to := args[len(args)-1]
	if len(args) > 2 && !c.isDir(to) {
		return c.Fail("target '%s' is not a directory", to)
	}
	status := 0
	for _, from := range args[:len(args)-1] {
		if err := c.FS.Rename(c.Path(from), c.into(from, to)); err != nil {
			status = c.Fail("cannot move '%s' to '%s': %s", from, to, reason(err))
		}
	}
	return status
}

func rm(_ context.Context, c *Call) int {
	f := c.flags()
	force := f.BoolP("force", "f", false, "")
	recursive := f.BoolP("recursive", "r", false, "")
	f.BoolVarP(recursive, "Recursive", "R", false, "")
	f.BoolP("verbose", "v", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	if len(args) == 0 && !*force && !c.operands(args, 1) {
		return 1
	}
	status := 0
	for _, name := range args {
		full := strings.TrimRight(c.Path(name), "/") // never what a link leads to
		if full == "" {
			full = "/"
		}
		i, err := c.FS.Lstat(full)
		switch {
		case err != nil && *force && errors.Is(err, syscall.ENOENT):
			continue
		case err != nil:
		case i.IsDir() && !*recursive:
			err = syscall.EISDIR
		case path.Clean(full) == "/":
			status = c.Fail("it is dangerous to operate recursively on '/'\nrm: use --no-preserve-root to override this failsafe")
			continue
		default:
			err = c.FS.RemoveAll(full)
		}
		if err != nil {
			status = c.Fail("cannot remove '%s': %s", name, reason(err))
		}
	}
	return status
}

func rmdir(_ context.Context, c *Call) int {
	args, ok := c.parse(c.flags())
	if !ok || !c.operands(args, 1) {
		return 1
	}
	status := 0
	for _, name := range args {
		if err := c.FS.Remove(c.Path(name)); err != nil {
			status = c.Fail("failed to remove '%s': %s", name, reason(err))
		}
	}
	return status
}

func mkdir(_ context.Context, c *Call) int {
	f := c.flags()
	parents := f.BoolP("parents", "p", false, "")
	mode := f.StringP("mode", "m", "755", "")
	f.BoolP("verbose", "v", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	perm, ok := changeMode(fs.ModeDir|0o755, *mode)
	if !ok {
		return c.Fail("invalid mode '%s'", *mode)
	}
	status := 0
	for _, name := range args {
		make := c.FS.Mkdir
		if *parents {
			make = c.FS.MkdirAll
		}
		if err := make(c.Path(name), perm.Perm()); err != nil {
			status = c.Fail("cannot create directory '%s': %s", name, reason(err))
		}
	}
	return status
}

func ln(_ context.Context, c *Call) int {
	f := c.flags()
	symbolic := f.BoolP("symbolic", "s", false, "")
	force := f.BoolP("force", "f", false, "")
	f.BoolP("no-dereference", "n", false, "")
	f.BoolP("verbose", "v", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 2) {
		return 1
	}
	to := args[len(args)-1]
	status := 0
	for _, from := range args[:len(args)-1] {
		dst := c.into(from, to)
		if *force {
			_ = c.FS.Remove(dst) // the next call says what is wrong
		}
		var err error
		if *symbolic {
			err = c.FS.Symlink(from, dst)
		} else { // a hard link of a system without: a copy
			err = c.copyTree(c.Path(from), dst, 0)
		}
		if err != nil {
			status = c.Fail("failed to create link '%s': %s", to, reason(err))
		}
	}
	return status
}

func ls(_ context.Context, c *Call) int {
	f := c.flags()
	all := f.BoolP("all", "a", false, "")
	long := f.BoolP("l", "l", false, "")
	self := f.BoolP("directory", "d", false, "")
	for _, letter := range []string{"1", "h", "t", "r", "A", "F", "R"} {
		f.BoolP("x"+letter, letter, false, "")
	}
	args, ok := c.parse(f)
	if !ok {
		return statusUsage
	}
	if len(args) == 0 {
		args = []string{"."}
	}
	status := 0
	show := func(i fs.FileInfo, name string) {
		if !*long {
			fmt.Fprintln(c.Stdout, name)
			return
		}
		owner := "root"
		if v, ok := i.(*vfs.Info); ok && v.UID != 0 {
			owner = c.userName(v.UID)
		}
		mode := []byte(i.Mode().String())
		if i.Mode()&fs.ModeSymlink != 0 {
			mode[0] = 'l'
		}
		fmt.Fprintf(c.Stdout, "%s 1 %s %s %d %s %s\n", mode, owner, owner, i.Size(), i.ModTime().UTC().Format("Jan _2 15:04"), name)
	}
	for _, name := range args {
		i, err := c.FS.Stat(c.Path(name))
		if err != nil {
			c.Fail("cannot access '%s': %s", name, reason(err))
			status = statusUsage
			continue
		}
		if !i.IsDir() || *self {
			show(i, name)
			continue
		}
		list, err := c.FS.ReadDir(c.Path(name))
		if err != nil {
			c.Fail("cannot open directory '%s': %s", name, reason(err))
			status = statusUsage
			continue
		}
		if len(args) > 1 {
			fmt.Fprintf(c.Stdout, "%s:\n", name)
		}
		for _, e := range list {
			if i, err := e.Info(); err == nil && (*all || !strings.HasPrefix(e.Name(), ".")) {
				show(i, e.Name())
			}
		}
	}
	return status
}

func touch(_ context.Context, c *Call) int {
	f := c.flags()
	noCreate := f.BoolP("no-create", "c", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	status := 0
	for _, name := range args {
		err := c.FS.Touch(c.Path(name))
		if errors.Is(err, syscall.ENOENT) && !*noCreate {
			err = c.FS.WriteFile(c.Path(name), nil, 0o644)
		}
		if err != nil && !*noCreate {
			status = c.Fail("cannot touch '%s': %s", name, reason(err))
		}
	}
	return status
}

// each calls fn with every operand, and with all below it if recursive.
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
		return c.FS.Chmod(c.Path(name), mode.Perm())
	})
}

// changeMode applies 0644, u+x,go-w or a=r to a mode.
func changeMode(mode fs.FileMode, how string) (fs.FileMode, bool) {
	if n, err := strconv.ParseUint(how, 8, 12); err == nil {
		return mode&fs.ModeType | fs.FileMode(n).Perm(), true
	}
	perm := mode.Perm()
	for clause := range strings.SplitSeq(how, ",") {
		at := strings.IndexAny(clause, "+-=")
		if at < 0 {
			return 0, false
		}
		var who, what fs.FileMode
		for _, r := range clause[:at] {
			switch r {
			case 'u':
				who |= 0o700
			case 'g':
				who |= 0o070
			case 'o':
				who |= 0o007
			case 'a':
				who |= 0o777
			default:
				return 0, false
			}
		}
		if at == 0 {
			who = 0o777
		}
		for _, r := range clause[at+1:] {
			switch r {
			case 'r':
				what |= 0o444
			case 'w':
				what |= 0o222
			case 'x':
				what |= 0o111
			case 'X':
				if mode.IsDir() || perm&0o111 != 0 {
					what |= 0o111
				}
			case 's', 't':
			default:
				return 0, false
			}
		}
		switch clause[at] {
		case '+':
			perm |= who & what
		case '-':
			perm &^= who & what
		case '=':
			perm = perm&^who | who&what
		}
	}
	return mode&fs.ModeType | perm, true
}

// chown is chgrp as well.
func chown(_ context.Context, c *Call) int {
	f := c.flags()
	recursive := f.BoolP("recursive", "R", false, "")
	f.BoolP("verbose", "v", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 2) {
		return 1
	}
	owner, group, both := strings.Cut(args[0], ":")
	if path.Base(c.Args[0]) == "chgrp" {
		owner, group, both = "", args[0], true
	}
	uid, gid := -1, -1
	if owner != "" {
		if uid = c.userID(owner); uid < 0 {
			return c.Fail("invalid user: '%s'", args[0])
		}
	}
	if both && group != "" {
		if gid = c.userID(group); gid < 0 {
			return c.Fail("invalid group: '%s'", args[0])
		}
	}
	return c.each(args[1:], *recursive, func(name string) error { return c.FS.Chown(c.Path(name), uid, gid) })
}

// userID finds a user, or the group that is called like one, in /etc/passwd.
func (c *Call) userID(name string) int {
	if n, err := strconv.Atoi(name); err == nil {
		return n
	}
	for _, file := range []string{"/etc/passwd", "/etc/group"} {
		b, _ := c.FS.ReadFile(file) // without it only root is known
		for _, l := range lines(b) {
			if p := strings.Split(l, ":"); len(p) > 2 && p[0] == name {
				if n, err := strconv.Atoi(p[2]); err == nil {
					return n
				}
			}
		}
	}
	if name == "root" || name == "wheel" {
		return 0
	}
	return -1
}

func (c *Call) userName(uid int) string {
	b, _ := c.FS.ReadFile("/etc/passwd") // without it users are numbers
	for _, l := range lines(b) {
		if p := strings.Split(l, ":"); len(p) > 2 && p[2] == strconv.Itoa(uid) {
			return p[0]
		}
	}
	if uid == 0 {
		return "root"
	}
	return strconv.Itoa(uid)
}

func install(_ context.Context, c *Call) int {
	f := c.flags()
	mode := f.StringP("mode", "m", "755", "")
	owner := f.StringP("owner", "o", "", "")
	f.StringP("group", "g", "", "")
	folders := f.BoolP("directory", "d", false, "")
	parents := f.BoolP("D", "D", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	perm, ok := changeMode(0, *mode)
	if !ok {
		return c.Fail("invalid mode '%s'", *mode)
	}
	finish := func(name string) int {
		err := c.FS.Chmod(name, perm.Perm())
		if uid := c.userID(*owner); err == nil && *owner != "" && uid >= 0 {
			err = c.FS.Chown(name, uid, uid)
		}
		if err != nil {
			return c.Fail("cannot change '%s': %s", name, reason(err))
		}
		return 0
	}
	if *folders {
		for _, name := range args {
			if err := c.FS.MkdirAll(c.Path(name), perm.Perm()); err != nil {
				return c.Fail("cannot create directory '%s': %s", name, reason(err))
			}
			if s := finish(c.Path(name)); s != 0 {
				return s
			}
		}
		return 0
	}
	if !c.operands(args, 2) {
		return 1
	}
	to := args[len(args)-1]
	for _, from := range args[:len(args)-1] {
		dst := c.into(from, to)
		if *parents {
			if err := c.FS.MkdirAll(path.Dir(dst), 0o755); err != nil {
				return c.Fail("cannot create directory '%s': %s", path.Dir(dst), reason(err))
			}
		}
		if err := c.copyTree(c.Path(from), dst, 0); err != nil {
			return c.Fail("cannot stat '%s': %s", from, reason(err))
		}
		if s := finish(dst); s != 0 {
			return s
		}
	}
	return 0
}

func readlink(_ context.Context, c *Call) int {
	f := c.flags()
	follow := f.BoolP("canonicalize", "f", false, "")
	f.BoolVarP(follow, "canonicalize-existing", "e", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	for _, name := range args {
		target, err := c.FS.Readlink(c.Path(name))
		switch {
		case err == nil && *follow && !path.IsAbs(target):
			target = path.Join(path.Dir(c.Path(name)), target)
		case err == nil:
		case *follow:
			target = path.Clean(c.Path(name))
		default:
			return 1
		}
		fmt.Fprintln(c.Stdout, target)
	}
	return 0
}

func realpath(_ context.Context, c *Call) int {
	c.Args = append([]string{c.Args[0], "-f"}, c.Args[1:]...)
	return readlink(context.Background(), c)
}

func mktemp(_ context.Context, c *Call) int {
	f := c.flags()
	folder := f.BoolP("directory", "d", false, "")
	f.BoolP("quiet", "q", false, "")
	f.BoolP("t", "t", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	template := "/tmp/tmp.XXXXXXXXXX"
	if len(args) > 0 {
		template = c.Path(args[0])
	}
	base := strings.TrimRight(template, "X")
	if len(template)-len(base) < 3 {
		return c.Fail("too few X's in template '%s'", template)
	}
	for n := range 10000 {
		name := base + fmt.Sprintf("%0*d", len(template)-len(base), n)
		var err error
		if *folder {
			err = c.FS.Mkdir(name, 0o700)
		} else {
			var w io.WriteCloser
			if w, err = c.FS.Open(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600); err == nil {
				err = w.Close()
			}
		}
		switch {
		case err == nil:
			fmt.Fprintln(c.Stdout, name)
			return 0
		case !errors.Is(err, syscall.EEXIST):
			return c.Fail("failed to create file via template '%s': %s", template, reason(err))
		}
	}
	return c.Fail("failed to create file via template '%s': File exists", template)
}

func tee(_ context.Context, c *Call) int {
	f := c.flags()
	add := f.BoolP("append", "a", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	flag := os.O_CREATE | os.O_WRONLY | os.O_TRUNC
	if *add {
		flag = os.O_CREATE | os.O_WRONLY | os.O_APPEND
	}
	outs := []io.Writer{c.Stdout}
	status := 0
	for _, name := range args {
		if w := c.m.device(context.Background(), c, name, flag); w != nil {
			defer w.Close()
			outs = append(outs, w)
			continue
		}
		w, err := c.FS.Open(c.Path(name), flag, 0o644)
		if err != nil {
			status = c.Fail("%s: %s", name, reason(err))
			continue
		}
		defer w.Close()
		outs = append(outs, w)
	}
	if _, err := io.Copy(io.MultiWriter(outs...), c.Stdin); err != nil {
		return c.Fail("%s", reason(err))
	}
	return status
}

func truncate(_ context.Context, c *Call) int {
	f := c.flags()
	size := f.StringP("size", "s", "", "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	n, err := number(*size)
	if err != nil {
		return c.Fail("Invalid number: '%s'", *size)
	}
	for _, name := range args {
		b, _ := c.FS.ReadFile(c.Path(name)) // a missing file is made
		if int64(len(b)) < n {
			if n > maxInput {
				return c.Fail("failed to truncate '%s': No space left on device", name)
			}
			b = append(b, make([]byte, n-int64(len(b)))...)
		}
		if err := c.FS.WriteFile(c.Path(name), b[:n], 0o644); err != nil {
			return c.Fail("cannot open '%s' for writing: %s", name, reason(err))
		}
	}
	return 0
}

// dd copies blocks; its input may be /dev/zero, which scripts make swap files of.
func dd(ctx context.Context, c *Call) int {
	opt := map[string]string{"bs": "512", "if": "-", "of": ""}
	for _, a := range c.Args[1:] {
		k, v, ok := strings.Cut(a, "=")
		if !ok {
			return c.Fail("unrecognized operand '%s'", a)
		}
		opt[k] = v
	}
	bs, err := number(opt["bs"])
	count := int64(-1)
	if err == nil && opt["count"] != "" {
		count, err = number(opt["count"])
	}
	if err != nil || bs <= 0 {
		return c.Fail("invalid number")
	}
	var out io.Writer = c.Stdout
	if opt["of"] != "" {
		w, err := c.FS.Open(c.Path(opt["of"]), os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o644)
		if err != nil {
			return c.Fail("failed to open '%s': %s", opt["of"], reason(err))
		}
		defer w.Close()
		out = w
	}
	var in io.Reader = zeros{}
	if name := opt["if"]; name != "/dev/zero" && name != "/dev/urandom" {
		b, err := c.read(name)
		if err != nil {
			return c.Fail("failed to open '%s': %s", name, reason(err))
		}
		in = strings.NewReader(string(b))
	} else if count < 0 || count > (1<<62)/bs {
		count = (1 << 40) / bs // until the disk is full
	}
	if count >= 0 {
		in = io.LimitReader(in, bs*count)
	}
	n, err := io.Copy(out, until{ctx, in})
	if err != nil {
		return c.Fail("error writing '%s': %s", opt["of"], reason(err))
	}
	fmt.Fprintf(c.Stderr, "%d+0 records in\n%d+0 records out\n%d bytes copied\n", n/bs, n/bs, n)
	return 0
}

// until reads until ctx ends.
type until struct {
	ctx context.Context //nolint:containedctx // of one copy
	io.Reader
}

func (u until) Read(p []byte) (int, error) {
	if err := u.ctx.Err(); err != nil {
		return 0, err
	}
	return u.Reader.Read(p)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func stat(_ context.Context, c *Call) int {
	f := c.flags()
	format := f.StringP("format", "c", "", "")
	f.BoolP("dereference", "L", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	status := 0
	for _, name := range args {
		i, err := c.FS.Stat(c.Path(name))
		if err != nil {
			status = c.Fail("cannot statx '%s': %s", name, reason(err))
			continue
		}
		uid := 0
		if v, ok := i.(*vfs.Info); ok {
			uid = v.UID
		}
		text := *format
		if text == "" {
			text = "  File: %n\n  Size: %s\nAccess: (%a)  Uid: %u"
		}
		fmt.Fprintln(c.Stdout, strings.NewReplacer("%n", name, "%s", strconv.FormatInt(i.Size(), 10), "%a", strconv.FormatUint(uint64(i.Mode().Perm()), 8),
			"%U", c.userName(uid), "%G", c.userName(uid), "%u", strconv.Itoa(uid), "%g", strconv.Itoa(uid), "%Y", strconv.FormatInt(i.ModTime().Unix(), 10)).Replace(text))
	}
	return status
}

func basename(_ context.Context, c *Call) int {
	if !c.operands(c.Args[1:], 1) {
		return 1
	}
	b := path.Base(c.Args[1])
	if len(c.Args) > 2 && b != c.Args[2] {
		b = strings.TrimSuffix(b, c.Args[2])
	}
	fmt.Fprintln(c.Stdout, b)
	return 0
}

func dirname(_ context.Context, c *Call) int {
	if !c.operands(c.Args[1:], 1) {
		return 1
	}
	fmt.Fprintln(c.Stdout, path.Dir(c.Args[1]))
	return 0
}

// find knows the tests -name, -type and -maxdepth, and the actions -print and -delete.
func find(_ context.Context, c *Call) int {
	var roots []string
	args := c.Args[1:]
	for len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		roots, args = append(roots, args[0]), args[1:]
	}
	if len(roots) == 0 {
		roots = []string{"."}
	}
	name, kind, depth, remove := "*", "", maxDepth, false
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case a == "-print":
		case a == "-delete":
			remove = true
		case len(args) == 0:
			return c.Fail("missing argument to '%s'", a)
		case a == "-name":
			name, args = args[0], args[1:]
		case a == "-type":
			kind, args = args[0], args[1:]
		case a == "-maxdepth":
			n, err := strconv.Atoi(args[0])
			if err != nil || n < 0 {
				return c.Fail("Expected a positive decimal integer argument to -maxdepth, but got '%s'", args[0])
			}
			depth, args = n, args[1:]
		default:
			return c.Fail("unknown predicate '%s'", a)
		}
	}
	status := 0
	var visit func(at string, d int)
	visit = func(at string, d int) {
		i, err := c.FS.Lstat(c.Path(at))
		if err != nil {
			status = c.Fail("'%s': %s", at, reason(err))
			return
		}
		below := func() {
			if !i.IsDir() || d >= depth {
				return
			}
			list, _ := c.FS.ReadDir(c.Path(at)) // it is a folder
			for _, e := range list {
				visit(strings.TrimSuffix(at, "/")+"/"+e.Name(), d+1)
			}
		}
		if remove {
			below()
		} else {
			defer below()
		}
		matched, err := path.Match(name, path.Base(at))
		is := kind == "" || kind == "f" && i.Mode().IsRegular() || kind == "d" && i.IsDir() || kind == "l" && i.Mode()&fs.ModeSymlink != 0
		switch {
		case err != nil || !matched || !is:
		case remove:
			if err := c.FS.Remove(c.Path(at)); err != nil {
				status = c.Fail("cannot delete '%s': %s", at, reason(err))
			}
		default:
			fmt.Fprintln(c.Stdout, at)
		}
	}
	for _, r := range roots {
		visit(r, 0)
	}
	return status
}
