package simulated

import (
	"bytes"
	"errors"
	"io"
	"path"
	"strings"
	"unicode/utf8"

	"golang.org/x/term"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// A terminal's driver handles these keys. Programs do not read them.
const (
	keyInterrupt = 0x03 // Ctrl-C
	keyEnd       = 0x04 // Ctrl-D
	keySuspend   = 0x1a // Ctrl-Z
	keyQuit      = 0x1c // Ctrl-\
)

// listen reads what is typed until the client hangs up.
func (t *terminal) listen(r io.Reader) {
	b := make([]byte, 4<<10)
	for {
		n, err := r.Read(b)
		for _, key := range b[:n] {
			t.key(key)
		}
		if err != nil {
			t.hangUp()
			return
		}
	}
}

func (t *terminal) hangUp() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.hungUp = true
	t.changed.Broadcast()
}

func (t *terminal) key(key byte) {
	switch key {
	case keyInterrupt, keyQuit:
		t.stop()
		return
	case keySuspend:
		t.suspend()
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.typed) >= maxTyped && !t.hungUp {
		t.changed.Wait()
	}
	if t.hungUp {
		return
	}
	t.typed = append(t.typed, key)
	t.changed.Broadcast()
}

// stop handles Ctrl-C. It ends the job in the foreground and the line that is being edited.
func (t *terminal) stop() {
	t.mu.Lock()
	running, reading := t.front, t.reading
	if reading {
		t.cancel('C')
	} else {
		t.typed, t.fed, t.escape, t.edited = nil, 0, 0, false
		t.pending = running == nil || running.interrupted || running.ended
	}
	t.changed.Broadcast()
	t.mu.Unlock()
	if !reading {
		_, _ = io.WriteString(t.screen, "^C\n") // the client may be gone
	}
	if running != nil {
		t.mu.Lock()
		running.end(shell.SIGINT)
		t.mu.Unlock()
	}
}

// cancel ends the line that is being edited and shows ^C or ^Z at its end, as bash does. The caller holds t.mu.
func (t *terminal) cancel(key byte) {
	t.typed = append(t.typed, 0x05, '^', key, keyInterrupt)
	t.changed.Broadcast()
}

// cancelling reports whether what was typed begins with the end of what cancel adds.
func (t *terminal) cancelling() bool {
	rest := bytes.TrimPrefix(t.typed, []byte("^"))
	return len(rest) > 1 && (rest[0] == 'C' || rest[0] == 'Z') && rest[1] == keyInterrupt
}

// Read gives the line editor what was typed.
func (t *terminal) Read(p []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for len(t.typed) == 0 {
		if t.hungUp {
			return 0, io.EOF
		}
		t.changed.Wait()
	}
	// Return at most one line, because the next one may be for another reader. Ctrl-D ends the input if nothing has
	// been typed before it. It is handled here because the editor would see the same Ctrl-D again and again.
	defer t.changed.Broadcast()
	n := bytes.IndexAny(t.typed, "\r\n\x03\x04") + 1
	switch {
	case n == 0:
		n = len(t.typed)
	case t.typed[n-1] == keyEnd && n == 1:
		t.typed = t.typed[1:]
		if t.edited {
			return 0, nil
		}
		return 0, io.EOF
	case t.typed[n-1] == keyEnd:
		n--
	}
	if room := maxEdited - t.fed; room > 0 {
		n = min(n, room)
	} else if n = 1; t.escape == 0 && t.typed[0] >= ' ' && t.typed[0] != 0x7f && utf8.RuneStart(t.typed[0]) && !t.cancelling() {
		t.fed, t.part = 0, true
		return copy(p, "\r"), nil
	}
	n = copy(p, t.typed[:n])
	for _, key := range p[:n] {
		t.escape = max(t.escape-1, 0)
		if key == 0x1b {
			t.escape = 8
		}
	}
	t.fed, t.edited = t.fed+n, true
	switch p[n-1] {
	case keyInterrupt:
		p[n-1], t.cancelled = '\r', true
		fallthrough
	case '\r', '\n':
		t.fed, t.edited, t.reading = 0, false, false
	}
	t.typed = t.typed[n:]
	return n, nil
}

