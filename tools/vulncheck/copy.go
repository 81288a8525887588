package main

import (
	"archive/tar"
	"bufio"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// A copy of golang/vulndb is gzipped lines of JSON: a header, then one entry per line. It contains the facts about
// this project's modules that govulncheck uses, without texts.
type header struct {
	Source  string    `json:"source"`
	License string    `json:"license"`
	Commit  string    `json:"commit"`
	Date    time.Time `json:"date"`
	Modules []string  `json:"modules"` // the modules whose entries it has
}

// An entry is a vulnerability in OSV form: https://go.dev/doc/security/vuln/database#schema
type entry struct {
	SchemaVersion    string            `json:"schema_version,omitempty"`
	ID               string            `json:"id"`
	Modified         time.Time         `json:"modified"`
	Published        time.Time         `json:"published"`
	Withdrawn        *time.Time        `json:"withdrawn,omitempty"`
	Aliases          []string          `json:"aliases,omitempty"`
	Affected         []json.RawMessage `json:"affected"`
	DatabaseSpecific json.RawMessage   `json:"database_specific,omitempty"`
}

// goModules are in the database, but not in any go.sum.
var goModules = []string{"stdlib", "toolchain"}

// modulesOf returns the modules that go.sum files name.
func modulesOf(files ...string) ([]string, error) {
	out := map[string]bool{}
	for _, m := range goModules {
		out[m] = true
	}
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		for line := range strings.Lines(string(text)) {
			if name, _, ok := strings.Cut(line, " "); ok {
				out[name] = true
			}
		}
	}
	return slices.Sorted(maps.Keys(out)), nil
}

// makeCopy writes to file what HEAD of a git directory, either a checkout or bare, contains about modules.
func makeCopy(git, file string, modules []string) error {
	said, err := exec.Command("git", "-C", git, "log", "-1", "--format=%H %cI").Output()
	if err != nil {
		return fmt.Errorf("git log in %s: %w", git, err)
	}
	commit, day, _ := strings.Cut(strings.TrimSpace(string(said)), " ")
	date, err := time.Parse(time.RFC3339, day)
	if err != nil {
		return err
	}
	archive := exec.Command("git", "-C", git, "archive", "--format=tar", "HEAD", "data/osv")
	archive.Stderr = os.Stderr
	files, err := archive.StdoutPipe()
	if err != nil {
		return err
	}
	if err := archive.Start(); err != nil {
		return err
	}
	entries, err := readEntries(files, modules)
	if err := errors.Join(err, archive.Wait()); err != nil {
		return err
	}
	if len(entries) == 0 {
		return fmt.Errorf("%s has no entries about these modules in data/osv", git)
	}
	return writeCopy(file, header{
		Source: "https://github.com/golang/vulndb, data/osv", License: "CC-BY-4.0, the Go authors", Commit: commit, Date: date.UTC(), Modules: modules,
	}, entries)
}

// readEntries returns the entries of a tar archive that affect modules, except withdrawn ones.
func readEntries(r io.Reader, modules []string) ([]entry, error) {
	var out []entry
	for tr := tar.NewReader(r); ; {
		f, err := tr.Next()
		if errors.Is(err, io.EOF) {
			slices.SortFunc(out, func(a, b entry) int { return cmp.Compare(a.ID, b.ID) })
			return out, nil
		} else if err != nil {
			return nil, err
		}
		if path.Ext(f.Name) != ".json" {
			continue
		}
		var e entry
		if err := json.NewDecoder(tr).Decode(&e); err != nil {
			return nil, fmt.Errorf("%s: %w", f.Name, err)
		}
		affects := func(a json.RawMessage) bool {
			var of struct{ Package struct{ Name string } }
			return json.Unmarshal(a, &of) == nil && slices.Contains(modules, of.Package.Name)
		}
		if e.Affected = slices.DeleteFunc(e.Affected, func(a json.RawMessage) bool { return !affects(a) }); len(e.Affected) > 0 && e.Withdrawn == nil {
			out = append(out, e)
		}
	}
}

func writeCopy(file string, h header, entries []entry) error {
	f, err := os.Create(file)
	if err != nil {
		return err
	}
	defer f.Close()
	z, err := gzip.NewWriterLevel(f, gzip.BestCompression)
	if err != nil {
		return err
	}
	e := json.NewEncoder(z)
	err = e.Encode(h)
	for _, entry := range entries {
		err = errors.Join(err, e.Encode(entry))
	}
	return errors.Join(err, z.Close(), f.Close())
}

// unpack writes the entries of a copy to a folder, as files that govulncheck can read, and returns their number.
func unpack(file, dir string) (h header, entries int, err error) {
	f, err := os.Open(file)
	if err != nil {
		return h, 0, err
	}
	defer f.Close()
	z, err := gzip.NewReader(bufio.NewReader(f))
	if err != nil {
		return h, 0, fmt.Errorf("%s: %w", file, err)
	}
	d := json.NewDecoder(z)
	if err := d.Decode(&h); err != nil || h.Date.IsZero() {
		return h, 0, fmt.Errorf("%s: no copy of golang/vulndb: %w", file, err)
	}
	for {
		var e entry
		if err := d.Decode(&e); errors.Is(err, io.EOF) {
			return h, entries, nil
		} else if err != nil {
			return h, 0, fmt.Errorf("%s: %w", file, err)
		}
		b, err := json.Marshal(e)
		if err != nil {
			return h, 0, err
		}
		if err := os.WriteFile(filepath.Join(dir, path.Base(e.ID)+".json"), b, 0o600); err != nil {
			return h, 0, err
		}
		entries++
	}
}

// missing returns the modules of packages that the copy does not cover.
func (h *header) missing(packages []string) ([]string, error) {
	args := append([]string{"list", "-deps", "-f", "{{with .Module}}{{if not .Main}}{{.Path}}{{end}}{{end}}"}, packages...)
	out, err := exec.Command("go", args...).Output()
	if err != nil {
		return nil, fmt.Errorf("go list: %w", err)
	}
	var missing []string
	for m := range strings.FieldsSeq(string(out)) {
		if !slices.Contains(h.Modules, m) && !slices.Contains(missing, m) {
			missing = append(missing, m)
		}
	}
	return missing, nil
}
