// Package journal records what Drydock decided and did: the AWS API calls that it answered, the verdicts with their
// reasons, and the steps of longer processes, such as a node joining a cluster. `drydock why` and CloudTrail read
// it.
//
// It is a bounded append-only file of JSON lines beside the store, never in it: losing its tail in a crash loses no
// state. It must hold no secrets; code that appends is responsible for that. internal/app opens it; any package may
// append.
package journal

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"iter"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"sync"
	"sync/atomic"
	"time"
)

// A Kind says what an entry records.
type Kind string

// The kinds of entries.
const (
	KindCall     Kind = "call"     // an AWS API call
	KindDecision Kind = "decision" // an authorization or reachability verdict
	KindStep     Kind = "step"     // a step of a longer story: a node joining
	// KindReset records that the entry's account was emptied, or all accounts if it has none. Earlier entries are no
	// longer returned.
	KindReset Kind = "reset"
)

// An Entry is one event.
type Entry struct {
	Time    time.Time `json:"time"`
	Account string    `json:"account,omitempty"`
	Region  string    `json:"region,omitempty"`
	Kind    Kind      `json:"kind"`
	// Fields are the details, as JSON. Append keeps the map, so the caller must not change it afterwards.
	Fields map[string]any `json:"fields,omitempty"`
	// Minor entries (reads) are dropped first if the journal cannot keep up.
	Minor bool `json:"-"`
}

// Limits bound a journal. Zero values mean the defaults.
type Limits struct {
	// Bytes is the most that both files together take; default 64 MiB.
	Bytes int64
	// Queue is how many entries may wait to be written; default 4096.
	Queue int
	// Log receives write errors, once per series of errors. Nil means slog.Default().
	Log *slog.Logger
}

// A Journal is an open journal. Its methods may be called concurrently; those of
// a nil *Journal do nothing, so that callers without a journal need no check.
type Journal struct {
	dir     string
	limit   int64 // for each file
	entries chan Entry
	flush   chan chan struct{}
	dropped atomic.Int64
	log     *slog.Logger

	closing chan struct{}
	close   sync.Once
	done    chan struct{}
	err     error // of the last write; read after done

	// files guards the files' names: rotation against readers opening them.
	files sync.RWMutex

	// followers get what is appended.
	followers struct {
		sync.RWMutex
		all map[chan Entry]struct{}
	}
}

const (
	currentName  = "journal.jsonl"
	previousName = "journal.1.jsonl"
	// maxLine bounds an entry; longer ones are not written.
	maxLine = 1 << 20
)

// Open opens the journal in dir, which it creates if necessary, and starts its writer.
func Open(dir string, limits Limits) (*Journal, error) {
	if limits.Bytes <= 0 {
		limits.Bytes = 64 << 20
	}
	if limits.Queue <= 0 {
		limits.Queue = 4096
	}
	if limits.Log == nil {
		limits.Log = slog.Default()
	}
	j := &Journal{
		dir:     dir,
		limit:   max(limits.Bytes/2, 1),
		entries: make(chan Entry, limits.Queue),
		flush:   make(chan chan struct{}),
		log:     limits.Log,
		closing: make(chan struct{}),
		done:    make(chan struct{}),
	}
	w := &writer{j: j}
	err := os.MkdirAll(dir, 0o700)
	if err == nil {
		err = w.open()
	}
	if err != nil {
		return nil, fmt.Errorf("opening the journal: %w", err)
	}
	go w.run()
	return j, nil
}

// Append queues e and never blocks. If the queue is full, e is dropped and counted. Minor entries are dropped if the
// queue is half full. Entries appended to a closed journal are dropped.
func (j *Journal) Append(e Entry) {
	if j == nil {
		return
	}
	if e.Time.IsZero() {
		e.Time = time.Now()
	}
	select {
	case <-j.closing:
		j.dropped.Add(1)
		return
	default:
	}
	if e.Minor && len(j.entries) >= cap(j.entries)/2 {
		j.dropped.Add(1)
		return
	}
	select {
	case j.entries <- e:
	default:
		j.dropped.Add(1)
	}
	j.followers.RLock()
	defer j.followers.RUnlock()
	for f := range j.followers.all {
		select {
		case f <- e:
		default: // the reader is too slow
		}
	}
}

