package app

import (
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/authz"
)

// TestStoredKeys compares the condition keys that the compatibility page lists as resolved with those in the
// services' sources.
func TestStoredKeys(t *testing.T) {
	files, err := filepath.Glob("../service/*/authz*.go")
	if err != nil {
		t.Fatal(err)
	}
	files = append(files, "../authz/keys.go", "../service/eks/resource/kinds.go")
	got := map[string]map[string]bool{}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		ast.Inspect(f, func(n ast.Node) bool {
			lit, ok := n.(*ast.BasicLit)
			if !ok || lit.Kind != token.STRING {
				return true
			}
			s, _ := strconv.Unquote(lit.Value)
			prefix, name, _ := strings.Cut(s, ":")
			if ref, ok := authz.ReferenceOf(prefix); !ok || ref.Names[s] == "" {
				return true
			}
			if got[prefix] == nil {
				got[prefix] = map[string]bool{}
			}
			got[prefix][name] = true
			return true
		})
	}
	for _, svc := range operations() {
		prefix := authz.Prefix(svc.Name)
		if svc.Authorization.StoredKeys == "" && len(got[prefix]) == 0 {
			continue
		}
		want := slices.Sorted(maps.Keys(got[prefix]))
		if diff := cmp.Diff(want, slices.Sorted(strings.FieldsSeq(svc.Authorization.StoredKeys))); diff != "" {
			t.Errorf("StoredKeys in the authorization of %s (-the sources +the list):\n%s\nwant: %s", svc.Name, diff, strings.Join(want, " "))
		}
	}
}

// TestCompatibilityNamesWhatIsNotEvaluated checks the page's section on authorization; `make verify-generated`
// compares the page itself.
func TestCompatibilityNamesWhatIsNotEvaluated(t *testing.T) {
	page := unevaluated()
	for _, want := range []string{"`CanonicalUser`", "`aws:AssumedRoot`", "| `iam:AssociatedResourceArn` | PassRole |", "`ec2:SourceAvailabilityZone`"} {
		if !strings.Contains(page, want) {
			t.Errorf("the page does not name %s", want)
		}
	}
	for _, resolved := range []string{"`ec2:InstanceType`", "`iam:PassedToService`", "`eks:kubernetesVersion`", "`sts:ExternalId`"} {
		if strings.Contains(page, resolved) {
			t.Errorf("the page names %s, which is resolved", resolved)
		}
	}
	for _, key := range authz.AbsentKeys {
		if authz.Resolved(key) {
			t.Errorf("%s is not absent", key)
		}
	}
}
