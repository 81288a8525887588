package simulated

import (
	"fmt"
	"slices"
	"strconv"
	"sync"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// lines is the line editor's history. It has commands only, not the input of programs.
type lines struct{ t *terminal }

func (l lines) Add(string) {}
func (l lines) Len() int   { return len(l.t.history.list()) }
func (l lines) At(i int) string {
	list := l.t.history.list()
	if i >= len(list) {
		return "" // history -c came after Len
	}
	return list[len(list)-1-i]
}

// commands are the last that were typed on a terminal.
type commands struct {
	mu    sync.Mutex
	lines []string // replaced, never changed
}

func (c *commands) list() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.lines
}

func (c *commands) add(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if n := len(c.lines); line != "" && (n == 0 || c.lines[n-1] != line) {
		c.lines = append(slices.Clone(c.lines[max(0, n+1-maxHistory):]), line)
	}
}

func (c *commands) clear() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.lines = nil
}

// print is the command history of bash: all commands, or the last so many; -c removes them.
func (c *commands) print(call *shell.Call) int {
	list := c.list()
	n := len(list)
	if args := call.Args[1:]; len(args) > 0 {
		if args[0] == "-c" {
			c.clear()
			return 0
		}
		var err error
		if n, err = strconv.Atoi(args[0]); err != nil || n < 0 {
			fmt.Fprintf(call.Stderr, "bash: history: %s: numeric argument required\n", args[0])
			return 1
		}
	}
	for i := max(0, len(list)-n); i < len(list); i++ {
		fmt.Fprintf(call.Stdout, "%5d  %s\n", i+1, list[i])
	}
	return 0
}
