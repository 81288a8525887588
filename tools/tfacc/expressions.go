package main

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

func (e *evaluator) expr(env *scope, x ast.Expr) any {
	switch x := x.(type) {
	case *ast.BasicLit:
		switch x.Kind {
		case token.STRING:
			s, err := strconv.Unquote(x.Value)
			if err != nil {
				panic(err)
			}
			return s
		case token.INT:
			n, err := strconv.ParseInt(x.Value, 0, 64)
			if err != nil {
				panic(err)
			}
			return int(n)
		case token.FLOAT:
			f, err := strconv.ParseFloat(x.Value, 64)
			if err != nil {
				panic(err)
			}
			return f
		}
	case *ast.Ident:
		return e.name(env, x.Name)
	case *ast.ParenExpr:
		return e.expr(env, x.X)
	case *ast.StarExpr:
		return e.expr(env, x.X)
	case *ast.UnaryExpr:
		v := e.expr(env, x.X)
		switch x.Op {
		case token.NOT:
			if b, ok := v.(bool); ok {
				return !b
			}
		case token.SUB:
			if n, ok := v.(int); ok {
				return -n
			}
		case token.AND:
			return v
		}
	case *ast.BinaryExpr:
		return e.binary(env, x)
	case *ast.SelectorExpr:
		if n, ok := x.X.(*ast.Ident); ok {
			if _, local := env.lookup(n.Name); !local && env.imports[n.Name] != "" {
				return e.imported(env.imports[n.Name], x.Sel.Name)
			}
		}
		if l, ok := e.expr(env, x.X).(literal); ok {
			return e.field(l, x.Sel.Name)
		}
	case *ast.CompositeLit:
		switch x.Type.(type) {
		case *ast.ArrayType:
			out := []any{}
			for _, el := range x.Elts {
				if c, ok := el.(*ast.CompositeLit); ok && c.Type == nil {
					out = append(out, literal{c, env})
					continue
				}
				out = append(out, e.expr(env, el))
			}
			return out
		case *ast.MapType:
			out := map[string]any{}
			for _, el := range x.Elts {
				kv := el.(*ast.KeyValueExpr)
				out[text(e.expr(env, kv.Key))] = catch(func() any { return e.expr(env, kv.Value) })
			}
			return out
		}
		return literal{x, env}
	case *ast.IndexExpr:
		switch of := e.expr(env, x.X).(type) {
		case []any:
			if i, ok := e.expr(env, x.Index).(int); ok && i < len(of) {
				return of[i]
			}
		case map[string]any:
			return of[text(e.expr(env, x.Index))]
		}
	case *ast.SliceExpr:
		s := text(e.expr(env, x.X))
		low, high := 0, len(s)
		if x.Low != nil {
			low, _ = e.expr(env, x.Low).(int)
		}
		if x.High != nil {
			high, _ = e.expr(env, x.High).(int)
		}
		return s[low:high]
	case *ast.FuncLit:
		return closure{x, env}
	case *ast.CallExpr:
		return e.calls(env, x)
	}
	fail("an expression of the kind %T", x)
	return nil
}

func (e *evaluator) field(l literal, name string) any {
	for _, el := range l.node.Elts {
		if kv, ok := el.(*ast.KeyValueExpr); ok {
			if k, ok := kv.Key.(*ast.Ident); ok && k.Name == name {
				return e.expr(l.env, kv.Value)
			}
		}
	}
	return nil
}

func (e *evaluator) name(env *scope, name string) any {
	if v, ok := env.lookup(name); ok {
		return v
	}
	switch name {
	case "true", "false":
		return name == "true"
	case "nil":
		return nil
	}
	if d, ok := env.pkg.vars[name]; ok {
		return e.expr(&scope{map[string]any{"iota": d.iota}, nil, env.pkg, d.imports}, d.node)
	}
	fail("%s is unknown", name)
	return nil
}

func (e *evaluator) imported(pkg, name string) any {
	if strings.HasSuffix(pkg, "/internal/acctest") {
		if v, ok := environment[name]; ok {
			return v
		}
	}
	p := e.load(pkg, false)
	d, ok := p.vars[name]
	if !ok {
		fail("%s.%s is unknown", path.Base(pkg), name)
	}
	return e.expr(&scope{map[string]any{"iota": d.iota}, nil, p, d.imports}, d.node)
}

