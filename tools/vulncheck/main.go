// Vulncheck looks for known vulnerabilities in the packages of the binary, with govulncheck and the release of
// golang/vulndb that tools/vulndb/go.mod names. It fails on those without a reason in accepted.txt, and on reasons that
// are no longer needed. Vulnerabilities of the standard library depend on the Go version that builds the binary; it
// only warns about these.
//
// It scans packages rather than symbols. That takes seconds, whereas the call graph of the Kubernetes servers takes
// minutes and gigabytes. False alarms are judged once, in accepted.txt.
package main

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"golang.org/x/mod/module"
	"golang.org/x/mod/semver"
)

//go:embed accepted.txt
var acceptedText string

// tooOld is the age at which the database should be renewed.
const tooOld = 120 * 24 * time.Hour

func main() {
	if err := check(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "vulncheck:", err)
		os.Exit(1)
	}
}

func check(packages []string) error {
	dir, date, err := database("tools/vulndb")
	if err != nil {
		return err
	}
	fmt.Printf("vulncheck: golang/vulndb of %s\n", date.Format(time.DateOnly))
	if age := time.Since(date); age > tooOld {
		fmt.Printf("vulncheck: it is %d days old: (cd tools/vulndb && go get golang.org/x/vulndb@latest)\n", int(age.Hours()/24))
	}
	accepted, err := parseAccepted(acceptedText)
	if err != nil {
		return err
	}
	found, library, err := scan(dir, packages)
	if err != nil {
		return err
	}
	if len(library) > 0 {
		fixed := slices.MaxFunc(slices.Collect(maps.Values(library)), semver.Compare)
		fmt.Printf("vulncheck: WARNING: the standard library of this Go has %d known vulnerabilities; Go %s has none of them (make dist builds with RELEASE_GO): %s\n",
			len(library), strings.TrimPrefix(fixed, "v"), strings.Join(slices.Sorted(maps.Keys(library)), ", "))
	}
	return judge(found, accepted)
}

// database downloads the release of golang/vulndb that the go.mod in a folder names, unless the module cache has it. It
// returns the folder with its entries, and their date.
func database(folder string) (dir string, date time.Time, err error) {
	cmd := exec.Command("go", "mod", "download", "-json", "golang.org/x/vulndb")
	cmd.Dir, cmd.Stderr = folder, os.Stderr
	out, err := cmd.Output()
	var m struct{ Version, Dir, Error string }
	if err := errors.Join(json.Unmarshal(out, &m), err); err != nil {
		return "", date, fmt.Errorf("go mod download in %s: %w %s", folder, err, m.Error)
	}
	date, err = module.PseudoVersionTime(m.Version)
	return filepath.Join(m.Dir, "data", "osv"), date, err
}

// scan returns the vulnerabilities in packages that the program is built from, by ID: those of modules with the module
// and its version, and those of the standard library with the version that fixes them.
func scan(dir string, packages []string) (found, library map[string]string, err error) {
	args := append([]string{"tool", "-modfile=go.tools.mod", "govulncheck", "-db", "file://" + dir, "-scan", "package", "-format", "json"}, packages...)
	cmd := exec.Command("go", args...)
	cmd.Stderr = os.Stderr
	cmd.Env = append(os.Environ(), "GOOS=linux") // of the packages: the programs of nodes have no other. The tool is the host's.
	out, err := cmd.Output()
	if err != nil {
		return nil, nil, fmt.Errorf("govulncheck: %w", err)
	}
	return findings(bytes.NewReader(out))
}

// findings reads govulncheck's stream of JSON messages.
func findings(r io.Reader) (found, library map[string]string, err error) {
	found, library = map[string]string{}, map[string]string{}
	for d := json.NewDecoder(r); ; {
		var m struct {
			Finding *struct {
				OSV   string `json:"osv"`
				Fixed string `json:"fixed_version"`
				Trace []struct {
					Module, Version, Package string
				} `json:"trace"`
			} `json:"finding"`
		}
		if err := d.Decode(&m); errors.Is(err, io.EOF) {
			return found, library, nil
		} else if err != nil {
			return nil, nil, fmt.Errorf("reading govulncheck's answer: %w", err)
		}
		switch f := m.Finding; {
		case f == nil || len(f.Trace) == 0 || f.Trace[0].Package == "": // the module is only required
		case f.Trace[0].Module == "stdlib" && f.Fixed != "":
			library[f.OSV] = f.Fixed
		default:
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
