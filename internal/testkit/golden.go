package testkit

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite golden files; commit a rewrite only if you understand its diff")

// Golden compares got with the file testdata/NAME of the calling test's package. With -update it writes the file
// instead.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", filepath.FromSlash(name))
	if *update {
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("%v (run the test with -update to write it)", err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", path, diff)
	}
}

// A Normalizer replaces what differs from run to run, so that the rest can be compared. The same original always
// becomes the same placeholder, so identity is still checked: both <UUID:1> are one request ID, and <UUID:2> is
// another.
type Normalizer struct {
	rules []rule
	seen  map[string]map[string]int
}

type rule struct {
	name string
	re   *regexp.Regexp
}

// NewNormalizer returns a Normalizer that hides UUIDs (request IDs, client tokens), times, ports of 127.0.0.1 and
// EC2-style resource IDs, which become <ENI:1> and so on.
func NewNormalizer() *Normalizer {
	n := &Normalizer{seen: map[string]map[string]int{}}
	n.Hide("UUID", `[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}`)
	n.Hide("TIME", `\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:\d\d)|\b\d{8}T\d{6}Z`)
	n.Hide("ADDRESS", `127\.0\.0\.1:\d+`)
	return n
}

// Hide adds a rule: whatever matches pattern becomes <NAME:1>, <NAME:2>, …
func (n *Normalizer) Hide(name, pattern string) *Normalizer {
	n.rules = append(n.rules, rule{name, regexp.MustCompile(pattern)})
	return n
}

var resourceID = regexp.MustCompile(`\b([a-z]{1,12}(?:-[a-z]{1,10})?)-0[0-9a-f]{16}\b`)

// Replace returns s with placeholders.
func (n *Normalizer) Replace(s string) string {
	for _, r := range n.rules {
		s = r.re.ReplaceAllStringFunc(s, func(m string) string { return n.placeholder(r.name, m) })
	}
	return resourceID.ReplaceAllStringFunc(s, func(m string) string {
		return n.placeholder(strings.ToUpper(resourceID.FindStringSubmatch(m)[1]), m)
	})
}

func (n *Normalizer) placeholder(name, original string) string {
	if n.seen[name] == nil {
		n.seen[name] = map[string]int{}
	}
	if n.seen[name][original] == 0 {
		n.seen[name][original] = len(n.seen[name]) + 1
	}
	return fmt.Sprintf("<%s:%d>", name, n.seen[name][original])
}

// NoLeaks fails the test if goroutines that it started outlive it. Call it first, so that its check runs last, and
// not in parallel tests.
func NoLeaks(t testing.TB) {
	t.Helper()
	before := goroutines()
	t.Cleanup(func() {
		Eventually(t, 5*time.Second, func() error {
			var left []string
			for id, stack := range goroutines() {
				if _, old := before[id]; !old && !strings.Contains(stack, "testing.(*T).Run") {
					left = append(left, stack)
				}
			}
			if left == nil {
				return nil
			}
			return fmt.Errorf("%d goroutines left:\n%s", len(left), strings.Join(left, "\n\n"))
		})
	})
}

// goroutines returns the stack of every goroutine but the caller's, by goroutine ID.
func goroutines() map[string]string {
	buf := make([]byte, 1<<20)
	for {
		n := runtime.Stack(buf, true)
		if n < len(buf) {
			buf = buf[:n]
			break
		}
		buf = make([]byte, 2*len(buf))
	}
	out := map[string]string{}
	for i, stack := range strings.Split(string(buf), "\n\n") {
		if id, _, ok := strings.Cut(stack, " ["); ok && i > 0 { // the caller comes first
			out[id] = stack
		}
	}
	return out
}
