package ami

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// A control is one run of systemctl. Units other than services (sockets, timers,
// targets) do not exist.
type control struct {
	m *Machine
	c *shell.Call

	now, quiet, value, failedOnly bool
	properties                    map[string]bool // nil means all
}

func (m *Machine) systemctl(ctx context.Context, c *shell.Call) int {
	x := &control{m: m, c: c}
	var words []string
	args := c.Args[1:]
	for i := 0; i < len(args); i++ {
		switch name, value, given := strings.Cut(args[i], "="); {
		case args[i] == "--now":
			x.now = true
		case args[i] == "-q" || args[i] == "--quiet":
			x.quiet = true
		case args[i] == "--value":
			x.value = true
		case args[i] == "--failed":
			x.failedOnly = true
		case name == "-p" || name == "--property" || name == "-t" || name == "--type" || name == "--state" || name == "-n" || name == "-s" || name == "--signal":
			if !given && i+1 < len(args) {
				i++
				value = args[i]
			}
			switch {
			case name == "-p" || name == "--property":
				if x.properties == nil {
					x.properties = map[string]bool{}
				}
				for p := range strings.SplitSeq(value, ",") {
					x.properties[p] = true
				}
			case name == "--state" && value == "failed":
				x.failedOnly = true
			}
		case strings.HasPrefix(args[i], "-"):
		default:
			words = append(words, args[i])
		}
	}
	if len(words) == 0 {
		words = []string{"list-units"}
	}
	verb, units := words[0], words[1:]
	switch verb {
	case "daemon-reload", "daemon-reexec", "set-default", "reset-failed", "isolate":
		return 0
	case "get-default":
		fmt.Fprintln(c.Stdout, "multi-user.target")
		return 0
	case "is-system-running":
		fmt.Fprintln(c.Stdout, "running")
		return 0
	case "list-units":
		return x.list()
	case "list-unit-files":
		return x.listFiles()
	case "start", "restart", "try-restart", "reload", "reload-or-restart", "stop", "enable", "reenable", "disable", "mask", "unmask", "kill", "preset",
		"status", "show", "cat", "is-active", "is-enabled", "is-failed":
	default:
		return c.Fail("Unknown command verb %s.", verb)
	}
	if len(units) == 0 {
		return c.Fail("Too few arguments.")
	}
	status := 0
	for _, u := range units {
		if ctx.Err() != nil {
			return 143 // ended by SIGTERM
		}
		name := strings.TrimSuffix(u, ".service")
		if s := x.do(verb, name); s != 0 {
			status = s
		}
	}
	return status
}

// do applies a verb to one unit.
func (x *control) do(verb, name string) int {
	m, c := x.m, x.c
	svc := m.unit(c.FS, name)
	if svc == nil {
		return x.missing(verb, name)
	}
	if masked(c.FS, name) && slices.Contains([]string{"start", "restart", "reload-or-restart"}, verb) {
		fmt.Fprintf(c.Stderr, "Failed to %s %s.service: Unit %s.service is masked.\n", verb, name, name)
		return 1
	}
	if c.User != "" && c.User != "root" && slices.Contains([]string{"start", "restart", "reload", "reload-or-restart", "try-restart", "kill", "stop"}, verb) {
		fmt.Fprintf(c.Stderr, "Failed to %s %s.service: Interactive authentication required.\nSee system logs and 'systemctl status %s.service' for details.\n", verb, name, name)
		return 1
	}
	m.Refresh(name)
	m.mu.Lock()
	is := svc.state
	m.mu.Unlock()
	if name == "kubelet" {
		m.apply(c)
	}
	switch verb {
	case "start":
		m.start(name)
	case "restart", "reload", "reload-or-restart":
		m.stop(name)
		m.start(name)
	case "try-restart", "kill": // when killed, these services are restarted
		if is == active {
			m.stop(name)
			m.start(name)
		}
	case "stop":
		m.stop(name)
	case "enable", "reenable", "preset", "disable", "mask", "unmask":
		return x.boot(verb, name)
	case "status":
		return x.status(name)
	case "show":
		return x.show(name)
	case "cat":
		return x.cat(name)
	case "is-active":
		return x.answer(is.short(), is == active, 3)
	case "is-failed":
		return x.answer(is.short(), is == crashed || is == killed, 1)
	case "is-enabled":
		word := x.m.enabledWord(c.FS, name)
		return x.answer(word, word == "enabled" || word == "static", 1)
	}
	return 0
}

