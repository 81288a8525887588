package ami

import (
	"bytes"
	"context"
	"fmt"
	"time"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// tailInterval is how often tail -f looks for more, as GNU's tail does.
const tailInterval = time.Second

// tail prints what is added to files until ctx ends or its output is no longer read. The shell's own tail calls it for
// tail -f, after it has printed the files' ends: a script sees its own view of the files only.
func (m *Machine) tail(ctx context.Context, c *shell.Call) int {
	names := c.Args[1:]
	seen := map[string]sight{}
	for _, name := range names {
		if b, err := c.FS.ReadFile(c.Path(name)); err == nil { // with the rights of the user
			seen[name] = look(b)
		}
	}
	flusher, streams := c.Stdout.(shell.Flusher)
	last := names[len(names)-1] // its text was printed last
	for streams && len(seen) > 0 {
		if flusher.Flush() != nil {
			return 1
		}
		if !m.wait(ctx, tailInterval) {
			return 130
		}
		m.WriteMessages()
		for _, name := range names {
			before, followed := seen[name]
			b, err := m.FS.ReadFile(c.Path(name))
			if !followed || err != nil {
				continue
			}
			added, found := before.added(b)
			if !found {
				fmt.Fprintf(c.Stderr, "tail: %s: file truncated\n", name)
			}
			if len(added) > 0 && name != last {
				fmt.Fprintf(c.Stdout, "\n==> %s <==\n", name)
				last = name
			}
			_, _ = c.Stdout.Write(added) // Flush reports the error
			seen[name] = look(b)
		}
	}
	return 1
}

// A sight is how long a file was and how it ended.
type sight struct {
	size int
	end  []byte
}

func look(text []byte) sight {
	return sight{len(text), bytes.Clone(text[max(0, len(text)-2<<10):])}
}

// added returns what has been added to a file. The log of rsyslog loses its first lines when it grows. If the file has been
// replaced, added returns the whole text and false.
func (s sight) added(text []byte) ([]byte, bool) {
	if len(text) >= s.size && bytes.HasSuffix(text[:s.size], s.end) {
		return text[s.size:], true
	}
	if i := bytes.LastIndex(text, s.end); i >= 0 && len(s.end) > 0 {
		return text[i+len(s.end):], true
	}
	return text, false
}
