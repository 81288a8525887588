package main

import (
	"go/ast"
	"slices"
	"strings"
)

// A step is one configuration that a test applies, with what it expects of the state.
type step struct {
	config   string
	nonEmpty bool // the plan afterwards is not empty
	checks   []check
}

// A check expects an attribute of a resource to have a value, to be set, or to be absent.
type check struct{ kind, address, key, value string }

// stepsOf returns the configurations that a test applies, up to the first step that needs more than a configuration. The
// reason says what that was.
func (e *evaluator) stepsOf(pkg, test string) (steps []step, reason string) {
	p := e.load(pkg, true)
	fn, ok := p.funcs[test]
	if !ok {
		return nil, "not found"
	}
	e.steps, e.test = 0, test
	env := &scope{map[string]any{"ctx": nil, "t": nil}, nil, p, fn.imports}
	var found *ast.CompositeLit
	v := catch(func() any {
		for _, s := range fn.node.Body.List {
			if x, ok := s.(*ast.ExprStmt); ok {
				if c, ok := x.X.(*ast.CallExpr); ok {
					if sel, ok := c.Fun.(*ast.SelectorExpr); ok && (sel.Sel.Name == "ParallelTest" || sel.Sel.Name == "Test") {
						if l, ok := c.Args[len(c.Args)-1].(*ast.CompositeLit); ok {
							found = l
							return nil
						}
					}
				}
			}
			if e.statement(env, s) != nil {
				return nil
			}
		}
		return nil
	})
	if u, ok := v.(unknown); ok {
		return nil, u.why
	}
	if found == nil {
		return nil, "it does not call resource.Test or resource.ParallelTest"
	}
	var list *ast.CompositeLit
	for _, el := range found.Elts {
		if kv, ok := el.(*ast.KeyValueExpr); ok {
			switch kv.Key.(*ast.Ident).Name {
			case "Steps":
				list, _ = kv.Value.(*ast.CompositeLit)
			case "ExternalProviders":
				return nil, "needs another provider"
			}
		}
	}
	if list == nil {
		return nil, "its steps are computed"
	}
	for _, el := range list.Elts {
		l, ok := el.(*ast.CompositeLit)
		if !ok {
			return steps, "a computed step"
		}
		s, use, why := e.step(env, l)
		if why != "" {
			return steps, why
		}
		if use {
			steps = append(steps, s)
		}
	}
	return steps, ""
}

func (e *evaluator) step(env *scope, l *ast.CompositeLit) (s step, use bool, reason string) {
	for _, el := range l.Elts {
		kv, ok := el.(*ast.KeyValueExpr)
		if !ok {
			return s, false, "a step without names"
		}
		switch key := kv.Key.(*ast.Ident).Name; key {
		case "Config":
			switch c := catch(func() any { return text(e.expr(env, kv.Value)) }).(type) {
			case string:
				// Amazon Linux AMIs are deprecated, so that AWS no longer lists them either; later releases of the tests use Amazon Linux 2.
				s.config, use = strings.ReplaceAll(c, `"amzn-ami-`, `"amzn2-ami-`), true
			case unknown:
				return s, false, "cannot be evaluated: " + c.why
			}
		case "ImportState", "RefreshState":
			return s, false, ""
		case "PlanOnly":
			return s, false, ""
		case "ExpectError", "PreConfig", "ConfigDirectory", "Destroy", "Taint":
			return s, false, "a step has " + key
		case "ExpectNonEmptyPlan":
			s.nonEmpty = true
		case "Check":
			e.checks(env, kv.Value, &s)
		}
	}
	return s, use, ""
}

var checked = []string{"TestCheckResourceAttr", "TestCheckNoResourceAttr", "TestCheckResourceAttrSet", "CheckResourceAttrRegionalARN", "CheckResourceAttrGlobalARN"}

// checks collects the checks of the state; those of AWS's own answers are left out.
func (e *evaluator) checks(env *scope, x ast.Expr, s *step) {
	c, ok := x.(*ast.CallExpr)
	if !ok {
		return
	}
	sel, ok := c.Fun.(*ast.SelectorExpr)
	if !ok {
		return
	}
	if strings.HasPrefix(sel.Sel.Name, "Compose") {
		for _, a := range c.Args {
			e.checks(env, a, s)
		}
		return
	}
	if !slices.Contains(checked, sel.Sel.Name) {
		return
	}
	k := check{kind: sel.Sel.Name}
	var values []string
	for _, a := range c.Args {
		v, ok := catch(func() any { return text(e.expr(env, a)) }).(string)
		if !ok {
			return
		}
		values = append(values, v)
	}
	if len(values) < 2 {
		return
	}
	k.address, k.key = values[0], values[1]
	switch {
	case k.kind == "CheckResourceAttrRegionalARN" && len(values) == 4:
		k.kind, k.value = "TestCheckResourceAttr", "arn:aws:"+values[2]+":"+environment["Region"]+":000000000000:"+values[3]
	case k.kind == "CheckResourceAttrGlobalARN" && len(values) == 4:
		k.kind, k.value = "TestCheckResourceAttr", "arn:aws:"+values[2]+"::000000000000:"+values[3]
	case len(values) == 3:
		k.value = values[2]
	}
	s.checks = append(s.checks, k)
}
