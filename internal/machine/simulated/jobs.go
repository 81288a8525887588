package simulated

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"

	"mvdan.cc/sh/v3/syntax"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
	"github.com/drydock-dev/drydock/internal/machine/guest/vfs"
)

// A job is a command line of a shell on a terminal, or a part of one that ends with &. What has a number is in the shell's
// list of jobs: it runs in the background, or has been stopped. The terminal's mu guards the fields after pause.
type job struct {
	t         *terminal
	shell     *loginShell
	text      string        // as bash prints it
	interrupt chan struct{} // closed to end it
	pause     chan bool

	number, pid int
	interrupted bool
	signal      shell.Signal // that has ended it, or 0
	stopped     bool
	input       bool // it was stopped because it read the terminal in the background
	told        bool // its state has been printed since it last changed
	ended       bool
	res         shell.Result
	err         error // why its shell cannot continue
}

// maxJobs is how many jobs a machine's shells have in their lists, because each has a process.
const maxJobs = 8

// firstJob is the process ID of the first job. Services have lower ones.
const firstJob = 32_000

// A part of a command line is a job of its own.
type part struct {
	text       string
	background bool
}

// parts splits a command line at each & that is not within a compound command.
func parts(command string) []part {
	f, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(command+"\n"), "")
	if err != nil || !slices.ContainsFunc(f.Stmts, func(s *syntax.Stmt) bool { return s.Background }) {
		return []part{{text: command}}
	}
	var out []part
	var before []*syntax.Stmt
	flush := func() {
		if len(before) > 0 {
			out = append(out, part{text: printed(&syntax.File{Stmts: before})})
			before = nil
		}
	}
	for _, s := range f.Stmts {
		if !s.Background {
			before = append(before, s)
			continue
		}
		flush()
		s.Background = false
		out = append(out, part{text: printed(s, syntax.SingleLine(true)), background: true})
	}
	flush()
	return out
}

func printed(node syntax.Node, options ...syntax.PrinterOption) string {
	var b bytes.Buffer
	_ = syntax.NewPrinter(options...).Print(&b, node) // it was just parsed
	return strings.TrimSpace(b.String())
}

// launch starts a command of a shell. It returns nil if the machine has too many jobs in the background. The goroutine ends
// with ctx at the latest.
func (t *terminal) launch(ctx context.Context, s *loginShell, command string, background bool) *job {
	j := &job{t: t, shell: s, text: command, interrupt: make(chan struct{}), pause: make(chan bool, 16)}
	t.mu.Lock()
	switch {
	case background:
		if !t.enlist(j) {
			t.mu.Unlock()
			return nil
		}
	case t.pending:
		t.pending = false
		j.end(shell.SIGINT)
	default:
		t.front = j
	}
	t.mu.Unlock()
	run := t.c.job()
	in := &input{j: j}
	state := *s.state
	size := t.settings().size // as with bash's checkwinsize
	state.Script = fmt.Appendf(slices.Clone(state.Script), "LINES=%d\nCOLUMNS=%d\n", size.Rows, size.Columns)
	run.Terminal, run.State, run.Interrupt, run.Pause = true, &state, j.interrupt, j.pause
	run.Script, run.Name, run.User, run.Dir = []byte(command), s.program(), s.user.Name, state.Dir
	run.Env = append(slices.Clone(s.env), environment(s.user)...)
	run.Stdin, run.Stdout, run.Stderr = in, t.screen, t.screen
	run.Outside = onTerminalOf(t, t.c.image.Outside)
	if !background {
		others := run.Outside
		run.Outside = func(ctx context.Context, c *shell.Call) (int, bool) {
			if status, ok := j.control(ctx, c); ok {
				return status, ok
			}
			return others(ctx, c)
		}
	}
	t.jobs.Go(func() {
		before := run.FS.Image()
		res, err := t.c.runJob(ctx, run)
		killed := err != nil // it took too long, used too much memory or ran too many commands
		if err = nil; len(vfs.Diff(before, run.FS.Image())) > 0 {
			t.c.volume.touch()
			if err = t.c.save(); err != nil {
				err = fmt.Errorf("saving the root volume: %w", err)
			}
		}
		t.mu.Lock()
		defer t.mu.Unlock()
		defer t.changed.Broadcast()
		switch {
		case j.interrupted:
			res = shell.Result{Status: 128 + int(j.signal)}
		case killed:
			j.signal = shell.SIGKILL
			res = shell.Result{Status: 137}
		}
		if j.number > 0 {
			t.c.jobs.Add(-1)
		}
		j.ended, j.stopped, j.told, j.res, j.err = true, false, false, res, err
	})
	return j
}

