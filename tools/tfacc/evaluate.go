package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// An evaluator runs the functions of the provider's tests that compose configurations, without compiling the provider.
// It knows strings, numbers, lists, conditions and loops; what it cannot evaluate is an unknown, and an error as soon
// as a configuration needs it.
type evaluator struct {
	source, modules string // the provider's checkout, and the Go module cache for constants of AWS's SDKs
	packages        map[string]*declarations
	steps           int
	test            string // whose steps are evaluated
}

// declarations are the functions, constants and variables of a package, each with the imports of its file.
type declarations struct {
	path  string
	funcs map[string]declaration[*ast.FuncDecl]
	vars  map[string]declaration[ast.Expr]
}

// A declaration is a function, or the value of a constant or variable.
type declaration[T any] struct {
	node    T
	imports map[string]string // name to path
	iota    int
}

type (
	unknown struct{ why string }
	tuple   []any
	closure struct {
		fn  *ast.FuncLit
		env *scope
	}
	builder struct{ strings.Builder }
	literal struct { // a composite literal, whose fields are evaluated when they are asked for
		node *ast.CompositeLit
		env  *scope
	}
)

// A scope has the variables of a block.
type scope struct {
	vars    map[string]any
	parent  *scope
	pkg     *declarations
	imports map[string]string
}

func (s *scope) child() *scope { return &scope{map[string]any{}, s, s.pkg, s.imports} }

func (s *scope) lookup(name string) (any, bool) {
	for ; s != nil; s = s.parent {
		if v, ok := s.vars[name]; ok {
			return v, true
		}
	}
	return nil, false
}

func (s *scope) assign(name string, v any) {
	for at := s; at != nil; at = at.parent {
		if _, ok := at.vars[name]; ok {
			at.vars[name] = v
			return
		}
	}
	s.vars[name] = v
}

const (
	providerPath = "github.com/hashicorp/terraform-provider-aws/"
	maxSteps     = 200000
)

// load parses a package; tests says whether its tests are parsed as well. A package that cannot be found is empty.
func (e *evaluator) load(importPath string, tests bool) *declarations {
	if p := e.packages[importPath]; p != nil {
		return p
	}
	p := &declarations{importPath, map[string]declaration[*ast.FuncDecl]{}, map[string]declaration[ast.Expr]{}}
	e.packages[importPath] = p
	dir := e.directory(importPath)
	entries, _ := os.ReadDir(dir)
	files := token.NewFileSet()
	for _, entry := range entries {
		if !strings.HasSuffix(entry.Name(), ".go") || strings.HasSuffix(entry.Name(), "_test.go") && !tests {
			continue
		}
		f, err := parser.ParseFile(files, filepath.Join(dir, entry.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			continue
		}
		imports := map[string]string{}
		for _, i := range f.Imports {
			to, _ := strconv.Unquote(i.Path.Value)
			name := path.Base(to)
			if regexp.MustCompile(`^v\d+$`).MatchString(name) {
				name = path.Base(path.Dir(to))
			}
			if i.Name != nil {
				name = i.Name.Name
			}
			imports[name] = to
		}
		for _, d := range f.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv == nil && d.Body != nil {
					p.funcs[d.Name.Name] = declaration[*ast.FuncDecl]{d, imports, 0}
				}
			case *ast.GenDecl:
				var last []ast.Expr
				for n, spec := range d.Specs {
					v, ok := spec.(*ast.ValueSpec)
					if !ok {
						continue
					}
					if len(v.Values) > 0 || d.Tok == token.VAR {
						last = v.Values
					}
					for i, name := range v.Names {
						if i < len(last) {
							p.vars[name.Name] = declaration[ast.Expr]{last[i], imports, n}
						}
					}
				}
			}
		}
	}
	return p
}

// directory returns where a package's files are, or "" if they are not on this machine.
func (e *evaluator) directory(importPath string) string {
	if in, ok := strings.CutPrefix(importPath, providerPath); ok {
		return filepath.Join(e.source, in)
	}
	for at := importPath; strings.Contains(at, "/"); at = path.Dir(at) {
		found, _ := filepath.Glob(filepath.Join(e.modules, at+"@*", strings.TrimPrefix(importPath, at)))
		if len(found) > 0 {
			return found[len(found)-1]
		}
	}
	return ""
}

func fail(format string, args ...any) { panic(unknown{fmt.Sprintf(format, args...)}) }

// catch returns what f returns, or an unknown if something in it cannot be evaluated.
func catch(f func() any) (v any) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case unknown:
			v = r
		case error:
			v = unknown{r.Error()}
		default:
			v = unknown{fmt.Sprint(r)}
		}
	}()
	return f()
}

func text(v any) string {
	switch v := v.(type) {
	case string:
		return v
	case unknown:
		fail("%s", v.why)
	case *builder:
		return v.String()
	}
	return fmt.Sprint(v)
}

func (e *evaluator) call(p *declarations, name string, args []any) any {
	fn, ok := p.funcs[name]
	if !ok {
		fail("%s.%s is not a function here", path.Base(p.path), name)
	}
	env := &scope{map[string]any{}, nil, p, fn.imports}
	bind(env, fn.node.Type, args)
	return result(e.block(env, fn.node.Body))
}

func bind(env *scope, t *ast.FuncType, args []any) {
	i := 0
	for _, field := range t.Params.List {
		_, variadic := field.Type.(*ast.Ellipsis)
		for _, n := range field.Names {
			switch {
			case variadic:
				env.vars[n.Name] = slices.Clone(args[min(i, len(args)):])
			case i < len(args):
				env.vars[n.Name] = args[i]
			}
			i++
		}
		if len(field.Names) == 0 {
			i++
		}
	}
	if t.Results != nil {
		for _, field := range t.Results.List {
			for _, n := range field.Names {
				env.vars[n.Name] = zero(field.Type)
			}
		}
	}
}
