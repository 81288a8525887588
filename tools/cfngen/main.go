// Command cfngen writes the schemas of the CloudFormation resource types that Drydock
// handles, from those that AWS publishes (one type per line, as cfn-lint ships them):
//
//	go run ./tools/cfngen -in cfn-schemas.jsonl -out internal/service/cloudformation
//
// lacking.jsonl has the schemas that the reference data lacks, written from AWS's template reference.
//
// The types are the lines of types.txt there. What is not used (formats, expressions,
// tagging) is left out. The same input gives the same bytes.
package main

import (
	"bufio"
	"bytes"
	_ "embed"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

const source = `Generator: tools/cfngen
Input:     cfn-schemas.jsonl of the project's AWS reference data
Upstream:  tools/cfngen/lacking.jsonl (from AWS's template reference), and AWS's public resource provider schemas for us-east-1 as shipped in cfn-lint 1.51.0, MIT-0
Content:   schemas.jsonl: properties, required, create-only and read-only ones, and the order of replacements, of the types in types.txt
`

// kept are the parts of a schema that are used.
var kept = []string{"type", "properties", "definitions", "required", "createOnly", "readOnly", "primaryIdentifier", "replacementStrategy"}

// dropped are the parts of a property's schema that are not.
var dropped = []string{"format", "default", "insertionOrder", "uniqueItems", "minimum", "maximum", "minItems", "maxItems", "requiredXor", "requiredOr", "dependentRequired",
	"dependentExcluded", "oneOf", "anyOf", "allOf", "deprecated", "$comment"}

//go:embed lacking.jsonl
var lacking string

func main() {
	in := flag.String("in", "", "cfn-schemas.jsonl")
	out := flag.String("out", "internal/service/cloudformation", "folder of types.txt, and to write")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "cfngen:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	list, err := os.ReadFile(filepath.Join(out, "types.txt"))
	if err != nil {
		return err
	}
	types := strings.Fields(string(list))
	f, err := os.Open(in)
	if err != nil {
		return err
	}
	defer f.Close()
	lines := map[string][]byte{}
	scanner := bufio.NewScanner(io.MultiReader(f, strings.NewReader(lacking)))
	scanner.Buffer(nil, 16<<20)
	for scanner.Scan() {
		var s map[string]any
		if err := json.Unmarshal(scanner.Bytes(), &s); err != nil {
			return err
		}
		name, _ := s["type"].(string)
		if !slices.Contains(types, name) {
			continue
		}
		compact := map[string]any{}
		for _, k := range kept {
			if v, ok := s[k]; ok {
				compact[k] = strip(v, false)
			}
		}
		var b bytes.Buffer
		enc := json.NewEncoder(&b)
		enc.SetEscapeHTML(false)
		if err := enc.Encode(compact); err != nil {
			return err
		}
		lines[name] = b.Bytes()
	}
	if err := scanner.Err(); err != nil {
		return err
	}
	var all bytes.Buffer
	slices.Sort(types)
	for _, t := range types {
		if lines[t] == nil {
			return fmt.Errorf("there is no schema of %s", t)
		}
		all.Write(lines[t])
	}
	if err := os.WriteFile(filepath.Join(out, "schemas.jsonl"), all.Bytes(), 0o644); err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(out, "SOURCE"), []byte(source), 0o644)
}

// strip removes what is not used from a schema, but not from the names of properties.
func strip(v any, names bool) any {
	switch v := v.(type) {
	case map[string]any:
		out := map[string]any{}
		for k, e := range v {
			if names || !slices.Contains(dropped, k) {
				out[k] = strip(e, !names && (k == "properties" || k == "definitions" || k == "patternProperties"))
			}
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, e := range v {
			out[i] = strip(e, false)
		}
		return out
	}
	return v
}
