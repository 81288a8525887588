// Package data holds data written by older versions of Drydock, a folder for each, and opens it. `make fixture`
// writes a folder.
package data

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	// Declares the collections of all services.
	_ "github.com/drydock-dev/drydock/internal/app"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/store/dump"
	"github.com/drydock-dev/drydock/internal/testkit/testlog"
)

// Every record of every older version must be readable, after opening it once and twice. test/e2e tests what the
// services make of it.
func TestOldRecordsAreRead(t *testing.T) {
	files, err := filepath.Glob("*/etcd.jsonl.gz")
	if err != nil || len(files) == 0 {
		t.Fatal("no data", err)
	}
	known := map[string]bool{}
	for _, d := range store.Declared() {
		known[d.Name()] = true
	}
	for _, file := range files {
		t.Run(filepath.Dir(file), func(t *testing.T) {
			f, err := os.Open(file)
			if err != nil {
				t.Fatal(err)
			}
			defer f.Close()
			pairs, err := dump.Read(f)
			if err != nil {
				t.Fatal(err)
			}
			seen := map[string]int{}
			for _, p := range pairs {
				if rest, ok := strings.CutPrefix(p.Key, "/drydock/aws/"); ok {
					seen[strings.Join(strings.SplitN(rest, "/", 3)[:2], "/")]++
				}
			}
			for name, n := range seen {
				if !known[name] {
					t.Errorf("%d records of %s would never be read: nothing declares the collection", n, name)
				}
			}
			if len(seen) < 40 {
				t.Errorf("only %d collections have records", len(seen))
			}
			dir := t.TempDir()
			if err := dump.ToStore(t.Context(), dir, pairs); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				st, err := store.Open(t.Context(), store.Config{Dir: dir, Log: testlog.New(t)})
				if err != nil {
					t.Fatal(err)
				}
				for _, bad := range st.Unreadable() {
					t.Error(bad)
				}
				if err := st.Close(); err != nil {
					t.Fatal(err)
				}
			}
		})
	}
}