// Follow returns a channel of the entries that are appended from now on, until stop is called. Entries are lost to a
// reader that leaves more than queue of them unread. They must not be changed.
func (j *Journal) Follow(queue int) (entries <-chan Entry, stop func()) {
	f := make(chan Entry, queue)
	if j == nil {
		return f, func() {}
	}
	j.followers.Lock()
	defer j.followers.Unlock()
	if j.followers.all == nil {
		j.followers.all = map[chan Entry]struct{}{}
	}
	j.followers.all[f] = struct{}{}
	return f, func() {
		j.followers.Lock()
		defer j.followers.Unlock()
		delete(j.followers.all, f)
	}
}

// Dropped returns how many entries were dropped since the journal was opened.
func (j *Journal) Dropped() int64 {
	if j == nil {
		return 0
	}
	return j.dropped.Load()
}

// Flush waits until everything appended before is in the file.
func (j *Journal) Flush() {
	if j == nil {
		return
	}
	ack := make(chan struct{})
	select {
	case j.flush <- ack:
		<-ack
	case <-j.done:
	}
}

// Close writes what is queued, makes it durable and ends the journal. It returns the first write error.
func (j *Journal) Close() error {
	if j == nil {
		return nil
	}
	j.close.Do(func() { close(j.closing) })
	<-j.done
	return j.err
}

// A writer owns the current file. It runs in one goroutine until Close.
type writer struct {
	j    *Journal
	file *os.File
	buf  *bufio.Writer
	size int64
	sick bool // the last write failed, which is logged only once
}

func (w *writer) open() error {
	path := filepath.Join(w.j.dir, currentName)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_RDWR|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := f.Stat()
	if err != nil {
		return errors.Join(err, f.Close())
	}
	w.file, w.buf, w.size = f, bufio.NewWriterSize(f, 64<<10), info.Size()
	// A crash may have left half a line. End it, so that only that line is lost.
	if w.size > 0 {
		last := make([]byte, 1)
		if _, err := f.ReadAt(last, w.size-1); err == nil && last[0] != '\n' {
			n, err := f.WriteString("\n")
			w.size += int64(n)
			return err
		}
	}
	return nil
}

func (w *writer) run() {
	defer close(w.j.done)
	for {
		select {
		case e := <-w.j.entries:
			w.write(e)
			if len(w.j.entries) == 0 {
				w.note(w.flush())
			}
		case ack := <-w.j.flush:
			w.drain()
			close(ack)
		case <-w.j.closing:
			w.drain()
			if w.file != nil {
				w.note(w.file.Sync())
				w.note(w.file.Close())
			}
			return
		}
	}
}

func (w *writer) drain() {
	for {
		select {
		case e := <-w.j.entries:
			w.write(e)
		default:
			w.note(w.flush())
			return
		}
	}
}

func (w *writer) write(e Entry) {
	line, err := json.Marshal(e)
	if err == nil && len(line) >= maxLine {
		err = fmt.Errorf("a journal entry of %d bytes is too long", len(line))
	}
	if err != nil {
		w.j.dropped.Add(1)
		w.note(err)
		return
	}
	line = append(line, '\n')
	if w.size > 0 && w.size+int64(len(line)) > w.j.limit {
		w.note(w.rotate())
	}
	if w.file == nil {
		if err := w.open(); err != nil {
			w.j.dropped.Add(1)
			w.note(err)
			return
		}
	}
	if _, err := w.buf.Write(line); err != nil {
		// A bufio.Writer keeps its error, but a full disk may get space again.
		w.j.dropped.Add(1)
		w.buf.Reset(w.file)
		w.note(err)
		return
	}
	w.size += int64(len(line))
}

func (w *writer) flush() error {
	if w.file == nil {
		return nil
	}
	if err := w.buf.Flush(); err != nil {
		w.buf.Reset(w.file)
		return err
	}
	w.sick = false
	return nil
}

// rotate makes the current file the previous one and discards the old previous one.
func (w *writer) rotate() error {
	err := w.flush()
	w.j.files.Lock()
	defer w.j.files.Unlock()
	if w.file != nil {
		err = errors.Join(err, w.file.Close())
		w.file = nil
	}
	err = errors.Join(err, os.Rename(filepath.Join(w.j.dir, currentName), filepath.Join(w.j.dir, previousName)))
	return errors.Join(err, w.open())
}

// note keeps the first error for Close and logs it once per series of errors.
func (w *writer) note(err error) {
	if err == nil {
		return
	}
	if w.j.err == nil {
		w.j.err = fmt.Errorf("writing the journal: %w", err)
	}
	if !w.sick {
		w.sick = true
		w.j.log.Warn("journal", "dir", w.j.dir, "err", err)
	}
}

