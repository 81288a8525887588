package app

import (
	"bytes"
	"fmt"
	"io"
	"sync"
	"sync/atomic"
	"time"
)

// maxLogLines is how many log lines can wait to be written.
const maxLogLines = 4096

// A logWriter writes lines from its own goroutine, so that a stopped terminal, a pipe without a reader or a hanging
// disk does not block callers that log. Lines that do not fit in the buffer are dropped and counted.
type logWriter struct {
	w       io.Writer
	lines   chan []byte
	lost    atomic.Int64
	closing chan struct{}
	once    sync.Once
	done    chan struct{}
}

func newLogWriter(w io.Writer) *logWriter {
	l := &logWriter{w: w, lines: make(chan []byte, maxLogLines), closing: make(chan struct{}), done: make(chan struct{})}
	go l.run()
	return l
}

// Write never waits and never fails.
func (l *logWriter) Write(p []byte) (int, error) {
	select {
	case l.lines <- bytes.Clone(p):
	default:
		l.lost.Add(1)
	}
	return len(p), nil
}

// Close writes the remaining lines and gives up after patience.
func (l *logWriter) Close(patience time.Duration) {
	l.once.Do(func() { close(l.closing) })
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-l.done:
	case <-timer.C:
	}
}

func (l *logWriter) run() {
	defer close(l.done)
	for {
		select {
		case line := <-l.lines:
			l.put(line)
		case <-l.closing:
			for len(l.lines) > 0 {
				l.put(<-l.lines)
			}
			return
		}
	}
}

func (l *logWriter) put(line []byte) {
	_, _ = l.w.Write(line) // there is nowhere to report the error
	if n := l.lost.Swap(0); n > 0 {
		fmt.Fprintf(l.w, "dropped %d log lines: the reader was too slow\n", n)
	}
}
