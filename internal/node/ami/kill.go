package ami

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// kill ends the main processes of services. systemd starts these services again.
func (m *Machine) kill(_ context.Context, c *shell.Call) int {
	signal, targets, err := shell.KillOperands(c.Args)
	if err != nil {
		return c.Fail("%v", err)
	}
	all, status := m.processes(c), 0
	for _, target := range targets {
		pid, err := strconv.Atoi(target)
		if err != nil {
			status = c.Fail("%s: arguments must be process or job IDs", target)
			continue
		}
		i := slices.IndexFunc(all, func(p process) bool { return p.pid == pid })
		switch {
		case i < 0:
			status = c.Fail("(%d) - No such process", pid)
		case c.User != "" && c.User != "root":
			status = c.Fail("(%d) - Operation not permitted", pid)
		case all[i].unit != "" && ends(signal):
			(&control{m: m, c: c}).do("kill", all[i].unit)
		}
	}
	return status
}

// ends reports whether a signal ends a service: others only reload it, or continue it.
func ends(s shell.Signal) bool {
	return s != 0 && s != shell.SIGHUP && s != shell.SIGCONT && s != shell.SIGSTOP && s != shell.SIGTSTP
}

// pkill is pkill, pgrep and pidof: it ends, or lists, the processes whose names contain an operand, or with -x and for pidof
// are equal to it.
func (m *Machine) pkill(_ context.Context, c *shell.Call) int {
	program, signal, status := path.Base(c.Args[0]), shell.SIGTERM, 1
	exact, full, long := program == "pidof", false, false
	var names, found []string
	for _, a := range c.Args[1:] {
		switch {
		case a == "-x":
			exact = true
		case a == "-f":
			full = true
		case (a == "-l" || a == "-a") && program == "pgrep":
			long = true
		case strings.HasPrefix(a, "-") && program == "pkill":
			s, _, err := shell.KillOperands([]string{program, a, "1"})
			if err != nil {
				return c.Fail("%v", err)
			}
			signal = s
		case strings.HasPrefix(a, "-"):
			return c.Fail("invalid option -- '%s'", strings.TrimLeft(a, "-"))
		default:
			names = append(names, a)
		}
	}
	if len(names) == 0 && program != "pidof" {
		c.Fail("no matching criteria specified")
		return 2
	}
	all := m.processes(c)
	for _, p := range all[:len(all)-1] { // not this program
		name := p.name()
		if full {
			name = p.command
		}
		if !slices.ContainsFunc(names, func(n string) bool { return n == name || !exact && strings.Contains(name, n) }) {
			continue
		}
		switch status = 0; {
		case program != "pkill" && long:
			found = append(found, fmt.Sprintf("%d %s", p.pid, name))
		case program != "pkill":
			found = append(found, strconv.Itoa(p.pid))
		case c.User != "" && c.User != "root":
			status = c.Fail("killing pid %d failed: Operation not permitted", p.pid)
		case p.unit != "" && ends(signal):
			(&control{m: m, c: c}).do("kill", p.unit)
		}
	}
	separator := "\n"
	if program == "pidof" {
		separator = " "
	}
	if len(found) > 0 {
		fmt.Fprintln(c.Stdout, strings.Join(found, separator))
	}
	return status
}
