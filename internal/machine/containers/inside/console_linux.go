package inside

import (
	"os"
	"sync"
)

// consoleLimit is how much of a machine's console is kept, twice.
const consoleLimit = 64 << 10

// A console appends to a file. At consoleLimit it is renamed to FILE.1, and a new one begins.
type console struct {
	path string
	mu   sync.Mutex
	f    *os.File
	size int64
}

func openConsole(path string) (*console, error) {
	c := &console{path: path}
	return c, c.open()
}

func (c *console) open() error {
	f, err := os.OpenFile(c.path, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	st, err := f.Stat()
	if err != nil {
		_ = f.Close()
		return err
	}
	c.f, c.size = f, st.Size()
	return nil
}

// Write never fails, because a full disk must not end the machine.
func (c *console) Write(p []byte) (int, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.size+int64(len(p)) > consoleLimit {
		_ = c.f.Close()
		_ = os.Rename(c.path, c.path+".1")
		if c.open() != nil {
			return len(p), nil
		}
	}
	n, _ := c.f.Write(p)
	c.size += int64(n)
	return len(p), nil
}
