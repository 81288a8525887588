package drydock

import (
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"strings"
	"testing"
)

// notFoundName matches what services call their "does not exist" answers.
var notFoundName = regexp.MustCompile(`^(errNo[A-Z]|ErrNo[A-Z]|noSuch|errUnknown|notFound$)|NotFound$|DoesNotExist$`)

// notFoundError matches those in a package of errors: ekserr.NoCluster, ec2err.UnknownRegion.
var notFoundError = regexp.MustCompile(`^(No|Unknown)[A-Z]`)

// inputErrors are the packages and functions whose errors concern the caller's input and never the store.
var inputErrors = regexp.MustCompile(`^(strconv|arn|netip|url|json|base64|jwt)$`)

// TestStoreErrorsAreNotMissingResources: if a failure of the store is answered as "does not exist", Terraform
// recreates what exists. Only store.ErrNotFound may become that answer: store.NotFoundAs(err, errNo…).
func TestStoreErrorsAreNotMissingResources(t *testing.T) {
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") || !strings.HasPrefix(f.path, "internal/") || strings.HasPrefix(f.path, "internal/node/") {
			continue
		}
		for _, pos := range hiddenErrors(f.ast) {
			t.Errorf("%s answers any error as not found: use store.NotFoundAs(err, …), or errors.Is(err, store.ErrNotFound)", f.fset.Position(pos))
		}
	}
}

func TestStoreErrorsRuleFindsThem(t *testing.T) {
	for body, found := range map[string]bool{
		`v, err := c.Get(r, k); if err != nil { return errNoCluster(k) }`:                                       true,
		`v, err := c.Get(r, k); if err != nil || v.UID != uid { return errNoCluster(k) }`:                       true,
		`if _, err := c.Get(r, k); err != nil { return ErrNoSuchKey }`:                                          true,
		`v, err := c.Get(r, k); switch { case err != nil: return errNoCluster(k) }`:                             true,
		`v, err := c.Get(r, k); if err != nil { return errf("InvalidGroup.NotFound", k) }`:                      true,
		`v, err := c.Get(r, k); if err != nil { return ekserr.NoCluster(k) }`:                                   true,
		`v, err := c.Get(r, k); if err != nil { return &ekstypes.ResourceNotFoundException{} }`:                 true,
		`v, err := c.Get(r, k); if err != nil { return store.NotFoundAs(err, errNoCluster(k)) }`:                false,
		`v, err := c.Get(r, k); if errors.Is(err, store.ErrNotFound) { return errNoCluster(k) }`:                false,
		`v, err := c.Get(r, k); if err != nil { return err }`:                                                   false,
		`n, err := strconv.Atoi(text); if err != nil { return errVersionNotFound(text) }`:                       false,
		`a, err := arn.Parse(text); v, err := c.Get(r, k); if err != nil { return errNoCluster(k) }`:            true,
		`err := s.store.Update(ctx, f); if n, err := strconv.Atoi(v); err != nil { return errVersionNotFound }`: false,
	} {
		src := "package p\nfunc f() error { " + body + "; return nil }"
		file, err := parser.ParseFile(token.NewFileSet(), "", src, 0)
		if err != nil {
			t.Fatal(body, err)
		}
		if got := len(hiddenErrors(file)) > 0; got != found {
			t.Errorf("%s: found %v, want %v", body, got, found)
		}
	}
}

// hiddenErrors returns the returns of a not-found answer that ignore err, in a branch taken if err is not nil.
func hiddenErrors(file *ast.File) []token.Pos {
	var out []token.Pos
	source := "" // the package or variable whose call err comes from
	branch := func(cond ast.Expr, body []ast.Stmt) {
		if !comparesErr(cond) || inputErrors.MatchString(source) {
			return
		}
		for _, s := range body {
			if mentions(s, func(n string) bool { return n == "err" }) {
				return
			}
			if r, ok := s.(*ast.ReturnStmt); ok && len(r.Results) > 0 && saysNotFound(r.Results[len(r.Results)-1]) {
				out = append(out, r.Pos())
			}
		}
	}
	ast.Inspect(file, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncDecl:
			source = ""
		case *ast.AssignStmt:
			source = sourceOf(n, source)
		case *ast.IfStmt:
			if init, ok := n.Init.(*ast.AssignStmt); ok {
				source = sourceOf(init, source)
			}
			branch(n.Cond, n.Body.List)
		case *ast.CaseClause:
			for _, c := range n.List {
				branch(c, n.Body)
			}
		}
		return true
	})
	return out
}

// sourceOf returns X of `…, err := X.f(…)`, and old if err is not assigned.
func sourceOf(a *ast.AssignStmt, old string) string {
	last, ok := a.Lhs[len(a.Lhs)-1].(*ast.Ident)
	if !ok || last.Name != "err" {
		return old
	}
	for e := a.Rhs[len(a.Rhs)-1]; ; {
		switch x := e.(type) {
		case *ast.CallExpr:
			e = x.Fun
		case *ast.SelectorExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}

// comparesErr reports whether the condition holds for any error.
func comparesErr(cond ast.Expr) bool {
	b, ok := cond.(*ast.BinaryExpr)
	if !ok {
		return false
	}
	if b.Op == token.LOR || b.Op == token.LAND {
		return comparesErr(b.X) || comparesErr(b.Y)
	}
	x, isIdent := b.X.(*ast.Ident)
	return b.Op == token.NEQ && isIdent && x.Name == "err"
}

func saysNotFound(e ast.Expr) bool {
	found := mentions(e, notFoundName.MatchString)
	ast.Inspect(e, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && strings.HasSuffix(x.Name, "err") {
				found = found || notFoundError.MatchString(n.Sel.Name)
			}
		case *ast.BasicLit:
			found = found || strings.HasSuffix(strings.Trim(n.Value, "`\""), "NotFound")
		case *ast.Ident:
			found = found || strings.Contains(n.Name, "NotFoundException") || strings.Contains(n.Name, "NoSuchEntity")
		}
		return true
	})
	return found
}

func mentions(n ast.Node, match func(name string) bool) bool {
	found := false
	ast.Inspect(n, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && match(id.Name) {
			found = true
		}
		return true
	})
	return found
}
