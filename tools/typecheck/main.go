// Typecheck checks the types of programs for platforms that they are not compiled for here:
//
//	go run ./tools/typecheck ./cmd/drydock linux/arm64 darwin/arm64
//
// Compiling Kubernetes takes minutes of CPU for each platform. Types take seconds, because the function bodies of other
// modules are not needed for them.
package main

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"strings"

	"golang.org/x/tools/go/packages"
)

func main() {
	if len(os.Args) < 3 {
		fmt.Fprintln(os.Stderr, "usage: typecheck PACKAGES GOOS/GOARCH...")
		os.Exit(2)
	}
	failed := false
	for _, platform := range os.Args[2:] {
		faults, err := check(os.Args[1], platform)
		if err != nil {
			fmt.Fprintf(os.Stderr, "typecheck: %s: %v\n", platform, err)
			os.Exit(1)
		}
		for _, f := range faults {
			fmt.Printf("%s: %s\n", platform, f)
			failed = true
		}
	}
	if failed {
		os.Exit(1)
	}
}

// check returns what would keep packages, which a pattern names, or those that they import, from compiling for platform, which is GOOS/GOARCH.
// Of other modules' packages it reports only those that are missing or have no files for the platform.
func check(pkg, platform string) ([]string, error) {
	goos, arch, ok := strings.Cut(platform, "/")
	if !ok {
		return nil, fmt.Errorf("want GOOS/GOARCH, as in darwin/arm64")
	}
	env := append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+arch)
	ours, err := ourFiles(pkg, env)
	if err != nil {
		return nil, err
	}
	roots, err := packages.Load(&packages.Config{
		Mode: packages.LoadAllSyntax | packages.NeedModule,
		Env:  env,
		ParseFile: func(fset *token.FileSet, name string, src []byte) (*ast.File, error) {
			f, err := parser.ParseFile(fset, name, src, parser.SkipObjectResolution)
			if f != nil && !ours[name] {
				for _, d := range f.Decls {
					if fn, ok := d.(*ast.FuncDecl); ok {
						fn.Body = nil
					}
				}
			}
			return f, err
		},
	}, pkg)
	if err != nil {
		return nil, err
	}
	var faults []string
	packages.Visit(roots, nil, func(p *packages.Package) {
		main := p.Module != nil && p.Module.Main
		for _, e := range p.Errors {
			if main || e.Kind == packages.ListError {
				faults = append(faults, e.Error())
			}
		}
	})
	return faults, nil
}

// ourFiles returns the files of the main module among those of pkg and what it imports.
func ourFiles(pkg string, env []string) (map[string]bool, error) {
	roots, err := packages.Load(&packages.Config{Mode: packages.NeedName | packages.NeedCompiledGoFiles | packages.NeedFiles | packages.NeedImports | packages.NeedDeps | packages.NeedModule, Env: env}, pkg)
	if err != nil {
		return nil, err
	}
	files := map[string]bool{}
	packages.Visit(roots, nil, func(p *packages.Package) {
		if p.Module != nil && p.Module.Main {
			for _, f := range p.CompiledGoFiles {
				files[f] = true
			}
		}
	})
	return files, nil
}
