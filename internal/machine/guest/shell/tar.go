package shell

import (
	"archive/tar"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// A tarball is one run of tar: -c, -x and -t with -f, -z, -v, -C, -p, -P and --strip-components. Other compressions
// fail as if their program were missing.
type tarball struct {
	c       *Call
	verb    byte
	file    string
	dir     string
	zip     bool
	verbose bool
	strip   int
	names   []string
	status  int
}

func tarCommand(ctx context.Context, c *Call) int {
	t := &tarball{c: c, file: "-"}
	if s := t.options(); s != 0 {
		return s
	}
	var err error
	switch t.verb {
	case 'c':
		err = t.create(ctx)
	case 'x', 't':
		err = t.extract(ctx)
	default:
		c.Fail("You must specify one of the '-Acdtrux', '--delete' or '--test-label' options\nTry 'tar --help' or 'tar --usage' for more information.")
		return statusUsage
	}
	if err != nil {
		c.Fail("%s\ntar: Error is not recoverable: exiting now", reason(err))
		return statusUsage
	}
	return t.status
}

func (t *tarball) fail(format string, args ...any) {
	t.c.Fail(format, args...)
	t.status = statusUsage
}

// options reads the flags; the first word does not need a dash.
func (t *tarball) options() int {
	c := t.c
	args := slices.Clone(c.Args[1:])
	old := len(args) > 0 && !strings.HasPrefix(args[0], "-") // tar xzf FILE
	if old {
		args[0] = "-" + args[0]
	}
	usage := func(format string, a ...any) int {
		c.Fail(format+"\nTry 'tar --help' or 'tar --usage' for more information.", a...)
		return 64
	}
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		name, value, given := strings.Cut(a, "=")
		take := func() (v string, ok bool) {
			if given {
				return value, true
			}
			if len(args) == 0 {
				return "", false
			}
			v, args = args[0], args[1:]
			return v, true
		}
		long := map[string]byte{
			"--create": 'c', "--extract": 'x', "--get": 'x', "--list": 't', "--file": 'f', "--directory": 'C', "--gzip": 'z', "--gunzip": 'z', "--verbose": 'v',
			"--preserve-permissions": 'p', "--absolute-names": 'P', "--same-owner": 'p', "--no-same-owner": 'o', "--overwrite": 'p', "--bzip2": 'j', "--xz": 'J', "--zstd": 'Z',
		}
		letters := ""
		switch {
		case a == "--":
			t.names = append(t.names, args...)
			return 0
		case name == "--strip-components" || name == "--strip":
			v, _ := take()
			n, err := number(v)
			if err != nil || n < 0 || n > maxDepth {
				return usage("%s: Invalid number of elements", v)
			}
			t.strip = int(n)
		case long[name] != 0:
			letters = string(long[name])
		case strings.HasPrefix(a, "--"):
			return usage("unrecognized option '%s'", name)
		case len(a) > 1 && a[0] == '-':
			letters, given = a[1:], false
		default:
			t.names = append(t.names, a)
		}
		for i := 0; i < len(letters); i++ {
			switch l := letters[i]; l {
			case 'c', 'x', 't':
				if t.verb != 0 && t.verb != l {
					return usage("You may not specify more than one '-Acdtrux', '--delete' or  '--test-label' option")
				}
				t.verb = l
			case 'z':
				t.zip = true
			case 'v':
				t.verbose = true
			case 'p', 'P', 'o', 'm', 'k':
			case 'j', 'J', 'Z':
				program := map[byte]string{'j': "bzip2", 'J': "xz", 'Z': "zstd"}[l]
				c.Fail("(child): %s: Cannot exec: No such file or directory\ntar (child): Error is not recoverable: exiting now\ntar: Child returned status 2\ntar: Error is not recoverable: exiting now", program)
				return statusUsage
			case 'f', 'C':
				v, ok := letters[i+1:], true
				if old || v == "" {
					v, ok = take()
				} else {
					i = len(letters)
				}
				if !ok {
					return usage("option requires an argument -- '%c'", l)
				}
				if l == 'f' {
					t.file = v
				} else {
					t.dir = v
				}
			default:
				return usage("invalid option -- '%c'", l)
			}
		}
		old = false
	}
	return 0
}

