package ami

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/node"
	"github.com/drydock-dev/drydock/internal/node/guest/shell"
	"github.com/drydock-dev/drydock/internal/node/guest/vfs"
)

// The states of a service, in systemd's words.
type state string

const (
	inactive   state = "inactive (dead)"
	active     state = "active (running)"
	restarting state = "activating (auto-restart) (Result: exit-code)"
)

type service struct {
	state state
	since time.Time
}

// wants is where systemd keeps which units start at boot, as links: they are on the
// disk, and outlive a boot.
const wants = "/etc/systemd/system/multi-user.target.wants/"

func enable(files *vfs.FS, unit string) error {
	if enabled(files, unit) {
		return nil
	}
	if err := files.MkdirAll(wants, 0o755); err != nil {
		return err
	}
	return files.Symlink("/etc/systemd/system/"+unit+".service", wants+unit+".service")
}

func disable(files *vfs.FS, unit string) { _ = files.Remove(wants + unit + ".service") } // it may not be enabled

func enabled(files *vfs.FS, unit string) bool {
	_, err := files.Lstat(wants + unit + ".service")
	return err == nil
}

// services are the units of an image that a node's life is about. containerd runs
// from boot, the kubelet once something starts it.
func services(f node.AMIFamily) []string {
	out := []string{"amazon-ssm-agent", "chronyd", "containerd", "kubelet", "sshd"}
	if f == node.AL2023 {
		out = append(out, "nodeadm-config", "nodeadm-run")
	}
	return out
}

// An entry is a line of the journal.
type entry struct {
	at   time.Time
	unit string
	text string
}

// maxJournal bounds the journal, in lines, and maxEntry each of them, in bytes.
const (
	maxJournal = 2000
	maxEntry   = 2 << 10
)

// Log adds a line to the journal of a unit.
func (m *Machine) Log(unit, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log(unit, text)
}

func (m *Machine) log(unit, text string) {
	text = text[:min(len(text), maxEntry)]
	if len(m.journal) >= maxJournal {
		m.journal = slices.Delete(m.journal, 0, maxJournal/4)
	}
	m.journal = append(m.journal, entry{m.world.Clock.Now(), unit, text})
}

func (m *Machine) setState(unit string, s state) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if u := m.services[unit]; u != nil && u.state != s {
		u.state, u.since = s, m.world.Clock.Now()
	}
}

// StartServices starts what an image starts at boot, and what was enabled since.
func (m *Machine) StartServices() {
	for _, name := range []string{"containerd", "sshd", "chronyd", "amazon-ssm-agent"} {
		m.start(name)
	}
	list, _ := m.FS.ReadDir(wants) // nothing was enabled if it is not there
	for _, e := range list {
		name := strings.TrimSuffix(e.Name(), ".service")
		m.mu.Lock()
		if m.services[name] == nil {
			m.services[name] = &service{state: inactive}
		}
		m.mu.Unlock()
		m.start(name)
	}
}

// start starts a unit; starting what runs does nothing.
func (m *Machine) start(unit string) {
	m.mu.Lock()
	u := m.services[unit]
	if u.state == active {
		m.mu.Unlock()
		return
	}
	u.state, u.since = active, m.world.Clock.Now()
	m.log("systemd", "Started "+unit+".service.")
	m.mu.Unlock()
	m.changed(unit)
}

func (m *Machine) stop(unit string) {
	m.mu.Lock()
	u := m.services[unit]
	was := u.state
	u.state, u.since = inactive, m.world.Clock.Now()
	if was != inactive {
		m.log("systemd", "Stopped "+unit+".service.")
	}
	m.mu.Unlock()
	if was != inactive {
		m.changed(unit)
	}
}

func (m *Machine) changed(unit string) {
	if unit == "kubelet" {
		select {
		case m.kubelet <- struct{}{}:
		default:
		}
	}
}

