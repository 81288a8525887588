// Package awk runs the AWK programs of user data: fields, patterns, BEGIN and END, variables, arrays, control flow,
// printf, output to files, and POSIX's functions.
//
// Features that need another process or more input than the operands (getline, pipes, system) and user-defined
// functions are rejected when a program is parsed, so that no program fails halfway. Programs are untrusted: steps,
// text sizes and nesting are bounded. May be imported by packages that run or test simulated machines.
package awk

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
)

// A Program is a parsed AWK program.
type Program struct {
	begin, end [][]stmt
	rules      []rule
}

// A rule is a pattern with its action. A nil pattern always matches; with a second pattern, it is a range. A nil
// action prints.
type rule struct {
	from, to expr
	action   []stmt
	bare     bool // there is no action
}

// Config is a program's environment.
type Config struct {
	// Assign are the assignments of -v and -F, in order: NAME, value.
	Assign [][2]string
	// Operands are files, or assignments NAME=value that take effect when it is their turn.
	Operands []string
	Environ  []string // KEY=value
	// Read returns the content of a file; - means standard input.
	Read func(name string) ([]byte, error)
	// Create opens a file for print >, or >> if add.
	Create         func(name string, add bool) (io.WriteCloser, error)
	Stdout, Stderr io.Writer
}

// Limits of a program.
const (
	maxProgram = 64 << 10
	maxNesting = 200
	maxLinks   = 5000
	maxSteps   = 20_000_000
	maxText    = 8 << 20
	maxWidth   = 4096 // of printf
	maxField   = 100_000
	maxFiles   = 100
)

// Errors of programs that use too many resources.
var (
	ErrTooLong  = errors.New("the program ran too long")
	ErrTooLarge = errors.New("out of memory")
)

// An UnsupportedError names a feature that this package does not support.
type UnsupportedError struct{ What string }

func (e *UnsupportedError) Error() string { return e.What + " is not supported on simulated nodes" }

// A SyntaxError is a mistake in a program.
type SyntaxError struct {
	Line int
	Near string
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("syntax error at source line %d near %q", e.Line, e.Near)
}

// Parse parses a program.
func Parse(text string) (*Program, error) {
	if len(text) > maxProgram {
		return nil, ErrTooLarge
	}
	p := &parser{lexer: lexer{text: text, line: 1}}
	return p.program()
}

// Run runs a program and returns its exit status. It fails if input cannot be read, a limit is exceeded, or ctx ends.
func (p *Program) Run(ctx context.Context, cfg Config) (int, error) {
	m := newMachine(ctx, cfg)
	for _, a := range cfg.Assign {
		m.set(a[0], fromInput(unescape(a[1])))
	}
	status, err := m.run(p)
	for _, f := range m.files {
		if cerr := f.Close(); err == nil && cerr != nil {
			err = cerr
		}
	}
	return status, err
}

// unescape resolves the escapes of a string, as in -v and -F.
func unescape(s string) string {
	if !strings.Contains(s, `\`) {
		return s
	}
	var out strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] != '\\' || i+1 == len(s) {
			out.WriteByte(s[i])
			continue
		}
		i++
		i += escape(&out, s[i:]) - 1
	}
	return out.String()
}

// escape writes the character that follows a backslash, and returns how much of the text it has read.
func escape(out *strings.Builder, s string) int {
	switch c := s[0]; c {
	case 'n':
		out.WriteByte('\n')
	case 't':
		out.WriteByte('\t')
	case 'r':
		out.WriteByte('\r')
	case 'a':
		out.WriteByte('\a')
	case 'b':
		out.WriteByte('\b')
	case 'f':
		out.WriteByte('\f')
	case 'v':
		out.WriteByte('\v')
	case '"', '\\', '/':
		out.WriteByte(c)
	default:
		if c < '0' || c > '7' {
			out.WriteByte('\\') // a regular expression may need it
			out.WriteByte(c)
			return 1
		}
		n, i := 0, 0
		for i < 3 && i < len(s) && s[i] >= '0' && s[i] <= '7' {
			n = n*8 + int(s[i]-'0')
			i++
		}
		out.WriteByte(byte(n))
		return i
	}
	return 1
}
