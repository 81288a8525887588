package awk

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"regexp"
	"strings"
	"unicode/utf8"
)

var (
	errDivision = errors.New("division by zero")
	errFiles    = errors.New("too many open files")
)

// machine is a running program.
type machine struct {
	ctx   context.Context //nolint:containedctx // of one run
	cfg   Config
	steps int
	check int // the number of steps at which ctx is checked again

	vars     map[string]value
	arrays   map[string]map[string]value
	elements int
	compiled map[string]*regexp.Regexp
	files    map[string]io.WriteCloser
	random   *rand.Rand
	seed     float64
	status   int

	record string
	fields []value // from $1
	ranges map[int]bool
}

// failure aborts a run by panicking; the run recovers it.
type failure struct{ err error }

func newMachine(ctx context.Context, cfg Config) *machine {
	m := &machine{
		ctx: ctx, cfg: cfg, compiled: map[string]*regexp.Regexp{}, files: map[string]io.WriteCloser{}, ranges: map[int]bool{},
		random: rand.New(rand.NewPCG(0, 1)), //nolint:gosec // awk's, for scripts
		vars: map[string]value{
			"FS": str(" "), "OFS": str(" "), "ORS": str("\n"), "RS": str("\n"), "SUBSEP": str("\x1c"), "CONVFMT": str("%.6g"), "OFMT": str("%.6g"),
			"NR": num(0), "FNR": num(0), "NF": num(0), "RSTART": num(0), "RLENGTH": num(-1), "ARGC": num(float64(len(cfg.Operands) + 1)),
		},
		arrays: map[string]map[string]value{"ENVIRON": {}, "ARGV": {"0": str("awk")}},
	}
	for _, e := range cfg.Environ {
		k, v, _ := strings.Cut(e, "=")
		m.arrays["ENVIRON"][k] = fromInput(v)
	}
	for i, a := range cfg.Operands {
		m.arrays["ARGV"][num(float64(i+1)).string("")] = fromInput(a)
	}
	return m
}

func (m *machine) fail(err error) { panic(failure{err}) }

// step counts a step of the program.
func (m *machine) step() { m.work(0) }

// work counts a step that reads or writes a text of n bytes.
func (m *machine) work(n int) {
	if m.steps += 1 + n>>8; m.steps > maxSteps {
		m.fail(ErrTooLong)
	}
	if m.steps >= m.check {
		m.check = m.steps + 1024
		if err := m.ctx.Err(); err != nil {
			m.fail(err)
		}
	}
}

// bound checks and counts the creation of a text of n bytes.
func (m *machine) bound(n int) {
	if n > maxText {
		m.fail(ErrTooLarge)
	}
	m.work(n)
}

func (m *machine) run(p *Program) (status int, err error) {
	defer func() {
		if e := recover(); e != nil {
			f, ok := e.(failure)
			if !ok {
				panic(e)
			}
			status, err = 2, f.err
		}
	}()
	exited := false
	for _, b := range p.begin {
		if !exited && blockStmt(b).exec(m) == flowExit {
			exited = true
		}
	}
	if exited || len(p.rules) == 0 && len(p.end) == 0 {
		return m.status, nil
	}
	inputs := false
	for _, o := range m.cfg.Operands {
		if name, v, ok := strings.Cut(o, "="); ok && isName(name) {
			m.set(name, fromInput(unescape(v)))
			continue
		}
		inputs = true
		if !exited {
			exited = m.input(p, o)
		}
	}
	if !inputs && !exited {
		m.input(p, "-")
	}
	for _, b := range p.end {
		if blockStmt(b).exec(m) == flowExit {
			break
		}
	}
	return m.status, nil
}

func isName(s string) bool {
	for i := range len(s) {
		if !letter(s[i]) && (i == 0 || s[i] < '0' || s[i] > '9') {
			return false
		}
	}
	return s != ""
}

// input runs the rules over one file, and reports whether the program exits.
func (m *machine) input(p *Program, name string) bool {
	b, err := m.cfg.Read(name)
	if err != nil {
		m.fail(err)
	}
	if name != "-" {
		m.set("FILENAME", str(name))
	}
	m.set("FNR", num(0))
	for rest := string(b); rest != ""; {
		var record string
		if record, rest = m.cut(rest); record == "" && rest == "" && m.text(m.vars["RS"]) == "" {
			break
		}
		m.setRecord(record)
		m.set("NR", num(m.vars["NR"].number()+1))
		m.set("FNR", num(m.vars["FNR"].number()+1))
		switch m.rules(p) {
		case flowExit:
			return true
		}
	}
	return false
}

// cut takes the next record from the input.
func (m *machine) cut(in string) (record, rest string) {
	switch rs := m.text(m.vars["RS"]); {
	case rs == "\n":
		record, rest, _ = strings.Cut(in, "\n")
	case rs == "": // paragraphs
		in = strings.TrimLeft(in, "\n")
		record, rest, _ = strings.Cut(in, "\n\n")
		record, rest = strings.TrimSuffix(record, "\n"), strings.TrimLeft(rest, "\n")
	case len(rs) == 1:
		record, rest, _ = strings.Cut(in, rs)
	default:
		re := m.regexp(textExpr(rs))
		loc := re.FindStringIndex(in)
		if loc == nil || loc[0] == loc[1] {
			return in, ""
		}
		record, rest = in[:loc[0]], in[loc[1]:]
	}
	return record, rest
}

