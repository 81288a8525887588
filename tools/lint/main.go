// Lint is the tool behind `go vet -vettool` in make lint: the checks of vet and of staticcheck, in one pass over the code.
//
// On their own, both type-check and summarize every dependency, including Kubernetes' servers, and staticcheck builds the
// SSA form of all of it, which takes six minutes without caches. Here, dependencies are only searched for functions like
// Printf and for deprecations.
package main

import (
	"encoding/json"
	"go/ast"
	"go/token"
	"os"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/appends"
	"golang.org/x/tools/go/analysis/passes/asmdecl"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomic"
	"golang.org/x/tools/go/analysis/passes/bools"
	"golang.org/x/tools/go/analysis/passes/buildtag"
	"golang.org/x/tools/go/analysis/passes/cgocall"
	"golang.org/x/tools/go/analysis/passes/composite"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/defers"
	"golang.org/x/tools/go/analysis/passes/directive"
	"golang.org/x/tools/go/analysis/passes/errorsas"
	"golang.org/x/tools/go/analysis/passes/framepointer"
	"golang.org/x/tools/go/analysis/passes/hostport"
	"golang.org/x/tools/go/analysis/passes/httpresponse"
	"golang.org/x/tools/go/analysis/passes/ifaceassert"
	"golang.org/x/tools/go/analysis/passes/loopclosure"
	"golang.org/x/tools/go/analysis/passes/lostcancel"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/sigchanyzer"
	"golang.org/x/tools/go/analysis/passes/slog"
	"golang.org/x/tools/go/analysis/passes/stdmethods"
	"golang.org/x/tools/go/analysis/passes/stdversion"
	"golang.org/x/tools/go/analysis/passes/stringintconv"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/testinggoroutine"
	"golang.org/x/tools/go/analysis/passes/tests"
	"golang.org/x/tools/go/analysis/passes/timeformat"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unreachable"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/analysis/passes/unusedresult"
	"golang.org/x/tools/go/analysis/passes/waitgroup"
	"golang.org/x/tools/go/analysis/unitchecker"
	"honnef.co/go/tools/analysis/facts/deprecated"
	"honnef.co/go/tools/analysis/lint"
	"honnef.co/go/tools/simple"
	"honnef.co/go/tools/staticcheck"
	"honnef.co/go/tools/stylecheck"
	"honnef.co/go/tools/unused"
)

// vet are the checks of go vet, as in $GOROOT/src/cmd/vet/main.go.
var vet = []*analysis.Analyzer{
	appends.Analyzer, asmdecl.Analyzer, assign.Analyzer, atomic.Analyzer, bools.Analyzer, buildtag.Analyzer, cgocall.Analyzer,
	composite.Analyzer, copylock.Analyzer, defers.Analyzer, directive.Analyzer, errorsas.Analyzer, framepointer.Analyzer,
	hostport.Analyzer, httpresponse.Analyzer, ifaceassert.Analyzer, loopclosure.Analyzer, lostcancel.Analyzer,
	nilfunc.Analyzer, printf.Analyzer, shift.Analyzer, sigchanyzer.Analyzer, slog.Analyzer, stdmethods.Analyzer,
	stdversion.Analyzer, stringintconv.Analyzer, structtag.Analyzer, testinggoroutine.Analyzer, tests.Analyzer,
	timeformat.Analyzer, unmarshal.Analyzer, unreachable.Analyzer, unsafeptr.Analyzer, unusedresult.Analyzer, waitgroup.Analyzer,
}

// off are the checks of staticcheck that do not run. ST1005: many of our errors are AWS's, Kubernetes' or nodeadm's own
// texts, which begin and end as those please.
var off = []string{"ST1005"}

func main() {
	debug.SetGCPercent(-1) // a process per package is short
	debug.SetMemoryLimit(2 << 30)
	if dependency(os.Args[len(os.Args)-1]) {
		unitchecker.Main(printf.Analyzer, deprecated.Analyzer)
	}
	all := slices.Concat(vet, []*analysis.Analyzer{deadCode})
	for _, a := range slices.Concat(simple.Analyzers, staticcheck.Analyzers, stylecheck.Analyzers) {
		if !a.Doc.Compile().NonDefault && !slices.Contains(off, a.Analyzer.Name) {
			all = append(all, obeying(a.Analyzer))
		}
	}
	unitchecker.Main(all...)
}

// dependency reports whether vet asks for the facts of a package of another module. A configuration is a file of vet's.
func dependency(config string) bool {
	text, err := os.ReadFile(config)
	if err != nil || !strings.HasSuffix(config, ".cfg") {
		return false
	}
	var c struct{ ImportPath string }
	return json.Unmarshal(text, &c) == nil && !strings.HasPrefix(c.ImportPath, "github.com/drydock-dev/drydock")
}

// obeying has an analyzer obey `//lint:ignore CHECKS reason` in the line above.
func obeying(a *analysis.Analyzer) *analysis.Analyzer {
	run := a.Run
	a.Run = func(pass *analysis.Pass) (any, error) {
		report := pass.Report
		pass.Report = func(d analysis.Diagnostic) {
			if !ignored(pass, a.Name, d.Pos) {
				report(d)
			}
		}
		return run(pass)
	}
	return a
}

func ignored(pass *analysis.Pass, check string, at token.Pos) bool {
	place := pass.Fset.Position(at)
	for _, d := range lint.ParseDirectives(pass.Files, pass.Fset) {
		on := pass.Fset.Position(d.Node.Pos())
		if d.Command != "ignore" || len(d.Arguments) < 2 || on.Filename != place.Filename || on.Line != place.Line {
			continue
		}
		for name := range strings.SplitSeq(d.Arguments[0], ",") {
			if ok, _ := filepath.Match(name, check); ok {
				return true
			}
		}
	}
	return false
}

// deadCode reports what [unused.Analyzer] finds, which staticcheck's own command does. Vet checks a package together with
// its tests, so what only a test uses counts as used.
var deadCode = &analysis.Analyzer{
	Name:     "U1000",
	Doc:      "unused code",
	Requires: []*analysis.Analyzer{unused.Analyzer.Analyzer},
	Run: func(pass *analysis.Pass) (any, error) {
		for _, o := range pass.ResultOf[unused.Analyzer.Analyzer].(unused.Result).Unused {
			for _, f := range pass.Files {
				if file := pass.Fset.File(f.Pos()); file.Name() == o.Position.Filename && !ast.IsGenerated(f) {
					pass.Reportf(file.LineStart(o.Position.Line), "%s %s is unused", o.Kind, o.Name)
				}
			}
		}
		return nil, nil
	},
}
