package simulated

import (
	"context"
	"fmt"
	"path"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// terminalPrograms are the programs that read and change the settings of the terminal that they run on, and its history.
var terminalPrograms = []string{"stty", "tput", "history"}

// onTerminalOf returns a function for shell.Job.Outside that also runs terminalPrograms. t is nil if the job has no terminal.
func onTerminalOf(t *terminal, others func(context.Context, *shell.Call) (int, bool)) func(context.Context, *shell.Call) (int, bool) {
	return func(ctx context.Context, c *shell.Call) (int, bool) {
		dir, name := path.Split(c.Args[0])
		if dir != "" && dir != "/bin/" && dir != "/usr/bin/" { // a file of the user's own
			name = ""
		}
		switch {
		case name == "stty":
			return stty(t, c), true
		case name == "tput":
			return tput(t, c), true
		case name == "history" && t == nil: // scripts have none
			return 0, true
		case name == "history":
			return t.history.print(c), true
		case others == nil:
			return 0, false
		}
		return others(ctx, c)
	}
}

// settings are what stty shows and changes.
type settings struct {
	size   machine.Size
	silent bool // what is typed is not shown
}

func (t *terminal) settings() settings {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.set
}

func (t *terminal) silence(silent bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.set.silent = silent
}

// fixed are the settings that cannot be changed, as stty -a prints them: those of Linux's terminals, but without flow control
// by Ctrl-S and Ctrl-Q, which simulated terminals do not have.
const fixed = `intr = ^C; quit = ^\; erase = ^?; kill = ^U; eof = ^D; eol = <undef>;
eol2 = <undef>; swtch = <undef>; start = ^Q; stop = ^S; susp = ^Z; rprnt = ^R;
werase = ^W; lnext = ^V; discard = ^O; min = 1; time = 0;
-parenb -parodd -cmspar cs8 -hupcl -cstopb cread -clocal -crtscts
-ignbrk -brkint -ignpar -parmrk -inpck -istrip -inlcr -igncr icrnl -ixon -ixoff
-iuclc -ixany -imaxbel -iutf8
opost -olcuc -ocrnl onlcr -onocr -onlret -ofill -ofdel nl0 cr0 tab0 bs0 vt0 ff0
isig icanon iexten %secho echoe echok -echonl -noflsh -xcase -tostop -echoprt
echoctl echoke -flusho -extproc
`

// saved is what stty -g prints: the flags and characters of termios in hexadecimal. The fourth number contains ECHO (8).
const saved = "100:5:bf:%x:3:1c:7f:15:4:0:1:0:11:13:1a:0:12:f:17:16:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0:0"

const (
	localFlags = 0x8a33
	echoFlag   = 0x8
)

// stty prints or changes the settings of the terminal that is its standard input.
func stty(t *terminal, c *shell.Call) int {
	args := c.Args[1:]
	if len(args) > 1 && (args[0] == "-F" || args[0] == "--file") {
		if args[1] != "/dev/tty" {
			return c.Fail("%s: No such file or directory", args[1])
		}
		args = args[2:]
	} else if !c.OnTerminal() {
		return c.Fail("'standard input': Inappropriate ioctl for device")
	}
	if t == nil {
		return c.Fail("/dev/tty: No such device or address")
	}
	s := t.settings()
	off := map[bool]string{true: "-"}[s.silent]
	if len(args) == 0 {
		fmt.Fprintln(c.Stdout, "speed 38400 baud; line = 0;\n-brkint -imaxbel")
		if s.silent {
			fmt.Fprintln(c.Stdout, "-echo")
		}
		return 0
	}
	for i := 0; i < len(args); i++ {
		switch a := args[i]; a {
		case "-a", "--all":
			fmt.Fprintf(c.Stdout, "speed 38400 baud; rows %d; columns %d; line = 0;\n"+fixed, s.size.Rows, s.size.Columns, off)
		case "-g", "--save":
			flags := localFlags | echoFlag
			if s.silent {
				flags = localFlags
			}
			fmt.Fprintf(c.Stdout, saved+"\n", flags)
		case "size":
			fmt.Fprintln(c.Stdout, s.size.Rows, s.size.Columns)
		case "speed":
			fmt.Fprintln(c.Stdout, "38400")
		case "echo", "-echo":
			t.silence(a == "-echo")
		case "sane":
			t.silence(false)
		case "rows", "cols", "columns":
			if i++; i == len(args) {
				fmt.Fprintf(c.Stderr, "stty: missing argument to '%s'\nTry 'stty --help' for more information.\n", a)
				return 1
			}
			n, err := strconv.Atoi(args[i])
			if err != nil || n < 1 || n >= maxSize {
				return c.Fail("invalid integer argument: '%s'", args[i])
			}
			if s = t.settings(); a == "rows" {
				s.size.Rows = n
			} else {
				s.size.Columns = n
			}
			t.resize(s.size)
		default:
			var flags int
			if n, err := fmt.Sscanf(a, saved, &flags); err == nil && n == 1 {
				t.silence(flags&echoFlag == 0)
				continue
			}
			if !isSet(a) {
				return c.Fail("%s: simulated terminals cannot change this setting", a)
			}
		}
	}
	return 0
}

// isSet reports whether a setting has the given value anyway.
func isSet(setting string) bool {
	for word := range strings.FieldsSeq(fixed[strings.Index(fixed, "-parenb"):]) {
		if word == setting {
			return true
		}
	}
	return false
}

// capabilities are those of terminals such as xterm-256color. https://man7.org/linux/man-pages/man5/terminfo.5.html
var capabilities = map[string]string{
	"bold": "\x1b[1m", "dim": "\x1b[2m", "smul": "\x1b[4m", "rmul": "\x1b[24m", "rev": "\x1b[7m", "smso": "\x1b[7m", "rmso": "\x1b[27m", "sgr0": "\x1b(B\x1b[m",
	"clear": "\x1b[H\x1b[2J\x1b[3J", "el": "\x1b[K", "ed": "\x1b[J", "home": "\x1b[H", "cr": "\r", "bel": "\a", "op": "\x1b[39;49m",
}

// tput prints the size of the terminal or what changes how it shows text.
func tput(t *terminal, c *shell.Call) int {
	size := machine.Size{Columns: 80, Rows: 24}
	if t != nil {
		size = t.settings().size
	}
	args := c.Args[1:]
	if len(args) > 1 && args[0] == "-T" {
		args = args[2:]
	}
	if len(args) == 0 {
		fmt.Fprintln(c.Stderr, "usage: tput [-V] [-S] [-x] [-T term] capname")
		return 2
	}
	if t == nil && c.Getenv("TERM") == "" {
		fmt.Fprintln(c.Stderr, "tput: No value for $TERM and no -T specified")
		return 2
	}
	number := 0
	if len(args) > 1 {
		number, _ = strconv.Atoi(args[1]) // as tput does, a word is 0
	}
	switch name := args[0]; name {
	case "cols":
		fmt.Fprintln(c.Stdout, size.Columns)
	case "lines":
		fmt.Fprintln(c.Stdout, size.Rows)
	case "colors":
		fmt.Fprintln(c.Stdout, 256)
	case "setaf", "setab":
		fmt.Fprintf(c.Stdout, "\x1b[%d8;5;%dm", map[string]int{"setaf": 3, "setab": 4}[name], number&255)
	case "reset", "init":
		_, _ = c.Stdout.Write([]byte(capabilities["sgr0"])) // the reader may be closed
	default:
		text, ok := capabilities[name]
		if !ok {
			fmt.Fprintf(c.Stderr, "tput: unknown terminfo capability '%s'\n", name)
			return 4
		}
		_, _ = c.Stdout.Write([]byte(text))
	}
	return 0
}