// answer prints a word, and returns the exit status for yes or no.
func (x *control) answer(word string, yes bool, no int) int {
	if !x.quiet {
		fmt.Fprintln(x.c.Stdout, word)
	}
	if yes {
		return 0
	}
	return no
}

func (m *Machine) enabledWord(files *vfs.FS, name string) string {
	switch {
	case masked(files, name):
		return "masked"
	case static(name):
		return "static"
	case enabled(files, name), slices.Contains(bootOnly, name):
		return "enabled"
	}
	return "disabled"
}

// bootOnly are services that run once at boot, whatever is linked.
var bootOnly = []string{"cloud-init", "cloud-final", "nodeadm-boot-hook", "nodeadm-config", "nodeadm-run"}

// missing reports that the unit does not exist, with systemctl's exit status.
func (x *control) missing(verb, name string) int {
	c := x.c
	switch verb {
	case "status":
		fmt.Fprintf(c.Stderr, "Unit %s.service could not be found.\n", name)
		return 4
	case "is-active", "is-failed":
		return x.answer("inactive", false, 3)
	case "cat":
		fmt.Fprintf(c.Stderr, "No files found for %s.service.\n", name)
		return 1
	case "show":
		return x.show(name)
	case "is-enabled":
		fmt.Fprintf(c.Stderr, "Failed to get unit file state for %s.service: No such file or directory\n", name)
		return 1
	case "enable", "reenable", "disable", "mask", "unmask", "preset":
		fmt.Fprintf(c.Stderr, "Failed to %s unit: Unit file %s.service does not exist.\n", verb, name)
		return 1
	case "kill":
		fmt.Fprintf(c.Stderr, "Failed to kill unit %s.service: Unit %s.service not loaded.\n", name, name)
		return 1
	}
	fmt.Fprintf(c.Stderr, "Failed to %s %s.service: Unit %s.service not found.\n", verb, name, name)
	return 5
}

// boot changes what starts at boot.
func (x *control) boot(verb, name string) int {
	m, c := x.m, x.c
	if c.User != "" && c.User != "root" {
		fmt.Fprintf(c.Stderr, "Failed to %s unit: Interactive authentication required.\n", verb)
		return 1
	}
	was := bootLinks(c.FS, name)
	for _, files := range []*vfs.FS{c.FS, m.FS} { // the second is the file system that a reboot finds
		var err error
		switch verb {
		case "enable", "reenable", "preset":
			if !static(name) {
				err = enable(files, name)
			}
		case "disable":
			disable(files, name)
		case "mask":
			if !masked(files, name) {
				_ = files.Remove(machineUnits + name + ".service") // Symlink reports any error
				err = files.Symlink("/dev/null", machineUnits+name+".service")
			}
		case "unmask":
			if masked(files, name) {
				err = files.Remove(machineUnits + name + ".service")
			}
		}
		if err != nil {
			return c.Fail("Failed to %s unit: %s", verb, err)
		}
		if c.FS == m.FS {
			break
		}
	}
	x.tellLinks(name, was)
	switch {
	case x.now && verb == "enable":
		m.start(name)
	case x.now && (verb == "disable" || verb == "mask"):
		m.stop(name)
	}
	return 0
}

// A bootLink is a link that decides whether a unit starts at boot. to is empty if there is none.
type bootLink struct{ name, to string }

func bootLinks(files *vfs.FS, unit string) []bootLink {
	out := []bootLink{{name: wants + unit + ".service"}, {name: machineUnits + unit + ".service"}}
	for i := range out {
		out[i].to, _ = files.Readlink(out[i].name) // there may be none, or a file of the machine's own
	}
	return out
}

// tellLinks prints which links were made and removed, as systemctl does. Amazon Linux 2's says it in other words.
func (x *control) tellLinks(unit string, was []bootLink) {
	made, removed := "Created symlink %s → %s.\n", "Removed \"%s\".\n"
	if x.m.In.Image.Family == images.AL2 {
		made, removed = "Created symlink from %s to %s.\n", "Removed symlink %s.\n"
	}
	for i, l := range bootLinks(x.c.FS, unit) {
		switch {
		case x.quiet || l == was[i]:
		case l.to != "":
			fmt.Fprintf(x.c.Stderr, made, l.name, l.to)
		default:
			fmt.Fprintf(x.c.Stderr, removed, l.name)
		}
	}
}

// statusLines is how many journal lines systemctl status shows.
const statusLines = 10

