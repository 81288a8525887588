package twin

import (
	"bufio"
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/atomicfile"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// The file form: DIR/recording.json is the Source, and DIR/SERVICE/OPERATION.jsonl has an Answer in each line.

const sourceFile = "recording.json"

// A Folder is a recording in the making. Each answer is in its file as soon as Add returns, so that an interrupted
// recording can be continued. Its methods may be called concurrently.
type Folder struct {
	dir     string
	started time.Time // of a recording that is continued

	mu    sync.Mutex
	known map[question]*recording.Answer
	order []question
	asked map[question]bool // since the folder was opened
}

// A question identifies an answer.
type question struct{ service, operation, input string }

func ask(a *recording.Answer) question { return question{a.Service, a.Operation, string(a.Input)} }

func newFolder(dir string) *Folder {
	return &Folder{dir: dir, known: map[question]*recording.Answer{}, asked: map[question]bool{}}
}

// OpenFolder opens DIR for a recording of a source, or continues one of the same source in it. A folder with a
// complete recording, or one of another source, is an error. An empty dir keeps the answers in memory only.
func OpenFolder(dir string, s recording.Source) (*Folder, error) {
	f := newFolder(dir)
	if dir == "" {
		return f, nil
	}
	old, err := ReadFolder(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		if err := os.MkdirAll(dir, 0o700); err != nil {
			return nil, err
		}
		return f, f.writeSource(s)
	case err != nil:
		return nil, err
	case old.Source.Complete:
		return nil, fmt.Errorf("%s already holds a recording of account %s in %s", dir, old.Source.Account, old.Source.Region)
	case !old.Source.SameScope(s):
		return nil, fmt.Errorf("%s holds an interrupted recording of something else (account %s, %s)", dir, old.Source.Account, old.Source.Region)
	}
	return f, f.resume(old)
}

// resume continues a recording, as of when it began.
func (f *Folder) resume(old *recording.Recording) error {
	f.started = old.Source.Started
	for i := range old.Answers {
		f.keep(&old.Answers[i])
	}
	return f.mend()
}

// Continued returns when a recording that is continued began, and how many answers it had. It is zero for a new one.
func (f *Folder) Continued() (time.Time, int) { return f.started, len(f.order) }

// forget removes what was not asked for.
func (f *Folder) forget() error {
	n := len(f.order)
	files := map[string][]byte{}
	f.order = slices.DeleteFunc(f.order, func(q question) bool {
		if f.asked[q] {
			return false
		}
		files[f.path(q.service, q.operation)] = nil
		delete(f.known, q)
		return true
	})
	if len(f.order) == n || f.dir == "" {
		return nil
	}
	return f.write(files)
}

// mend writes all files again, without a line that was cut off.
func (f *Folder) mend() error { return f.write(map[string][]byte{}) }

// write writes the files of all answers, and empties the others among files.
func (f *Folder) write(files map[string][]byte) error {
	for _, q := range f.order {
		line, err := json.Marshal(f.known[q])
		if err != nil {
			return err
		}
		path := f.path(q.service, q.operation)
		files[path] = append(append(files[path], line...), '\n')
	}
	for path, content := range files {
		if err := atomicfile.Write(path, content, 0o600); err != nil {
			return err
		}
	}
	return nil
}

func (f *Folder) path(service, operation string) string {
	return filepath.Join(f.dir, service, operation+".jsonl")
}

func (f *Folder) keep(a *recording.Answer) {
	q := ask(a)
	if f.known[q] == nil {
		f.order = append(f.order, q)
	}
	f.known[q] = a
}

func (f *Folder) writeSource(s recording.Source) error {
	b, err := json.MarshalIndent(s, "", "  ")
	if err != nil {
		return err
	}
	return atomicfile.Write(filepath.Join(f.dir, sourceFile), append(b, '\n'), 0o600)
}

// Answer returns the answer to a question that an earlier run asked, or false. Gaps are asked again, because
// permissions may have been added in the meantime.
func (f *Folder) Answer(service, operation string, input json.RawMessage) (recording.Answer, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	q := question{service, operation, string(input)}
	f.asked[q] = true
	a := f.known[q]
	if a == nil || a.Gap != nil && a.Gap.Code != recording.Redacted && a.Gap.Code != recording.NotAsked {
		return recording.Answer{}, false
	}
	return *a, true
}

// Add adds an answer.
func (f *Folder) Add(a recording.Answer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asked[ask(&a)] = true
	f.keep(&a)
	if f.dir == "" {
		return nil
	}
	line, err := json.Marshal(a)
	if err != nil {
		return err
	}
	path := f.path(a.Service, a.Operation)
	if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
		return err
	}
	file, err := os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	_, err = file.Write(append(line, '\n'))
	return errors.Join(err, file.Close())
}

