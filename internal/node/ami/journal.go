package ami

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
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
	m.logged++
	if m.grown != nil {
		close(m.grown)
		m.grown = nil
	}
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

// A selection says which part of the journal to return, and how.
type selection struct {
	units      map[string]bool // empty means all
	since      time.Time
	identifier string
	grep       *regexp.Regexp
	after      int    // skip this many entries, counted from boot
	format     string // the argument of -o
}

// lines returns the selected lines of the journal. logged is how many entries there have been since boot, and grown is
// closed when there are more.
func (m *Machine) lines(s selection) (out []string, logged int, grown <-chan struct{}) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.grown == nil {
		m.grown = make(chan struct{})
	}
	host, _, _ := strings.Cut(m.In.PrivateDNSName, ".")
	for _, e := range m.journal[max(0, len(m.journal)-(m.logged-s.after)):] {
		if len(s.units) > 0 && !s.units[e.unit] || e.at.Before(s.since) || s.identifier != "" && s.identifier != e.from || s.grep != nil && !s.grep.MatchString(e.text) {
			continue
		}
		at := ""
		switch s.format {
		case "cat":
			out = append(out, e.text)
			continue
		case "json":
			b, _ := json.Marshal(map[string]string{ // strings always encode
				"MESSAGE": e.text, "_SYSTEMD_UNIT": e.unit + ".service", "SYSLOG_IDENTIFIER": e.from, "_PID": strconv.Itoa(e.pid), "_HOSTNAME": host,
				"__REALTIME_TIMESTAMP": strconv.FormatInt(e.at.UnixMicro(), 10),
			})
			out = append(out, string(b))
			continue
		case "short-iso":
			at = e.at.UTC().Format("2006-01-02T15:04:05-0700")
		case "short-precise":
			at = e.at.UTC().Format("Jan 02 15:04:05.000000")
		default:
			at = e.at.UTC().Format("Jan 02 15:04:05")
		}
		out = append(out, fmt.Sprintf("%s %s %s[%d]: %s", at, host, e.from, e.pid, e.text))
	}
	return out, m.logged, m.grown
}

// Journal returns the journal of a unit, or of all units if unit is "", oldest line first.
func (m *Machine) Journal(unit string) []string {
	s := selection{}
	if unit != "" {
		s.units = map[string]bool{unit: true}
	}
	out, _, _ := m.lines(s)
	return out
}

// MessagesLog is the file to which rsyslog writes the journal. It has maxMessages lines here, and maxMessagesSize bytes, or fewer.
// A larger one, which something else must have written, is begun again.
const (
	MessagesLog     = "/var/log/messages"
	maxMessages     = 500
	maxMessagesSize = 1 << 20
)

// WriteMessages writes rsyslog's log.
func (m *Machine) WriteMessages() {
	m.WriteMessagesTo(m.FS, func(text []byte) error {
		f, err := m.FS.Open(MessagesLog, os.O_WRONLY|os.O_CREATE|os.O_APPEND, 0o600)
		if err != nil {
			return err
		}
		_, err = f.Write(text)
		return errors.Join(err, f.Close())
	})
}

// WriteMessagesTo writes rsyslog's log to the given files. add appends to it. What could not be written, perhaps because the disk
// is full, is written by a later call.
func (m *Machine) WriteMessagesTo(files machine.Files, add func(text []byte) error) {
	m.messages.Lock()
	defer m.messages.Unlock()
	if !m.Active("rsyslog") {
		return
	}
	lines, logged, _ := m.lines(selection{after: m.written})
	if len(lines) == 0 {
		return
	}
	text := []byte(strings.Join(lines, "\n") + "\n")
	old, size, perm, err := messages(files)
	switch {
	case err != nil:
		return
	case size+int64(len(text)) <= maxMessagesSize && bytes.Count(old, []byte("\n"))+len(lines) <= maxMessages:
		err = add(text)
	default:
		err = replaceMessages(files, append(old, text...), perm)
	}
	if err == nil {
		m.written = logged
	}
}

// messages returns the content of rsyslog's log, unless it is too large, and its size and permissions.
func messages(files machine.Files) (text []byte, size int64, perm fs.FileMode, err error) {
	i, err := files.Stat(MessagesLog)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, 0, 0o600, nil
	case err != nil:
		return nil, 0, 0, err
	case !i.Mode().IsRegular():
		return nil, 0, 0, errors.New(MessagesLog + " is no regular file")
	case i.Size() <= maxMessagesSize:
		text, err = files.ReadFile(MessagesLog)
	}
	return text, i.Size(), i.Mode().Perm(), err
}

