package shell

import (
	"bytes"
	"context"
	"fmt"
	"strconv"
	"strings"
)

func wc(_ context.Context, c *Call) int {
	f := c.flags()
	nLines := f.BoolP("lines", "l", false, "")
	nWords := f.BoolP("words", "w", false, "")
	nBytes := f.BoolP("bytes", "c", false, "")
	f.BoolVarP(nBytes, "chars", "m", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	all := !*nLines && !*nWords && !*nBytes
	return c.inputs(args, func(name string, data []byte) error {
		var out []string
		if all || *nLines {
			out = append(out, strconv.Itoa(bytes.Count(data, []byte("\n"))))
		}
		if all || *nWords {
			out = append(out, strconv.Itoa(len(bytes.Fields(data))))
		}
		if all || *nBytes {
			out = append(out, strconv.Itoa(len(data)))
		}
		if name != "-" {
			out = append(out, name)
		}
		_, err := fmt.Fprintln(c.Stdout, strings.Join(out, " "))
		return err
	})
}
