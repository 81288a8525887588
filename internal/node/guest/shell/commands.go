package shell

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"path"
	"slices"
	"strings"
	"time"

	"github.com/spf13/pflag"
)

// A program is a command that runs nothing else; an interpreter runs commands.
type (
	program     func(ctx context.Context, c *Call) int
	interpreter func(ctx context.Context, m *machine, c *Call) (int, error)
)

// programs are the commands of the machine, by name. GNU's own flags are honoured
// as far as user data uses them; any other flag is refused as the real command
// refuses an unknown one.
var programs = map[string]program{
	// Files.
	"cat": cat, "cp": cp, "mv": mv, "rm": rm, "rmdir": rmdir, "mkdir": mkdir, "ln": ln, "ls": ls, "touch": touch,
	"chmod": chmod, "chown": chown, "chgrp": chown, "install": install, "readlink": readlink, "realpath": realpath,
	"mktemp": mktemp, "tee": tee, "truncate": truncate, "dd": dd, "find": find, "stat": stat, "basename": basename, "dirname": dirname,
	// Text.
	"head": head, "tail": tail, "grep": grep, "egrep": grep, "fgrep": grep, "sed": sed, "cut": cut, "tr": tr, "sort": sortLines,
	"uniq": uniq, "wc": wc, "seq": seq, "base64": base64Text, "sha256sum": digest, "md5sum": digest, "jq": jq,
	"gzip": gz, "gunzip": gz, "zcat": gz,
	// The machine.
	"date": date, "sleep": sleep, "hostname": hostname, "uname": uname, "id": id, "whoami": whoami, "nproc": nproc, "which": which,
	"logger": logger, "sync": ignore, "sysctl": ignore, "modprobe": ignore, "swapoff": ignore, "ulimit": ignore, "umask": ignore, "kill": ignore, "hash": ignore, "command": commandV, "type": commandV,
	"restorecon": ignore, "setenforce": ignore, "udevadm": ignore, "clear": ignore,
}

func lookup(name string) (program, bool) {
	p, ok := programs[name]
	return p, ok
}

// interpreterOf returns the command of that name that runs other commands. It is
// no map: such a command finds the next one here, and Go refuses a variable that
// refers to itself.
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
	case "echo", "printf", "test", "[", "true", "false", "pwd":
		return builtin, true
	}
	return nil, false
}

// flags are a command's options; like GNU's they may stand among the operands.
func (c *Call) flags() *pflag.FlagSet {
	f := pflag.NewFlagSet(path.Base(c.Args[0]), pflag.ContinueOnError)
	f.SetOutput(io.Discard)
	f.Usage = func() {}
	return f
}

// parse reads the options and returns the operands. False: it has complained.
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

// operands complains when there are fewer than n.
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

// maxInput bounds what one command holds in memory.
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
	if f := c.m.device(context.Background(), c, name, 0); f != nil { // it ends with its job's process
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

// inputs calls fn with the content of every operand, or of standard input if there
// are none, and returns 1 if one could not be read.
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
			return 1 // nobody reads on
		}
	}
	return status
}

// lines splits text into lines without their ends.
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

// programInfo describes a program that is in no file system.
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

func bash(ctx context.Context, m *machine, c *Call) (int, error) {
	args := c.Args[1:]
	var options []string
	for len(args) > 0 && strings.HasPrefix(args[0], "-") && args[0] != "-" {
		a := args[0]
		args = args[1:]
		if a == "--" {
			break
		}
		if letters := strings.TrimPrefix(a, "-"); !strings.HasPrefix(letters, "-") && strings.Contains(letters, "c") {
			if rest := strings.NewReplacer("c", "", "l", "", "i", "").Replace(letters); rest != "" {
				options = append(options, "-"+rest)
			}
			if len(args) == 0 {
				return c.shellFail("bash", "-c: option requires an argument", statusUsage), nil
			}
			name := path.Base(c.Args[0])
			if len(args) > 1 {
				name = args[1]
			}
			return m.bash(ctx, c, name, []byte(args[0]), options, args[min(2, len(args)):])
		}
		if a == "-o" && len(args) > 0 {
			options, args = append(options, a, args[0]), args[1:]
			continue
		}
		if a = strings.NewReplacer("l", "", "i", "").Replace(a); a != "-" && !strings.HasPrefix(a, "--") {
			options = append(options, a)
		}
	}
	if len(args) == 0 || args[0] == "-s" || args[0] == "-" {
		text, err := c.read("-")
		if err != nil {
			return c.Fail("%s", reason(err)), nil
		}
		return m.bash(ctx, c, "bash", text, options, nil)
	}
	text, err := c.FS.ReadFile(c.Path(args[0]))
	if err != nil {
		return c.shellFail("bash", args[0]+": "+reason(err), statusNotFound), nil
	}
	return m.bash(ctx, c, args[0], text, options, args[1:])
}

// sudo runs a command as root, which everything is run as anyway, or as -u USER.
func sudo(ctx context.Context, m *machine, c *Call) (int, error) {
	d := *c
	d.User = "root"
	args := c.Args[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		a := args[0]
		args = args[1:]
		switch {
		case a == "--":
		case (a == "-u" || a == "-g" || a == "--user") && len(args) > 0:
			if a != "-g" {
				d.User = args[0]
			}
			args = args[1:]
			continue
		case strings.Trim(a, "-EHinSsk") == "" || strings.HasPrefix(a, "--preserve-env"):
			continue
		default:
			return c.Fail("unrecognized option '%s'", a), nil
		}
		break
	}
	assigned := len(args)
	for i, a := range args {
		if !strings.Contains(a, "=") || strings.HasPrefix(a, "=") {
			assigned = i
			break
		}
	}
	d.env = withEnv(d.env, args[:assigned])
	args = args[assigned:]
	if len(args) == 0 {
		return 0, nil
	}
	return d.run(ctx, m, args)
}

