package shell

import (
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// A program is a command that runs no other commands; an interpreter does.
type (
	program     func(ctx context.Context, c *Call) int
	interpreter func(ctx context.Context, m *machine, c *Call) (int, error)
)

// programs are the commands of the machine, by name. GNU's own flags are supported as far as user data uses them; any
// other flag is rejected as the real command rejects an unknown one.
var programs = map[string]program{
	// Files.
	"cat": cat, "cp": cp, "mv": mv, "rm": rm, "rmdir": rmdir, "mkdir": mkdir, "ln": ln, "ls": ls, "touch": touch,
	"chmod": chmod, "chown": chown, "chgrp": chown, "install": install, "readlink": readlink, "realpath": realpath,
	"less": pager, "more": pager, "vi": editor, "vim": editor, "view": editor, "nano": editor,
	"mktemp": mktemp, "tee": tee, "truncate": truncate, "dd": dd, "stat": stat, "basename": basename, "dirname": dirname,
	// Text.
	"awk": awkCommand, "gawk": awkCommand, "head": head, "tail": tail, "grep": grep, "egrep": grep, "fgrep": grep, "sed": sed, "cut": cut, "tr": tr, "sort": sortLines,
	"uniq": uniq, "wc": wc, "seq": seq, "base64": base64Text, "sha256sum": digest, "md5sum": digest, "jq": jq,
	"gzip": gz, "gunzip": gz, "zcat": gz, "tar": tarCommand,
	// The machine.
	"useradd": useradd, "adduser": useradd, "usermod": usermod, "userdel": userdel, "groupadd": groupadd, "groupdel": groupdel,
	"passwd": passwd, "chpasswd": chpasswd, "getent": getent, "groups": groups, "date": date, "sleep": sleep, "hostname": hostname, "uname": uname, "id": id, "whoami": whoami, "nproc": nproc, "which": which,
	"logger": logger, "sync": ignore, "sysctl": ignore, "modprobe": ignore, "swapoff": ignore, "ulimit": ignore, "umask": ignore, "hash": ignore, "command": commandV, "type": commandV,
	"restorecon": ignore, "setenforce": ignore, "udevadm": ignore, "clear": ignore,
}

func lookup(name string) (program, bool) {
	p, ok := programs[name]
	return p, ok
}

// interpreterOf returns the command with that name that runs other commands. It is a function because such a command
// looks up the next one here, and a Go variable must not refer to itself in its initializer.
func interpreterOf(name string) (interpreter, bool) {
	switch name {
	case "sh", "bash", "dash":
		return bash, true
	case "sudo":
		return sudo, true
	case "su", "runuser":
		return su, true
	case "env":
		return env, true
	case "nohup", "nice", "ionice", "setsid", "exec", "stdbuf":
		return wrapper, true
	case "timeout":
		return timeout, true
	case "xargs":
		return xargs, true
	case "jobs", "fg", "bg", "disown", "wait":
		return jobControl, true
	case "kill":
		return kill, true
	case "find":
		return find, true
	case "echo", "printf", "test", "[", "true", "false", "pwd":
		return builtin, true
	}
	return nil, false
}

// flags are a command's options. As with GNU, they may come between the operands.
func (c *Call) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet(path.Base(c.Args[0]), pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// parse reads the options and returns the operands. It prints an error and returns false if they are wrong.
func (c *Call) parse(f *pflag.FlagSet) ([]string, bool) {
	if err := f.Parse(c.Args[1:]); err != nil {
		name := path.Base(c.Args[0])
		text := err.Error()
		if _, after, ok := strings.Cut(text, "unknown shorthand flag: "); ok {
			letter, _, _ := strings.Cut(after, " in ")
			text = "invalid option -- " + letter
		} else if after, ok := strings.CutPrefix(text, "unknown flag: "); ok {
			text = "unrecognized option '" + after + "'"
		}
		c.Fail("%s\nTry '%s --help' for more information.", text, name)
		return nil, false
	}
	return f.Args(), true
}

// operands prints an error if there are fewer than n.
func (c *Call) operands(args []string, n int) bool {
	switch {
	case len(args) >= n:
		return true
	case len(args) == 0:
		c.Fail("missing operand\nTry '%s --help' for more information.", path.Base(c.Args[0]))
	default:
		c.Fail("missing destination file operand after '%s'\nTry '%s --help' for more information.", args[len(args)-1], path.Base(c.Args[0]))
	}
	return false
}

// maxInput bounds how much input one command holds in memory.
const maxInput = 32 << 20

var errTooLarge = errors.New("File too large") //nolint:staticcheck // the C library's text

// read returns the content of a file, or of standard input for -.
func (c *Call) read(name string) ([]byte, error) {
	if name == "-" || name == "/dev/stdin" {
		b, err := io.ReadAll(io.LimitReader(c.Stdin, maxInput+1))
		if len(b) > maxInput {
			return nil, errTooLarge
		}
		return b, err
	}
	if f := c.m.device(context.Background(), c, name, 0); f != nil { // it ends with the process of its job
		defer f.Close()
		return io.ReadAll(io.LimitReader(f, maxInput))
	}
	f, err := c.FS.Open(c.Path(name), 0, 0)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(f)
}

// inputs calls fn with the content of every operand, or of standard input if there are none, and returns 1 if one
// could not be read.
func (c *Call) inputs(names []string, fn func(name string, data []byte) error) int {
	if len(names) == 0 {
		names = []string{"-"}
	}
	status := 0
	for _, n := range names {
		b, err := c.read(n)
		if err != nil {
			status = c.Fail("%s: %s", n, reason(err))
			continue
		}
		if fn(n, b) != nil {
			return 1 // the reader may be closed
		}
	}
	return status
}

// lines splits text into lines without their line ends.
func lines(b []byte) []string {
	if len(b) == 0 {
		return nil
	}
	return strings.Split(strings.TrimSuffix(string(b), "\n"), "\n")
}

func (c *Call) isDir(name string) bool {
	i, err := c.FS.Stat(c.Path(name))
	return err == nil && i.IsDir()
}

func ignore(context.Context, *Call) int { return 0 }

// programInfo is the file info of a program that is not in any file system.
type programInfo string

func (p programInfo) Name() string       { return string(p) }
func (p programInfo) Size() int64        { return 1 << 16 }
func (p programInfo) Mode() fs.FileMode  { return 0o755 }
func (p programInfo) ModTime() time.Time { return time.Unix(1700000000, 0) }
func (p programInfo) IsDir() bool        { return false }
func (p programInfo) Sys() any           { return nil }

// run runs args as the command line of another command.
func (c *Call) run(ctx context.Context, m *machine, args []string) (int, error) {
	if m.left.Add(-1) < 0 {
		return statusKilled, ErrTooManyCommands
	}
	d := *c
	d.Args = args
	return m.start(ctx, &d, path.Base(c.Args[0]))
}
