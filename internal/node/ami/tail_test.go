package ami_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"k8s.io/utils/clock"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// A screen is an output on which each text is followed by another change of the machine, until no change is left.
type screen struct {
	bytes.Buffer
	changes []func() error
}

var errLeft = errors.New("the reader has left")

func (s *screen) Flush() error {
	if len(s.changes) == 0 {
		return errLeft
	}
	next := s.changes[0]
	s.changes = s.changes[1:]
	return next()
}

// TestFollow follows files that grow, lose their first lines and are replaced.
func TestFollow(t *testing.T) {
	w := newWorld(t, images.AL2023, func(w *world) { w.Clock, w.Patience = clock.RealClock{}, 1000 })
	write := func(name string, lines ...string) func() error {
		return func() error { return w.FS.WriteFile(name, []byte(strings.Join(lines, "\n")+"\n"), 0o644) }
	}
	long := strings.Repeat("x", 3000)
	for _, first := range []func() error{write("/tmp/a", "1", long), write("/tmp/b", "x")} {
		if err := first(); err != nil {
			t.Fatal(err)
		}
	}
	s := &screen{changes: []func() error{
		write("/tmp/a", "1", long, "3"), write("/tmp/a", long, "3", "4"), write("/tmp/b", "x", "y"), write("/tmp/a", "new"),
		func() error { w.Log("kubelet", "hello"); return nil }, func() error { return nil },
	}}
	var failures bytes.Buffer
	c := &shell.Call{Args: []string{"tail", "/tmp/a", "b", "/var/log/messages", "/none"}, Dir: "/tmp", FS: w.FS, Stdout: s, Stderr: &failures}
	w.WriteMessages()
	if status, found := w.Outside(context.Background(), c); status != 1 || !found {
		t.Errorf("status %d, %v", status, found)
	}
	text := s.String()
	const want = "\n==> /tmp/a <==\n3\n4\n\n==> b <==\ny\n\n==> /tmp/a <==\nnew\n\n==> /var/log/messages <==\n"
	if !strings.HasPrefix(text, want) || !strings.HasSuffix(text, "]: hello\n") || strings.Count(text, "\n") != strings.Count(want, "\n")+1 {
		t.Errorf("%s", text)
	}
	if failures.String() != "tail: /tmp/a: file truncated\n" {
		t.Errorf("%s", &failures)
	}
}

// What is written to rsyslog's log stays there, and only what is new in the journal is added.
func TestMessages(t *testing.T) {
	w := newWorld(t, images.AL2023, func(w *world) { w.Patience = 1000 })
	w.Log("kubelet", "first")
	w.WriteMessages()
	if out, _ := w.run("grep -c first /var/log/messages; echo mine > /var/log/messages"); out != "1\n" {
		t.Errorf("%q", out)
	}
	w.Log("kubelet", "second")
	w.WriteMessages()
	if out, _ := w.run("sed 's/^.*: //' /var/log/messages; systemctl stop rsyslog"); out != "mine\nsecond\n" {
		t.Errorf("%q", out)
	}
	w.Log("kubelet", "third")
	w.WriteMessages()
	if out, _ := w.run("grep -c third /var/log/messages; systemctl start rsyslog"); out != "0\n" {
		t.Errorf("while rsyslog is stopped: %q", out)
	}
	w.WriteMessages()
	if out, _ := w.run("head -n 2 /var/log/messages | sed 's/^.*: //'; grep -c third /var/log/messages"); out != "mine\nsecond\n1\n" {
		t.Errorf("%q", out)
	}
	for range 600 {
		w.Log("kubelet", "more")
	}
	w.WriteMessages()
	if out, _ := w.run("wc -l < /var/log/messages; tail -n 1 /var/log/messages | sed 's/^.*: //'"); out != "400\nmore\n" {
		t.Errorf("%q", out)
	}

	// A full disk keeps what is in the log. What was logged meanwhile follows.
	var fills []string
	for size := 64 << 20; size > 0; size /= 2 {
		name := fmt.Sprint("/tmp/fill", size)
		fills = append(fills, name)
		_ = w.FS.WriteFile(name, make([]byte, size), 0o644)
	}
	old, err := w.FS.ReadFile("/var/log/messages")
	if err != nil {
		t.Fatal(err)
	}
	for _, more := range []int{1, 200} { // to append, and to remove old lines
		for range more {
			w.Log("kubelet", "full")
		}
		w.WriteMessages()
		if b, err := w.FS.ReadFile("/var/log/messages"); err != nil || !bytes.Equal(b, old) {
			t.Errorf("%d bytes, then %d, %v", len(old), len(b), err)
		}
	}
	for _, name := range fills {
		if err := w.FS.RemoveAll(name); err != nil {
			t.Fatal(err)
		}
	}
	w.WriteMessages()
	if out, _ := w.run("wc -l < /var/log/messages; grep -c 'full$' /var/log/messages; ls /var/log/messages*"); out != "400\n201\n/var/log/messages\n" {
		t.Errorf("%q", out)
	}
}
