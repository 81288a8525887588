package awk

import (
	"math"
	"regexp"
	"strings"
)

type (
	numberExpr float64
	textExpr   string
	nameExpr   string // a variable
	groupExpr  struct{ x expr }
	regexpExpr struct {
		text string
		re   *regexp.Regexp
	}
	fieldExpr   struct{ index expr }
	elementExpr struct {
		array string
		index []expr
	}
	condExpr   struct{ cond, yes, no expr }
	assignExpr struct {
		to lvalue
		v  expr
	}
	arithExpr struct {
		op   byte
		x, y expr
	}
	logicExpr struct {
		x, y expr
		or   bool
	}
	notExpr struct{ x expr }
	inExpr  struct {
		index []expr
		array string
	}
	matchExpr struct {
		x, re expr
		not   bool
	}
	compareExpr struct {
		op   string
		x, y expr
	}
	concatExpr struct{ x, y expr }
	// A stepExpr is x++ and the like; first means ++x.
	stepExpr struct {
		to    lvalue
		by    float64
		first bool
	}
)

func (x numberExpr) eval(*machine) value { return num(float64(x)) }
func (x textExpr) eval(*machine) value   { return str(string(x)) }
func (x groupExpr) eval(m *machine) value {
	return x.x.eval(m)
}

func (x nameExpr) eval(m *machine) value {
	if m.arrays[string(x)] != nil {
		m.fail(&UnsupportedError{"the array " + string(x) + " as a value"})
	}
	return m.get(string(x))
}

func (x nameExpr) assign(m *machine, v value) { m.set(string(x), v) }

func (x *regexpExpr) eval(m *machine) value {
	m.work(len(m.record))
	return truth(x.re.MatchString(m.record))
}

func (x *fieldExpr) at(m *machine) int {
	n := x.index.eval(m).number()
	if n < 0 || n > maxField || math.IsNaN(n) {
		m.fail(&UnsupportedError{"the field $" + num(n).string("%.6g")})
	}
	return int(n)
}

func (x *fieldExpr) eval(m *machine) value      { return m.field(x.at(m)) }
func (x *fieldExpr) assign(m *machine, v value) { m.setField(x.at(m), v) }

func (x *elementExpr) key(m *machine) string { return m.key(x.index) }

func (x *elementExpr) eval(m *machine) value {
	a, k := m.array(x.array), x.key(m)
	v, ok := a[k]
	if !ok {
		m.element(a, k, v) // looking up an element creates it
	}
	return v
}

func (x *elementExpr) assign(m *machine, v value) { m.element(m.array(x.array), x.key(m), v) }

func (x *condExpr) eval(m *machine) value {
	if x.cond.eval(m).isTrue() {
		return x.yes.eval(m)
	}
	return x.no.eval(m)
}

func (x *assignExpr) eval(m *machine) value {
	m.step()
	v := x.v.eval(m)
	x.to.assign(m, v)
	return v
}

func (x *arithExpr) eval(m *machine) value {
	m.step()
	a, b := x.x.eval(m).number(), x.y.eval(m).number()
	switch x.op {
	case '+':
		return num(a + b)
	case '-':
		return num(a - b)
	case '*':
		return num(a * b)
	case '^':
		return num(math.Pow(a, b))
	}
	if b == 0 {
		m.fail(errDivision)
	}
	if x.op == '/' {
		return num(a / b)
	}
	return num(math.Mod(a, b))
}

func (x *logicExpr) eval(m *machine) value {
	if x.x.eval(m).isTrue() == x.or {
		return truth(x.or)
	}
	return truth(x.y.eval(m).isTrue())
}

func (x *notExpr) eval(m *machine) value { return truth(!x.x.eval(m).isTrue()) }

func (x *inExpr) eval(m *machine) value {
	_, ok := m.array(x.array)[m.key(x.index)]
	return truth(ok)
}

func (x *matchExpr) eval(m *machine) value {
	s := m.text(x.x.eval(m))
	m.work(len(s))
	return truth(m.regexp(x.re).MatchString(s) != x.not)
}

func (x *compareExpr) eval(m *machine) value {
	m.step()
	c := compare(x.x.eval(m), x.y.eval(m), m.text(m.vars["CONVFMT"]))
	switch x.op {
	case "<":
		return truth(c < 0)
	case "<=":
		return truth(c <= 0)
	case "==":
		return truth(c == 0)
	case "!=":
		return truth(c != 0)
	case ">=":
		return truth(c >= 0)
	}
	return truth(c > 0)
}

func (x *concatExpr) eval(m *machine) value {
	m.step()
	s := m.text(x.x.eval(m)) + m.text(x.y.eval(m))
	m.bound(len(s))
	return str(s)
}

func (x *stepExpr) eval(m *machine) value {
	m.step()
	was := x.to.eval(m).number()
	x.to.assign(m, num(was+x.by))
	if x.first {
		return num(was + x.by)
	}
	return num(was)
}

// regexp returns the regular expression that an expression stands for.
func (m *machine) regexp(x expr) *regexp.Regexp {
	if r, ok := x.(*regexpExpr); ok {
		return r.re
	}
	text := m.text(x.eval(m))
	if re := m.compiled[text]; re != nil {
		return re
	}
	re, err := compile(text)
	if err != nil {
		m.fail(err)
	}
	if len(m.compiled) > 100 {
		clear(m.compiled)
	}
	m.compiled[text] = re
	return re
}

func isRegexp(x expr) bool {
	_, ok := x.(*regexpExpr)
	return ok
}

// maxPattern bounds a regular expression; Go's take time linear in the text.
const maxPattern = 4096

// compile compiles a regular expression that finds the longest match.
func compile(text string) (*regexp.Regexp, error) {
	if len(text) > maxPattern {
		return nil, ErrTooLarge
	}
	re, err := regexp.Compile("(?s)" + strings.NewReplacer(`\y`, `\b`, `\<`, `\b`, `\>`, `\b`, `\"`, `"`, `\/`, `/`, `\&`, `&`).Replace(text))
	if err != nil {
		return nil, &SyntaxError{Line: 1, Near: "/" + text[:min(len(text), 40)] + "/"}
	}
	re.Longest()
	return re, nil
}
