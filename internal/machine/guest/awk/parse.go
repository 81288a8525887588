package awk

// The tree of a program. The node types are the ones that eval.go and exec.go evaluate.
type (
	expr interface {
		eval(m *machine) value
	}
	// An lvalue can be assigned to.
	lvalue interface {
		expr
		assign(m *machine, v value)
	}
	stmt interface {
		exec(m *machine) flow
	}
)

type parser struct {
	lexer
	tok     token
	depth   int
	links   int  // the length of a + b + c + …, which also nests
	noGreat bool // ">" ends the expression: print a > b
}

// parseError aborts the parser by panicking; program recovers it.
type parseError struct{ err error }

func (p *parser) program() (prog *Program, err error) {
	defer func() {
		if e := recover(); e != nil {
			pe, ok := e.(parseError)
			if !ok {
				panic(e)
			}
			prog, err = nil, pe.err
		}
	}()
	p.advance()
	prog = &Program{}
	for {
		for p.tok.kind == tokNewline || p.tok.kind == ";" {
			p.advance()
		}
		switch p.tok.kind {
		case tokEnd:
			return prog, nil
		case "BEGIN":
			p.advance()
			prog.begin = append(prog.begin, p.block())
		case "END":
			p.advance()
			prog.end = append(prog.end, p.block())
		case "function", "func":
			p.refuse("a user-defined function")
		default:
			prog.rules = append(prog.rules, p.rule())
		}
	}
}

func (p *parser) rule() rule {
	var r rule
	if p.tok.kind != "{" {
		r.from = p.expr()
		if p.tok.kind == "," {
			p.advance()
			p.newlines()
			r.to = p.expr()
		}
	}
	if p.tok.kind != "{" {
		r.bare = true
		return r
	}
	r.action = p.block()
	return r
}

func (p *parser) advance() {
	t, err := p.lexer.next()
	if err != nil {
		panic(parseError{err})
	}
	p.tok = t
}

func (p *parser) fail() {
	near := p.tok.text
	if near == "" {
		near = p.tok.kind
	}
	panic(parseError{&SyntaxError{Line: p.tok.line, Near: near}})
}

func (p *parser) refuse(what string) { panic(parseError{&UnsupportedError{what}}) }

func (p *parser) take(kind string) token {
	t := p.tok
	if t.kind != kind {
		p.fail()
	}
	p.advance()
	return t
}

func (p *parser) newlines() {
	for p.tok.kind == tokNewline {
		p.advance()
	}
}

// deeper bounds the nesting of a program.
func (p *parser) deeper() func() {
	if p.depth++; p.depth > maxNesting {
		panic(parseError{ErrTooLarge})
	}
	return func() { p.depth-- }
}

// link bounds the length of a chain of operators, because evaluating it nests as deeply.
func (p *parser) link() {
	if p.links++; p.links > maxLinks {
		panic(parseError{ErrTooLarge})
	}
}

func (p *parser) block() []stmt {
	p.take("{")
	var out []stmt
	for {
		for p.tok.kind == tokNewline || p.tok.kind == ";" {
			p.advance()
		}
		if p.tok.kind == "}" {
			p.advance()
			return out
		}
		out = append(out, p.stmt())
	}
}

// ended reads the end of a simple statement.
func (p *parser) ended() {
	switch p.tok.kind {
	case ";", tokNewline:
		p.advance()
	case "}", tokEnd:
	default:
		p.fail()
	}
}

func (p *parser) stmt() stmt {
	defer p.deeper()()
	switch p.tok.kind {
	case "{":
		return blockStmt(p.block())
	case ";":
		p.advance()
		return blockStmt(nil)
	case "if":
		return p.ifStmt()
	case "while":
		p.advance()
		p.take("(")
		cond := p.expr()
		p.take(")")
		if p.tok.kind == ";" {
			p.advance()
			return &loopStmt{cond: cond}
		}
		return &loopStmt{cond: cond, body: p.body()}
	case "do":
		p.advance()
		body := p.body()
		for p.tok.kind == tokNewline || p.tok.kind == ";" {
			p.advance()
		}
		p.take("while")
		p.take("(")
		s := &loopStmt{body: body, cond: p.expr(), once: true}
		p.take(")")
		p.ended()
		return s
	case "for":
		return p.forStmt()
	}
	s := p.simple()
	p.ended()
	return s
}

