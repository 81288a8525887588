package testlog_test

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// A watched is a test whose failures are inspected.
type watched struct {
	testing.TB
	failures []string
	cleanups []func()
}

func (w *watched) Helper()           {}
func (w *watched) Log(...any)        {}
func (w *watched) Cleanup(fn func()) { w.cleanups = append(w.cleanups, fn) }
func (w *watched) Error(args ...any) { w.failures = append(w.failures, fmt.Sprint(args...)) }
func (w *watched) Errorf(format string, args ...any) {
	w.failures = append(w.failures, fmt.Sprintf(format, args...))
}

func TestErrorsInTheLogFailTheTest(t *testing.T) {
	for _, tt := range []struct {
		name     string
		expected []string
		log      func(*slog.Logger)
		want     string // the failures
	}{
		{"a warning", nil, func(l *slog.Logger) { l.Warn("a") }, ""},
		{"an error", nil, func(l *slog.Logger) { l.With("k", "v").Error("a", "err", "b") }, "ERROR a k=v err=b"},
		{"an expected error", []string{"err=b"}, func(l *slog.Logger) { l.Error("a", "err", "b"); l.Error("c", "err", "b") }, ""},
		{"another error", []string{"err=b"}, func(l *slog.Logger) { l.Error("a", "err", "b"); l.Error("c") }, "ERROR c"},
		{"an error that does not come", []string{"b"}, func(l *slog.Logger) { l.Warn("b") }, `no ERROR in the log says "b"`},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := &watched{TB: t}
			l := testlog.New(w, tt.expected...)
			tt.log(l)
			for _, end := range w.cleanups {
				end()
			}
			l.Error("after the end")
			if got := strings.Join(w.failures, "\n"); got != tt.want {
				t.Errorf("failures %q, want %q", got, tt.want)
			}
		})
	}
}

// Code that is left without a logger must not hide an internal failure either.
func TestErrorsInTheDefaultLoggerStopTheTests(t *testing.T) {
	slog.Warn("a")
	defer func() {
		if recover() == nil {
			t.Error("an ERROR in slog's default logger went by")
		}
	}()
	slog.Default().With("k", "v").WithGroup("g").Error("a")
}
