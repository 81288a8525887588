package awk

import "strconv"

// Expressions, from the lowest precedence to the highest.

func (p *parser) expr() expr {
	defer p.deeper()()
	cond := p.or()
	if p.tok.kind == "?" {
		p.advance()
		p.newlines()
		yes := p.expr()
		p.newlines()
		p.take(":")
		p.newlines()
		return &condExpr{cond, yes, p.expr()}
	}
	if op := p.tok.kind; op == "=" || len(op) == 2 && op[1] == '=' && op[0] != '=' && op[0] != '!' && op[0] != '<' && op[0] != '>' {
		to, ok := cond.(lvalue)
		if !ok {
			p.fail()
		}
		p.advance()
		p.newlines()
		if op == "=" {
			return &assignExpr{to: to, v: p.expr()}
		}
		return &assignExpr{to: to, v: &arithExpr{op[0], to, p.expr()}}
	}
	return cond
}

func (p *parser) or() expr {
	x := p.and()
	for p.tok.kind == "||" {
		p.link()
		p.advance()
		p.newlines()
		x = &logicExpr{x, p.and(), true}
	}
	return x
}

func (p *parser) and() expr {
	x := p.in()
	for p.tok.kind == "&&" {
		p.link()
		p.advance()
		p.newlines()
		x = &logicExpr{x, p.in(), false}
	}
	return x
}

func (p *parser) in() expr {
	x := p.match()
	for p.tok.kind == "in" {
		p.link()
		p.advance()
		x = &inExpr{[]expr{x}, p.take(tokName).text}
	}
	return x
}

func (p *parser) match() expr {
	x := p.comparison()
	for p.tok.kind == "~" || p.tok.kind == "!~" {
		p.link()
		not := p.tok.kind == "!~"
		p.advance()
		x = &matchExpr{x, p.comparison(), not}
	}
	return x
}

func (p *parser) comparison() expr {
	x := p.concat()
	switch op := p.tok.kind; op {
	case "<", "<=", "==", "!=", ">=", ">":
		if op == ">" && p.noGreat {
			return x
		}
		p.advance()
		return &compareExpr{op, x, p.concat()}
	}
	if p.tok.kind == "|" {
		p.refuse("a pipe to a command")
	}
	return x
}

func (p *parser) concat() expr {
	x := p.sum()
	for {
		switch p.tok.kind {
		case tokNumber, tokString, tokRegexp, tokName, tokBuiltin, tokCall, "$", "(", "++", "--":
			p.link()
			x = &concatExpr{x, p.sum()}
		default:
			return x
		}
	}
}

func (p *parser) sum() expr {
	x := p.product()
	for p.tok.kind == "+" || p.tok.kind == "-" {
		p.link()
		op := p.tok.kind[0]
		p.advance()
		x = &arithExpr{op, x, p.product()}
	}
	return x
}

func (p *parser) product() expr {
	x := p.unary()
	for p.tok.kind == "*" || p.tok.kind == "/" || p.tok.kind == "%" {
		p.link()
		op := p.tok.kind[0]
		p.advance()
		x = &arithExpr{op, x, p.unary()}
	}
	return x
}

func (p *parser) unary() expr {
	defer p.deeper()()
	switch op := p.tok.kind; op {
	case "!":
		p.advance()
		return &notExpr{p.unary()}
	case "-", "+":
		p.advance()
		return &arithExpr{op[0], numberExpr(0), p.unary()}
	}
	return p.power()
}

func (p *parser) power() expr {
	x := p.postfix()
	if p.tok.kind == "^" {
		p.advance()
		return &arithExpr{'^', x, p.unary()}
	}
	return x
}

func (p *parser) postfix() expr {
	x := p.primary()
	if to, ok := x.(lvalue); ok && (p.tok.kind == "++" || p.tok.kind == "--") {
		s := &stepExpr{to: to, by: 1}
		if p.tok.kind == "--" {
			s.by = -1
		}
		p.advance()
		return s
	}
	return x
}

func (p *parser) primary() expr {
	defer p.deeper()()
	t := p.tok
	switch t.kind {
	case tokNumber:
		p.advance()
		return numberExpr(t.n)
	case tokString:
		p.advance()
		return textExpr(t.text)
	case tokRegexp:
		p.advance()
		return p.regexp(t.text)
	case "$":
		p.advance()
		return &fieldExpr{p.fieldIndex()}
	case "++", "--":
		p.advance()
		to, ok := p.primary().(lvalue)
		if !ok {
			p.fail()
		}
		by := 1.0
		if t.kind == "--" {
			by = -1
		}
		return &stepExpr{to: to, by: by, first: true}
	case "(":
		return p.parenthesized()
	case tokName:
		p.advance()
		if p.tok.kind != "[" {
			return nameExpr(t.text)
		}
		p.advance()
		was := p.noGreat
		p.noGreat = false
		index := p.list("]")
		p.noGreat = was
		return &elementExpr{t.text, index}
	case tokBuiltin:
		return p.builtin()
	case tokCall:
		p.refuse("the function " + t.text)
	case "getline":
		p.refuse("getline")
	}
	p.fail()
	return nil
}

// fieldIndex reads what follows $: $NF, $i++, $(i+1), $-1.
func (p *parser) fieldIndex() expr {
	if p.tok.kind == "-" || p.tok.kind == "+" || p.tok.kind == "!" {
		return p.unary()
	}
	return p.primary()
}

func (p *parser) parenthesized() expr {
	p.advance()
	great := p.noGreat
	p.noGreat = false
	args := p.list(")")
	p.noGreat = great
	if len(args) == 1 {
		return groupExpr{args[0]}
	}
	p.take("in")
	return &inExpr{args, p.take(tokName).text}
}

func (p *parser) regexp(text string) expr {
	re, err := compile(text)
	if err != nil {
		panic(parseError{err})
	}
	return &regexpExpr{text, re}
}

func (p *parser) builtin() expr {
	name := p.tok.text
	b := builtins[name]
	p.advance()
	var args []expr
	if p.tok.kind == "(" {
		p.advance()
		was := p.noGreat
		p.noGreat = false
		if p.tok.kind == ")" {
			p.advance()
		} else {
			args = p.list(")")
		}
		p.noGreat = was
	} else if name != "length" {
		p.fail()
	}
	if b.unsupported != "" {
		p.refuse(b.unsupported)
	}
	if len(args) < b.least || len(args) > b.most {
		panic(parseError{&SyntaxError{Line: p.tok.line, Near: name + " with " + strconv.Itoa(len(args)) + " arguments"}})
	}
	return &callExpr{name, args}
}
