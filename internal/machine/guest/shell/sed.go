package shell

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// A sedCommand is one command of a sed script: s, d, p, q, a, i, c, =, y.
type sedCommand struct {
	from, to *sedAddress
	not      bool
	verb     byte
	re       *regexp.Regexp // of s
	with     string         // of s, as a Go template; the text of a, i, c
	global   bool
	print    bool
	nth      int
	chars    map[rune]rune // of y

	active bool // currently within its range
}

// A sedAddress is a line number, $ or /re/.
type sedAddress struct {
	line int
	last bool
	re   *regexp.Regexp
}

func (a *sedAddress) matches(n int, last bool, text string) bool {
	switch {
	case a.re != nil:
		return a.re.MatchString(text)
	case a.last:
		return last
	}
	return a.line == n
}

var errSed = errors.New("unknown command")

// sed edits lines. It supports the stream editor's commands that configuration scripts use, without branches and the
// hold space.
func sed(_ context.Context, c *Call) int {
	args := slices.Clone(c.Args)
	for i, a := range args { // the suffix of -i must be attached to it
		if i > 0 && strings.HasPrefix(a, "-i") && !strings.HasPrefix(a, "--") && len(a) > 2 && strings.Trim(a[2:], "neErs") != "" {
			args[i] = "--in-place=" + a[2:]
		}
	}
	c.Args = args
	f := c.flags()
	quiet := f.BoolP("quiet", "n", false, "")
	extended := f.BoolP("regexp-extended", "E", false, "")
	f.BoolVarP(extended, "regexp-extended-gnu", "r", false, "")
	inPlace := f.StringP("in-place", "i", "", "")
	f.Lookup("in-place").NoOptDefVal = "\x00"
	f.BoolP("separate", "s", false, "")
	scripts := f.StringArrayP("expression", "e", nil, "")
	names, ok := c.parse(f)
	if !ok {
		return 1
	}
	if len(*scripts) == 0 {
		if len(names) == 0 {
			return c.Fail("no script specified")
		}
		*scripts, names = names[:1], names[1:]
	}
	text := strings.Join(*scripts, "\n")
	p := sedParser{text: text, extended: *extended}
	commands, err := p.parse()
	if err != nil {
		return c.Fail("-e expression #1, char %d: %s", p.at, err)
	}
	if *inPlace == "" {
		return c.inputs(names, func(_ string, data []byte) error {
			_, err := c.Stdout.Write(edit(commands, data, *quiet))
			return err
		})
	}
	status := 0
	for _, name := range names {
		data, err := c.FS.ReadFile(c.Path(name))
		if err != nil {
			status = c.Fail("can't read %s: %s", name, reason(err))
			continue
		}
		if *inPlace != "\x00" {
			if err := c.FS.WriteFile(c.Path(name)+*inPlace, data, 0o644); err != nil {
				return c.Fail("cannot rename %s: %s", name, reason(err))
			}
		}
		if err := c.FS.WriteFile(c.Path(name), edit(commands, data, *quiet), 0o644); err != nil {
			return c.Fail("couldn't flush %s: %s", name, reason(err))
		}
	}
	return status
}

func edit(commands []*sedCommand, data []byte, quiet bool) []byte {
	var out bytes.Buffer
	all := lines(data)
	for _, s := range commands {
		s.active = false
	}
	for i, line := range all {
		n, last := i+1, i == len(all)-1
		var after []string
		deleted, quit := false, false
		for _, s := range commands {
			if s.selects(n, last, line) == s.not {
				continue
			}
			switch s.verb {
			case 's':
				next, changed := s.substitute(line)
				line = next
				if changed && s.print {
					fmt.Fprintln(&out, line)
				}
			case 'y':
				line = strings.Map(func(r rune) rune {
					if to, ok := s.chars[r]; ok {
						return to
					}
					return r
				}, line)
			case 'p':
				fmt.Fprintln(&out, line)
			case '=':
				fmt.Fprintln(&out, n)
			case 'd':
				deleted = true
			case 'q':
				quit = true
			case 'a':
				after = append(after, s.with)
			case 'i':
				fmt.Fprintln(&out, s.with)
			case 'c':
				if s.to == nil || !s.active {
					fmt.Fprintln(&out, s.with)
				}
				deleted = true
			}
			if deleted || quit || out.Len() > maxInput {
				break
			}
		}
		if !deleted && !quiet {
			fmt.Fprintln(&out, line)
		}
		for _, a := range after {
			fmt.Fprintln(&out, a)
		}
		if quit || out.Len() > maxInput {
			break
		}
	}
	if len(data) > 0 && data[len(data)-1] != '\n' {
		return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
	}
	return out.Bytes()
}

// selects reports whether the command's addresses match a line.
func (s *sedCommand) selects(n int, last bool, line string) bool {
	switch {
	case s.from == nil:
		return true
	case s.to == nil:
		return s.from.matches(n, last, line)
	case s.active:
		if s.to.matches(n, last, line) || s.to.line > 0 && n >= s.to.line {
			s.active = false
		}
		return true
	case s.from.matches(n, last, line):
		s.active = s.to.line == 0 || s.to.line > n
		return true
	}
	return false
}

func (s *sedCommand) substitute(line string) (string, bool) {
	found := s.re.FindAllStringSubmatchIndex(line, -1)
	if len(found) == 0 {
		return line, false
	}
	var out []byte
	at, changed := 0, false
	for i, m := range found {
		if nth := max(s.nth, 1); i+1 < nth || i+1 > nth && !s.global {
			continue
		}
		out = append(out, line[at:m[0]]...)
		out = s.re.ExpandString(out, s.with, line, m)
		at, changed = m[1], true
	}
	return string(append(out, line[at:]...)), changed
}