// systemctl knows start, stop, restart, enable, disable, status, is-active,
// is-enabled and daemon-reload.
func (m *Machine) systemctl(_ context.Context, c *shell.Call) int {
	var words []string
	now := false
	for _, a := range c.Args[1:] {
		switch {
		case a == "--now":
			now = true
		case strings.HasPrefix(a, "-"):
		default:
			words = append(words, a)
		}
	}
	if len(words) == 0 {
		return c.Fail("Too few arguments.")
	}
	verb, units := words[0], words[1:]
	if verb == "daemon-reload" || verb == "daemon-reexec" || verb == "set-default" || verb == "reset-failed" {
		return 0
	}
	status := 0
	for _, u := range units {
		name := strings.TrimSuffix(u, ".service")
		m.mu.Lock()
		svc := m.services[name]
		if _, err := c.FS.Stat("/etc/systemd/system/" + name + ".service"); svc == nil && err == nil {
			// A unit that user data brought: it is started and stopped, and runs nothing.
			svc = &service{state: inactive}
			m.services[name] = svc
		}
		m.mu.Unlock()
		if svc == nil {
			switch verb {
			case "status", "is-active":
				fmt.Fprintf(c.Stderr, "Unit %s.service could not be found.\n", name)
				status = 4
			case "enable", "disable", "mask", "unmask":
				fmt.Fprintf(c.Stderr, "Failed to %s unit: Unit file %s.service does not exist.\n", verb, name)
				status = 1
			default:
				fmt.Fprintf(c.Stderr, "Failed to %s %s.service: Unit %s.service not found.\n", verb, name, name)
				status = 5
			}
			continue
		}
		switch verb {
		case "start", "reload-or-restart":
			m.start(name)
		case "restart", "try-restart", "reload":
			m.stop(name)
			m.start(name)
		case "stop":
			m.stop(name)
		case "enable", "disable", "mask", "unmask":
			for _, files := range []*vfs.FS{c.FS, m.FS} { // the second is what a reboot finds
				if verb != "enable" {
					disable(files, name)
				} else if err := enable(files, name); err != nil {
					return c.Fail("Failed to enable unit: %s", err)
				}
			}
			if now && verb == "enable" {
				m.start(name)
			} else if now {
				m.stop(name)
			}
		case "status":
			if s := m.status(c, name); s != 0 {
				status = s
			}
		case "is-active":
			m.mu.Lock()
			is := svc.state
			m.mu.Unlock()
			word, _, _ := strings.Cut(string(is), " ")
			fmt.Fprintln(c.Stdout, word)
			if is != active {
				status = 3
			}
		case "is-enabled":
			if enabled(c.FS, name) {
				fmt.Fprintln(c.Stdout, "enabled")
			} else {
				fmt.Fprintln(c.Stdout, "disabled")
				status = 1
			}
		default:
			return c.Fail("Unknown command verb %s.", verb)
		}
	}
	return status
}

func (m *Machine) serviceCommand(ctx context.Context, c *shell.Call) int {
	if len(c.Args) < 3 {
		return c.Fail("Usage: service < option > | --status-all | [ service_name [ command | --full-restart ] ]")
	}
	c.Args = []string{"systemctl", c.Args[2], c.Args[1]}
	return m.systemctl(ctx, c)
}

// statusLines is how much of the journal systemctl status shows.
const statusLines = 10

func (m *Machine) status(c *shell.Call, name string) int {
	m.mu.Lock()
	svc := *m.services[name]
	m.mu.Unlock()
	dot, atBoot := "○", "disabled"
	if enabled(c.FS, name) {
		atBoot = "enabled"
	}
	if svc.state == active {
		dot = "●"
	}
	fmt.Fprintf(c.Stdout, "%s %s.service - %s\n     Loaded: loaded (/etc/systemd/system/%s.service; %s; preset: disabled)\n     Active: %s", dot, name, title(name), name, atBoot, svc.state)
	if !svc.since.IsZero() {
		fmt.Fprintf(c.Stdout, " since %s; %s ago", svc.since.UTC().Format("Mon 2006-01-02 15:04:05 MST"), m.world.Clock.Since(svc.since).Round(time.Second))
	}
	fmt.Fprintln(c.Stdout)
	if lines := m.lines(name); len(lines) > 0 {
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

func title(name string) string {
	switch name {
	case "kubelet":
		return "Kubernetes Kubelet"
	case "containerd":
		return "containerd container runtime"
	case "amazon-ssm-agent":
		return "amazon-ssm-agent"
	}
	return name
}

// lines is the journal of a unit, or of all for "".
func (m *Machine) lines(unit string) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	host, _, _ := strings.Cut(m.In.PrivateDNSName, ".")
	var out []string
	for _, e := range m.journal {
		if unit == "" || e.unit == unit || e.unit == "systemd" && strings.Contains(e.text, " "+unit+".service") {
			out = append(out, fmt.Sprintf("%s %s %s[1]: %s", e.at.UTC().Format("Jan 02 15:04:05"), host, e.unit, e.text))
		}
	}
	return out
}

// Journal returns the journal of a unit, oldest line first; of all units for "".
func (m *Machine) Journal(unit string) []string { return m.lines(unit) }

func (m *Machine) journalctl(_ context.Context, c *shell.Call) int {
	unit, n := "", 0
	args := c.Args[1:]
	for i := 0; i < len(args); i++ {
		switch a := args[i]; {
		case (a == "-u" || a == "--unit") && i+1 < len(args):
			i++
			unit = strings.TrimSuffix(args[i], ".service")
		case strings.HasPrefix(a, "--unit="):
			unit = strings.TrimSuffix(strings.TrimPrefix(a, "--unit="), ".service")
		case (a == "-n" || a == "--lines") && i+1 < len(args):
			i++
			_, _ = fmt.Sscan(args[i], &n) // all of them if it is no number
		}
	}
	lines := m.lines(unit)
	if len(lines) == 0 {
		fmt.Fprintln(c.Stdout, "-- No entries --")
		return 0
	}
	if n > 0 {
		lines = lines[max(0, len(lines)-n):]
	}
	for _, l := range lines {
		if _, err := fmt.Fprintln(c.Stdout, l); err != nil {
			return 1
		}
	}
	return 0
}
