package awscli

import (
	"encoding/json"
	"strings"

	"github.com/drydock-dev/drydock/internal/machine/guest/shell"
)

// Front removes --query from a command line, for callers that run the rest in another process: the guest chooses the
// query, and its result may be of any size. Finish applies the query to what the rest has printed. It is nil if there
// is no query, or if the command line has an error that is reported elsewhere.
func Front(call *shell.Call) (args []string, finish func(printed []byte) int) {
	c := &command{Call: call}
	words, err := c.readGlobals(call.Args[1:])
	if err != nil || c.g.query == "" || len(words) == 0 || words[0] == "s3" || words[0] == "configure" {
		return call.Args, nil
	}
	args = []string{call.Args[0]}
	for i := 1; i < len(call.Args); i++ {
		name, _, given := strings.Cut(call.Args[i], "=")
		if name == "--query" || name == "--output" {
			if !given {
				i++
			}
			continue
		}
		args = append(args, call.Args[i])
	}
	return append(args, "--output", "json"), func(printed []byte) int {
		var out any = map[string]any{}
		if len(printed) > 0 && json.Unmarshal(printed, &out) != nil {
			_, _ = call.Stdout.Write(printed) // not an answer of a service
			return 0
		}
		if err := c.print(out); err != nil {
			return report(call.Stderr, err)
		}
		return 0
	}
}
