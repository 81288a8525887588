package simulated

import "testing"

// TestHistory checks the line editor's view of the history, the last command first, also when the history is removed while
// the editor is using it.
func TestHistory(t *testing.T) {
	term := &terminal{}
	for _, line := range []string{"first", "second", "second", ""} {
		term.history.add(line)
	}
	l := lines{term}
	if l.Len() != 2 || l.At(0) != "second" || l.At(1) != "first" {
		t.Errorf("%d lines: %q", l.Len(), term.history.list())
	}
	term.history.clear()
	if s := l.At(1); s != "" {
		t.Errorf("%q", s)
	}
}