// errCancelled means that Ctrl-C ended a line.
var errCancelled = errors.New("cancelled")

// line reads one line. If the line is too long for the line editor, line returns a part of it, and whole is false.
func (t *terminal) line(prompt string) (text string, whole bool, err error) {
	t.mu.Lock()
	for t.busy { // a stopped job has not noticed yet that its line is cancelled
		t.changed.Wait()
	}
	t.busy = true
	defer func() {
		t.busy = false
		t.changed.Broadcast()
		t.mu.Unlock()
	}()
	cancelled := t.pending
	t.pending, t.reading = false, !cancelled
	if cancelled {
		return "", true, errCancelled
	}
	silent := t.set.silent
	t.mu.Unlock()
	if silent {
		text, err = t.screen.ReadPassword(prompt)
	} else {
		t.screen.SetPrompt(prompt)
		text, err = t.screen.ReadLine()
	}
	if errors.Is(err, term.ErrPasteIndicator) {
		err = nil
	}
	t.mu.Lock()
	whole, cancelled = !t.part, t.cancelled
	t.part, t.cancelled, t.reading = false, false, false
	if cancelled {
		return "", true, errCancelled
	}
	return text, whole, err
}

// input is the terminal as the standard input of a job.
type input struct {
	j    *job
	rest string
	// The terminal's mu guards these.
	reading bool
	closed  bool
}

// Read stops the job while it is in the background.
func (i *input) Read(p []byte) (int, error) {
	t := i.j.t
	for i.rest == "" {
		t.mu.Lock()
		for t.front != i.j && !i.closed && !t.hungUp {
			i.j.stop(true)
			i.j.input = true
			t.changed.Wait()
		}
		if i.closed {
			t.mu.Unlock()
			return 0, io.EOF
		}
		i.reading = true
		t.mu.Unlock()
		text, whole, err := t.line("")
		t.mu.Lock()
		stopped := i.j.stopped
		i.reading = false
		t.mu.Unlock()
		if errors.Is(err, errCancelled) && stopped {
			continue
		}
		if err != nil {
			return 0, io.EOF
		}
		if i.rest = text; whole {
			i.rest += "\n"
		}
	}
	n := copy(p, i.rest)
	i.rest = i.rest[n:]
	return n, nil
}

// Close ends a pending read whose result is no longer needed.
func (i *input) Close() error {
	t := i.j.t
	t.mu.Lock()
	defer t.mu.Unlock()
	i.closed = true
	t.changed.Broadcast()
	if i.reading && t.reading {
		t.cancel('C')
	}
	return nil
}

// complete completes the file name before the cursor as far as it is unambiguous.
func (t *terminal) complete(dir, line string, pos int) (string, int, bool) {
	word := line[strings.LastIndexAny(line[:pos], " \t=<>|&;\"'")+1 : pos]
	folder, start := path.Split(word)
	at := folder
	if !path.IsAbs(at) {
		at = path.Join(dir, at)
	}
	list, err := t.c.image.FS.ReadDir(at)
	if err != nil {
		return "", 0, false
	}
	common, found := "", 0
	for _, e := range list {
		name := e.Name()
		if !strings.HasPrefix(name, start) || start == "" && strings.HasPrefix(name, ".") {
			continue
		}
		if e.IsDir() {
			name += "/"
		} else {
			name += " "
		}
		if found++; found == 1 {
			common = name
		}
		for !strings.HasPrefix(name, common) {
			common = common[:len(common)-1]
		}
	}
	if len(common) <= len(start) {
		return "", 0, false
	}
	added := common[len(start):]
	return line[:pos] + added + line[pos:], pos + len(added), true
}
