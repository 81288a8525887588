// Command policygen writes the embedded catalog of AWS-managed policies from the
// JSON lines of ../shared/aws-data (one policy per line, as moto publishes them):
//
//	go run ./tools/policygen -in managed-policies.jsonl -out internal/catalog/managedpolicies/data
//
// The output is one line per policy, sorted by name, gzipped: tab-separated
// name, path, default version, creation and update time, document. The same
// input gives the same bytes.
package main

import (
	"bufio"
	"bytes"
	"cmp"
	"compress/gzip"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/policy"
)

const source = `Generator: tools/policygen
Input:     managed-policies.jsonl of the project's AWS reference data
Upstream:  moto 5.2.1 (moto/iam/aws_managed_policies.py), Apache-2.0
Content:   AWS-managed IAM policies, default version's document only
`

type record struct {
	Name             string
	Path             string
	DefaultVersionID string `json:"defaultVersionId"`
	CreateDate       time.Time
	UpdateDate       time.Time
	Document         json.RawMessage
}

func main() {
	in := flag.String("in", "", "managed-policies.jsonl")
	out := flag.String("out", "internal/catalog/managedpolicies/data", "folder to write")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "policygen:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	f, err := os.Open(in)
	if err != nil {
		return err
	}
	defer f.Close()
	var records []record
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for lines.Scan() {
		var r record
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return fmt.Errorf("line %d: %w", len(records)+1, err)
		}
		records = append(records, r)
	}
	if err := lines.Err(); err != nil {
		return err
	}
	slices.SortFunc(records, func(a, b record) int { return cmp.Compare(a.Name, b.Name) })

	var gz bytes.Buffer
	w, err := gzip.NewWriterLevel(&gz, gzip.BestCompression)
	if err != nil {
		return err
	}
	for _, r := range records {
		var doc bytes.Buffer
		if err := json.Compact(&doc, r.Document); err != nil {
			return fmt.Errorf("%s: %w", r.Name, err)
		}
		if _, err := policy.Parse(policy.Identity, doc.String()); err != nil {
			fmt.Fprintf(os.Stderr, "policygen: %s: %v\n", r.Name, err)
		}
		line := []string{r.Name, r.Path, r.DefaultVersionID, r.CreateDate.UTC().Format(time.RFC3339), r.UpdateDate.UTC().Format(time.RFC3339), doc.String()}
		if _, err := fmt.Fprintln(w, strings.Join(line, "\t")); err != nil {
			return err
		}
	}
	if err := w.Close(); err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(out, "policies.tsv.gz"), gz.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "SOURCE"), []byte(source), 0o644)
}
