package app

import (
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/store"
)

// TestRecordForms compares the forms of all stored records with testdata/records.golden: one line per collection with
// its version and fingerprint. Data on users' disks has these forms, so any change of a form, also by an update of
// the SDK, needs a new version.
func TestRecordForms(t *testing.T) {
	const (
		file    = "records.golden"
		rewrite = "go test ./internal/app -run TestRecordForms -update"
	)
	path := filepath.Join("testdata", file)
	b, err := os.ReadFile(path)
	if err != nil && !os.IsNotExist(err) {
		t.Fatal(err)
	}
	type form struct {
		version     int
		fingerprint string
	}
	known := map[string]form{}
	for line := range strings.Lines(string(b)) {
		var name string
		var f form
		if _, err := fmt.Sscan(line, &name, &f.version, &f.fingerprint); err != nil {
			t.Fatalf("%s: %q: %v", path, line, err)
		}
		known[name] = f
	}
	var out strings.Builder
	for _, d := range store.Declared() {
		is := form{d.Version(), d.Fingerprint()}
		fmt.Fprintln(&out, d.Name(), is.version, is.fingerprint)
		was, ok := known[d.Name()]
		delete(known, d.Name())
		switch {
		case !ok, is == was:
		case is.version < was.version:
			t.Errorf("%s has version %d and had %d: migrations stay for good, data of any age must open", d.Name(), is.version, was.version)
		case is.version == was.version:
			t.Errorf(`the stored form of %s has changed and its version has not.
1. Add a migration to its NewCollection: a func that turns the old JSON into the new (store.Convert takes Go types),
   or store.Same if old records read as they are, as with a field that is zero in them.
2. Rewrite the list: %s
The form is now:
%s`, d.Name(), rewrite, d.Form())
		}
	}
	for _, name := range slices.Sorted(maps.Keys(known)) {
		t.Errorf("%s is not declared any more: keep the declaration, or this Drydock refuses data that holds such records", name)
	}
	if f := flag.Lookup("update"); f.Value.String() == "true" && !t.Failed() {
		if err := os.WriteFile(path, []byte(out.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	} else if out.String() != string(b) && !t.Failed() {
		t.Errorf("%s is out of date: %s", path, rewrite)
	}
}