// at returns a name in the folder of -C.
func (t *tarball) at(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(t.c.Path(t.dir), t.relative(), name)
}

func (t *tarball) relative() string {
	if t.dir == "" {
		return t.c.Dir
	}
	return ""
}

func (t *tarball) create(ctx context.Context) error {
	if len(t.names) == 0 {
		return errors.New("Cowardly refusing to create an empty archive") //nolint:staticcheck // tar's text
	}
	var out bytes.Buffer
	var zw *gzip.Writer
	var w io.Writer = &out
	if t.zip {
		zw = gzip.NewWriter(&out)
		w = zw
	}
	tw := tar.NewWriter(w)
	for _, n := range t.names {
		if strings.HasPrefix(n, "/") {
			fmt.Fprintln(t.c.Stderr, "tar: Removing leading `/' from member names")
			break
		}
	}
	for _, n := range t.names {
		if err := t.add(ctx, tw, n, 0); err != nil {
			return err
		}
	}
	if err := tw.Close(); err != nil {
		return err
	}
	if zw != nil {
		if err := zw.Close(); err != nil {
			return err
		}
	}
	if t.file == "-" {
		_, err := t.c.Stdout.Write(out.Bytes())
		return err
	}
	if err := t.c.FS.WriteFile(t.c.Path(t.file), out.Bytes(), 0o644); err != nil {
		return fmt.Errorf("%s: Cannot open: %s", t.file, reason(err))
	}
	if t.status != 0 {
		fmt.Fprintln(t.c.Stderr, "tar: Exiting with failure status due to previous errors")
	}
	return nil
}

func (t *tarball) add(ctx context.Context, tw *tar.Writer, name string, depth int) error {
	if ctx.Err() != nil || depth > maxDepth {
		return ctx.Err()
	}
	full := t.at(name)
	i, err := t.c.FS.Lstat(full)
	if err != nil {
		t.fail("%s: Cannot stat: %s", name, reason(err))
		return nil
	}
	var target string
	if i.Mode()&fs.ModeSymlink != 0 {
		target, _ = t.c.FS.Readlink(full) // it is one
	}
	h, err := tar.FileInfoHeader(i, target)
	if err != nil {
		return err
	}
	h.Name = strings.TrimLeft(name, "/")
	if i.IsDir() {
		h.Name = strings.TrimRight(h.Name, "/") + "/"
	}
	if v, ok := i.(*vfs.Info); ok {
		h.Uid, h.Gid, h.Uname, h.Gname = v.UID, v.GID, t.c.userName(v.UID), t.c.groupName(v.GID)
	}
	h.ModTime, h.AccessTime, h.ChangeTime = h.ModTime.Truncate(time.Second), time.Time{}, time.Time{}
	if h.Name == "/" {
		h.Name = "./"
	}
	if err := tw.WriteHeader(h); err != nil {
		return err
	}
	t.tell(h)
	switch {
	case i.Mode().IsRegular():
		b, err := t.c.FS.ReadFile(full)
		if err != nil {
			return err
		}
		_, err = tw.Write(b[:min(int64(len(b)), h.Size)])
		return err
	case i.IsDir():
		list, err := t.c.FS.ReadDir(full)
		if err != nil {
			return err
		}
		for _, e := range list {
			if err := t.add(ctx, tw, strings.TrimRight(name, "/")+"/"+e.Name(), depth+1); err != nil {
				return err
			}
		}
	}
	return nil
}

// tell prints a member's name for -v. Standard output may already be in use for the archive.
func (t *tarball) tell(h *tar.Header) {
	if !t.verbose && t.verb != 't' {
		return
	}
	out := t.c.Stdout
	if t.verb == 'c' && t.file == "-" {
		out = t.c.Stderr
	}
	if t.verb == 't' && t.verbose {
		fmt.Fprintf(out, "%s %s/%s %9d %s %s\n", listedMode(h.FileInfo().Mode()), h.Uname, h.Gname, h.Size, h.ModTime.UTC().Format("2006-01-02 15:04"), h.Name)
		return
	}
	fmt.Fprintln(out, h.Name)
}