func (m *machine) rules(p *Program) flow {
	for i, r := range p.rules {
		m.step()
		switch {
		case r.from == nil:
		case r.to == nil:
			if !r.from.eval(m).isTrue() {
				continue
			}
		default:
			if !m.ranges[i] && !r.from.eval(m).isTrue() {
				continue
			}
			m.ranges[i] = !r.to.eval(m).isTrue()
		}
		if r.bare {
			m.print(m.record+m.text(m.vars["ORS"]), nil, false)
			continue
		}
		switch f := blockStmt(r.action).exec(m); f {
		case flowNext, flowExit:
			return f
		}
	}
	return flowOn
}

func (m *machine) get(name string) value { return m.vars[name] }

func (m *machine) set(name string, v value) {
	if m.arrays[name] != nil {
		m.fail(&UnsupportedError{"the array " + name + " as a variable"})
	}
	m.vars[name] = v
	if name == "NF" {
		n := int(max(0, min(v.number(), maxField)))
		for len(m.fields) < n {
			m.fields = append(m.fields, value{})
		}
		m.fields = m.fields[:n]
		m.join()
	}
}

func (m *machine) text(v value) string {
	if v.kind != number {
		return v.s
	}
	return v.string(m.vars["CONVFMT"].s)
}

func (m *machine) array(name string) map[string]value {
	a := m.arrays[name]
	if a == nil {
		if v, ok := m.vars[name]; ok && v.kind != unset {
			m.fail(&UnsupportedError{"the variable " + name + " as an array"})
		}
		a = map[string]value{}
		m.arrays[name] = a
	}
	return a
}

func (m *machine) element(a map[string]value, k string, v value) {
	if m.elements++; m.elements > maxText/8 {
		m.fail(ErrTooLarge)
	}
	a[k] = v
}

func (m *machine) key(index []expr) string {
	parts := make([]string, len(index))
	for i, x := range index {
		parts[i] = m.text(x.eval(m))
	}
	return strings.Join(parts, m.text(m.vars["SUBSEP"]))
}

func (m *machine) setRecord(s string) {
	m.bound(len(s))
	m.record = s
	m.fields = m.fields[:0]
	for _, p := range m.splitBy(s, m.text(m.vars["FS"])) {
		m.fields = append(m.fields, fromInput(p))
	}
	m.vars["NF"] = num(float64(len(m.fields)))
}

func (m *machine) field(n int) value {
	switch {
	case n == 0:
		return fromInput(m.record)
	case n <= len(m.fields):
		return m.fields[n-1]
	}
	return value{}
}

func (m *machine) setField(n int, v value) {
	if n == 0 {
		m.setRecord(m.text(v))
		return
	}
	for len(m.fields) < n {
		m.fields = append(m.fields, value{})
	}
	m.fields[n-1] = v
	m.vars["NF"] = num(float64(len(m.fields)))
	m.join()
}

// join rebuilds the record from its fields.
func (m *machine) join() {
	var out strings.Builder
	for i, f := range m.fields {
		if i > 0 {
			out.WriteString(m.text(m.vars["OFS"]))
		}
		out.WriteString(m.text(f))
		if out.Len() > maxText {
			m.fail(ErrTooLarge)
		}
	}
	m.record = out.String()
	m.work(out.Len())
}

// splitBy splits as FS and split do: a space means any white space, another single character means itself, and
// anything longer is a regular expression.
func (m *machine) splitBy(s, by string) []string {
	m.work(len(s))
	switch {
	case s == "":
		return nil
	case by == " ":
		return strings.FieldsFunc(s, func(r rune) bool { return r == ' ' || r == '\t' || r == '\n' })
	case by == "":
		return strings.Split(s, "")
	case len(by) == 1 && by != `\`:
		return strings.Split(s, by)
	}
	return splitRegexp(s, m.regexp(textExpr(by)))
}

func splitRegexp(s string, re *regexp.Regexp) []string {
	if s == "" {
		return nil
	}
	return re.Split(s, -1)
}

func (m *machine) sprintf(args []expr) string {
	var values []value
	for _, x := range args {
		values = append(values, x.eval(m))
	}
	s := sprintf(m.text(values[0]), values[1:], m.text(m.vars["CONVFMT"]))
	m.bound(len(s))
	return s
}

// print writes to standard output or to a file.
func (m *machine) print(s string, to expr, add bool) {
	w := m.cfg.Stdout
	if to != nil {
		switch name := m.text(to.eval(m)); name {
		case "/dev/stdout", "-":
		case "/dev/stderr":
			w = m.cfg.Stderr
		default:
			f := m.files[name]
			if f == nil {
				if len(m.files) >= maxFiles {
					m.fail(errFiles)
				}
				var err error
				if f, err = m.cfg.Create(name, add); err != nil {
					m.fail(err)
				}
				m.files[name] = f
			}
			w = f
		}
	}
	if _, err := io.WriteString(w, s); err != nil {
		m.fail(err)
	}
}

// close closes a file that print has opened.
func (m *machine) close(name string) float64 {
	f := m.files[name]
	if f == nil {
		return -1
	}
	delete(m.files, name)
	if f.Close() != nil {
		return -1
	}
	return 0
}

func runes(s string) int { return utf8.RuneCountInString(s) }