// Finish marks the recording as complete and returns it. Answers of an earlier run that were not asked for again are left
// out: what they are about is gone, or was asked in another way.
func (f *Folder) Finish(s recording.Source) (*recording.Recording, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	s.Complete = true
	if err := f.forget(); err != nil {
		return nil, err
	}
	if f.dir != "" {
		if err := f.writeSource(s); err != nil {
			return nil, err
		}
	}
	return f.recording(s), nil
}

// Recording returns the answers so far.
func (f *Folder) Recording(s recording.Source) *recording.Recording {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.recording(s)
}

func (f *Folder) recording(s recording.Source) *recording.Recording {
	r := &recording.Recording{Source: s}
	for _, q := range f.order {
		r.Answers = append(r.Answers, *f.known[q])
	}
	return r
}

// ReadFolder reads a recording. It returns fs.ErrNotExist if the folder holds none.
func ReadFolder(dir string) (*recording.Recording, error) {
	b, err := os.ReadFile(filepath.Join(dir, sourceFile))
	if err != nil {
		return nil, err
	}
	r := &recording.Recording{}
	if err := json.Unmarshal(b, &r.Source); err != nil {
		return nil, fmt.Errorf("%s: %w", filepath.Join(dir, sourceFile), err)
	}
	if err := r.Source.Check(); err != nil {
		return nil, err
	}
	l := &limiter{}
	latest := map[question]int{}
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || !d.Type().IsRegular() || filepath.Ext(path) != ".jsonl" {
			return err
		}
		file, err := os.Open(path)
		if err != nil {
			return err
		}
		defer file.Close()
		err = readAnswers(file, l, func(a recording.Answer) {
			if i, ok := latest[ask(&a)]; ok { // asked again after an interruption
				r.Answers[i] = a
				return
			}
			latest[ask(&a)] = len(r.Answers)
			r.Answers = append(r.Answers, a)
		})
		if err != nil {
			return fmt.Errorf("%s: %w", path, err)
		}
		return nil
	})
	return r, err
}

// limiter bounds what is read of a recording.
type limiter struct {
	answers int
	bytes   int
}

// readAnswers reads answers, one in each line. A last line that was cut off by an interruption is left out.
func readAnswers(in io.Reader, l *limiter, each func(recording.Answer)) error {
	r := bufio.NewReaderSize(in, 1<<16)
	for n := 1; ; n++ {
		line, err := readLine(r, l)
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
		var a recording.Answer
		if err := json.Unmarshal(line, &a); err != nil {
			return fmt.Errorf("line %d: %w", n, err)
		}
		if !Allowed(a.Service, a.Operation) {
			return fmt.Errorf("line %d: %s is not an operation that Drydock imports", n, recording.Action(a.Service, a.Operation))
		}
		if len(a.Pages) > recording.MaxPages {
			return fmt.Errorf("line %d: %w: more than %d pages", n, recording.ErrTooLarge, recording.MaxPages)
		}
		if l.answers++; l.answers > recording.MaxAnswers {
			return fmt.Errorf("%w: more than %d answers", recording.ErrTooLarge, recording.MaxAnswers)
		}
		each(a)
	}
}

// readLine returns a whole line, or io.EOF if there is none.
func readLine(r *bufio.Reader, l *limiter) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if l.bytes += len(part); l.bytes > recording.MaxBytes {
			return nil, fmt.Errorf("%w: more than %d MiB", recording.ErrTooLarge, recording.MaxBytes>>20)
		}
		line = append(line, part...)
		switch {
		case err == nil:
			return line, nil
		case errors.Is(err, bufio.ErrBufferFull):
		default:
			return nil, err
		}
	}
}

// Send writes a recording for Receive: the Source in the first line, then an Answer in each line.
func Send(r *recording.Recording, w io.Writer) error {
	e := json.NewEncoder(w)
	if err := e.Encode(r.Source); err != nil {
		return err
	}
	for i := range r.Answers {
		if err := e.Encode(&r.Answers[i]); err != nil {
			return err
		}
	}
	return nil
}

// Receive reads what Send wrote. An incomplete recording is an error.
func Receive(in io.Reader) (*recording.Recording, error) {
	r := bufio.NewReaderSize(in, 1<<16)
	l := &limiter{}
	first, err := readLine(r, l)
	if err != nil {
		return nil, fmt.Errorf("reading the recording: %w", err)
	}
	out := &recording.Recording{}
	d := json.NewDecoder(bytes.NewReader(first))
	if err := d.Decode(&out.Source); err != nil {
		return nil, fmt.Errorf("reading the recording: %w", err)
	}
	if err := out.Source.Check(); err != nil {
		return nil, err
	}
	if !out.Source.Complete {
		return nil, errors.New("the recording is incomplete")
	}
	if err := readAnswers(r, l, func(a recording.Answer) { out.Answers = append(out.Answers, a) }); err != nil {
		return nil, fmt.Errorf("reading the recording: %w", err)
	}
	return out, nil
}
