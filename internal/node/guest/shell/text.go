package shell

import (
	"bytes"
	"compress/gzip"
	"context"
	"crypto/md5" //nolint:gosec // md5sum
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"path"
	"regexp"
	"slices"
	"strconv"
	"strings"

	"github.com/itchyny/gojq"
)

// number reads 10, 4K, 2M, 1G, 1MiB.
func number(s string) (int64, error) {
	digits := strings.TrimRight(s, "BbiKkMGT")
	n, err := strconv.ParseInt(strings.TrimPrefix(digits, "+"), 10, 64)
	if err != nil {
		return 0, err
	}
	shift := 0
	switch {
	case len(s) == len(digits):
	case strings.ContainsAny(s[len(digits):], "Kk"):
		shift = 10
	case strings.Contains(s, "M"):
		shift = 20
	case strings.Contains(s, "G"):
		shift = 30
	case strings.Contains(s, "T"):
		shift = 40
	}
	if n > 1<<(62-shift) {
		return 0, strconv.ErrRange
	}
	return n << shift, nil
}

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

// basicRegexp turns a POSIX basic regular expression, in which \( groups and (
// stands for itself, into one of Go.
func basicRegexp(s string) string {
	var out strings.Builder
	class := false
	for i := 0; i < len(s); i++ {
		ch := s[i]
		switch {
		case class:
			out.WriteByte(ch)
			class = ch != ']'
		case ch == '[':
			out.WriteByte(ch)
			class = true
			// ] first in a class stands for itself.
			for _, p := range []string{"^]", "]", "^"} {
				if strings.HasPrefix(s[i+1:], p) {
					out.WriteString(strings.ReplaceAll(p, "]", `\]`))
					i += len(p)
					break
				}
			}
		case ch == '\\' && i+1 < len(s):
			i++
			if strings.IndexByte("(){}+?|", s[i]) < 0 {
				out.WriteByte('\\')
			}
			out.WriteByte(s[i])
		case strings.IndexByte("(){}+?|", ch) >= 0:
			out.WriteByte('\\')
			out.WriteByte(ch)
		case ch == '*' && (i == 0 || i == 1 && s[0] == '^'):
			out.WriteString(`\*`)
		default:
			out.WriteByte(ch)
		}
	}
	return out.String()
}

// maxPattern bounds a regular expression; Go's are linear in the text.
const maxPattern = 1 << 12

func compile(pattern string, extended, fold bool) (*regexp.Regexp, error) {
	if len(pattern) > maxPattern {
		return nil, fmt.Errorf("regular expression too big")
	}
	if !extended {
		pattern = basicRegexp(pattern)
	}
	flags := "(?m)"
	if fold {
		flags = "(?mi)"
	}
	return regexp.Compile(flags + pattern)
}

func grep(_ context.Context, c *Call) int {
	f := c.flags()
	name := path.Base(c.Args[0])
	extended := f.BoolP("extended-regexp", "E", name == "egrep", "")
	perl := f.BoolP("perl-regexp", "P", false, "")
	fixed := f.BoolP("fixed-strings", "F", name == "fgrep", "")
	fold := f.BoolP("ignore-case", "i", false, "")
	invert := f.BoolP("invert-match", "v", false, "")
	quiet := f.BoolP("quiet", "q", false, "")
	count := f.BoolP("count", "c", false, "")
	only := f.BoolP("only-matching", "o", false, "")
	numbers := f.BoolP("line-number", "n", false, "")
	word := f.BoolP("word-regexp", "w", false, "")
	whole := f.BoolP("line-regexp", "x", false, "")
	list := f.BoolP("files-with-matches", "l", false, "")
	silent := f.BoolP("no-messages", "s", false, "")
	noName := f.BoolP("no-filename", "h", false, "")
	most := f.IntP("max-count", "m", -1, "")
	patterns := f.StringArrayP("regexp", "e", nil, "")
	args, ok := c.parse(f)
	if !ok {
		return statusUsage
	}
	if len(*patterns) == 0 {
		if len(args) == 0 {
			c.Fail("usage: grep [OPTION]... PATTERNS [FILE]...")
			return statusUsage
		}
		*patterns, args = args[:1], args[1:]
	}
	var any []string
	for _, p := range strings.Split(strings.Join(*patterns, "\n"), "\n") {
		switch {
		case *fixed:
			p = regexp.QuoteMeta(p)
		case !*extended && !*perl:
			p = basicRegexp(p)
		}
		any = append(any, "(?:"+p+")")
	}
	pattern := strings.Join(any, "|")
	if *word {
		pattern = `\b(?:` + pattern + `)\b`
	}
	if *whole {
		pattern = "^(?:" + pattern + ")$"
	}
	re, err := compile(pattern, true, *fold)
	if err != nil {
		c.Fail("%s", err)
		return statusUsage
	}
	errs := c.Stderr
	if *silent {
		c.Stderr = io.Discard
	}
	found := false
	status := c.inputs(args, func(file string, data []byte) error {
		n := 0
		prefix := ""
		if len(args) > 1 && !*noName {
			prefix = file + ":"
		}
		for i, l := range lines(data) {
			if re.MatchString(l) == *invert || *most >= 0 && n >= *most {
				continue
			}
			n++
			found = true
			if *quiet || *count || *list {
				continue
			}
			at := ""
			if *numbers {
				at = strconv.Itoa(i+1) + ":"
			}
			shown := []string{l}
			if *only {
				shown = re.FindAllString(l, -1)
			}
			for _, s := range shown {
				if _, err := fmt.Fprintf(c.Stdout, "%s%s%s\n", prefix, at, s); err != nil {
					return err
				}
			}
		}
		switch {
		case *count:
			fmt.Fprintf(c.Stdout, "%s%d\n", prefix, n)
		case *list && n > 0:
			fmt.Fprintln(c.Stdout, file)
		}
		return nil
	})
	c.Stderr = errs
	switch {
	case found && (*quiet || status == 0):
		return 0
	case status != 0:
		return statusUsage
	}
	return 1
}

