package main

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"math/rand/v2"
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

// environment are the answers of acctest's functions about where the tests run.
var environment = map[string]string{
	"Region": "us-west-2", "AlternateRegion": "us-east-1", "ThirdRegion": "us-east-2", "Partition": "aws", "PartitionDNSSuffix": "amazonaws.com", "PartitionReverseDNSPrefix": "com.amazonaws",
	"AlternateRegionPartition": "aws",
}

const letters = "abcdefghijklmnopqrstuvwxyz"

func random(n int, from string) string {
	var b strings.Builder
	for range n {
		b.WriteByte(from[rand.IntN(len(from))])
	}
	return b.String()
}

func (e *evaluator) external(pkg, name string, args []any) any {
	all := args
	if len(args) > 0 && args[0] == nil { // acctest's functions take the *testing.T, the SDK's of the same names do not
		args = args[1:]
	}
	str := func(i int) string {
		if i >= len(args) {
			fail("%s has too few arguments", name)
		}
		return text(args[i])
	}
	num := func(i int) int {
		n, ok := args[i].(int)
		if !ok {
			fail("%s of something unknown", name)
		}
		return n
	}
	strs := func(v any) []string {
		list, ok := v.([]any)
		if !ok {
			fail("%s of something unknown", name)
		}
		var out []string
		for _, s := range list {
			out = append(out, text(s))
		}
		return out
	}
	base := path.Base(pkg)
	switch base + "." + name {
	case "fmt.Sprintf", "fmt.Sprint", "fmt.Errorf":
		for _, a := range args {
			if u, ok := a.(unknown); ok {
				panic(u)
			}
		}
		if name == "Sprint" {
			return fmt.Sprint(args...)
		}
		return fmt.Sprintf(str(0), args[1:]...)
	case "strings.Join":
		return strings.Join(strs(args[0]), str(1))
	case "strings.Repeat":
		return strings.Repeat(str(0), num(1))
	case "strings.ReplaceAll":
		return strings.ReplaceAll(str(0), str(1), str(2))
	case "strings.Replace":
		return strings.Replace(str(0), str(1), str(2), num(3))
	case "strings.ToUpper":
		return strings.ToUpper(str(0))
	case "strings.ToLower":
		return strings.ToLower(str(0))
	case "strings.Contains":
		return strings.Contains(str(0), str(1))
	case "strings.HasPrefix":
		return strings.HasPrefix(str(0), str(1))
	case "strings.HasSuffix":
		return strings.HasSuffix(str(0), str(1))
	case "testing.Short":
		return false
	case "os.Getenv":
		return ""
	case "strings.TrimSpace":
		return strings.TrimSpace(str(0))
	case "strings.Trim":
		return strings.Trim(str(0), str(1))
	case "strings.TrimSuffix":
		return strings.TrimSuffix(str(0), str(1))
	case "strings.TrimPrefix":
		return strings.TrimPrefix(str(0), str(1))
	case "strconv.Quote":
		return strconv.Quote(str(0))
	case "strconv.Itoa", "strconv.FormatBool", "strconv.FormatInt":
		return str(0)
	case "aws.String", "aws.StringValue", "aws.ToString", "aws.Int64", "aws.Int32", "aws.Bool":
		return args[0]
	case "acctest.ConfigCompose":
		var b strings.Builder
		for i := range args {
			b.WriteString(str(i))
		}
		return b.String()
	case "acctest.RandomWithPrefix":
		return str(0) + "-" + random(18, "123456789")
	case "acctest.RandString":
		return random(num(0), letters)
	case "acctest.RandStringFromCharSet":
		return random(num(0), cmp.Or(str(1), letters))
	case "acctest.RandInt":
		return rand.IntN(1 << 31)
	case "acctest.RandIntRange":
		return num(0) + rand.IntN(num(1)-num(0))
	case "acctest.RandomDomainName":
		return random(8, letters) + ".com"
	case "acctest.RandomSubdomain":
		return random(8, letters) + "." + random(8, letters) + ".com"
	case "acctest.RandomEmailAddress":
		return random(8, letters) + "@" + str(0)
	case "acctest.DefaultEmailAddress":
		return "no-reply@hashicorp.com"
	case "acctest.TLSPEMEscapeNewlines":
		return strings.ReplaceAll(str(0), "\n", "\\n")
	case "acctest.TLSPEMRemoveNewlines":
		return strings.ReplaceAll(str(0), "\n", "")
	case "acctest.TLSRSAPrivateKeyPEM":
		return privateKey()
	case "acctest.TLSRSAPublicKeyPEM":
		return publicKey(str(0))
	case "acctest.TLSRSAX509SelfSignedCertificatePEM":
		return selfSigned(str(0), str(1))
	case "acctest.RandSSHKeyPair":
		return tuple{sshKey(str(0)), privateKey(), nil}
	}
	if v, ok := environment[name]; ok && base == "acctest" {
		return v
	}
	if strings.HasPrefix(pkg, providerPath) {
		return e.call(e.load(pkg, false), name, all)
	}
	if strings.Contains(pkg, "aws-sdk-go") && len(args) == 1 {
		return args[0] // a conversion to one of its types
	}
	fail("%s.%s is not known", base, name)
	return nil
}

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
	e.steps = 0
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
				s.config, use = c, true
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