// replaceMessages removes the beginning of the log, which is replaced as a whole so that a full disk leaves it as it is.
func replaceMessages(files machine.Files, text []byte, perm fs.FileMode) error {
	lines := bytes.SplitAfter(text, []byte("\n"))
	lines = lines[max(0, len(lines)-1-maxMessages*4/5):] // the last one is empty; not each call should have to do this
	text = bytes.Join(lines, nil)
	for len(text) > maxMessagesSize/2 {
		text = text[bytes.IndexByte(text, '\n')+1:]
	}
	const next = MessagesLog + ".new"
	err := files.RemoveAll(next)
	if err == nil {
		err = files.WriteFile(next, text, perm)
	}
	if err == nil {
		err = files.Rename(next, MessagesLog)
	}
	if err != nil {
		return errors.Join(err, files.RemoveAll(next))
	}
	return nil
}

// separated returns a command's arguments with combined short options separated: -fu kubelet becomes -f -u kubelet.
// An option in valued takes the rest of its word as its value. Times after -S and -U may begin with a hyphen.
func separated(args []string, valued string) []string {
	var out []string
	for i, a := range args {
		if i > 0 && slices.Contains([]string{"-S", "-U", "--since", "--until"}, args[i-1]) { // -1h is a time
			out = append(out, a)
			continue
		}
		if len(a) < 3 || a[0] != '-' || a[1] == '-' {
			out = append(out, a)
			continue
		}
		for i := 1; i < len(a); i++ {
			out = append(out, "-"+a[i:i+1])
			if strings.IndexByte(valued, a[i]) >= 0 && i+1 < len(a) {
				out = append(out, a[i+1:])
				break
			}
		}
	}
	return out
}

// journalctl shows the journal of this boot. With -f, it continues until ctx ends or its output is no longer read, if the
// output is a shell.Flusher.
func (m *Machine) journalctl(ctx context.Context, c *shell.Call) int {
	s := selection{units: map[string]bool{}}
	n, reverse, follow := -1, false, false
	args := separated(c.Args[1:], "untopSUg")
	for i := 0; i < len(args); i++ {
		name, value, given := strings.Cut(args[i], "=")
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
		case "-g", "--grep":
			var err error
			if s.grep, err = regexp.Compile(take()); err != nil {
				return c.Fail("Bad pattern: %s", err)
			}
		case "-n", "--lines":
			v := "10"
			if given || i+1 < len(args) && !strings.HasPrefix(args[i+1], "-") {
				v = take()
			}
			if v != "all" {
				var err error
				if n, err = strconv.Atoi(strings.TrimPrefix(v, "+")); err != nil || n < 0 {
					return c.Fail("Failed to parse lines '%s'", v)
				}
			}
		case "-o", "--output":
			switch s.format = take(); s.format {
			case "cat", "json", "short", "short-iso", "short-precise", "with-unit":
			default:
				return c.Fail("Unknown output format '%s'.", s.format)
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
		case "-f", "--follow":
			follow = true
		case "-b", "--boot", "-e", "--pager-end", "-x", "--catalog", "-l", "--full", "-a", "--all", "-q", "--quiet", "-m", "--no-pager", "--no-hostname", "--no-tail", "--utc", "--flush", "--sync":
		default:
			if strings.HasPrefix(name, "-") {
				return c.Fail("unrecognized option '%s'", name)
			}
			return c.Fail("Failed to add match '%s': Invalid argument", args[i])
		}
	}
	flusher, streams := c.Stdout.(shell.Flusher)
	if follow && n < 0 {
		n = 10
	}
	lines, logged, grown := m.lines(s)
	if len(lines) == 0 && !follow {
		fmt.Fprintln(c.Stdout, "-- No entries --")
		return 0
	}
	if n >= 0 {
		lines = lines[max(0, len(lines)-n):]
	}
	if reverse {
		slices.Reverse(lines)
	}
	for {
		for _, l := range lines {
			if _, err := fmt.Fprintln(c.Stdout, l); err != nil {
				return 1
			}
		}
		if !follow || !streams {
			return 0
		}
		if flusher.Flush() != nil {
			return 1
		}
		select {
		case <-grown:
		case <-ctx.Done():
			return 130
		}
		s.after = logged
		lines, logged, grown = m.lines(s)
	}
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
