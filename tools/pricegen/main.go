// Command pricegen derives the embedded On-Demand prices from those in Karpenter's AWS provider, which its authors
// generated with AWS's Price List API.
//
//	go run ./tools/pricegen -out internal/catalog/prices
//
// It reads the module's source from Go's module cache, after downloading it if necessary, but does not import it.
package main

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// source is the module and its file with the prices of the partition aws, for the regions that its authors chose.
const (
	source  = "github.com/aws/karpenter-provider-aws"
	version = "v1.14.1"
	file    = "pkg/providers/pricing/zz_generated.pricing_aws.go"
)

func main() {
	out := flag.String("out", "internal/catalog/prices", "folder to write to")
	flag.Parse()
	if err := run(*out); err != nil {
		fmt.Fprintln(os.Stderr, "pricegen:", err)
		os.Exit(1)
	}
}

func run(out string) error {
	dir, err := download()
	if err != nil {
		return err
	}
	src, err := os.ReadFile(filepath.Join(dir, filepath.FromSlash(file)))
	if err != nil {
		return err
	}
	lines, date, err := read(src)
	if err != nil {
		return fmt.Errorf("reading %s: %w", file, err)
	}
	var buf bytes.Buffer
	zw, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return err
	}
	fmt.Fprintf(zw, "#\t%s\n", date)
	for _, l := range lines {
		fmt.Fprintln(zw, l)
	}
	if err := zw.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "prices.tsv.gz"), buf.Bytes(), 0o644); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "pricegen: %d prices of %s, %d bytes\n", len(lines), date, buf.Len())
	return nil
}

// download returns the module's folder in the module cache.
func download() (string, error) {
	cmd := exec.Command("go", "mod", "download", "-json", source+"@"+version)
	cmd.Dir = os.TempDir() // outside of this module, so that its go.mod does not change
	cmd.Stderr = os.Stderr
	answer, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("downloading %s: %w", source, err)
	}
	var m struct{ Dir string }
	if err := json.Unmarshal(answer, &m); err != nil {
		return "", err
	}
	return m.Dir, nil
}

var generated = regexp.MustCompile(`// generated at (\d{4}-\d\d-\d\d)T`)

// read returns sorted lines REGION TAB TYPE TAB PRICE, and the prices' date.
func read(src []byte) (lines []string, date string, err error) {
	m := generated.FindSubmatch(src)
	if m == nil {
		return nil, "", fmt.Errorf("no date of generation")
	}
	f, err := parser.ParseFile(token.NewFileSet(), "prices.go", src, 0)
	if err != nil {
		return nil, "", err
	}
	var bad error
	ast.Inspect(f, func(n ast.Node) bool {
		region, ok := n.(*ast.KeyValueExpr)
		if !ok {
			return true
		}
		types, ok := region.Value.(*ast.CompositeLit)
		if !ok {
			return true
		}
		for _, e := range types.Elts {
			line, err := entry(region.Key, e)
			if err != nil && bad == nil {
				bad = err
			}
			lines = append(lines, line)
		}
		return false
	})
	if bad == nil && len(lines) == 0 {
		bad = fmt.Errorf("no prices")
	}
	slices.Sort(lines)
	return lines, string(m[1]), bad
}

func entry(region ast.Expr, e ast.Expr) (string, error) {
	kv, ok := e.(*ast.KeyValueExpr)
	if !ok {
		return "", fmt.Errorf("unexpected %T", e)
	}
	var words []string
	for _, x := range []ast.Expr{region, kv.Key, kv.Value} {
		lit, ok := x.(*ast.BasicLit)
		if !ok {
			return "", fmt.Errorf("unexpected %T", x)
		}
		word := lit.Value
		if lit.Kind == token.STRING {
			var err error
			if word, err = strconv.Unquote(word); err != nil {
				return "", err
			}
		} else {
			word = strings.TrimRight(strings.TrimRight(word, "0"), ".")
		}
		words = append(words, word)
	}
	return strings.Join(words, "\t"), nil
}
