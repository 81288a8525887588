package shell

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"slices"
	"strconv"
	"strings"
)

// ends are the flags that head and tail share.
func ends(c *Call) (count, size int64, args []string, ok bool) {
	for i, a := range c.Args { // head -20
		if n, err := strconv.Atoi(strings.TrimPrefix(a, "-")); i > 0 && err == nil && strings.HasPrefix(a, "-") && n > 0 {
			c.Args = slices.Replace(slices.Clone(c.Args), i, i+1, "-n", strconv.Itoa(n))
			break
		}
	}
	f := c.flags()
	n := f.StringP("lines", "n", "10", "")
	b := f.StringP("bytes", "c", "", "")
	f.BoolP("quiet", "q", false, "")
	f.BoolP("follow", "f", false, "")
	if args, ok = c.parse(f); !ok {
		return 0, 0, nil, false
	}
	count, err := number(*n)
	if err != nil {
		c.Fail("invalid number of lines: '%s'", *n)
		return 0, 0, nil, false
	}
	if *b != "" {
		if size, err = number(*b); err != nil {
			c.Fail("invalid number of bytes: '%s'", *b)
			return 0, 0, nil, false
		}
		count = -1
	}
	if strings.HasPrefix(*n, "+") {
		count = -count - 1 // from that line on
	}
	return count, size, args, true
}

func head(_ context.Context, c *Call) int {
	count, size, args, ok := ends(c)
	if !ok {
		return 1
	}
	if len(args) == 0 && size == 0 && count >= 0 { // line by line, because the program that writes may never end
		in := bufio.NewReader(c.Stdin)
		for ; count > 0; count-- {
			line, err := in.ReadString('\n')
			if _, werr := io.WriteString(c.Stdout, line); err != nil || werr != nil {
				break
			}
		}
		return 0
	}
	return c.inputs(args, func(_ string, data []byte) error {
		if size > 0 {
			data = data[:min(size, int64(len(data)))]
		} else if all := bytes.SplitAfter(data, []byte("\n")); count >= 0 && int64(len(all)) > count {
			data = bytes.Join(all[:count], nil)
		}
		_, err := c.Stdout.Write(data)
		return err
	})
}

func tail(_ context.Context, c *Call) int {
	count, size, args, ok := ends(c)
	if !ok {
		return 1
	}
	return c.inputs(args, func(_ string, data []byte) error {
		all := bytes.SplitAfter(data, []byte("\n"))
		if len(all) > 0 && len(all[len(all)-1]) == 0 {
			all = all[:len(all)-1]
		}
		switch {
		case size > 0:
			data = data[max(0, int64(len(data))-size):]
		case count < -1:
			data = bytes.Join(all[min(int64(len(all)), -count-2):], nil)
		default:
			data = bytes.Join(all[max(0, int64(len(all))-count):], nil)
		}
		_, err := c.Stdout.Write(data)
		return err
	})
}
