package shell

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

func jq(ctx context.Context, c *Call) int {
	args := c.Args[1:]
	raw, compact, exit, null, slurp := false, false, false, false, false
	var names []string
	var values []any
	var rest []string
	for len(args) > 0 {
		a := args[0]
		args = args[1:]
		switch {
		case (a == "--arg" || a == "--argjson") && len(args) >= 2:
			var v any = args[1]
			if a == "--argjson" {
				if err := json.Unmarshal([]byte(args[1]), &v); err != nil {
					c.Fail("Invalid JSON text passed to --argjson")
					return statusUsage
				}
			}
			names, values, args = append(names, "$"+args[0]), append(values, v), args[2:]
		case strings.HasPrefix(a, "--"):
			switch a {
			case "--raw-output":
				raw = true
			case "--compact-output":
				compact = true
			case "--exit-status":
				exit = true
			case "--null-input":
				null = true
			case "--slurp":
				slurp = true
			default:
				c.Fail("Unknown arguments\nUse jq --help for help with command-line options")
				return statusUsage
			}
		case strings.HasPrefix(a, "-") && len(a) > 1:
			for _, l := range a[1:] {
				switch l {
				case 'r', 'j':
					raw = true
				case 'c':
					compact = true
				case 'e':
					exit = true
				case 'n':
					null = true
				case 's':
					slurp = true
				case 'M', 'S':
				default:
					c.Fail("Unknown arguments\nUse jq --help for help with command-line options")
					return statusUsage
				}
			}
		default:
			rest = append(rest, a)
		}
	}
	if len(rest) == 0 {
		c.Fail("Usage:\tjq [OPTIONS] FILTER [FILES...]")
		return statusUsage
	}
	query, err := gojq.Parse(rest[0])
	var code *gojq.Code
	if err == nil {
		code, err = gojq.Compile(query, gojq.WithVariables(names), gojq.WithEnvironLoader(c.Environ))
	}
	if err != nil {
		fmt.Fprintf(c.Stderr, "jq: error: %s\njq: 1 compile error\n", err)
		return 3
	}
	status, last := 0, any(nil)
	run := func(in any) error {
		it := code.RunWithContext(ctx, in, values...)
		for {
			v, more := it.Next()
			if !more {
				return nil
			}
			if err, ok := v.(error); ok {
				fmt.Fprintf(c.Stderr, "jq: error: %s\n", err)
				status = 5
				return nil
			}
			last = v
			var b []byte
			if s, ok := v.(string); ok && raw {
				b = []byte(s)
			} else if compact {
				b, _ = gojq.Marshal(v) // jq made v itself
			} else {
				var buf bytes.Buffer
				b, _ = gojq.Marshal(v)
				_ = json.Indent(&buf, b, "", "  ")
				b = buf.Bytes()
			}
			if _, err := c.Stdout.Write(append(b, '\n')); err != nil {
				return err
			}
		}
	}
	if null {
		_ = run(nil) // the reader may be closed
	} else {
		s := c.inputs(rest[1:], func(name string, data []byte) error {
			dec := json.NewDecoder(bytes.NewReader(data))
			dec.UseNumber()
			var list []any
			for {
				var v any
				err := dec.Decode(&v)
				if err == io.EOF {
					break
				}
				if err != nil {
					fmt.Fprintf(c.Stderr, "jq: error (at %s:1): %s\n", name, err)
					status = 2
					return nil
				}
				v = plain(v)
				if list = append(list, v); slurp {
					continue
				}
				if err := run(v); err != nil {
					return err
				}
			}
			if slurp {
				return run(list)
			}
			return nil
		})
		status = max(status, s)
	}
	if status == 0 && exit && (last == nil || last == false) {
		return 1
	}
	return status
}

// plain replaces json.Number, which gojq does not accept, by numbers.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(string(v)); err == nil {
			return n
		}
		f, _ := v.Float64() // JSON has no other types
		return f
	case []any:
		for i := range v {
			v[i] = plain(v[i])
		}
	case map[string]any:
		for k := range v {
			v[k] = plain(v[k])
		}
	}
	return v
}
