// Vulncheck looks for known vulnerabilities in the packages of the binary, by govulncheck
// and a copy of golang/vulndb. It fails on those that accepted.txt gives no reason for,
// and on reasons that are no longer needed. It needs no network.
//
// It scans packages rather than symbols: that takes seconds where the call graph of the
// Kubernetes servers takes minutes and gigabytes, and what it finds too much is judged
// once, in accepted.txt.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

//go:embed accepted.txt
var acceptedText string

func main() {
	db := flag.String("db", "", "folder with data/osv of github.com/golang/vulndb, and a file SOURCE with its date")
	flag.Parse()
	if err := run(*db, flag.Args()); err != nil {
		fmt.Fprintln(os.Stderr, "vulncheck:", err)
		os.Exit(1)
	}
}

func run(db string, packages []string) error {
	dir, err := filepath.Abs(db)
	if err != nil {
		return err
	}
	entries, date, err := read(dir)
	if err != nil {
		return err
	}
	fmt.Printf("vulncheck: golang/vulndb of %s, %d entries\n", date.Format(time.DateOnly), entries)
	accepted, err := parseAccepted(acceptedText)
	if err != nil {
		return err
	}
	found, err := scan(dir, packages)
	if err != nil {
		return err
	}
	return judge(found, accepted)
}

// read counts the entries of a copy of the database and returns its date, which the file
// SOURCE beside them says: the entries themselves have none.
func read(dir string) (entries int, date time.Time, err error) {
	files, err := filepath.Glob(filepath.Join(dir, "GO-*.json"))
	if err != nil {
		return 0, date, err
	}
	if len(files) == 0 {
		return 0, date, fmt.Errorf("no entries of golang/vulndb in %s", dir)
	}
	source, err := os.ReadFile(filepath.Join(dir, "SOURCE"))
	if err != nil {
		return 0, date, err
	}
	for line := range strings.Lines(string(source)) {
		if value, ok := strings.CutPrefix(line, "date:"); ok {
			date, err = time.Parse(time.DateOnly, strings.TrimSpace(value))
			return len(files), date, err
		}
	}
	return 0, date, fmt.Errorf("%s has no line such as date: 2026-08-21", filepath.Join(dir, "SOURCE"))
}

// scan returns the vulnerabilities in packages that the program is built from, by ID, each
// with the module and version that it is in.
func scan(dir string, packages []string) (map[string]string, error) {
	args := append([]string{"tool", "-modfile=go.tools.mod", "govulncheck", "-db", "file://" + dir, "-scan", "package", "-format", "json"}, packages...)
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	out, err := cmd.Output()
	if err != nil {
		return nil, fmt.Errorf("govulncheck: %w", err)
	}
	return findings(bytes.NewReader(out))
}

// findings reads govulncheck's stream of JSON messages.
func findings(r io.Reader) (map[string]string, error) {
	found := map[string]string{}
	for d := json.NewDecoder(r); ; {
		var m struct {
			Finding *struct {
				OSV   string `json:"osv"`
				Trace []struct {
					Module, Version, Package string
				} `json:"trace"`
			} `json:"finding"`
		}
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return found, nil
		} else if err != nil {
			return nil, fmt.Errorf("reading govulncheck's answer: %w", err)
		}
		if f := m.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Package != "" { // else only its module is required
			found[f.OSV] = f.Trace[0].Module + "@" + f.Trace[0].Version
		}
	}
}

// parseAccepted reads lines of an ID and a reason; # begins a comment.
func parseAccepted(text string) (map[string]string, error) {
	out := map[string]string{}
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line == "" || line[0] == '#' {
			continue
		}
		id, reason, _ := strings.Cut(line, " ")
		if reason = strings.TrimSpace(reason); reason == "" {
			return nil, fmt.Errorf("accepted.txt: %s has no reason", id)
		}
		out[id] = reason
	}
	return out, nil
}

// judge fails if what is found and what is accepted differ.
func judge(found, accepted map[string]string) error {
	var errs []error
	for _, id := range slices.Sorted(maps.Keys(found)) {
		if reason, ok := accepted[id]; ok {
			fmt.Printf("vulncheck: %s in %s is accepted: %s\n", id, found[id], reason)
			continue
		}
		errs = append(errs, fmt.Errorf("%s in %s: see https://pkg.go.dev/vuln/%s; upgrade, or give a reason in tools/vulncheck/accepted.txt", id, found[id], id))
	}
	for _, id := range slices.Sorted(maps.Keys(accepted)) {
		if _, ok := found[id]; !ok {
			errs = append(errs, fmt.Errorf("%s is not found any more: delete it from tools/vulncheck/accepted.txt", id))
		}
	}
	return errors.Join(errs...)
}