func (e *evaluator) binary(env *scope, x *ast.BinaryExpr) any {
	a := e.expr(env, x.X)
	switch {
	case x.Op == token.LAND && a == false, x.Op == token.LOR && a == true:
		return a
	}
	b := e.expr(env, x.Y)
	if u, ok := a.(unknown); ok {
		panic(u)
	}
	if u, ok := b.(unknown); ok {
		panic(u)
	}
	switch x.Op {
	case token.LAND, token.LOR:
		return b
	case token.EQL:
		return a == b
	case token.NEQ:
		return a != b
	case token.ADD:
		return add(a, b)
	}
	m, ok1 := a.(int)
	n, ok2 := b.(int)
	if !ok1 || !ok2 {
		fail("an operation on something else than numbers")
	}
	switch x.Op {
	case token.SUB:
		return m - n
	case token.MUL:
		return m * n
	case token.QUO:
		return m / n
	case token.REM:
		return m % n
	case token.LSS:
		return m < n
	case token.GTR:
		return m > n
	case token.LEQ:
		return m <= n
	case token.GEQ:
		return m >= n
	}
	fail("the operator %s", x.Op)
	return nil
}

func (e *evaluator) calls(env *scope, x *ast.CallExpr) any {
	args := func() []any {
		var out []any
		for i, a := range x.Args {
			v := catch(func() any { return e.expr(env, a) })
			if many, ok := v.([]any); ok && x.Ellipsis.IsValid() && i == len(x.Args)-1 {
				out = append(out, many...)
				continue
			}
			out = append(out, v)
		}
		return out
	}
	switch fn := x.Fun.(type) {
	case *ast.Ident:
		if v, ok := env.lookup(fn.Name); ok {
			if c, ok := v.(closure); ok {
				in := c.env.child()
				bind(in, c.fn.Type, args())
				return result(e.block(in, c.fn.Body))
			}
		}
		switch fn.Name {
		case "string", "int", "int32", "int64", "float64":
			return e.expr(env, x.Args[0])
		case "len":
			switch v := e.expr(env, x.Args[0]).(type) {
			case string:
				return len(v)
			case []any:
				return len(v)
			case map[string]any:
				return len(v)
			case nil:
				return 0
			}
		case "min", "max":
			a, ok1 := e.expr(env, x.Args[0]).(int)
			b, ok2 := e.expr(env, x.Args[1]).(int)
			if !ok1 || !ok2 {
				fail("%s of something unknown", fn.Name)
			}
			if fn.Name == "min" {
				return min(a, b)
			}
			return max(a, b)
		case "append":
			all := args()
			list, _ := all[0].([]any)
			return append(slices.Clone(list), all[1:]...)
		}
		return e.call(env.pkg, fn.Name, args())
	case *ast.SelectorExpr:
		if n, ok := fn.X.(*ast.Ident); ok {
			if n.Name == "t" && fn.Sel.Name == "Name" {
				return e.test
			}
			if _, local := env.lookup(n.Name); !local && env.imports[n.Name] != "" {
				return e.external(env.imports[n.Name], fn.Sel.Name, args())
			}
		}
		switch on := e.expr(env, fn.X).(type) {
		case *builder:
			switch fn.Sel.Name {
			case "WriteString":
				on.WriteString(text(args()[0]))
				return nil
			case "String":
				return on.String()
			}
		case string: // a typed constant's method
			if fn.Sel.Name == "String" {
				return on
			}
		}
	case *ast.IndexExpr: // a generic function
		return e.calls(env, &ast.CallExpr{Fun: fn.X, Args: x.Args, Ellipsis: x.Ellipsis})
	case *ast.ArrayType, *ast.ParenExpr:
		return e.expr(env, x.Args[0])
	case *ast.FuncLit:
		in := env.child()
		bind(in, fn.Type, args())
		return result(e.block(in, fn.Body))
	}
	fail("a call of something unknown")
	return nil
}
