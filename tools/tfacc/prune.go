package main

import (
	"bytes"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
)

const servicePath = "github.com/hashicorp/terraform-provider-aws/internal/service/"

var (
	serviceImport = regexp.MustCompile(`"` + servicePath + `([a-z0-9]+)"`)
	packageClause = regexp.MustCompile(`(?m)^package (\w+)`)
	clientFunc    = regexp.MustCompile(`(?ms)^func \(c \*AWSClient\) (\w+)\(.*?^}\n`)
	sdkImport     = regexp.MustCompile(`(?m)^\t(\w+) "github.com/aws/aws-sdk-go[^"]*"\n`)
)

// The provider's packages that are compiled besides the services. Their imports of services, except in the generated
// list of all services, stay.
var keptDirs = []string{"names", "version", "internal"}

// prune copies the provider from src to dst with the named services and those that they and the other packages import.
// The tests of the measured services that are in their package's own name are left out, except the exports for the
// tests outside, which become ordinary files: every test binary then shares the compiled packages.
func prune(src, dst string, measured, kept []string) error {
	for _, f := range []string{"go.mod", "go.sum", "main.go"} {
		if err := copyFile(filepath.Join(src, f), filepath.Join(dst, f)); err != nil {
			return err
		}
	}
	services := map[string]bool{}
	for _, s := range append(slices.Clone(measured), kept...) {
		services[s] = false
	}
	var code bytes.Buffer // all that was copied, to see which clients it uses
	for _, dir := range keptDirs {
		err := filepath.WalkDir(filepath.Join(src, dir), func(path string, d fs.DirEntry, err error) error {
			if err != nil {
				return err
			}
			rel, _ := filepath.Rel(src, path)
			switch {
			case d.IsDir() && (rel == "internal/service" || d.Name() == "test-fixtures"):
				return fs.SkipDir
			case d.IsDir() || strings.HasSuffix(path, "_test.go") && !strings.HasPrefix(rel, "internal/acctest/"):
				return nil
			case strings.HasPrefix(rel, "internal/acctest/") && strings.HasSuffix(path, "_test.go"):
				return nil
			}
			return copyCode(path, filepath.Join(dst, rel), services, &code)
		})
		if err != nil {
			return err
		}
	}
	for again := true; again; {
		again = false
		for _, s := range slices.Sorted(maps.Keys(services)) {
			if services[s] {
				continue
			}
			services[s], again = true, true
			if err := copyService(src, dst, s, slices.Contains(measured, s), services, &code); err != nil {
				return err
			}
		}
	}
	if err := keepServices(src, dst, services); err != nil {
		return err
	}
	return keepClients(src, dst, code.Bytes())
}

func copyService(src, dst, service string, tests bool, services map[string]bool, code *bytes.Buffer) error {
	root := filepath.Join(src, "internal/service", service)
	return filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			return nil
		}
		rel, _ := filepath.Rel(src, path)
		if strings.HasSuffix(path, "_test.go") {
			b, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			m := packageClause.FindSubmatch(b)
			switch {
			case m == nil || !tests || strings.HasSuffix(path, "_gen_test.go"):
				return nil
			case !strings.HasSuffix(string(m[1]), "_test") && filepath.Base(path) == "exports_test.go":
				rel = filepath.Join(filepath.Dir(rel), "exports_of_tests.go")
			case !strings.HasSuffix(string(m[1]), "_test"):
				return nil
			}
		}
		return copyCode(path, filepath.Join(dst, rel), services, code)
	})
}

// copyCode copies a file. It notes the services that a Go file imports, and the file's text.
func copyCode(from, to string, services map[string]bool, code *bytes.Buffer) error {
	switch filepath.Base(from) {
	case "service_packages_gen.go", "awsclient_gen.go":
		return nil // keepServices and keepClients write them
	}
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if strings.HasSuffix(from, ".go") {
		for _, m := range serviceImport.FindAllSubmatch(b, -1) {
			if _, ok := services[string(m[1])]; !ok {
				services[string(m[1])] = false
			}
		}
		code.Write(b)
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

func copyFile(from, to string) error {
	b, err := os.ReadFile(from)
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	return os.WriteFile(to, b, 0o644)
}

// keepServices writes the provider's generated list of services with those that were copied.
func keepServices(src, dst string, services map[string]bool) error {
	const name = "internal/provider/service_packages_gen.go"
	b, err := os.ReadFile(filepath.Join(src, name))
	if err != nil {
		return err
	}
	var out []string
	for line := range strings.Lines(string(b)) {
		call, _, isCall := strings.Cut(strings.TrimSpace(line), ".ServicePackage(ctx),")
		if m := serviceImport.FindStringSubmatch(line); m != nil && !services[m[1]] || isCall && !services[call] {
			continue
		}
		out = append(out, line)
	}
	return os.WriteFile(filepath.Join(dst, name), []byte(strings.Join(out, "")), 0o644)
}

// keepClients writes the provider's generated list of clients with those that the copied code uses.
func keepClients(src, dst string, code []byte) error {
	const name = "internal/conns/awsclient_gen.go"
	b, err := os.ReadFile(filepath.Join(src, name))
	if err != nil {
		return err
	}
	used := map[string]bool{}
	for _, m := range regexp.MustCompile(`\.(\w+(?:Conn|Client))\b`).FindAllSubmatch(code, -1) {
		used[string(m[1])] = true
	}
	b = clientFunc.ReplaceAllFunc(b, func(f []byte) []byte {
		if used[string(clientFunc.FindSubmatch(f)[1])] {
			return f
		}
		return nil
	})
	_, body, ok := bytes.Cut(b, []byte("\n)\n"))
	if !ok {
		return fmt.Errorf("%s: no import block", name)
	}
	b = sdkImport.ReplaceAllFunc(b, func(line []byte) []byte {
		if bytes.Contains(body, append(sdkImport.FindSubmatch(line)[1], '.')) {
			return line
		}
		return nil
	})
	return os.WriteFile(filepath.Join(dst, name), b, 0o644)
}