// ranges reads cut's list: 1,3-5,7-
func ranges(s string) ([][2]int, bool) {
	var out [][2]int
	for p := range strings.SplitSeq(s, ",") {
		from, to, isRange := strings.Cut(p, "-")
		a, b := 1, 1<<30
		var err1, err2 error
		if from != "" {
			a, err1 = strconv.Atoi(from)
		}
		if !isRange {
			b = a
		} else if to != "" {
			b, err2 = strconv.Atoi(to)
		}
		if err1 != nil || err2 != nil || a < 1 || b < a {
			return nil, false
		}
		out = append(out, [2]int{a, b})
	}
	return out, true
}

func cut(_ context.Context, c *Call) int {
	f := c.flags()
	delimiter := f.StringP("delimiter", "d", "\t", "")
	fields := f.StringP("fields", "f", "", "")
	chars := f.StringP("characters", "c", "", "")
	f.StringVarP(chars, "bytes", "b", "", "")
	only := f.BoolP("only-delimited", "s", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	spec := *fields
	if spec == "" {
		spec = *chars
	}
	want, ok := ranges(spec)
	if !ok {
		return c.Fail("you must specify a list of bytes, characters, or fields")
	}
	return c.inputs(args, func(_ string, data []byte) error {
		for _, l := range lines(data) {
			parts, join := strings.Split(l, *delimiter), *delimiter
			if *fields == "" {
				parts, join = strings.Split(l, ""), ""
			} else if len(parts) == 1 {
				if !*only {
					fmt.Fprintln(c.Stdout, l)
				}
				continue
			}
			var kept []string
			for i, p := range parts {
				if slices.ContainsFunc(want, func(r [2]int) bool { return r[0] <= i+1 && i+1 <= r[1] }) {
					kept = append(kept, p)
				}
			}
			if _, err := fmt.Fprintln(c.Stdout, strings.Join(kept, join)); err != nil {
				return err
			}
		}
		return nil
	})
}

// charset expands a-z, [:upper:], \n.
func charset(s string) []rune {
	for class, members := range map[string]string{"upper": "A-Z", "lower": "a-z", "digit": "0-9", "alpha": "A-Za-z", "alnum": "A-Za-z0-9", "space": ` \t\n\v\f\r`, "blank": ` \t`} {
		s = strings.ReplaceAll(s, "[:"+class+":]", members)
	}
	s = strings.NewReplacer(`\n`, "\n", `\t`, "\t", `\r`, "\r", `\v`, "\v", `\f`, "\f", `\\`, `\`, `\0`, "\x00").Replace(s)
	var out []rune
	in := []rune(s)
	for i := 0; i < len(in); i++ {
		if i+2 < len(in) && in[i+1] == '-' && in[i] <= in[i+2] && in[i+2]-in[i] < 256 {
			for r := in[i]; r <= in[i+2]; r++ {
				out = append(out, r)
			}
			i += 2
			continue
		}
		out = append(out, in[i])
	}
	return out
}

func tr(_ context.Context, c *Call) int {
	f := c.flags()
	remove := f.BoolP("delete", "d", false, "")
	squeeze := f.BoolP("squeeze-repeats", "s", false, "")
	complement := f.BoolP("complement", "c", false, "")
	args, ok := c.parse(f)
	if !ok || !c.operands(args, 1) {
		return 1
	}
	from := charset(args[0])
	var to []rune
	if len(args) > 1 {
		to = charset(args[1])
	}
	if !*remove && !*squeeze && len(to) == 0 {
		return c.Fail("missing operand after '%s'", args[0])
	}
	data, err := c.read("-")
	if err != nil {
		return c.Fail("%s", reason(err))
	}
	var out strings.Builder
	last := rune(-1)
	for _, r := range string(data) {
		i := slices.Index(from, r)
		in := (i >= 0) != *complement
		switch {
		case in && *remove:
			continue
		case in && len(to) > 0:
			r = to[min(max(i, 0), len(to)-1)]
			if *complement {
				r = to[len(to)-1]
			}
		}
		if in && *squeeze && r == last {
			continue
		}
		last = -1
		if in {
			last = r
		}
		out.WriteRune(r)
	}
	_, err = io.WriteString(c.Stdout, out.String())
	return failed(err)
}

// failed is the status of a command whose output nobody took.
func failed(err error) int {
	if err != nil {
		return 1
	}
	return 0
}

func sortLines(_ context.Context, c *Call) int {
	f := c.flags()
	reverse := f.BoolP("reverse", "r", false, "")
	numeric := f.BoolP("numeric-sort", "n", false, "")
	version := f.BoolP("version-sort", "V", false, "")
	unique := f.BoolP("unique", "u", false, "")
	key := f.StringP("key", "k", "", "")
	sep := f.StringP("field-separator", "t", "", "")
	args, ok := c.parse(f)
	if !ok {
		return statusUsage
	}
	var all []string
	status := c.inputs(args, func(_ string, data []byte) error {
		all = append(all, lines(data)...)
		return nil
	})
	field, _, _ := strings.Cut(*key, ",")
	at, _ := strconv.Atoi(strings.TrimRight(field, "nrV"))
	of := func(l string) string {
		if at <= 0 {
			return l
		}
		parts := strings.Fields(l)
		if *sep != "" {
			parts = strings.Split(l, *sep)
		}
		if at > len(parts) {
			return ""
		}
		return parts[at-1]
	}
	slices.SortStableFunc(all, func(a, b string) int {
		x, y := of(a), of(b)
		order := strings.Compare(x, y)
		switch {
		case *numeric || strings.Contains(*key, "n"):
			p, _ := strconv.ParseFloat(strings.TrimSpace(x), 64) // what is no number counts as 0
			q, _ := strconv.ParseFloat(strings.TrimSpace(y), 64)
			if p < q {
				order = -1
			} else if p > q {
				order = 1
			}
		case *version:
			order = compareVersions(x, y)
		}
		if *reverse {
			return -order
		}
		return order
	})
	if *unique {
		all = slices.Compact(all)
	}
	for _, l := range all {
		if _, err := fmt.Fprintln(c.Stdout, l); err != nil {
			return 1
		}
	}
	return status
}

var versionParts = regexp.MustCompile(`[0-9]+|[^0-9]+`)

func compareVersions(a, b string) int {
	x, y := versionParts.FindAllString(a, -1), versionParts.FindAllString(b, -1)
	for i := range min(len(x), len(y)) {
		p, err1 := strconv.ParseUint(x[i], 10, 64)
		q, err2 := strconv.ParseUint(y[i], 10, 64)
		switch {
		case err1 == nil && err2 == nil && p != q:
			if p < q {
				return -1
			}
			return 1
		case (err1 != nil || err2 != nil) && x[i] != y[i]:
			return strings.Compare(x[i], y[i])
		}
	}
	return len(x) - len(y)
}

func uniq(_ context.Context, c *Call) int {
	f := c.flags()
	count := f.BoolP("count", "c", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	return c.inputs(args, func(_ string, data []byte) error {
		all := lines(data)
		for i := 0; i < len(all); {
			j := i
			for j < len(all) && all[j] == all[i] {
				j++
			}
			prefix := ""
			if *count {
				prefix = fmt.Sprintf("%7d ", j-i)
			}
			if _, err := fmt.Fprintf(c.Stdout, "%s%s\n", prefix, all[i]); err != nil {
				return err
			}
			i = j
		}
		return nil
	})
}

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

func seq(ctx context.Context, c *Call) int {
	nums := []int64{1, 1, 1}
	args := c.Args[1:]
	var err error
	read := func(s string) (n int64) {
		if err == nil {
			n, err = strconv.ParseInt(s, 10, 64)
		}
		return n
	}
	switch len(args) {
	case 1:
		nums[2] = read(args[0])
	case 2:
		nums[0], nums[2] = read(args[0]), read(args[1])
	case 3:
		nums[0], nums[1], nums[2] = read(args[0]), read(args[1]), read(args[2])
	default:
		return c.Fail("missing operand")
	}
	if err != nil || nums[1] == 0 {
		return c.Fail("invalid argument")
	}
	for n := nums[0]; (nums[1] > 0 && n <= nums[2] || nums[1] < 0 && n >= nums[2]) && ctx.Err() == nil; n += nums[1] {
		if _, err := fmt.Fprintln(c.Stdout, n); err != nil {
			return 1
		}
	}
	return 0
}

func base64Text(_ context.Context, c *Call) int {
	f := c.flags()
	decode := f.BoolP("decode", "d", false, "")
	wrap := f.IntP("wrap", "w", 76, "")
	f.BoolP("ignore-garbage", "i", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	return c.inputs(args, func(_ string, data []byte) error {
		if *decode {
			out, err := base64.StdEncoding.DecodeString(strings.Join(strings.Fields(string(data)), ""))
			if err != nil {
				c.Fail("invalid input")
				return err
			}
			_, err = c.Stdout.Write(out)
			return err
		}
		text := base64.StdEncoding.EncodeToString(data)
		for *wrap > 0 && len(text) > *wrap {
			if _, err := fmt.Fprintln(c.Stdout, text[:*wrap]); err != nil {
				return err
			}
			text = text[*wrap:]
		}
		if *wrap > 0 {
			text += "\n"
		}
		_, err := io.WriteString(c.Stdout, text)
		return err
	})
}

func digest(_ context.Context, c *Call) int {
	args, ok := c.parse(c.flags())
	if !ok {
		return 1
	}
	return c.inputs(args, func(name string, data []byte) error {
		sum := fmt.Sprintf("%x", sha256.Sum256(data))
		if path.Base(c.Args[0]) == "md5sum" {
			sum = fmt.Sprintf("%x", md5.Sum(data)) //nolint:gosec // md5sum
		}
		_, err := fmt.Fprintf(c.Stdout, "%s  %s\n", sum, name)
		return err
	})
}

// gz is gzip, gunzip and zcat, through standard input or with a file.
func gz(_ context.Context, c *Call) int {
	f := c.flags()
	decompress := f.BoolP("decompress", "d", path.Base(c.Args[0]) != "gzip", "")
	stdout := f.BoolP("stdout", "c", path.Base(c.Args[0]) == "zcat", "")
	f.BoolP("force", "f", false, "")
	args, ok := c.parse(f)
	if !ok {
		return 1
	}
	return c.inputs(args, func(name string, data []byte) error {
		var out bytes.Buffer
		to := strings.TrimSuffix(name, ".gz")
		if *decompress {
			r, err := gzip.NewReader(bytes.NewReader(data))
			if err == nil {
				_, err = io.Copy(&out, io.LimitReader(r, maxInput))
			}
			if err != nil {
				c.Fail("%s: not in gzip format", name)
				return err
			}
		} else {
			to = name + ".gz"
			w := gzip.NewWriter(&out)
			_, _ = w.Write(data) // into memory
			_ = w.Close()
		}
		if *stdout || name == "-" {
			_, err := c.Stdout.Write(out.Bytes())
			return err
		}
		if err := c.FS.WriteFile(c.Path(to), out.Bytes(), 0o644); err != nil {
			c.Fail("%s: %s", to, reason(err))
			return err
		}
		return c.FS.Remove(c.Path(name))
	})
}

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
				b, _ = gojq.Marshal(v) // it made v
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
		_ = run(nil) // nobody reads on
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

// plain replaces json.Number, which the JSON language of jq does not know, by numbers.
func plain(v any) any {
	switch v := v.(type) {
	case json.Number:
		if n, err := strconv.Atoi(string(v)); err == nil {
			return n
		}
		f, _ := v.Float64() // JSON has nothing else
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
