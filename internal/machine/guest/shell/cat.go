package shell

import (
	"context"
	"fmt"
	"path"
	"slices"
	"strings"
)

func cat(_ context.Context, c *Call) int {
	f := c.flags()
	number := f.BoolP("number", "n", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	n := 0
	return c.inputs(args, func(_ string, data []byte) error {
		if !*number {
			_, err := c.Stdout.Write(data)
			return err
		}
		for _, l := range lines(data) {
			n++
			if _, err := fmt.Fprintf(c.Stdout, "%6d\t%s\n", n, l); err != nil {
				return err
			}
		}
		return nil
	})
}

// The options of less and more that have a value, which may be the next word. https://www.man7.org/linux/man-pages/man1/less.1.html
// https://www.man7.org/linux/man-pages/man1/more.1.html
var (
	lessValues = []string{
		"-b", "-D", "-h", "-j", "-k", "-o", "-O", "-p", "-P", "-t", "-T", "-x", "-y", "-z", "-#", "--buffers", "--color", "--max-back-scroll", "--jump-target",
		"--lesskey-file", "--log-file", "--LOG-FILE", "--pattern", "--prompt", "--tag", "--tag-file", "--tabs", "--max-forw-scroll", "--window", "--shift",
	}
	moreValues = []string{"-n", "--lines"}
)

// pager prints everything at once, as less and more do if their output is not a terminal. Its options only concern the screen.
func pager(_ context.Context, c *Call) int {
	values, failure := lessValues, ""
	if path.Base(c.Args[0]) == "more" {
		values, failure = moreValues, "more: cannot open "
	}
	var files []string
	for args := c.Args[1:]; len(args) > 0; args = args[1:] {
		a := args[0]
		if a == "--" {
			files = append(files, args[1:]...)
			break
		}
		switch {
		case slices.Contains(values, a) && len(args) > 1:
			args = args[1:]
		case a == "-" || !strings.HasPrefix(a, "-") && !strings.HasPrefix(a, "+"):
			files = append(files, a)
		}
	}
	if len(files) == 0 {
		files = []string{"-"}
	}
	status := 0
	for _, name := range files {
		data, err := c.read(name)
		if err != nil {
			fmt.Fprintf(c.Stderr, "%s%s: %s\n", failure, name, reason(err))
			status = 1
			continue
		}
		if _, err := c.Stdout.Write(data); err != nil {
			return 1
		}
	}
	return status
}

// editor stands for the editors of the image.
func editor(_ context.Context, c *Call) int {
	return c.Fail("full-screen programs do not work on simulated machines; cat, less, tail and sed -n show files, and sed -i, tee and cat > FILE change them, or scp copies them")
}
