package awk

import (
	"math"
	"math/rand/v2"
	"strings"
	"time"
)

// A builtin is a function of AWK, with the number of its arguments.
type builtin struct {
	known       bool
	least, most int
	unsupported string
}

var builtins = map[string]builtin{
	"length": {true, 0, 1, ""}, "substr": {true, 2, 3, ""}, "index": {true, 2, 2, ""}, "split": {true, 2, 3, ""}, "sub": {true, 2, 3, ""}, "gsub": {true, 2, 3, ""},
	"match": {true, 2, 2, ""}, "tolower": {true, 1, 1, ""}, "toupper": {true, 1, 1, ""}, "sprintf": {true, 1, 100, ""},
	"int": {true, 1, 1, ""}, "sqrt": {true, 1, 1, ""}, "exp": {true, 1, 1, ""}, "log": {true, 1, 1, ""}, "sin": {true, 1, 1, ""}, "cos": {true, 1, 1, ""}, "atan2": {true, 2, 2, ""},
	"rand": {true, 0, 0, ""}, "srand": {true, 0, 1, ""}, "systime": {true, 0, 0, ""}, "close": {true, 1, 1, ""}, "fflush": {true, 0, 1, ""},
	"system": {true, 0, 1, "system()"}, "gensub": {true, 0, 4, "gensub()"}, "strftime": {true, 0, 3, "strftime()"}, "mktime": {true, 0, 1, "mktime()"},
	"asort": {true, 0, 3, "asort()"}, "asorti": {true, 0, 3, "asorti()"}, "patsplit": {true, 0, 4, "patsplit()"}, "strtonum": {true, 0, 1, "strtonum()"},
}

// A callExpr calls a builtin.
type callExpr struct {
	name string
	args []expr
}

func (x *callExpr) eval(m *machine) value {
	text := func(i int) string {
		s := m.text(x.args[i].eval(m))
		m.work(len(s))
		return s
	}
	n := func(i int) float64 { return x.args[i].eval(m).number() }
	m.step()
	switch x.name {
	case "length":
		if len(x.args) == 0 {
			return num(float64(runes(m.field(0).s)))
		}
		if name, ok := x.args[0].(nameExpr); ok && m.arrays[string(name)] != nil {
			return num(float64(len(m.arrays[string(name)])))
		}
		return num(float64(runes(text(0))))
	case "substr":
		length := math.Inf(1)
		s, from := text(0), n(1)
		if len(x.args) == 3 {
			length = n(2)
		}
		return str(substr(s, from, length))
	case "index":
		s, sub := text(0), text(1)
		i := strings.Index(s, sub)
		if i < 0 {
			return num(0)
		}
		return num(float64(runes(s[:i]) + 1))
	case "split":
		return x.split(m)
	case "sub", "gsub":
		return x.substitute(m)
	case "match":
		s := text(0)
		at, length := 0, -1
		if loc := m.regexp(x.args[1]).FindStringIndex(s); loc != nil {
			at, length = runes(s[:loc[0]])+1, runes(s[loc[0]:loc[1]])
		}
		m.set("RSTART", num(float64(at)))
		m.set("RLENGTH", num(float64(length)))
		return num(float64(at))
	case "tolower":
		return str(strings.ToLower(text(0)))
	case "toupper":
		return str(strings.ToUpper(text(0)))
	case "sprintf":
		return str(m.sprintf(x.args))
	case "close":
		return num(m.close(text(0)))
	case "fflush":
		return num(0)
	case "systime":
		return num(float64(time.Now().Unix()))
	case "rand":
		return num(m.random.Float64())
	case "srand":
		seed := float64(time.Now().Unix())
		if len(x.args) == 1 {
			seed = n(0)
		}
		was := m.seed
		m.seed = seed
		m.random = rand.New(rand.NewPCG(math.Float64bits(seed), 1)) //nolint:gosec // awk's, for scripts
		return num(was)
	}
	return num(x.maths(m))
}

func (x *callExpr) maths(m *machine) float64 {
	n := x.args[0].eval(m).number()
	switch x.name {
	case "int":
		return math.Trunc(n)
	case "sqrt":
		return math.Sqrt(n)
	case "exp":
		return math.Exp(n)
	case "log":
		return math.Log(n)
	case "sin":
		return math.Sin(n)
	case "cos":
		return math.Cos(n)
	}
	return math.Atan2(n, x.args[1].eval(m).number())
}

// substr counts characters from 1; positions outside of the text are ignored.
func substr(s string, from, length float64) string {
	if math.IsNaN(from) || math.IsNaN(length) {
		return ""
	}
	from = math.RoundToEven(from)
	end := from + math.RoundToEven(length)
	r := []rune(s)
	lo, hi := max(from, 1), min(end, float64(len(r)+1))
	if !(lo < hi) {
		return ""
	}
	return string(r[int(lo)-1 : int(hi)-1])
}

func (x *callExpr) split(m *machine) value {
	s := m.text(x.args[0].eval(m))
	name, ok := x.args[1].(nameExpr)
	if !ok {
		m.fail(&UnsupportedError{"split into something that is not an array"})
	}
	var parts []string
	switch {
	case len(x.args) == 2:
		parts = m.splitBy(s, m.text(m.vars["FS"]))
	case isRegexp(x.args[2]):
		parts = splitRegexp(s, m.regexp(x.args[2]))
	default:
		parts = m.splitBy(s, m.text(x.args[2].eval(m)))
	}
	a := make(map[string]value, len(parts))
	for i, p := range parts {
		a[num(float64(i+1)).string("")] = fromInput(p)
	}
	m.arrays[string(name)] = a
	return num(float64(len(parts)))
}

// substitute is sub and gsub: & in the replacement stands for the matched text.
func (x *callExpr) substitute(m *machine) value {
	re := m.regexp(x.args[0])
	with := m.text(x.args[1].eval(m))
	var to lvalue = &fieldExpr{numberExpr(0)}
	if len(x.args) == 3 {
		l, ok := x.args[2].(lvalue)
		if !ok {
			m.fail(&UnsupportedError{"a substitution in something that is not a variable"})
		}
		to = l
	}
	s := m.text(to.eval(m))
	m.work(len(s))
	most := 1
	if x.name == "gsub" {
		most = -1
	}
	found := re.FindAllStringIndex(s, most)
	if len(found) == 0 {
		return num(0)
	}
	var out strings.Builder
	at := 0
	for _, loc := range found {
		out.WriteString(s[at:loc[0]])
		for i := 0; i < len(with); i++ {
			switch {
			case with[i] == '\\' && i+1 < len(with) && (with[i+1] == '&' || with[i+1] == '\\'):
				i++
				out.WriteByte(with[i])
			case with[i] == '&':
				out.WriteString(s[loc[0]:loc[1]])
			default:
				out.WriteByte(with[i])
			}
		}
		at = loc[1]
		if out.Len() > maxText {
			m.fail(ErrTooLarge)
		}
	}
	out.WriteString(s[at:])
	to.assign(m, str(out.String()))
	return num(float64(len(found)))
}
