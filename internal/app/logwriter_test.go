package app

import (
	"log/slog"
	"strings"
	"testing"
	"time"
)

// A pipe is a log that is only read when the test asks for it.
type pipe struct {
	open chan struct{}
	text strings.Builder
}

func (p *pipe) Write(b []byte) (int, error) {
	<-p.open
	return p.text.Write(b)
}

// Code that logs never waits for the log.
func TestLogThatNobodyReads(t *testing.T) {
	p := &pipe{open: make(chan struct{})}
	w := newLogWriter(p)
	log := slog.New(slog.NewTextHandler(w, nil))
	for i := range 2 * maxLogLines {
		log.Info("line", "n", i)
	}
	w.Close(time.Millisecond) // it does not wait forever either
	close(p.open)
	w.Close(time.Hour) // closed when everything is written
	log.Info("too late")
	got := p.text.String()
	for _, want := range []string{"msg=line n=0\n", "log lines: the reader was too slow"} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in the log", want)
		}
	}
	if n := strings.Count(got, "msg=line"); n < maxLogLines || n > maxLogLines+1 {
		t.Errorf("%d lines", n)
	}
}
