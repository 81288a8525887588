package simulated

import (
	"bytes"
	"context"
	"io"
	"strings"
	"testing"
)

// TestFeed checks that input that one program does not read goes to the next, and that a pending Read can be abandoned.
func TestFeed(t *testing.T) {
	r, w := io.Pipe()
	f := newFeed(t.Context(), r)
	go func() { _, _ = io.WriteString(w, "first second") }()
	b := make([]byte, 5)
	if _, err := io.ReadFull(f, b); err != nil || string(b) != "first" {
		t.Fatalf("%q, %v", b, err)
	}
	if n, err := f.Read(make([]byte, 100)); n != 7 || err != nil {
		t.Errorf("%d bytes, %v", n, err)
	}
	read := make(chan error)
	go func() {
		_, err := f.Read(b)
		read <- err
	}()
	_ = f.Close()
	if err := <-read; err != io.EOF {
		t.Errorf("an abandoned Read: %v", err)
	}
	f.reopen()
	go func() {
		_, _ = io.WriteString(w, "third")
		_ = w.Close()
	}()
	if rest, err := io.ReadAll(f); err != nil || string(rest) != "third" {
		t.Errorf("the next program reads %q, %v", rest, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	f = newFeed(ctx, strings.NewReader("unread"))
	cancel()
	var out bytes.Buffer
	if _, err := io.Copy(&out, f); err != nil { // it must end, with or without the text
		t.Error(err)
	}
}
