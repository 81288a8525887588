package shell

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strconv"
	"strings"
)

// A Signal is the number of a signal on Linux.
type Signal int

// Signals that shells on terminals know by name.
const (
	SIGHUP  Signal = 1
	SIGINT  Signal = 2
	SIGQUIT Signal = 3
	SIGKILL Signal = 9
	SIGTERM Signal = 15
	SIGCONT Signal = 18
	SIGSTOP Signal = 19
	SIGTSTP Signal = 20
)

var signals = map[string]Signal{
	"HUP": SIGHUP, "INT": SIGINT, "QUIT": SIGQUIT, "KILL": SIGKILL, "TERM": SIGTERM, "CONT": SIGCONT, "STOP": SIGSTOP, "TSTP": SIGTSTP,
	"ABRT": 6, "USR1": 10, "USR2": 12, "PIPE": 13, "ALRM": 14,
}

// String returns what bash says about a job that the signal has ended.
func (s Signal) String() string {
	switch s {
	case SIGHUP:
		return "Hangup"
	case SIGINT:
		return "Interrupt"
	case SIGQUIT:
		return "Quit"
	case SIGKILL:
		return "Killed"
	case SIGTERM:
		return "Terminated"
	}
	return fmt.Sprintf("Signal %d", int(s))
}

// KillOperands returns the signal and the targets of the command kill. The error is the text that bash prints.
func KillOperands(args []string) (Signal, []string, error) {
	signal, rest := SIGTERM, args[1:]
	if len(rest) > 0 && len(rest[0]) > 1 && strings.HasPrefix(rest[0], "-") && rest[0] != "--" {
		name := rest[0][1:]
		if rest = rest[1:]; (name == "s" || name == "n") && len(rest) > 0 {
			name, rest = rest[0], rest[1:]
		}
		known, ok := signals[strings.TrimPrefix(strings.ToUpper(name), "SIG")]
		if n, err := strconv.Atoi(name); err == nil && n >= 0 && n <= 64 {
			known, ok = Signal(n), true
		}
		if !ok {
			return 0, nil, fmt.Errorf("%s: invalid signal specification", name)
		}
		signal = known
	}
	if len(rest) > 0 && rest[0] == "--" {
		rest = rest[1:]
	}
	if len(rest) == 0 {
		return 0, nil, errors.New("usage: kill [-s sigspec | -n signum | -sigspec] pid | jobspec ... or kill -l [sigspec]")
	}
	return signal, rest, nil
}

// kill ends jobs and processes, which are outside of this package. What a script has started in the background ends with it.
func kill(ctx context.Context, m *machine, c *Call) (int, error) {
	if len(c.Args) > 1 && c.Args[1] == "-l" {
		fmt.Fprintln(c.Stdout, "HUP INT QUIT ABRT KILL USR1 USR2 PIPE ALRM TERM CONT STOP TSTP")
		return 0, nil
	}
	_, targets, err := KillOperands(c.Args)
	if err != nil {
		return c.Fail("%v", err), nil
	}
	status := 0
	for _, target := range targets {
		if strings.HasPrefix(target, "g") { // a process ID of the interpreter
			continue
		}
		call := *c
		call.Args = append(c.Args[:len(c.Args)-len(targets):len(c.Args)-len(targets)], target)
		if s, found := m.beyond(ctx, &call); found {
			status = max(status, s)
			continue
		}
		if _, err := strconv.Atoi(target); err == nil {
			target = "(" + target + ")"
		}
		status = c.Fail("%s - No such process", target)
	}
	return status, nil
}

// jobControl is jobs, fg, bg, disown and wait. Shells on terminals run them outside of this package; a script has no jobs.
func jobControl(ctx context.Context, m *machine, c *Call) (int, error) {
	if status, found := m.beyond(ctx, c); found {
		return status, nil
	}
	switch name := path.Base(c.Args[0]); {
	case name == "fg", name == "bg":
		return c.Fail("no job control"), nil
	case name == "disown":
		return c.Fail("current: no such job"), nil
	case name == "wait" && len(c.Args) > 1:
		c.Fail("pid %s is not a child of this shell", c.Args[1])
		return statusNotFound, nil
	}
	return 0, nil
}