func (t *tarball) extract(ctx context.Context) error {
	data, err := t.c.read(t.file)
	if err != nil {
		return fmt.Errorf("%s: Cannot open: %s", t.file, reason(err))
	}
	var r io.Reader = bytes.NewReader(data)
	if t.zip || bytes.HasPrefix(data, []byte{0x1f, 0x8b}) {
		zr, err := gzip.NewReader(r)
		if err != nil {
			fmt.Fprintln(t.c.Stderr, "\ngzip: stdin: not in gzip format\ntar: Child returned status 1")
			return errNotArchive
		}
		r = io.LimitReader(zr, maxInput)
	}
	tr := tar.NewReader(r)
	seen := make([]bool, len(t.names))
	for {
		h, err := tr.Next()
		switch {
		case errors.Is(err, io.EOF):
			for i, n := range t.names {
				if !seen[i] {
					t.fail("%s: Not found in archive", n)
				}
			}
			if t.status != 0 {
				fmt.Fprintln(t.c.Stderr, "tar: Exiting with failure status due to previous errors")
			}
			return nil
		case ctx.Err() != nil:
			return ctx.Err()
		case err != nil:
			return errNotArchive
		}
		if !t.wanted(h.Name, seen) {
			continue
		}
		if t.verb == 't' {
			t.tell(h)
			continue
		}
		if err := t.unpack(h, tr); err != nil {
			t.fail("%s: Cannot open: %s", h.Name, reason(err))
		}
	}
}

var errNotArchive = errors.New("This does not look like a tar archive") //nolint:staticcheck // tar's text

// wanted reports whether a member is one of the operands or below one.
func (t *tarball) wanted(name string, seen []bool) bool {
	if len(t.names) == 0 {
		return true
	}
	for i, n := range t.names {
		n = strings.TrimRight(n, "/")
		if strings.TrimRight(name, "/") == n || strings.HasPrefix(name, n+"/") {
			seen[i] = true
			return true
		}
	}
	return false
}

// unpack writes one member. It never leaves the folder in which it unpacks.
func (t *tarball) unpack(h *tar.Header, r io.Reader) error {
	parts := slices.DeleteFunc(strings.Split(h.Name, "/"), func(p string) bool { return p == "" || p == "." })
	if slices.Contains(parts, "..") {
		return errors.New("Member name contains '..'") //nolint:staticcheck // tar's text
	}
	if len(parts) <= t.strip && t.strip > 0 {
		return nil
	}
	t.tell(h)
	parts = parts[t.strip:]
	if len(parts) == 0 {
		return nil
	}
	name := t.at(strings.Join(parts, "/"))
	mode := vfs.FileMode(0, uint32(h.Mode)&0o7777) //nolint:gosec // twelve bits
	files := t.c.FS
	if err := files.MkdirAll(path.Dir(name), 0o755); err != nil {
		return err
	}
	switch h.Typeflag {
	case tar.TypeDir:
		if err := files.MkdirAll(name, 0o755); err != nil {
			return err
		}
	case tar.TypeSymlink:
		_ = files.Remove(name) // it is replaced, if it exists
		return files.Symlink(h.Linkname, name)
	case tar.TypeLink:
		return t.c.copyTree(t.at(h.Linkname), name, 0)
	case tar.TypeReg:
		b, err := io.ReadAll(io.LimitReader(r, maxInput))
		if err != nil {
			return errNotArchive
		}
		if i, err := files.Lstat(name); err == nil && i.Mode()&fs.ModeSymlink != 0 {
			_ = files.Remove(name) // replace the link, not its target
		}
		if err := files.WriteFile(name, b, 0o644); err != nil {
			return err
		}
	default:
		return nil // there are no devices here
	}
	if t.c.User == "root" {
		if err := files.Chown(name, h.Uid, h.Gid); err != nil {
			return err
		}
	}
	return files.Chmod(name, mode)
}
