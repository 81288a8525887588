// Vulncheck looks for known vulnerabilities in the packages of the binary, with govulncheck and a copy of
// golang/vulndb. It fails on those without a reason in accepted.txt, and on reasons that are no longer needed. It
// needs no network.
//
// It scans packages rather than symbols. That takes seconds, whereas the call graph of the Kubernetes servers takes
// minutes and gigabytes. False alarms are judged once, in accepted.txt.
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
	"slices"
	"strings"
	"time"
)

//go:embed accepted.txt
var acceptedText string

// tooOld is the age at which a copy should be renewed.
const tooOld = 120 * 24 * time.Hour

func main() {
	db := flag.String("db", "", "the copy of golang/vulndb")
	from := flag.String("from", "", "git directory of golang/vulndb: write the copy instead of checking by it")
	flag.Parse()
	var err error
	if *from != "" {
		var modules []string
		if modules, err = modulesOf("go.sum", "go.tools.sum"); err == nil {
			err = makeCopy(*from, *db, modules)
		}
	} else {
		err = check(*db, flag.Args(), time.Now())
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "vulncheck:", err)
		os.Exit(1)
	}
}

func check(db string, packages []string, now time.Time) error {
	dir, err := os.MkdirTemp("", "vulndb")
	if err != nil {
		return err
	}
	defer os.RemoveAll(dir)
	h, entries, err := unpack(db, dir)
	if err != nil {
		return err
	}
	fmt.Printf("vulncheck: golang/vulndb of %s, %d entries about %d modules\n", h.Date.Format(time.DateOnly), entries, len(h.Modules))
	if age := now.Sub(h.Date); age > tooOld {
		fmt.Printf("vulncheck: this copy is %d days old: make vulndb FROM=CHECKOUT\n", int(age.Hours()/24))
	}
	missing, err := h.missing(packages)
	if err != nil {
		return err
	}
	if len(missing) > 0 {
		return fmt.Errorf("the copy of golang/vulndb knows nothing about %s: make vulndb FROM=CHECKOUT", strings.Join(missing, ", "))
	}
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

// scan returns the vulnerabilities in packages that the program is built from, by ID, each with its module and
// version.
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
		if f := m.Finding; f != nil && len(f.Trace) > 0 && f.Trace[0].Package != "" { // otherwise the module is only required
			found[f.OSV] = f.Trace[0].Module + "@" + f.Trace[0].Version
		}
	}
}

// parseAccepted reads lines with an ID and a reason; # starts a comment.
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

// judge fails if the found and the accepted vulnerabilities differ.
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
			errs = append(errs, fmt.Errorf("%s is no longer found: delete it from tools/vulncheck/accepted.txt", id))
		}
	}
	return errors.Join(errs...)
}