// A Filter selects entries. Zero fields select all.
type Filter struct {
	Account, Region string
	Kind            Kind
	Since, Until    time.Time // Since ≤ time < Until
	// Fields must all be present with these values, compared as text.
	Fields map[string]string
	// Match, if not nil, decides about entries that satisfy all other fields.
	Match func(Entry) bool
}

// needles returns texts that the lines of all entries that match contain.
func (f *Filter) needles() (out [][]byte) {
	if f.Kind != "" {
		out = append(out, kindText(f.Kind))
	}
	for _, want := range f.Fields {
		// Numbers have several forms, and JSON escapes what is not plain.
		if _, err := strconv.ParseFloat(want, 64); err != nil && !unplain.MatchString(want) {
			out = append(out, []byte(want))
		}
	}
	return out
}

var (
	unplain = regexp.MustCompile(`[^-A-Za-z0-9._:/ ]`)
	isReset = kindText(KindReset)
)

func kindText(k Kind) []byte { return fmt.Appendf(nil, `"kind":%q`, k) }

func containsAll(line []byte, needles [][]byte) bool {
	for _, n := range needles {
		if !bytes.Contains(line, n) {
			return false
		}
	}
	return true
}

func (f *Filter) matches(e *Entry) bool {
	if f.Account != "" && e.Account != f.Account || f.Region != "" && e.Region != f.Region ||
		f.Kind != "" && e.Kind != f.Kind ||
		!f.Since.IsZero() && e.Time.Before(f.Since) || !f.Until.IsZero() && !e.Time.Before(f.Until) {
		return false
	}
	for k, want := range f.Fields {
		if got, ok := e.Fields[k]; !ok || fmt.Sprint(got) != want {
			return false
		}
	}
	return f.Match == nil || f.Match(*e)
}

// Query returns the entries that match, newest first: those appended before the call, in the order in which they were
// written, and after the last reset of their account. An error ends the sequence. Incomplete or foreign lines are
// skipped.
func (j *Journal) Query(f Filter) iter.Seq2[Entry, error] {
	return func(yield func(Entry, error) bool) {
		if j == nil {
			return
		}
		j.Flush()
		// Both files are opened together, so that a rotation in between does not lose entries.
		j.files.RLock()
		var files []*os.File
		var errs error
		for _, name := range []string{currentName, previousName} {
			file, err := os.Open(filepath.Join(j.dir, name))
			switch {
			case err == nil:
				defer file.Close() //nolint:errcheck // only read
				files = append(files, file)
			case !errors.Is(err, os.ErrNotExist):
				errs = errors.Join(errs, err)
			}
		}
		j.files.RUnlock()
		if errs != nil {
			yield(Entry{}, fmt.Errorf("reading the journal: %w", errs))
			return
		}
		emptied, needles := map[string]bool{}, f.needles()
		for _, file := range files {
			for line, err := range linesBackwards(file) {
				if err != nil {
					yield(Entry{}, fmt.Errorf("reading the journal: %w", err))
					return
				}
				if !containsAll(line, needles) && !bytes.Contains(line, isReset) {
					continue // decoding all lines would take twenty times as long
				}
				var e Entry
				switch {
				case json.Unmarshal(line, &e) != nil:
					continue
				case e.Kind == KindReset && e.Account == "":
					return
				case e.Kind == KindReset:
					emptied[e.Account] = true
					continue
				case emptied[e.Account] || !f.matches(&e):
					continue
				}
				if !yield(e, nil) {
					return
				}
			}
		}
	}
}

// linesBackwards yields the whole lines of file from the last to the first. A line is valid until the next one is
// requested.
func linesBackwards(file *os.File) iter.Seq2[[]byte, error] {
	return func(yield func([]byte, error) bool) {
		pos, err := file.Seek(0, io.SeekEnd)
		if err != nil {
			yield(nil, err)
			return
		}
		var tail []byte // the beginning of the line has not been read yet
		block := make([]byte, 64<<10)
		for pos > 0 {
			n := min(pos, int64(len(block)))
			pos -= n
			if _, err := file.ReadAt(block[:n], pos); err != nil {
				yield(nil, err)
				return
			}
			chunk := append(bytes.Clone(block[:n]), tail...)
			for {
				i := bytes.LastIndexByte(chunk, '\n')
				if i < 0 {
					break
				}
				line := chunk[i+1:]
				chunk = chunk[:i]
				if len(line) > 0 && !yield(line, nil) {
					return
				}
			}
			tail = chunk
			if len(tail) > 2*maxLine {
				tail = nil // not one of our lines
			}
		}
		if len(tail) > 0 {
			yield(tail, nil)
		}
	}
}
