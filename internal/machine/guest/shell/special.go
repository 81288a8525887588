package shell

import (
	"bytes"
	"context"
	"crypto/sha256"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"runtime"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"mvdan.cc/sh/v3/expand"
	"mvdan.cc/sh/v3/syntax"
)

// Constructs that the interpreter would run on the host are rewritten first: <(…) and >(…), for which it creates
// named pipes, and ~USER, which it looks up.

// substitutionDir is the folder of the ends of process substitutions, as in bash.
const substitutionDir = "/dev/fd/"

// maxSubstitutions is the limit for one job.
const maxSubstitutions = 100

// substitutions are the commands of <(…) and >(…), by their file. A command runs when its file is opened.
type substitutions struct {
	mu     sync.Mutex
	text   map[string]string
	open   []io.Closer // the shell's ends, which are closed with the script
	active int         // running commands
}

func (s *substitutions) add(text string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.text == nil {
		s.text = map[string]string{}
	}
	if len(s.text) >= maxSubstitutions {
		return "", false
	}
	name := fmt.Sprintf("%s%d", substitutionDir, 63-len(s.text)+1000)
	s.text[name] = text
	return name, true
}

func (s *substitutions) get(name string) (string, bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	text, ok := s.text[name]
	return text, ok
}

// patience is how long the commands of substitutions may continue after their script has ended, to read what it has
// written.
const patience = time.Second

// close closes the shell's ends, and lets the commands at the other ends finish.
func (s *substitutions) close(ctx context.Context) {
	s.mu.Lock()
	open := s.open
	s.open = nil
	s.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // it is the end of a pipe
	}
	for deadline := time.Now().Add(patience); !s.idle() && ctx.Err() == nil && time.Now().Before(deadline); {
		runtime.Gosched()
	}
}

func (s *substitutions) idle() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.active == 0
}

// rewrite replaces the constructs that the interpreter would run on the host.
func (m *machine) rewrite(c *Call, prog *syntax.File) {
	homes := map[string]bool{"": true, "+": true, "-": true}
	for _, h := range c.homes() {
		user, _, _ := strings.Cut(strings.TrimPrefix(h, "HOME "), "=")
		homes[user] = true
	}
	printer := syntax.NewPrinter()
	syntax.Walk(prog, func(node syntax.Node) bool {
		switch n := node.(type) {
		case *syntax.Assign:
			unescape(n.Value)
		case *syntax.Redirect:
			unescape(n.Word)
		case *syntax.CaseClause:
			unescape(n.Word)
		case *syntax.UnaryTest:
			if w, ok := n.X.(*syntax.Word); ok {
				unescape(w)
			}
		case *syntax.BinaryTest:
			if w, ok := n.X.(*syntax.Word); ok {
				unescape(w)
			}
		case *syntax.FuncDecl:
			if n.Name != nil {
				m.functions.Store(n.Name.Value, true)
			}
		case *syntax.Word:
			quoteTildes(n, homes)
			for i, part := range n.Parts {
				switch p := part.(type) {
				case *syntax.ProcSubst:
					var text bytes.Buffer
					if err := printer.Print(&text, &syntax.File{Stmts: p.Stmts, Last: p.Last}); err != nil {
						continue
					}
					if name, ok := m.pipes.add(text.String()); ok {
						n.Parts[i] = &syntax.Lit{ValuePos: p.Pos(), ValueEnd: p.End(), Value: name}
					}
				}
			}
		}
		return true
	})
}

