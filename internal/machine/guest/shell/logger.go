package shell

import (
	"bufio"
	"context"
	"fmt"
	"strings"
	"time"
)

// logger reads its input to the end, so that the writing program does not end early. There is no syslog, but -s
// prints the lines as the real one does.
func logger(_ context.Context, c *Call) int {
	f := c.flags()
	show := f.BoolP("stderr", "s", false, "")
	tag := f.StringP("tag", "t", c.User, "")
	f.StringP("priority", "p", "", "")
	f.BoolP("id", "i", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	if len(args) > 0 {
		c.Stdin = strings.NewReader(strings.Join(args, " ") + "\n")
	}
	lines := bufio.NewScanner(c.Stdin)
	for lines.Scan() {
		if *show {
			fmt.Fprintf(c.Stderr, "%s %s: %s\n", time.Now().UTC().Format("Jan _2 15:04:05"), *tag, lines.Text())
		}
	}
	return 0
}
