package shell

import (
	"bytes"
	"compress/gzip"
	"context"
	"io"
	"path"
	"strings"
)

// gz is gzip, gunzip and zcat, with standard input or with files.
func gz(_ context.Context, c *Call) int {
	f := c.flags()
	decompress := f.BoolP("decompress", "d", path.Base(c.Args[0]) != "gzip", "")
	f.BoolVarP(decompress, "uncompress", "", *decompress, "")
	stdout := f.BoolP("stdout", "c", path.Base(c.Args[0]) == "zcat", "")
	keep := f.BoolP("keep", "k", false, "")
	force := f.BoolP("force", "f", false, "")
	test := f.BoolP("test", "t", false, "")
	for _, ignored := range []string{"quiet:q", "verbose:v", "no-name:n", "name:N", "fast:1", "best:9", "level2:2", "level3:3", "level4:4", "level5:5", "level6:6", "level7:7", "level8:8"} {
		name, letter, _ := strings.Cut(ignored, ":")
		f.BoolP(name, letter, false, "")
	}
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	c.Args = append([]string{"gzip"}, c.Args[1:]...) // the others are scripts that call gzip
	if *test {
		*decompress = true
	}
	// Some files may succeed and others fail; inputs would stop at the first failure.
	status := 0
	if len(args) == 0 {
		args = []string{"-"}
	}
	for _, name := range args {
		switch i, err := c.FS.Stat(c.Path(name)); {
		case name != "-" && err != nil:
			status = c.Fail("%s: %s", name, reason(err))
			continue
		case name != "-" && i.IsDir():
			c.Fail("%s is a directory -- ignored", name)
			status = statusUsage
			continue
		}
		to := name + ".gz"
		if *decompress {
			if to = strings.TrimSuffix(name, ".gz"); strings.HasSuffix(name, ".tgz") {
				to = strings.TrimSuffix(name, ".tgz") + ".tar"
			}
			if to == name && name != "-" && !*stdout && !*test {
				c.Fail("%s: unknown suffix -- ignored", name)
				status = statusUsage
				continue
			}
		} else if strings.HasSuffix(name, ".gz") && !*stdout && !*force {
			c.Fail("%s already has .gz suffix -- unchanged", name)
			status = statusUsage
			continue
		}
		data, err := c.read(name)
		if err != nil {
			status = c.Fail("%s: %s", name, reason(err))
			continue
		}
		out, why := squeeze(data, *decompress)
		switch {
		case why != "":
			shown := name
			if name == "-" {
				shown = "stdin"
			}
			fail := "\ngzip: " + shown + ": " + why + "\n"
			_, _ = io.WriteString(c.Stderr, fail)
			status = 1
		case *test:
		case *stdout || name == "-":
			if _, err := c.Stdout.Write(out); err != nil {
				return 1
			}
		default:
			if s := c.replace(name, to, out, *force, *keep); s != 0 {
				status = s
			}
		}
	}
	return status
}

// squeeze compresses or decompresses. why is gzip's message about data in another format.
func squeeze(data []byte, decompress bool) (out []byte, why string) {
	if !decompress {
		var b bytes.Buffer
		w := gzip.NewWriter(&b)
		_, _ = w.Write(data) // writes to memory
		_ = w.Close()
		return b.Bytes(), ""
	}
	r, err := gzip.NewReader(bytes.NewReader(data))
	if err != nil {
		return nil, "not in gzip format"
	}
	out, err = io.ReadAll(io.LimitReader(r, maxInput))
	switch {
	case err == io.ErrUnexpectedEOF:
		return nil, "unexpected end of file"
	case err != nil:
		return nil, "invalid compressed data--format violated"
	}
	return out, ""
}

// replace replaces a file with another.
func (c *Call) replace(name, to string, data []byte, force, keep bool) int {
	i, err := c.FS.Stat(c.Path(name))
	if err != nil {
		return c.Fail("%s: %s", name, reason(err))
	}
	if _, err := c.FS.Stat(c.Path(to)); err == nil && !force {
		c.Fail("%s already exists;\tnot overwritten", to)
		return statusUsage
	}
	if err := c.FS.WriteFile(c.Path(to), data, i.Mode().Perm()); err != nil {
		return c.Fail("%s: %s", to, reason(err))
	}
	if keep {
		return 0
	}
	if err := c.FS.Remove(c.Path(name)); err != nil {
		return c.Fail("%s: %s", name, reason(err))
	}
	return 0
}