// quoteTildes quotes the tildes of a word, except those of a user in homes: bash leaves unknown users unexpanded, and
// the interpreter would ask the host for them. Braces can move any tilde of a word to its front and join it with what
// follows them. In a word with braces, the interpreter therefore only gets complete names followed by a slash.
func quoteTildes(w *syntax.Word, homes map[string]bool) {
	braces := false
	for _, p := range w.Parts {
		lit, ok := p.(*syntax.Lit)
		braces = braces || ok && strings.Contains(lit.Value, "{")
	}
	var parts []syntax.WordPart
	for i, p := range w.Parts {
		lit, ok := p.(*syntax.Lit)
		if !ok || !strings.Contains(lit.Value, "~") {
			parts = append(parts, p)
			continue
		}
		text := func(s string) {
			if s != "" {
				parts = append(parts, &syntax.Lit{ValuePos: lit.Pos(), ValueEnd: lit.End(), Value: s})
			}
		}
		done := 0 // in lit.Value
		for at, r := range lit.Value {
			user, _, slash := strings.Cut(lit.Value[at:], "/")
			if r != '~' || strings.HasSuffix(lit.Value[:at], `\`) || homes[user[1:]] && (slash || !braces) || !braces && (i > 0 || at > 0) {
				continue
			}
			text(lit.Value[done:at])
			parts = append(parts, &syntax.SglQuoted{Left: lit.Pos(), Right: lit.End(), Value: "~"})
			done = at + 1
		}
		text(lit.Value[done:])
	}
	w.Parts = parts
}

// aliased returns the text of an alias after rewrite, word by word, because the interpreter makes aliases of words
// only.
func (m *machine) aliased(c *Call, text string) string {
	if !strings.ContainsAny(text, "~<>") {
		return text
	}
	var out strings.Builder
	printer := syntax.NewPrinter()
	for w, err := range syntax.NewParser(syntax.Variant(syntax.LangBash)).WordsSeq(strings.NewReader(text)) {
		if err != nil {
			return text // the interpreter reports the error
		}
		m.rewrite(c, &syntax.File{Stmts: []*syntax.Stmt{{Cmd: &syntax.CallExpr{Args: []*syntax.Word{w}}}}})
		if printer.Print(&out, w) != nil {
			return text
		}
		out.WriteByte(' ')
	}
	if strings.TrimRight(text, " \t") != text {
		return out.String() // the word after the alias may be an alias, too
	}
	return strings.TrimSuffix(out.String(), " ")
}

// unescape quotes what a backslash escapes in a word that is not split into fields, such as the value of an
// assignment. The interpreter would keep the backslash there.
func unescape(w *syntax.Word) {
	if w == nil {
		return
	}
	var parts []syntax.WordPart
	for _, p := range w.Parts {
		lit, ok := p.(*syntax.Lit)
		if !ok || !strings.Contains(lit.Value, `\`) {
			parts = append(parts, p)
			continue
		}
		for rest := lit.Value; rest != ""; {
			before, after, found := strings.Cut(rest, `\`)
			if before != "" {
				parts = append(parts, &syntax.Lit{ValuePos: lit.Pos(), ValueEnd: lit.End(), Value: before})
			}
			if !found {
				break
			}
			_, size := utf8.DecodeRuneInString(after) // 0 after a backslash at the end, which means nothing
			var quoted syntax.WordPart = &syntax.SglQuoted{Left: lit.Pos(), Right: lit.End(), Value: after[:size]}
			if after[:size] == "'" {
				quoted = &syntax.DblQuoted{Left: lit.Pos(), Right: lit.End(), Parts: []syntax.WordPart{&syntax.Lit{ValuePos: lit.Pos(), ValueEnd: lit.End(), Value: "'"}}}
			}
			parts = append(parts, quoted)
			rest = after[size:]
		}
	}
	w.Parts = parts
}

// rewritten returns text after rewrite, or the original text if it is not a shell script.
func (m *machine) rewritten(c *Call, text string) string {
	if len(text) > maxScript || !strings.ContainsAny(text, "\\~<>") {
		return text
	}
	prog, err := syntax.NewParser(syntax.Variant(syntax.LangBash)).Parse(strings.NewReader(text), "")
	if err != nil {
		return text // the interpreter reports the error
	}
	m.rewrite(c, prog)
	var out bytes.Buffer
	if err := syntax.NewPrinter().Print(&out, prog); err != nil {
		return text
	}
	return out.String()
}

// sourced makes source read a file after rewrite.
func (m *machine) sourced(c *Call, dir string, args []string) []string {
	if len(args) < 2 {
		return args
	}
	b, err := c.FS.ReadFile(join(dir, args[1]))
	if err != nil {
		return args // the interpreter looks further, or reports the error
	}
	text := m.rewritten(c, string(b))
	if text == string(b) {
		return args
	}
	sum := sha256.Sum256(b)
	name := fmt.Sprintf("%ssource-%x", substitutionDir, sum[:8])
	m.sources.Store(name, text)
	return append([]string{args[0], name}, args[2:]...)
}

func isDevice(name string) bool {
	switch name {
	case "/dev/null", "/dev/stdin", "/dev/stdout", "/dev/stderr", "/dev/console", "/dev/tty", "/dev/zero", "/dev/urandom", "/dev/random":
		return true
	}
	return false
}

// device opens what is not a file on the disk: standard streams, the console, and the ends of process substitutions.
// It returns nil if name is none of these.
func (m *machine) device(ctx context.Context, c *Call, name string, flag int) io.ReadWriteCloser {
	switch name {
	case "/dev/stdout", "/dev/console", "/dev/tty", "/dev/fd/1", "/proc/self/fd/1":
		return stream{Writer: c.Stdout}
	case "/dev/stderr", "/dev/fd/2", "/proc/self/fd/2":
		return stream{Writer: c.Stderr}
	case "/dev/stdin", "/dev/fd/0":
		return stream{Reader: c.Stdin}
	case "/dev/zero", "/dev/urandom", "/dev/random":
		return stream{Reader: endless(name)}
	}
	if text, ok := m.sources.Load(name); ok {
		return stream{Reader: strings.NewReader(text.(string))}
	}
	text, ok := m.pipes.get(name)
	if !ok {
		return nil
	}
	r, w := io.Pipe()
	d := *c
	// A substitution knows all variables of the shell, exported or not.
	d.env = exported(c.env)
	m.pipes.mu.Lock()
	m.pipes.active++
	m.pipes.mu.Unlock()
	run := func(end, shells io.Closer) {
		m.pipes.mu.Lock()
		m.pipes.active++
		m.pipes.open = append(m.pipes.open, shells)
		m.pipes.mu.Unlock()
		go func() { // ends with ctx; Run waits for it
			defer func() {
				_ = end.Close() // it is the end of a pipe
				m.pipes.mu.Lock()
				m.pipes.active--
				m.pipes.mu.Unlock()
			}()
			_, _ = m.bash(ctx, &d, c.Args[0], []byte(text), nil, nil) // its output says what went wrong
		}()
	}
	if flag&(os.O_WRONLY|os.O_RDWR) != 0 {
		d.Stdin = r
		run(r, w)
		return stream{Writer: w, Closer: w}
	}
	d.Stdout, d.Stdin = w, strings.NewReader("")
	run(w, r)
	return stream{Reader: r, Closer: r}
}

// A stream is a file that is only read or only written.
type stream struct {
	io.Reader
	io.Writer
	io.Closer
}

func (s stream) Read(p []byte) (int, error) {
	if s.Reader == nil {
		return 0, io.EOF
	}
	return s.Reader.Read(p)
}

func (s stream) Write(p []byte) (int, error) {
	if s.Writer == nil {
		return 0, io.ErrClosedPipe
	}
	return s.Writer.Write(p)
}

func (s stream) Close() error {
	if s.Closer == nil {
		return nil
	}
	return s.Closer.Close()
}

// maxEndless is where /dev/zero and /dev/urandom end here, for the commands that read all of their input before they
// write.
const maxEndless = 64 << 10

func endless(name string) io.Reader {
	b := make([]byte, maxEndless)
	if name != "/dev/zero" {
		for i := range b {
			b[i] = byte(rand.Uint32()) //nolint:gosec // a guest's, and no secret of ours
		}
	}
	return bytes.NewReader(b)
}

// printfTo replaces printf -v NAME, which the interpreter does not support, by an assignment, and drops the --, which
// it would print.
func printfTo(args []string) []string {
	if len(args) > 2 && args[1] == "--" {
		return append([]string{args[0]}, args[2:]...)
	}
	if len(args) < 4 || args[1] != "-v" || !validVariable(args[2]) {
		return args
	}
	rest := args[3:]
	if rest[0] == "--" && len(rest) > 1 {
		rest = rest[1:]
	}
	format, values := rest[0], rest[1:]
	var out strings.Builder
	for {
		text, n, err := expand.Format(nil, format, values)
		if err != nil {
			return []string{"printf", format} // printf reports the error
		}
		out.WriteString(text)
		if values = values[n:]; n == 0 || len(values) == 0 {
			return []string{"eval", args[2] + "=" + quote(out.String())}
		}
	}
}

// validVariable reports whether eval may assign to a name: a variable or an element of an array with a plain index.
func validVariable(name string) bool {
	base, index, array := strings.Cut(name, "[")
	if !syntax.ValidName(base) {
		return false
	}
	index, closed := strings.CutSuffix(index, "]")
	return !array || closed && index != "" && strings.Trim(index, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_") == ""
}