func (p *parser) body() stmt {
	p.newlines()
	return p.stmt()
}

func (p *parser) ifStmt() stmt {
	p.advance()
	p.take("(")
	s := &ifStmt{cond: p.expr()}
	p.take(")")
	s.then = p.body()
	// A semicolon or newlines may come before else.
	saved, tok := p.lexer, p.tok
	for p.tok.kind == tokNewline || p.tok.kind == ";" {
		p.advance()
	}
	if p.tok.kind != "else" {
		p.lexer, p.tok = saved, tok
		return s
	}
	p.advance()
	s.otherwise = p.body()
	return s
}

func (p *parser) forStmt() stmt {
	p.advance()
	p.take("(")
	if p.tok.kind == tokName {
		saved, name := p.lexer, p.tok
		p.advance()
		if p.tok.kind == "in" {
			p.advance()
			array := p.take(tokName).text
			if p.tok.kind == ")" {
				p.advance()
				return &eachStmt{name: name.text, array: array, body: p.body()}
			}
		}
		p.lexer, p.tok = saved, name
	}
	s := &loopStmt{}
	if p.tok.kind != ";" {
		s.first = p.simple()
	}
	p.take(";")
	p.newlines()
	if p.tok.kind != ";" {
		s.cond = p.expr()
	}
	p.take(";")
	p.newlines()
	if p.tok.kind != ")" {
		s.step = p.simple()
	}
	p.take(")")
	if p.tok.kind == ";" {
		p.advance()
		return s
	}
	s.body = p.body()
	return s
}

// simple reads a statement that contains no other statements.
func (p *parser) simple() stmt {
	t := p.tok
	switch t.kind {
	case "print", "printf":
		return p.print()
	case "next", "break", "continue":
		p.advance()
		return flowStmt{map[string]flow{"next": flowNext, "break": flowBreak, "continue": flowContinue}[t.kind]}
	case "exit":
		p.advance()
		s := &exitStmt{}
		if !p.atEnd() {
			s.status = p.expr()
		}
		return s
	case "delete":
		p.advance()
		s := &deleteStmt{array: p.take(tokName).text}
		if p.tok.kind == "[" {
			p.advance()
			s.index = p.list("]")
		}
		return s
	case "nextfile", "return":
		p.refuse(t.kind)
	}
	return exprStmt{p.expr()}
}

func (p *parser) atEnd() bool {
	switch p.tok.kind {
	case ";", tokNewline, "}", tokEnd:
		return true
	}
	return false
}

// print reads print and printf with their redirection.
func (p *parser) print() stmt {
	s := &printStmt{format: p.tok.kind == "printf"}
	p.advance()
	was := p.noGreat
	p.noGreat = true
	if !p.atEnd() && p.tok.kind != ">" && p.tok.kind != ">>" && p.tok.kind != "|" {
		s.args = p.printArgs()
	}
	p.noGreat = was
	switch p.tok.kind {
	case ">", ">>":
		s.add = p.tok.kind == ">>"
		p.advance()
		s.to = p.concat()
	case "|":
		p.refuse("a pipe to a command")
	}
	if s.format && len(s.args) == 0 {
		p.fail()
	}
	return s
}

// printArgs reads the arguments of print, which may all be in parentheses.
func (p *parser) printArgs() []expr {
	if p.tok.kind == "(" {
		saved, tok := p.lexer, p.tok
		p.advance()
		was := p.noGreat
		p.noGreat = false
		args := p.list(")")
		p.noGreat = was
		if p.atEnd() || p.tok.kind == ">" || p.tok.kind == ">>" || p.tok.kind == "|" {
			return args
		}
		p.lexer, p.tok = saved, tok // only the first operand was in parentheses
	}
	args := []expr{p.expr()}
	for p.tok.kind == "," {
		p.advance()
		p.newlines()
		args = append(args, p.expr())
	}
	return args
}

// list reads expressions up to and including end.
func (p *parser) list(end string) []expr {
	p.newlines()
	args := []expr{p.expr()}
	for {
		p.newlines()
		if p.tok.kind != "," {
			break
		}
		p.advance()
		p.newlines()
		args = append(args, p.expr())
	}
	p.take(end)
	return args
}