func (x *control) status(name string) int {
	m, c := x.m, x.c
	m.mu.Lock()
	svc := *m.services[name]
	m.mu.Unlock()
	dot := "○"
	switch svc.state {
	case active, restarting:
		dot = "●"
	case crashed, killed:
		dot = "×"
	}
	fmt.Fprintf(c.Stdout, "%s %s.service - %s\n     Loaded: loaded (%s%s.service; %s; preset: disabled)\n     Active: %s", dot, name, title(name), machineUnits, name, x.m.enabledWord(c.FS, name), svc.state)
	if !svc.since.IsZero() {
		fmt.Fprintf(c.Stdout, " since %s; %s ago", svc.since.UTC().Format("Mon 2006-01-02 15:04:05 MST"), m.world.Clock.Since(svc.since).Round(time.Second))
	}
	fmt.Fprintln(c.Stdout)
	if svc.state == active {
		fmt.Fprintf(c.Stdout, "   Main PID: %d (%s)\n", svc.pid, name)
	}
	if lines := m.Journal(name); len(lines) > 0 {
		fmt.Fprintln(c.Stdout)
		for _, l := range lines[max(0, len(lines)-statusLines):] {
			fmt.Fprintln(c.Stdout, l)
		}
	}
	if svc.state != active {
		return 3
	}
	return 0
}

// show prints properties: those asked for, otherwise those that scripts usually ask for.
func (x *control) show(name string) int {
	m, c := x.m, x.c
	m.mu.Lock()
	svc, loaded := service{state: inactive}, "not-found"
	if s := m.services[name]; s != nil {
		svc, loaded = *s, "loaded"
	}
	m.mu.Unlock()
	if masked(c.FS, name) {
		loaded = "masked"
	}
	pid := 0
	if svc.state == active {
		pid = svc.pid
	}
	known := []struct{ name, value string }{
		{"Id", name + ".service"}, {"Description", title(name)}, {"LoadState", loaded}, {"ActiveState", svc.state.short()}, {"SubState", svc.state.sub()},
		{"UnitFileState", x.m.enabledWord(c.FS, name)}, {"MainPID", fmt.Sprint(pid)}, {"FragmentPath", machineUnits + name + ".service"},
	}
	for _, p := range known {
		switch {
		case x.properties != nil && !x.properties[p.name]:
		case x.value:
			fmt.Fprintln(c.Stdout, p.value)
		default:
			fmt.Fprintf(c.Stdout, "%s=%s\n", p.name, p.value)
		}
	}
	return 0
}

func (x *control) cat(name string) int {
	for _, dir := range []string{machineUnits, packageUnits} {
		if b, err := x.c.FS.ReadFile(dir + name + ".service"); err == nil {
			fmt.Fprintf(x.c.Stdout, "# %s%s.service\n%s", dir, name, b)
			return 0
		}
	}
	fmt.Fprintf(x.c.Stdout, "# %s%s.service\n[Unit]\nDescription=%s\n", packageUnits, name, title(name))
	return 0
}

func (x *control) list() int {
	n := 0
	fmt.Fprintln(x.c.Stdout, "  UNIT LOAD ACTIVE SUB DESCRIPTION")
	for _, name := range x.m.names() {
		x.m.mu.Lock()
		s := x.m.services[name].state
		x.m.mu.Unlock()
		if x.failedOnly && s != crashed && s != killed || s == inactive {
			continue
		}
		n++
		fmt.Fprintf(x.c.Stdout, "  %s.service loaded %s %s %s\n", name, s.short(), s.sub(), title(name))
	}
	fmt.Fprintf(x.c.Stdout, "\n%d loaded units listed.\n", n)
	return 0
}

func (x *control) listFiles() int {
	names := x.m.names()
	fmt.Fprintln(x.c.Stdout, "UNIT FILE STATE PRESET")
	for _, name := range names {
		fmt.Fprintf(x.c.Stdout, "%s.service %s disabled\n", name, x.m.enabledWord(x.c.FS, name))
	}
	fmt.Fprintf(x.c.Stdout, "\n%d unit files listed.\n", len(names))
	return 0
}

func (m *Machine) serviceCommand(ctx context.Context, c *shell.Call) int {
	if len(c.Args) < 3 {
		return c.Fail("Usage: service < option > | --status-all | [ service_name [ command | --full-restart ] ]")
	}
	c.Args = []string{"systemctl", c.Args[2], c.Args[1]}
	return m.systemctl(ctx, c)
}