// program is the shell's $0.
func (s *loginShell) program() string {
	if s.login {
		return "-" + s.name
	}
	return s.name
}

// enlist adds a job to its shell's list and returns false if there is no room for it. t.mu is held.
func (t *terminal) enlist(j *job) bool {
	if j.number > 0 {
		return true
	}
	if t.c.jobs.Add(1) > maxJobs {
		t.c.jobs.Add(-1)
		return false
	}
	for _, other := range j.shell.jobs {
		j.number = max(j.number, other.number)
	}
	j.number++
	j.pid = firstJob + int(t.c.pids.Add(7)%30_000)
	j.shell.jobs = append(j.shell.jobs, j)
	return true
}

// end ends a job as a signal does. t.mu is held.
func (j *job) end(signal shell.Signal) {
	if !j.interrupted && !j.ended {
		j.interrupted, j.signal, j.stopped = true, signal, false
		close(j.interrupt)
	}
}

// stop stops a job, or lets it continue. t.mu is held.
func (j *job) stop(stop bool) {
	if j.ended || j.interrupted || j.stopped == stop {
		return
	}
	select {
	case j.pause <- stop:
		j.stopped, j.input, j.told = stop, false, false
	default: // it has not even started since the last sixteen times
	}
	j.t.changed.Broadcast()
}

// wait waits until a job in the foreground has ended or is stopped, and returns its status.
func (j *job) wait() int {
	t := j.t
	t.mu.Lock()
	for !j.ended && !j.stopped {
		t.changed.Wait()
	}
	if t.front == j {
		t.front = nil
	}
	status, text := j.res.Status, ""
	switch {
	case j.stopped:
		j.told = true
		status, text = 128+int(shell.SIGTSTP), j.line(false)
	case j.signal == shell.SIGKILL:
		text = "Killed"
		fallthrough
	default:
		j.remove()
	}
	t.mu.Unlock()
	if text != "" {
		t.say(text)
	}
	return status
}

// say prints a line. The client may be gone, or slow: t.mu must not be held.
func (t *terminal) say(text string) { _, _ = fmt.Fprintln(t.screen, text) }

// remove takes a job off its shell's list. t.mu is held.
func (j *job) remove() {
	j.shell.jobs = slices.DeleteFunc(j.shell.jobs, func(other *job) bool { return other == j })
}

