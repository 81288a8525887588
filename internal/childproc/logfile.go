package childproc

import (
	"bytes"
	"io"
	"os"
	"sync"
)

// A logFile appends to a file. When the file reaches limit, it is renamed to FILE.1 and an empty one is started, so
// the two never take more than twice the limit.
type logFile struct {
	path  string
	limit int64

	mu   sync.Mutex
	f    *os.File
	size int64
}

func openLog(path string, limit int64) (*logFile, error) {
	l := &logFile{path: path, limit: limit}
	return l, l.open()
}

func (l *logFile) open() error {
	f, err := os.OpenFile(l.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	l.f, l.size = f, 0
	if st, err := f.Stat(); err == nil {
		l.size = st.Size()
	}
	return nil
}

// Write never fails, because a full disk must not stop the child's output, and with it the child.
func (l *logFile) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	total := len(p)
	if l.f != nil && l.size > 0 && l.size+int64(len(p)) > l.limit {
		// Keep whole lines in the old file.
		end := bytes.IndexByte(p, '\n') + 1
		_, _ = l.f.Write(p[:end])
		p = p[end:]
		_ = l.f.Close()
		l.f = nil
		_ = os.Rename(l.path, l.path+".1")
	}
	if l.f == nil && l.open() != nil {
		return total, nil
	}
	n, _ := l.f.Write(p)
	l.size += int64(n)
	return total, nil
}

func (l *logFile) Close() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.f == nil {
		return nil
	}
	err := l.f.Close()
	l.f = nil
	return err
}

// tail returns about the last max bytes of the log at path, in whole lines. If the file is too short, it continues
// with the previous one.
func tail(path string, max int64) string {
	b, cut := end(path, max)
	if left := max - int64(len(b)); !cut && left > 0 {
		var before []byte
		before, cut = end(path+".1", left)
		b = append(before, b...)
	}
	if cut {
		if _, rest, ok := bytes.Cut(b, []byte("\n")); ok {
			b = rest
		}
	}
	return string(bytes.TrimRight(b, "\n"))
}

// end returns the last max bytes of a file, and whether there is more before them. It returns nothing for a file that
// cannot be read.
func end(path string, max int64) (b []byte, cut bool) {
	f, err := os.Open(path)
	if err != nil {
		return nil, false
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, false
	}
	from := st.Size() - max
	if from > 0 {
		if _, err := f.Seek(from, io.SeekStart); err != nil {
			return nil, false
		}
	}
	b, _ = io.ReadAll(io.LimitReader(f, max))
	return b, from > 0
}
