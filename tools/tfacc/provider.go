package main

import (
	"bufio"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// operations has the state of each operation ("handled", "partly" or "not") by service and name, from the compatibility
// page. The services' names are the provider's.
type operations map[string]map[string]string

func readCompatibility(path string) (operations, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	all := operations{}
	service := ""
	in := bufio.NewScanner(f)
	in.Buffer(nil, 1<<20)
	for in.Scan() {
		line := in.Text()
		if name, ok := strings.CutPrefix(line, "## "); ok {
			service = strings.ReplaceAll(name, "-", "")
			continue
		}
		if list, ok := strings.CutPrefix(line, "Not handled: "); ok {
			for op := range strings.SplitSeq(strings.TrimSuffix(list, "."), ", ") {
				all.set(service, op, "not")
			}
			continue
		}
		cells := strings.Split(line, "|")
		if len(cells) > 3 && slices.Contains([]string{"handled", "partly"}, strings.TrimSpace(cells[2])) {
			all.set(service, strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]))
		}
	}
	return all, in.Err()
}

func (all operations) set(service, op, state string) {
	if all[service] == nil {
		all[service] = map[string]string{}
	}
	all[service][op] = state
}

// goPackage has the functions and methods of a Go package. A method's key has its receiver's type and a dot before it.
type goPackage struct {
	funcs map[string]*ast.FuncDecl
	file  map[string]string // the file of each
}

func parsePackage(dir string, keep func(file string) bool) (*goPackage, error) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, err
	}
	p := &goPackage{map[string]*ast.FuncDecl{}, map[string]string{}}
	files := token.NewFileSet()
	for _, e := range entries {
		if !strings.HasSuffix(e.Name(), ".go") || !keep(e.Name()) {
			continue
		}
		f, err := parser.ParseFile(files, filepath.Join(dir, e.Name()), nil, parser.ParseComments|parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		for _, d := range f.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok && fn.Body != nil {
				key := fn.Name.Name
				if fn.Recv != nil {
					typ := fn.Recv.List[0].Type
					if star, ok := typ.(*ast.StarExpr); ok {
						typ = star.X
					}
					if id, ok := typ.(*ast.Ident); ok {
						key = id.Name + "." + key
					}
				}
				p.funcs[key], p.file[key] = fn, e.Name()
			}
		}
	}
	return p, nil
}

var annotation = regexp.MustCompile(`@(SDKResource|SDKDataSource)\("(\w+)"`)

// unhandled returns, by type of resource ("aws_vpc", "data.aws_vpc"), the operations that Drydock does not handle of
// those that the type's creation, reading and deletion call in any case. A type whose calls are all handled is in the
// result with no operation.
func unhandled(p *goPackage, ops map[string]string) map[string][]string {
	result := map[string][]string{}
	add := func(typ string, roots []string) {
		seen, missing := map[string]bool{}, []string{}
		for _, root := range roots {
			p.alwaysCalls(root, seen, func(op string) {
				if ops[op] == "not" && !slices.Contains(missing, op) {
					missing = append(missing, op)
				}
			})
		}
		result[typ] = missing
	}
	for key, fn := range p.funcs {
		for _, m := range annotation.FindAllStringSubmatch(docText(fn), -1) {
			typ := m[2]
			if m[1] == "SDKDataSource" {
				typ = "data." + typ
			}
			add(typ, lifeFuncs(fn))
		}
		// Types of the plugin framework have a method that returns their name.
		if typ, ok := strings.CutSuffix(key, ".Metadata"); ok {
			name := ""
			ast.Inspect(fn, func(n ast.Node) bool {
				if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
					name, _ = strconv.Unquote(l.Value)
				}
				return true
			})
			if strings.Contains(strings.ToLower(typ), "datasource") {
				name = "data." + name
			}
			add(name, []string{typ + ".Create", typ + ".Read", typ + ".Delete"})
		}
	}
	return result
}

func docText(fn *ast.FuncDecl) string {
	if fn.Doc == nil {
		return ""
	}
	var b strings.Builder
	for _, c := range fn.Doc.List { // Text() leaves out lines that look like directives
		b.WriteString(c.Text + "\n")
	}
	return b.String()
}

// lifeFuncs returns the functions for creation, reading and deletion in the resource that fn returns.
func lifeFuncs(fn *ast.FuncDecl) []string {
	var funcs []string
	ast.Inspect(fn, func(n ast.Node) bool {
		if kv, ok := n.(*ast.KeyValueExpr); ok {
			key, _ := kv.Key.(*ast.Ident)
			value, isFunc := kv.Value.(*ast.Ident)
			if key != nil && isFunc && slices.ContainsFunc([]string{"Create", "Read", "Delete"}, func(s string) bool { return strings.HasPrefix(key.Name, s) }) {
				funcs = append(funcs, value.Name)
			}
		}
		return true
	})
	return funcs
}

var operationCall = regexp.MustCompile(`^(?:New)?([A-Z]\w*?)(?:Pages)?(?:WithContext|Paginator)?$`)

// alwaysCalls passes the names of the methods to f that a function calls in any case, itself or in functions of its
// package: what is in the body of an if or a switch is left out.
func (p *goPackage) alwaysCalls(name string, seen map[string]bool, f func(method string)) {
	fn := p.funcs[name]
	if fn == nil || seen[name] {
		return
	}
	seen[name] = true
	var visit func(n ast.Node) bool
	visit = func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if n.Init != nil {
				ast.Inspect(n.Init, visit)
			}
			ast.Inspect(n.Cond, visit)
			return false
		case *ast.SwitchStmt, *ast.TypeSwitchStmt, *ast.SelectStmt, *ast.RangeStmt:
			return false
		case *ast.CallExpr:
			switch fun := n.Fun.(type) {
			case *ast.Ident:
				p.alwaysCalls(fun.Name, seen, f)
			case *ast.SelectorExpr:
				if m := operationCall.FindStringSubmatch(fun.Sel.Name); m != nil {
					f(m[1])
				}
			}
		}
		return true
	}
	ast.Inspect(fn.Body, visit)
}