type sedParser struct {
	text     string
	at       int
	extended bool
}

func (p *sedParser) peek() byte {
	if p.at < len(p.text) {
		return p.text[p.at]
	}
	return 0
}

func (p *sedParser) skip(chars string) {
	for p.at < len(p.text) && strings.IndexByte(chars, p.text[p.at]) >= 0 {
		p.at++
	}
}

const maxSedCommands = 1000

func (p *sedParser) parse() ([]*sedCommand, error) {
	var out []*sedCommand
	for {
		p.skip(" \t\n;")
		if p.at >= len(p.text) {
			return out, nil
		}
		if p.peek() == '#' {
			for p.at < len(p.text) && p.peek() != '\n' {
				p.at++
			}
			continue
		}
		s, err := p.command()
		if err != nil {
			return nil, err
		}
		if out = append(out, s); len(out) > maxSedCommands {
			return nil, errors.New("too many commands")
		}
	}
}

func (p *sedParser) address() (*sedAddress, error) {
	switch ch := p.peek(); {
	case ch == '$':
		p.at++
		return &sedAddress{last: true}, nil
	case ch >= '0' && ch <= '9':
		start := p.at
		p.skip("0123456789")
		n, err := strconv.Atoi(p.text[start:p.at])
		return &sedAddress{line: n}, err
	case ch == '/' || ch == '\\':
		if ch == '\\' {
			p.at++
		}
		pattern, err := p.delimited(p.peek())
		if err != nil {
			return nil, err
		}
		fold := p.peek() == 'I'
		if fold {
			p.at++
		}
		re, err := compile(pattern, p.extended, fold)
		return &sedAddress{re: re}, err
	}
	return nil, nil
}

// delimited reads the text between the delimiter at the reader and the next one.
func (p *sedParser) delimited(d byte) (string, error) {
	var out strings.Builder
	for p.at++; p.at < len(p.text); p.at++ {
		ch := p.text[p.at]
		switch {
		case ch == d:
			p.at++
			return out.String(), nil
		case ch == '\\' && p.at+1 < len(p.text):
			p.at++
			if next := p.text[p.at]; next != d {
				out.WriteByte('\\')
				if next == 'n' {
					out.WriteByte('n')
					continue
				}
			} else if strings.IndexByte(`.*[]^$+?(){}|&`, d) >= 0 {
				out.WriteByte('\\')
			}
			out.WriteByte(p.text[p.at])
		default:
			out.WriteByte(ch)
		}
	}
	return "", errors.New("unterminated `s' command")
}

func (p *sedParser) command() (*sedCommand, error) {
	s := &sedCommand{}
	var err error
	if s.from, err = p.address(); err != nil {
		return nil, err
	}
	if s.from != nil && p.peek() == ',' {
		p.at++
		if s.to, err = p.address(); err != nil {
			return nil, err
		}
		if s.to == nil {
			return nil, errors.New("unexpected `,'")
		}
	}
	p.skip(" \t")
	if p.peek() == '!' {
		s.not = true
		p.at++
		p.skip(" \t")
	}
	s.verb = p.peek()
	p.at++
	switch s.verb {
	case 'd', 'p', 'q', '=':
	case 's':
		err = p.substitution(s)
	case 'y':
		err = p.translation(s)
	case 'a', 'i', 'c':
		p.skip(" \t")
		if p.peek() == '\\' {
			p.at++
			p.skip(" \t\n")
		}
		end := strings.IndexByte(p.text[min(p.at, len(p.text)):], '\n')
		if end < 0 {
			end = len(p.text) - min(p.at, len(p.text))
		}
		s.with = strings.ReplaceAll(p.text[min(p.at, len(p.text)):min(p.at, len(p.text))+end], `\t`, "\t")
		p.at += end
	default:
		return nil, fmt.Errorf("%w: `%c'", errSed, s.verb)
	}
	return s, err
}

func (p *sedParser) substitution(s *sedCommand) error {
	d := p.peek()
	pattern, err := p.delimited(d)
	if err != nil {
		return err
	}
	p.at-- // delimited skips the first one
	with, err := p.delimited(d)
	if err != nil {
		return err
	}
	fold := false
	for {
		switch ch := p.peek(); {
		case ch == 'g':
			s.global = true
		case ch == 'p':
			s.print = true
		case ch == 'i' || ch == 'I':
			fold = true
		case ch >= '1' && ch <= '9':
			s.nth = int(ch - '0')
		default:
			s.with = replacement(with)
			s.re, err = compile(pattern, p.extended, fold)
			return err
		}
		p.at++
	}
}

// replacement converts sed's \1 and & to Go's ${1} and ${0}.
func replacement(s string) string {
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		switch ch := s[i]; {
		case ch == '$':
			out.WriteString("$$")
		case ch == '&':
			out.WriteString("${0}")
		case ch == '\\' && i+1 < len(s):
			i++
			switch next := s[i]; {
			case next >= '0' && next <= '9':
				out.WriteString("${" + string(next) + "}")
			case next == 'n':
				out.WriteByte('\n')
			case next == 't':
				out.WriteByte('\t')
			case next == '$':
				out.WriteString("$$")
			default:
				out.WriteByte(next)
			}
		default:
			out.WriteByte(ch)
		}
	}
	return out.String()
}

func (p *sedParser) translation(s *sedCommand) error {
	d := p.peek()
	from, err := p.delimited(d)
	if err != nil {
		return err
	}
	p.at--
	to, err := p.delimited(d)
	if err != nil {
		return err
	}
	a, b := []rune(from), []rune(to)
	if len(a) != len(b) {
		return errors.New("strings for `y' command are different lengths")
	}
	s.chars = map[rune]rune{}
	for i := range a {
		s.chars[a[i]] = b[i]
	}
	return nil
}
