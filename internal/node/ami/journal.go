package ami

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// An entry is a line of the journal.
type entry struct {
	at   time.Time
	unit string // the unit that it concerns
	from string // the program that wrote it
	pid  int
	text string
}

// maxJournal bounds the journal, in lines, and maxEntry each of them, in bytes.
const (
	maxJournal = 2000
	maxEntry   = 2 << 10
)

// Log adds a line of a unit's own program to the journal.
func (m *Machine) Log(unit, text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.log(unit, unit, text)
}

func (m *Machine) log(unit, from, text string) {
	pid := 1
	if s := m.services[unit]; s != nil && from != "systemd" {
		if s.pid == 0 {
			s.pid = m.nextPID()
		}
		pid = s.pid
	}
	if len(m.journal) >= maxJournal {
		m.journal = slices.Delete(m.journal, 0, maxJournal/4)
	}
	m.journal = append(m.journal, entry{m.world.Clock.Now(), unit, from, pid, text[:min(len(text), maxEntry)]})
}

// tell logs what systemd writes about a unit: since version 250 with the unit's name, on Amazon Linux 2 (version 219)
// only with its description. The caller holds the lock. https://github.com/systemd/systemd/blob/main/NEWS (v250,
// StatusUnitFormat=combined)
func (m *Machine) tell(unit, what, rest string) {
	name := unit + ".service - " + title(unit)
	if m.In.Image.Family == images.AL2 {
		name = title(unit)
	} else if title(unit) == unit {
		name = unit + ".service"
	}
	if rest == "" {
		rest = "."
	}
	m.log(unit, "systemd", what+" "+name+rest)
}

// A selection says which part of the journal to return.
type selection struct {
	units      map[string]bool // empty means all
	since      time.Time
	identifier string
	cat        bool // only the messages
	json       bool
}

// lines returns the journal of units, or of all units if none are given.
func (m *Machine) lines(s selection) []string {
	m.mu.Lock()
	defer m.mu.Unlock()
	host, _, _ := strings.Cut(m.In.PrivateDNSName, ".")
	var out []string
	for _, e := range m.journal {
		switch {
		case len(s.units) > 0 && !s.units[e.unit] || e.at.Before(s.since) || s.identifier != "" && s.identifier != e.from:
		case s.cat:
			out = append(out, e.text)
		case s.json:
			b, _ := json.Marshal(map[string]string{ // strings always encode
				"MESSAGE": e.text, "_SYSTEMD_UNIT": e.unit + ".service", "SYSLOG_IDENTIFIER": e.from, "_PID": strconv.Itoa(e.pid), "_HOSTNAME": host,
				"__REALTIME_TIMESTAMP": strconv.FormatInt(e.at.UnixMicro(), 10),
			})
			out = append(out, string(b))
		default:
			out = append(out, fmt.Sprintf("%s %s %s[%d]: %s", e.at.UTC().Format("Jan 02 15:04:05"), host, e.from, e.pid, e.text))
		}
	}
	return out
}

// Journal returns the journal of a unit, oldest line first; of all units for "".
func (m *Machine) Journal(unit string) []string {
	if unit == "" {
		return m.lines(selection{})
	}
	return m.lines(selection{units: map[string]bool{unit: true}})
}

// journalctl shows the journal of this boot; -f shows the existing lines and exits.
func (m *Machine) journalctl(_ context.Context, c *shell.Call) int {
	s := selection{units: map[string]bool{}}
	n, reverse := -1, false
	args := c.Args[1:]
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
		if short := args[i]; len(short) > 2 && short[0] == '-' && strings.IndexByte("untopS", short[1]) >= 0 && short[1] != '-' {
			name, value, given = short[:2], short[2:], true
		}
		take := func() string {
			if !given && i+1 < len(args) {
				i++
				return args[i]
			}
			return value
		}
		switch name {
		case "-u", "--unit":
			s.units[strings.TrimSuffix(take(), ".service")] = true
		case "-t", "--identifier":
			s.identifier = take()
		case "-n", "--lines":
			if v := take(); v != "all" {
				var err error
				if n, err = strconv.Atoi(strings.TrimPrefix(v, "+")); err != nil || n < 0 {
					return c.Fail("Failed to parse lines '%s'", v)
				}
			}
		case "-o", "--output":
			switch v := take(); v {
			case "cat":
				s.cat = true
			case "json":
				s.json = true
			case "short", "short-iso", "short-precise", "with-unit":
			default:
				return c.Fail("Unknown output format '%s'.", v)
			}
		case "-S", "--since":
			v := take()
			t, err := since(v, m.world.Clock.Now())
			if err != nil {
				return c.Fail("Failed to parse timestamp: %s", v)
			}
			s.since = t
		case "-p", "--priority", "-U", "--until":
			return c.Fail("%s is not supported on simulated nodes", name)
		case "-r", "--reverse":
			reverse = true
		case "-k", "--dmesg":
			fmt.Fprintln(c.Stdout, "-- No entries --")
			return 0
		case "-f", "--follow", "-b", "--boot", "-e", "--pager-end", "-x", "--catalog", "-xe", "-xeu", "-xu", "-fu", "-l", "--full", "-a", "--all", "-q", "--quiet", "-m", "--no-pager", "--no-hostname", "--utc", "--flush", "--sync":
			if strings.HasSuffix(name, "u") {
				s.units[strings.TrimSuffix(take(), ".service")] = true
			}
			if name == "-f" || name == "--follow" || name == "-fu" {
				n = max(n, 10)
			}
		default:
			if strings.HasPrefix(name, "-") {
				return c.Fail("unrecognized option '%s'", name)
			}
			return c.Fail("Failed to add match '%s': Invalid argument", args[i])
		}
	}
	lines := m.lines(s)
	if len(lines) == 0 {
		fmt.Fprintln(c.Stdout, "-- No entries --")
		return 0
	}
	if n >= 0 {
		lines = lines[max(0, len(lines)-n):]
	}
	if reverse {
		slices.Reverse(lines)
	}
	for _, l := range lines {
		if _, err := fmt.Fprintln(c.Stdout, l); err != nil {
			return 1
		}
	}
	return 0
}

// since parses the argument of --since: a date, or a time span before now.
func since(s string, now time.Time) (time.Time, error) {
	switch s {
	case "today":
		return now.Truncate(24 * time.Hour), nil
	case "yesterday":
		return now.Truncate(24 * time.Hour).Add(-24 * time.Hour), nil
	}
	for _, layout := range []string{"2006-01-02 15:04:05", "2006-01-02 15:04", "2006-01-02", time.RFC3339} {
		if t, err := time.Parse(layout, s); err == nil {
			return t, nil
		}
	}
	text := strings.TrimSuffix(strings.TrimPrefix(strings.TrimSpace(s), "-"), " ago")
	for _, unit := range []struct{ word, short string }{{"seconds", "s"}, {"second", "s"}, {"sec", "s"}, {"minutes", "m"}, {"minute", "m"}, {"min", "m"}, {"hours", "h"}, {"hour", "h"}} {
		if v, ok := strings.CutSuffix(text, unit.word); ok {
			text = strings.TrimSpace(v) + unit.short
			break
		}
	}
	d, err := time.ParseDuration(strings.ReplaceAll(text, " ", ""))
	return now.Add(-d), err
}