// suspend handles Ctrl-Z: it stops the job in the foreground.
func (t *terminal) suspend() {
	t.mu.Lock()
	j, reading := t.front, t.reading
	t.mu.Unlock()
	if j == nil {
		return // it is only a key for the line that is being edited
	}
	if !reading {
		t.say("^Z")
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.front != j || j.ended || j.interrupted || !t.enlist(j) {
		return
	}
	if t.reading {
		t.cancel('Z')
	} else {
		t.typed, t.fed, t.escape, t.edited = nil, 0, 0, false
	}
	t.front = nil
	j.stop(true)
}

// background starts a job in the background.
func (t *terminal) background(ctx context.Context, s *loginShell, command string) {
	j := t.launch(ctx, s, command, true)
	if j == nil {
		s.state.Status = 254
		t.say(s.program() + ": fork: retry: Resource temporarily unavailable")
		return
	}
	s.state.Status, s.state.Background = 0, j.pid
	t.say(fmt.Sprintf("[%d] %d", j.number, j.pid))
}

// notify prints what has happened to a shell's jobs since the last prompt.
func (t *terminal) notify(s *loginShell) {
	var lines []string
	t.mu.Lock()
	for _, j := range slices.Clone(s.jobs) {
		if j.told || !j.ended && !j.stopped {
			continue
		}
		lines, j.told = append(lines, j.line(false)), true
		if j.ended {
			j.remove()
		}
	}
	t.mu.Unlock()
	for _, line := range lines {
		t.say(line)
	}
}

// leave reports whether a shell may exit. The first time, stopped jobs keep it, as in bash. Afterwards they end.
func (t *terminal) leave(s *loginShell) bool {
	t.mu.Lock()
	stopped := 0
	for _, j := range s.jobs {
		if j.stopped {
			if stopped++; s.warned {
				j.end(shell.SIGHUP)
			}
		}
	}
	leaves := s.warned || stopped == 0
	s.warned = true
	t.mu.Unlock()
	if !leaves {
		t.say("There are stopped jobs.")
	}
	return leaves
}

// rank returns the current job and the previous one, + and -. t.mu is held.
func (s *loginShell) rank() (current, previous *job) {
	for _, stopped := range []bool{true, false} {
		for _, j := range slices.Backward(s.jobs) {
			switch {
			case j.stopped != stopped:
			case current == nil:
				current = j
			case previous == nil:
				previous = j
			}
		}
	}
	return current, previous
}

// line is a job as the command jobs prints it. t.mu is held.
func (j *job) line(long bool) string {
	state, tail := "Running", " &"
	switch {
	case j.stopped && j.input:
		state, tail = "Stopped (tty input)", ""
	case j.stopped:
		state, tail = "Stopped", ""
	case j.ended && j.signal != 0:
		state, tail = j.signal.String(), ""
	case j.ended && j.res.Status != 0:
		state, tail = fmt.Sprintf("Exit %d", j.res.Status), ""
	case j.ended:
		state, tail = "Done", ""
	}
	pid := ""
	if long {
		pid = fmt.Sprintf("%5d", j.pid)
	}
	return fmt.Sprintf("[%d]%s %s %-24s%s%s", j.number, j.mark(), pid, state, j.text, tail)
}

func (j *job) mark() string {
	switch current, previous := j.shell.rank(); j {
	case current:
		return "+"
	case previous:
		return "-"
	}
	return " "
}

var errNoJob = errors.New("no such job")

// find returns the job of a shell's list that a jobspec such as %1, %+ or %name, or a process ID, means. t.mu is held.
func (s *loginShell) find(spec string) (*job, error) {
	name, isSpec := strings.CutPrefix(spec, "%")
	number, err := strconv.Atoi(name)
	current, previous := s.rank()
	var found *job
	switch {
	case isSpec && (name == "" || name == "%" || name == "+"):
		found = current
	case isSpec && name == "-":
		found = previous
	default:
		for _, j := range s.jobs {
			switch {
			case isSpec && err == nil && j.number == number, !isSpec && err == nil && j.pid == number,
				isSpec && err != nil && strings.HasPrefix(j.text, name),
				isSpec && strings.HasPrefix(name, "?") && strings.Contains(j.text, name[1:]):
				found = j
			}
		}
	}
	if found == nil {
		return nil, errNoJob
	}
	return found, nil
}

// control runs the commands with which a shell controls its jobs, on behalf of the command line j. It returns false for
// all other programs, and for kill with the process ID of another process.
func (j *job) control(ctx context.Context, c *shell.Call) (status int, ok bool) {
	t, s := j.t, j.shell
	name := path.Base(c.Args[0])
	args := c.Args[1:]
	fail := func(format string, a ...any) (int, bool) {
		fmt.Fprintf(c.Stderr, "%s: %s: %s\n", s.program(), name, fmt.Sprintf(format, a...))
		return 1, true
	}
	var options string
	if len(args) > 0 && strings.HasPrefix(args[0], "-") && name != "kill" {
		options, args = args[0][1:], args[1:]
	}
	switch name {
	case "jobs", "disown", "bg", "fg", "wait":
	case "kill":
		signal, targets, err := shell.KillOperands(c.Args)
		if err != nil || !slices.ContainsFunc(targets, func(a string) bool { return t.find(s, a) != nil || strings.HasPrefix(a, "%") }) {
			return 0, false
		}
		for _, a := range targets {
			found := t.find(s, a)
			if found == nil {
				status, _ = fail("%s: no such job", a)
				continue
			}
			t.mu.Lock()
			switch signal {
			case shell.SIGSTOP, shell.SIGTSTP:
				found.stop(true)
			case shell.SIGCONT:
				found.stop(false)
			case 0:
			default:
				found.end(signal)
			}
			t.mu.Unlock()
		}
		return status, true
	default:
		return 0, false
	}
	if name == "wait" && len(args) == 0 { // for all that run
		t.mu.Lock()
		defer t.mu.Unlock()
		defer context.AfterFunc(ctx, t.wake)()
		for ctx.Err() == nil && slices.ContainsFunc(s.jobs, func(j *job) bool { return !j.ended && !j.stopped }) {
			t.changed.Wait()
		}
		return 0, true
	}
	t.mu.Lock()
	chosen := slices.Clone(s.jobs)
	if len(args) > 0 || name != "jobs" {
		chosen = nil
		for _, a := range args {
			if name != "wait" && !strings.HasPrefix(a, "%") {
				a = "%" + a
			}
			found, err := s.find(a)
			if err != nil {
				t.mu.Unlock()
				if name == "wait" && !strings.HasPrefix(a, "%") {
					_, _ = fail("pid %s is not a child of this shell", a)
					return 127, true
				}
				_, _ = fail("%s: no such job", a)
				return map[bool]int{true: 127, false: 1}[name == "wait"], true
			}
			chosen = append(chosen, found)
		}
		if current, _ := s.rank(); len(args) == 0 && current != nil {
			chosen = append(chosen, current)
		}
	}
	t.mu.Unlock()
	if len(chosen) == 0 && name != "jobs" {
		return fail("current: no such job")
	}
	for _, found := range chosen {
		switch name {
		case "jobs":
			t.mu.Lock()
			switch {
			case strings.Contains(options, "r") && (found.stopped || found.ended), strings.Contains(options, "s") && !found.stopped:
			case strings.Contains(options, "p"):
				fmt.Fprintln(c.Stdout, found.pid)
			default:
				fmt.Fprintln(c.Stdout, found.line(strings.Contains(options, "l")))
				if found.told = true; found.ended {
					found.remove()
				}
			}
			t.mu.Unlock()
		case "disown":
			t.mu.Lock()
			found.remove()
			t.mu.Unlock()
		case "bg":
			t.mu.Lock()
			running := !found.stopped
			if !running {
				fmt.Fprintf(c.Stdout, "[%d]%s %s &\n", found.number, found.mark(), found.text)
				found.stop(false)
			}
			t.mu.Unlock()
			if running {
				fmt.Fprintf(c.Stderr, "%s: bg: job %d already in background\n", s.program(), found.number)
			}
		case "wait":
			t.mu.Lock()
			wake := context.AfterFunc(ctx, t.wake)
			for ctx.Err() == nil && !found.ended && !found.stopped {
				t.changed.Wait()
			}
			if status = found.res.Status; found.ended {
				found.remove()
			}
			t.mu.Unlock()
			wake()
		case "fg":
			fmt.Fprintln(c.Stdout, found.text)
			if f, ok := c.Stdout.(shell.Flusher); ok {
				_ = f.Flush() // the client may be gone
			}
			return found.foreground(ctx, j), true
		}
	}
	return status, true
}

// find is loginShell.find, or nil if there is no such job.
func (t *terminal) find(s *loginShell, spec string) *job {
	t.mu.Lock()
	defer t.mu.Unlock()
	j, _ := s.find(spec)
	return j
}

func (t *terminal) wake() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.changed.Broadcast()
}

// foreground brings a job to the foreground in the place of the command line that asks for it, until it ends or stops.
func (j *job) foreground(ctx context.Context, line *job) int {
	t := j.t
	t.mu.Lock()
	t.front = j
	j.stop(false)
	t.mu.Unlock()
	defer context.AfterFunc(ctx, func() { // the terminal is closed
		t.mu.Lock()
		defer t.mu.Unlock()
		j.end(shell.SIGHUP)
	})()
	status := j.wait()
	t.mu.Lock()
	defer t.mu.Unlock()
	if !line.interrupted && !line.ended {
		t.front = line
	}
	return status
}