func su(ctx context.Context, m *machine, c *Call) (int, error) {
	d := *c
	d.User = "root"
	var command string
	for i := 1; i < len(c.Args); i++ {
		switch a := c.Args[i]; {
		case (a == "-c" || a == "-s" || a == "-u") && i+1 < len(c.Args):
			i++
			switch a {
			case "-c":
				command = c.Args[i]
			case "-u":
				d.User = c.Args[i]
			}
		case a == "--":
			return d.run(ctx, m, c.Args[i+1:])
		case !strings.HasPrefix(a, "-"):
			d.User = a
		}
	}
	if command == "" {
		return 0, nil
	}
	return m.bash(ctx, &d, "bash", []byte(command), nil, nil)
}

func env(ctx context.Context, m *machine, c *Call) (int, error) {
	args := c.Args[1:]
	for len(args) > 0 && args[0] == "-i" {
		c.env, args = withEnv(nil, []string{"PATH=" + searchPath}), args[1:]
	}
	assigned := 0
	for assigned < len(args) && strings.Contains(args[assigned], "=") {
		assigned++
	}
	d := *c
	d.env = withEnv(c.env, args[:assigned])
	if assigned < len(args) {
		return d.run(ctx, m, args[assigned:])
	}
	for _, e := range d.Environ() {
		if _, err := io.WriteString(c.Stdout, e+"\n"); err != nil {
			return 1, nil //nolint:nilerr // nobody reads on
		}
	}
	return 0, nil
}

// wrapper runs the command after its options.
func wrapper(ctx context.Context, m *machine, c *Call) (int, error) {
	args := c.Args[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if a := args[0]; (a == "-n" || a == "-c") && len(args) > 1 {
			args = args[1:]
		}
		args = args[1:]
	}
	if len(args) == 0 {
		return 0, nil
	}
	return c.run(ctx, m, args)
}

func timeout(ctx context.Context, m *machine, c *Call) (int, error) {
	args := c.Args[1:]
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		if (args[0] == "-k" || args[0] == "-s") && len(args) > 1 {
			args = args[1:]
		}
		args = args[1:]
	}
	if len(args) < 2 {
		return c.Fail("missing operand"), nil
	}
	d, err := duration(args[0])
	if err != nil {
		return c.Fail("invalid time interval '%s'", args[0]), nil //nolint:nilerr // said
	}
	limited, cancel := context.WithTimeout(ctx, d)
	defer cancel()
	status, err := c.run(limited, m, args[1:])
	if limited.Err() != nil && ctx.Err() == nil {
		return 124, nil
	}
	return status, err
}

// builtin runs what is a builtin of the shell and a program as well.
func builtin(ctx context.Context, m *machine, c *Call) (int, error) {
	name := path.Base(c.Args[0])
	return m.bash(ctx, c, name, []byte(name+` "$@"`), nil, c.Args[1:])
}

func xargs(ctx context.Context, m *machine, c *Call) (int, error) {
	args := c.Args[1:]
	per, replace := 0, ""
	null, noRun := false, false
	for len(args) > 0 && strings.HasPrefix(args[0], "-") {
		a := args[0]
		args = args[1:]
		switch {
		case (a == "-n" || a == "-I" || a == "-L") && len(args) > 0:
			if a == "-I" {
				replace = args[0]
			} else if n, err := number(args[0]); err == nil {
				per = int(n)
			}
			args = args[1:]
		case strings.HasPrefix(a, "-I"):
			replace = a[2:]
		case strings.HasPrefix(a, "-n"):
			if n, err := number(a[2:]); err == nil {
				per = int(n)
			}
		case a == "-0":
			null = true
		case a == "-r" || a == "--no-run-if-empty":
			noRun = true
		case a == "-t" || strings.HasPrefix(a, "-P"):
		default:
			return c.Fail("invalid option -- '%s'", strings.TrimLeft(a, "-")), nil
		}
	}
	if len(args) == 0 {
		args = []string{"echo"}
	}
	in, err := c.read("-")
	if err != nil {
		return c.Fail("%s", reason(err)), nil
	}
	var items []string
	switch {
	case null:
		items = slices.DeleteFunc(strings.Split(string(in), "\x00"), func(s string) bool { return s == "" })
	case replace != "":
		items, per = lines(bytes.TrimSpace(in)), 1
	default:
		items = strings.Fields(strings.NewReplacer(`"`, "", `'`, "").Replace(string(in)))
	}
	if len(items) == 0 && (noRun || replace != "") {
		return 0, nil
	}
	if per <= 0 {
		per = max(len(items), 1)
	}
	d := *c
	d.Stdin = strings.NewReader("")
	worst := 0
	for chunk := range slices.Chunk(items, per) {
		line := slices.Concat(args, chunk)
		if replace != "" {
			line = slices.Clone(args)
			for i := range line {
				line[i] = strings.ReplaceAll(line[i], replace, chunk[0])
			}
		}
		status, err := d.run(ctx, m, line)
		if err != nil {
			return status, err
		}
		if status != 0 {
			worst = 123
		}
	}
	if len(items) == 0 {
		return d.run(ctx, m, args)
	}
	return worst, nil
}
