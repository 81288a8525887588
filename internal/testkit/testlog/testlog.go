// Package testlog fails a test if a line of level ERROR is logged. Such a line is an internal failure or a
// recovered panic, which a user would find in the daemon's log. It is a leaf, so that tests of small packages stay
// small.
package testlog

import (
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
)

// The default logger belongs to no test, so an error there stops all tests. Code that a test leaves without a logger
// uses it.
func init() { slog.SetDefault(slog.New(noErrors{slog.NewTextHandler(os.Stderr, nil)})) }

type noErrors struct{ slog.Handler }

func (h noErrors) Handle(ctx context.Context, r slog.Record) error {
	err := h.Handler.Handle(ctx, r)
	if r.Level >= slog.LevelError {
		panic("a line of level ERROR in slog's default logger: pass testlog.New(t) to what wrote it")
	}
	return err
}

func (h noErrors) WithAttrs(attrs []slog.Attr) slog.Handler {
	return noErrors{h.Handler.WithAttrs(attrs)}
}

func (h noErrors) WithGroup(name string) slog.Handler { return noErrors{h.Handler.WithGroup(name)} }

// New returns a logger that writes to the test's log. A line of level ERROR fails the test. If a test causes such
// lines, it lists them in expected: each line must contain one of these texts, and each text must have appeared when
// the test ends.
//
// Lines after the test's end are lost, because they can no longer be reported.
func New(t testing.TB, expected ...string) *slog.Logger {
	sink := &logSink{t: t, expected: expected, came: make([]bool, len(expected))}
	t.Cleanup(sink.end)
	return slog.New(&testLog{sink: sink})
}

type logSink struct {
	mu       sync.Mutex
	t        testing.TB
	expected []string
	came     []bool
	ended    bool
}

func (s *logSink) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = true
	for i, came := range s.came {
		if !came {
			s.t.Errorf("no ERROR in the log says %q", s.expected[i])
		}
	}
}

func (s *logSink) write(level slog.Level, text string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.ended {
		return
	}
	s.t.Helper()
	wanted := level < slog.LevelError
	for i, e := range s.expected {
		if level >= slog.LevelError && strings.Contains(text, e) {
			s.came[i], wanted = true, true
		}
	}
	if wanted {
		s.t.Log(text)
	} else {
		s.t.Error(text)
	}
}

type testLog struct {
	sink  *logSink
	attrs []slog.Attr
}

// Enabled leaves out levels that are not needed.
func (l *testLog) Enabled(_ context.Context, level slog.Level) bool { return level >= slog.LevelInfo }

func (l *testLog) Handle(_ context.Context, r slog.Record) error {
	text := r.Level.String() + " " + r.Message
	add := func(a slog.Attr) bool { text += " " + a.String(); return true }
	for _, a := range l.attrs {
		add(a)
	}
	r.Attrs(add)
	l.sink.write(r.Level, text)
	return nil
}

func (l *testLog) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &testLog{l.sink, append(l.attrs[:len(l.attrs):len(l.attrs)], attrs...)}
}

func (l *testLog) WithGroup(string) slog.Handler { return l }
