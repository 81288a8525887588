package sshd

import (
	"bufio"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"strconv"
	"strings"
	"time"
	"unicode"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"

	"github.com/drydock-dev/drydock/internal/machine/guest/accounts"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// scpArgs are the options with which clients before OpenSSH 9.0 run scp on the server: scp -t FILE receives, and
// scp -f FILE... sends.
type scpArgs struct {
	to, from, recursive, preserve, folder bool
	names                                 []string
}

// scpCommand parses a command that runs scp as a server, as the user's shell would. It returns false for any other
// command.
func scpCommand(f *files, command string) (out scpArgs, ok bool) {
	if !strings.HasPrefix(command, "scp ") {
		return out, false
	}
	words, err := f.words(command)
	if err != nil || len(words) == 0 {
		return out, false
	}
	for i, w := range words[1:] {
		if w == "--" {
			out.names = append(out.names, words[i+2:]...)
			break
		}
		if len(w) < 2 || w[0] != '-' {
			out.names = append(out.names, w)
			continue
		}
		for _, o := range w[1:] {
			switch o {
			case 't':
				out.to = true
			case 'f':
				out.from = true
			case 'r':
				out.recursive = true
			case 'p':
				out.preserve = true
			case 'd':
				out.folder = true
			case 'v', 'q':
			default:
				return out, false
			}
		}
	}
	return out, out.to != out.from && len(out.names) > 0
}

var errExpansion = errors.New("an expansion that scp's clients do not need")

// maxMatched bounds how many files the patterns of a command are compared with.
const maxMatched = 10_000

// words splits a command into words. Home folders are those of the machine's users, and patterns match its files. All
// other expansions are refused, because some can take unlimited time or memory.
func (f *files) words(command string) ([]string, error) {
	var words []*syntax.Word
	for w, err := range syntax.NewParser().WordsSeq(strings.NewReader(command)) {
		if err != nil {
			return nil, err
		}
		if split := *w; syntax.SplitBraces(&split) {
			return nil, errExpansion
		}
		simple := true
		syntax.Walk(w, func(n syntax.Node) bool {
			switch n := n.(type) {
			case nil, *syntax.Word, *syntax.Lit, *syntax.SglQuoted, *syntax.DblQuoted:
			case *syntax.ParamExp:
				simple = simple && n.Short && n.Param != nil && n.Param.Value == "HOME"
			default:
				simple = false
			}
			return simple
		})
		if !simple {
			return nil, errExpansion
		}
		words = append(words, w)
	}
	seen := 0
	out, err := expand.Fields(&expand.Config{
		Env: expand.FuncEnviron(f.variable),
		ReadDir2: func(name string) ([]fs.DirEntry, error) {
			if seen > maxMatched {
				return nil, errExpansion
			}
			at, err := f.resolve(name, true)
			if err != nil {
				return nil, err
			}
			i, err := f.fs.Stat(at)
			if err == nil && !f.allowed(i, mayRead) {
				err = refused(name)
			}
			if err != nil {
				return nil, err
			}
			list, err := f.fs.ReadDir(at)
			seen += len(list) + 1
			return list, err
		},
	}, words...)
	if seen > maxMatched {
		return nil, errExpansion
	}
	return out, err
}

// variable returns the value of a variable in a command. Package expand asks for "HOME NAME" to expand ~NAME, and would
// look the user up on the host if that had no value. If there is no such user, ~NAME stays as it is.
func (f *files) variable(name string) string {
	user, other := strings.CutPrefix(name, "HOME ")
	switch {
	case other:
		if u, ok := accounts.FindUser(f.fs, user); ok && u.Name == user && u.Home != "" {
			return u.Home
		}
		return "~" + user
	case name == "HOME", name == "PWD":
		return cmp.Or(f.user.Home, "/")
	}
	return ""
}

// An scp is one run of the old scp protocol.
type scp struct {
	*files
	args scpArgs
	in   *bufio.Reader
	out  io.Writer
	home string
	bad  bool // a file failed, and the client knows about it
}

// maxDepth is how deeply folders may be nested.
const maxDepth = 64

func (s *session) scp(_ context.Context, f *files, args scpArgs) (int, error) {
	defer f.flush()
	x := &scp{
		files: f, args: args,
		in: bufio.NewReaderSize(s.channel, 64<<10), out: s.channel, home: s.c.user.Home,
	}
	var err error
	if args.to {
		err = x.receive(x.absolute(args.names[0]))
	} else if _, err = x.answer(); err == nil {
		for _, name := range args.names {
			if err = x.send(x.absolute(name), 0); err != nil {
				break
			}
		}
	}
	if x.bad || err != nil && !errors.Is(err, io.EOF) {
		return 1, nil
	}
	return 0, nil
}

func (x *scp) absolute(name string) string {
	if path.IsAbs(name) {
		return path.Clean(name)
	}
	return path.Join(x.home, name)
}

func (x *scp) ack() error {
	_, err := x.out.Write([]byte{0})
	return err
}

// fail sends an error to the client, which may then go on with the next file.
func (x *scp) fail(err error) error {
	x.bad = true
	text := err.Error()
	if pe, ok := errors.AsType[*fs.PathError](err); ok {
		text = pe.Path + ": " + pe.Err.Error()
	}
	_, err = fmt.Fprintf(x.out, "\x01scp: %s\n", shown(text))
	return err
}

// line reads a line from the client, without its newline.
func (x *scp) line() (string, error) {
	b, err := x.in.ReadSlice('\n')
	if err != nil {
		return "", err
	}
	return string(b[:len(b)-1]), nil
}

// answer reads the client's answer. It returns false if the client refuses the file or folder, which it also records in
// x.bad, and an error only if the client has given up.
func (x *scp) answer() (ok bool, err error) {
	b, err := x.in.ReadByte()
	if err != nil || b == 0 {
		return true, err
	}
	x.bad = true
	if _, err := x.line(); err != nil || b != 1 {
		return false, errors.New("the client has given up")
	}
	return false, nil
}

// receive receives files into target.
func (x *scp) receive(target string) error {
	info, err := x.stat(target)
	if x.args.folder && (err != nil || !info.IsDir()) {
		return x.fail(&fs.PathError{Op: "open", Path: target, Err: errors.New("Not a directory")}) //nolint:staticcheck // scp's text
	}
	folders := []string{target}
	var modified time.Time
	if err := x.ack(); err != nil {
		return err
	}
	for {
		l, err := x.line()
		if err != nil {
			return err
		}
		switch {
		case l == "E":
			if len(folders) < 2 {
				return errors.New("expected control record")
			}
			folders = folders[:len(folders)-1]
		case strings.HasPrefix(l, "T"):
			seconds, _, _ := strings.Cut(l[1:], " ")
			if n, err := strconv.ParseInt(seconds, 10, 64); err == nil {
				modified = time.Unix(n, 0)
			}
		case strings.HasPrefix(l, "C") || strings.HasPrefix(l, "D"):
			mode, size, name, err := record(l[1:])
			if err != nil {
				return x.fail(err)
			}
			at := folders[len(folders)-1]
			if i, err := x.stat(at); err == nil && i.IsDir() {
				at = path.Join(at, name)
			}
			if l[0] == 'D' {
				if len(folders) > maxDepth {
					return x.fail(errors.New("too many folders"))
				}
				if err := x.folder(at, mode); err != nil {
					if err := x.fail(err); err != nil {
						return err
					}
					continue // the client leaves the folder out
				}
				folders = append(folders, at)
				break
			}
			if err := x.file(at, mode, size, modified); err != nil {
				return err
			}
			modified = time.Time{}
			continue
		default:
			return x.fail(errors.New("protocol error: unexpected control record"))
		}
		if err := x.ack(); err != nil {
			return err
		}
	}
}

// record parses MODE SIZE NAME, the rest of a C or D record.
func record(l string) (mode fs.FileMode, size int64, name string, err error) {
	m, rest, _ := strings.Cut(l, " ")
	n, name, ok := strings.Cut(rest, " ")
	bits, err1 := strconv.ParseUint(m, 8, 32)
	size, err2 := strconv.ParseInt(n, 10, 64)
	if !ok || err1 != nil || err2 != nil || size < 0 || name == "" || strings.ContainsFunc(name, func(r rune) bool { return r == '/' || unicode.IsControl(r) }) || name == ".." || name == "." {
		return 0, 0, "", errors.New("protocol error: unexpected record")
	}
	return fs.FileMode(bits) & fs.ModePerm, size, name, nil
}

func (x *scp) stat(name string) (fs.FileInfo, error) {
	at, err := x.resolve(name, true)
	if err != nil {
		return nil, err
	}
	return x.fs.Stat(at)
}

func (x *scp) folder(name string, mode fs.FileMode) error {
	if i, err := x.stat(name); err == nil && i.IsDir() {
		return nil
	}
	at, err := x.place(name)
	if err == nil {
		err = x.fs.Mkdir(at, mode&^umask)
	}
	if err == nil {
		err = x.fs.Chown(at, x.user.UID, x.user.GID)
	}
	x.changed()
	return err
}

// file receives a file. It returns an error only if the connection cannot continue.
func (x *scp) file(name string, mode fs.FileMode, size int64, modified time.Time) error {
	f, err := x.openAs(name, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode)
	if err != nil {
		return x.fail(err)
	}
	if err := x.ack(); err != nil {
		return errors.Join(err, f.Close())
	}
	data := io.LimitReader(x.in, size)
	_, failed := io.Copy(io.NewOffsetWriter(f, 0), data)
	if _, err := io.Copy(io.Discard, data); err != nil { // skip what did not fit on the disk
		return errors.Join(err, f.Close())
	}
	if at, err := x.resolve(name, true); err == nil && failed == nil && !modified.IsZero() {
		failed = x.fs.Chtime(at, modified)
	}
	failed = errors.Join(failed, f.Close())
	if _, err := x.answer(); err != nil {
		return err
	}
	if failed != nil {
		return x.fail(failed)
	}
	return x.ack()
}

// send sends a file or, with -r, a folder.
func (x *scp) send(name string, depth int) error {
	at, err := x.resolve(name, true)
	var i fs.FileInfo
	if err == nil {
		i, err = x.fs.Stat(at)
	}
	switch {
	case err != nil:
		return x.fail(err)
	case i.IsDir() && !x.args.recursive:
		return x.fail(&fs.PathError{Op: "open", Path: name, Err: errors.New("not a regular file")})
	case i.IsDir() && depth > maxDepth:
		return x.fail(errors.New("too many folders"))
	case !x.allowed(i, mayRead):
		return x.fail(refused(name))
	}
	if x.args.preserve {
		if _, err := fmt.Fprintf(x.out, "T%d 0 %d 0\n", i.ModTime().Unix(), i.ModTime().Unix()); err != nil {
			return err
		}
		if ok, err := x.answer(); err != nil || !ok {
			return err
		}
	}
	mode := vfs.UnixMode(i.Mode())
	if i.IsDir() {
		entries, err := x.fs.ReadDir(at)
		if err != nil {
			return x.fail(err)
		}
		if _, err := fmt.Fprintf(x.out, "D%04o 0 %s\n", mode, shown(path.Base(name))); err != nil {
			return err
		}
		if ok, err := x.answer(); err != nil || !ok {
			return err
		}
		for _, e := range entries {
			if err := x.send(path.Join(name, e.Name()), depth+1); err != nil {
				return err
			}
		}
		if _, err := io.WriteString(x.out, "E\n"); err != nil {
			return err
		}
		_, err = x.answer()
		return err
	}
	data, err := x.openAs(at, os.O_RDONLY, 0)
	if err != nil {
		return x.fail(err)
	}
	defer data.Close()
	if _, err := fmt.Fprintf(x.out, "C%04o %d %s\n", mode, i.Size(), shown(path.Base(name))); err != nil {
		return err
	}
	if ok, err := x.answer(); err != nil || !ok {
		return err
	}
	// The file may change while it is sent, but the client expects the announced size.
	sent, err := io.Copy(x.out, io.NewSectionReader(data, 0, i.Size()))
	if err != nil {
		return err
	}
	if sent < i.Size() {
		return errors.New("the file has become shorter")
	}
	if err := x.ack(); err != nil {
		return err
	}
	_, err = x.answer()
	return err
}

// shown prepares a text for a line of the protocol. Like scp, it replaces line breaks, because each would start another
// line.
func shown(name string) string { return strings.ReplaceAll(name, "\n", `\^J`) }
