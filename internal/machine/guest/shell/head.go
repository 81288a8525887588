package shell

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"regexp"
	"slices"
	"strings"
)

// An end is the part of its files that head or tail prints.
type end struct {
	count, size   int64 // lines, or bytes if size is not 0; a negative count means from line -count-1 on
	quiet, follow bool
	files         []string
}

// shortCount matches -20 and -20f.
var shortCount = regexp.MustCompile(`^-([1-9][0-9]*)(f?)$`)

func endOf(c *Call) (e end, ok bool) {
	for i, a := range c.Args {
		if m := shortCount.FindStringSubmatch(a); i > 0 && m != nil {
			words := []string{"-n", m[1]}
			if m[2] != "" {
				words = append(words, "-f")
			}
			c.Args = slices.Replace(slices.Clone(c.Args), i, i+1, words...)
			break
		}
	}
	f := c.flags()
	n := f.StringP("lines", "n", "10", "")
	b := f.StringP("bytes", "c", "", "")
	f.BoolVarP(&e.quiet, "quiet", "q", false, "")
	f.BoolVarP(&e.follow, "follow", "f", false, "")
	name := f.BoolP("follow-name", "F", false, "")
	if e.files, ok = c.parse(f); !ok {
		return e, false
	}
	e.follow = e.follow || *name
	var err error
	if e.count, err = number(*n); err != nil {
		c.Fail("invalid number of lines: '%s'", *n)
		return e, false
	}
	if *b != "" {
		if e.size, err = number(*b); err != nil {
			c.Fail("invalid number of bytes: '%s'", *b)
			return e, false
		}
		e.count = -1
	}
	if strings.HasPrefix(*n, "+") {
		e.count = -e.count - 1
	}
	return e, true
}

// show prints a part of each file, with the files' names if there are several.
func (e *end) show(c *Call, part func(data []byte) []byte) int {
	first := true
	return c.inputs(e.files, func(name string, data []byte) error {
		if len(e.files) > 1 && !e.quiet {
			title := "==> " + name + " <==\n"
			if !first {
				title = "\n" + title
			}
			first = false
			if _, err := io.WriteString(c.Stdout, title); err != nil {
				return err
			}
		}
		_, err := c.Stdout.Write(part(data))
		return err
	})
}

func head(_ context.Context, c *Call) int {
	e, ok := endOf(c)
	if !ok {
		return 1
	}
	if len(e.files) == 0 && e.size == 0 && e.count >= 0 { // line by line, because the program that writes may never end
		in := bufio.NewReader(c.Stdin)
		for ; e.count > 0; e.count-- {
			line, err := in.ReadString('\n')
			if _, werr := io.WriteString(c.Stdout, line); err != nil || werr != nil {
				break
			}
		}
		return 0
	}
	return e.show(c, func(data []byte) []byte {
		if e.size > 0 {
			return data[:min(e.size, int64(len(data)))]
		}
		if all := bytes.SplitAfter(data, []byte("\n")); e.count >= 0 && int64(len(all)) > e.count {
			return bytes.Join(all[:e.count], nil)
		}
		return data
	})
}

func tail(ctx context.Context, c *Call) int {
	e, ok := endOf(c)
	if !ok {
		return 1
	}
	status := e.show(c, func(data []byte) []byte {
		all := bytes.SplitAfter(data, []byte("\n"))
		if len(all) > 0 && len(all[len(all)-1]) == 0 {
			all = all[:len(all)-1]
		}
		switch {
		case e.size > 0:
			return data[max(0, int64(len(data))-e.size):]
		case e.count < -1:
			return bytes.Join(all[min(int64(len(all)), -e.count-2):], nil)
		}
		return bytes.Join(all[max(0, int64(len(all))-e.count):], nil)
	})
	if e.follow && len(e.files) > 0 && c.m != nil && c.m.outside != nil {
		rest := *c
		rest.Args = append([]string{"tail"}, e.files...)
		if ended, ok := c.m.outside(ctx, &rest); ok {
			return ended
		}
	}
	return status
}
