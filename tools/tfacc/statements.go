package main

import (
	"go/ast"
	"go/token"
)

// How a block ended.
type (
	returned  []any
	broken    struct{}
	continued struct{}
)

func result(end any) any {
	r, ok := end.(returned)
	switch {
	case !ok || len(r) == 0:
		return nil
	case len(r) == 1:
		return r[0]
	}
	return tuple(r)
}

func zero(t ast.Expr) any {
	switch t := t.(type) {
	case *ast.Ident:
		switch t.Name {
		case "string":
			return ""
		case "int", "int32", "int64":
			return 0
		case "bool":
			return false
		}
	case *ast.SelectorExpr:
		if t.Sel.Name == "Builder" {
			return &builder{}
		}
	case *ast.ArrayType:
		return []any(nil)
	}
	return unknown{"a variable that the test fills"}
}

func (e *evaluator) block(env *scope, b *ast.BlockStmt) any {
	if b == nil {
		return nil
	}
	env = env.child()
	for _, s := range b.List {
		if end := e.statement(env, s); end != nil {
			return end
		}
	}
	return nil
}

func (e *evaluator) statement(env *scope, s ast.Stmt) any {
	if e.steps++; e.steps > maxSteps {
		fail("the function does not end")
	}
	switch s := s.(type) {
	case *ast.ReturnStmt:
		out := returned{}
		for _, r := range s.Results {
			out = append(out, e.expr(env, r))
		}
		return out
	case *ast.AssignStmt:
		e.assignment(env, s)
	case *ast.DeclStmt:
		for _, spec := range s.Decl.(*ast.GenDecl).Specs {
			if v, ok := spec.(*ast.ValueSpec); ok {
				for i, n := range v.Names {
					if i < len(v.Values) {
						env.vars[n.Name] = catch(func() any { return e.expr(env, v.Values[i]) })
					} else {
						env.vars[n.Name] = zero(v.Type)
					}
				}
			}
		}
	case *ast.ExprStmt:
		catch(func() any { return e.expr(env, s.X) })
	case *ast.BlockStmt:
		return e.block(env, s)
	case *ast.IfStmt:
		env = env.child()
		if s.Init != nil {
			e.statement(env, s.Init)
		}
		cond, ok := e.expr(env, s.Cond).(bool)
		switch {
		case !ok:
			fail("a condition is unknown")
		case cond:
			return e.block(env, s.Body)
		case s.Else != nil:
			return e.statement(env, s.Else)
		}
	case *ast.ForStmt:
		env = env.child()
		if s.Init != nil {
			e.statement(env, s.Init)
		}
		for s.Cond == nil || e.expr(env, s.Cond) == true {
			switch end := e.block(env, s.Body).(type) {
			case broken:
				return nil
			case returned:
				return end
			}
			if s.Post != nil {
				e.statement(env, s.Post)
			}
		}
	case *ast.RangeStmt:
		return e.ranges(env, s)
	case *ast.SwitchStmt:
		return e.switches(env, s)
	case *ast.IncDecStmt:
		if n, ok := s.X.(*ast.Ident); ok {
			v, _ := env.lookup(n.Name)
			if i, ok := v.(int); ok {
				env.assign(n.Name, i+map[token.Token]int{token.INC: 1, token.DEC: -1}[s.Tok])
			}
		}
	case *ast.BranchStmt:
		if s.Tok == token.BREAK {
			return broken{}
		}
		return continued{}
	}
	return nil
}

func (e *evaluator) assignment(env *scope, s *ast.AssignStmt) {
	var values []any
	if len(s.Rhs) == 1 && len(s.Lhs) > 1 {
		v := catch(func() any { return e.expr(env, s.Rhs[0]) })
		many, _ := v.(tuple)
		for i := range s.Lhs {
			switch {
			case i < len(many):
				values = append(values, many[i])
			case i == len(s.Lhs)-1:
				values = append(values, nil) // no error
			default:
				values = append(values, v)
			}
		}
	} else {
		for _, r := range s.Rhs {
			values = append(values, catch(func() any { return e.expr(env, r) }))
		}
	}
	for i, l := range s.Lhs {
		n, ok := l.(*ast.Ident)
		if !ok {
			continue
		}
		switch s.Tok {
		case token.DEFINE:
			env.vars[n.Name] = values[i]
		case token.ADD_ASSIGN:
			old, _ := env.lookup(n.Name)
			env.assign(n.Name, add(old, values[i]))
		default:
			env.assign(n.Name, values[i])
		}
	}
}

func add(a, b any) any {
	if x, ok := a.(int); ok {
		if y, ok := b.(int); ok {
			return x + y
		}
	}
	return text(a) + text(b)
}

func (e *evaluator) ranges(env *scope, s *ast.RangeStmt) any {
	var keys, values []any
	switch over := e.expr(env, s.X).(type) {
	case []any:
		for i, v := range over {
			keys, values = append(keys, i), append(values, v)
		}
	case int:
		for i := range over {
			keys, values = append(keys, i), append(values, i)
		}
	case map[string]any:
		for k, v := range over {
			keys, values = append(keys, k), append(values, v)
		}
	default:
		fail("a loop over something unknown")
	}
	for i := range keys {
		in := env.child()
		if n, ok := s.Key.(*ast.Ident); ok {
			in.vars[n.Name] = keys[i]
		}
		if n, ok := s.Value.(*ast.Ident); ok {
			in.vars[n.Name] = values[i]
		}
		switch end := e.block(in, s.Body).(type) {
		case broken:
			return nil
		case returned:
			return end
		}
	}
	return nil
}

func (e *evaluator) switches(env *scope, s *ast.SwitchStmt) any {
	var tag any = true
	if s.Tag != nil {
		tag = e.expr(env, s.Tag)
	}
	var otherwise *ast.CaseClause
	run := func(c *ast.CaseClause) any {
		end := e.block(env, &ast.BlockStmt{List: c.Body})
		if end == any(broken{}) {
			return nil
		}
		return end
	}
	for _, c := range s.Body.List {
		c := c.(*ast.CaseClause)
		if c.List == nil {
			otherwise = c
		}
		for _, x := range c.List {
			if e.expr(env, x) == tag {
				return run(c)
			}
		}
	}
	if otherwise != nil {
		return run(otherwise)
	}
	return nil
}
