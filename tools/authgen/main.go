// Command authgen writes the compact form of the service authorization reference
// that package authz embeds: one text file per IAM prefix.
//
//	go run ./tools/authgen -in ../shared/aws-data/authorization -out internal/authz/data
//
// A file has tab-separated lines, sorted; lists are separated by spaces:
//
//	K  number   condition key   value type
//	R  resource type   ARN pattern   key numbers
//	A  action   access level   key numbers   dependent actions
//	T  resource type (* marks a required one)   key numbers   dependent actions
//
// T lines belong to the action above them; its first resource types are the
// required ones. The same input gives the same bytes.
package main

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
)

const source = `Generator: tools/authgen
Input:     authorization/*.json of the project's AWS reference data
Upstream:  AWS service authorization reference, stored copy of June 2026
           https://docs.aws.amazon.com/service-authorization/latest/reference/
Content:   facts only: names of actions, resource types and condition keys
`

type reference struct {
	Prefix        string
	Actions       map[string]action
	ResourceTypes map[string]struct {
		ARN  string
		Keys []string
	}
	ConditionKeys map[string]string
}

type action struct {
	Access          string
	Keys, Dependent []string
	Resources       []struct {
		Type            string
		Required        bool
		Keys, Dependent []string
	}
}

func main() {
	in := flag.String("in", "", "folder with the reference, one JSON file per service")
	out := flag.String("out", "internal/authz/data", "folder to write")
	flag.Parse()
	if err := run(*in, *out); err != nil {
		fmt.Fprintln(os.Stderr, "authgen:", err)
		os.Exit(1)
	}
}

func run(in, out string) error {
	files, err := filepath.Glob(filepath.Join(in, "*.json"))
	if err != nil {
		return err
	}
	if len(files) == 0 {
		return fmt.Errorf("no reference in %q", in)
	}
	byPrefix := map[string]*reference{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			return err
		}
		var r reference
		if err := json.Unmarshal(b, &r); err != nil {
			return fmt.Errorf("%s: %w", f, err)
		}
		have := byPrefix[r.Prefix]
		if have == nil {
			byPrefix[r.Prefix] = &r
			continue
		}
		have.merge(&r) // both generations of load balancers share a prefix
	}
	for prefix, r := range byPrefix {
		if err := os.WriteFile(filepath.Join(out, prefix+".txt"), r.render(), 0o644); err != nil {
			return err
		}
	}
	return os.WriteFile(filepath.Join(out, "SOURCE"), []byte(source), 0o644)
}

// merge adds to r what only o has.
func (r *reference) merge(o *reference) {
	for name, a := range o.Actions {
		have, ok := r.Actions[name]
		if ok {
			have.Resources = append(have.Resources, a.Resources...)
			for i := range have.Resources {
				have.Resources[i].Required = false // either of them
			}
			have.Keys = append(have.Keys, a.Keys...)
			a = have
		}
		r.Actions[name] = a
	}
	for name, t := range o.ResourceTypes {
		if _, ok := r.ResourceTypes[name]; !ok {
			r.ResourceTypes[name] = t
		}
	}
	maps.Copy(r.ConditionKeys, o.ConditionKeys)
}

func (r *reference) render() []byte {
	var b bytes.Buffer
	line := func(fields ...string) {
		b.WriteString(strings.TrimRight(strings.Join(fields, "\t"), "\t") + "\n")
	}
	number := map[string]string{}
	for i, k := range slices.Sorted(maps.Keys(r.keys())) {
		number[k] = strconv.Itoa(i)
		line("K", number[k], k, r.ConditionKeys[k])
	}
	numbers := func(keys []string) string {
		var out []string
		for _, k := range slices.Compact(slices.Sorted(slices.Values(keys))) {
			out = append(out, number[k])
		}
		return strings.Join(out, " ")
	}
	for _, name := range slices.Sorted(maps.Keys(r.ResourceTypes)) {
		t := r.ResourceTypes[name]
		line("R", name, t.ARN, numbers(t.Keys))
	}
	for _, name := range slices.Sorted(maps.Keys(r.Actions)) {
		a := r.Actions[name]
		line("A", name, a.Access, numbers(a.Keys), actions(a.Dependent))
		for _, res := range a.Resources {
			typ := res.Type
			if res.Required {
				typ += "*"
			}
			line("T", typ, numbers(res.Keys), actions(res.Dependent))
		}
	}
	return b.Bytes()
}

func (r *reference) keys() map[string]bool {
	all := map[string]bool{}
	add := func(keys []string) {
		for _, k := range keys {
			all[k] = true
		}
	}
	for k := range r.ConditionKeys {
		all[k] = true
	}
	for _, t := range r.ResourceTypes {
		add(t.Keys)
	}
	for _, a := range r.Actions {
		add(a.Keys)
		for _, res := range a.Resources {
			add(res.Keys)
		}
	}
	return all
}

// actions returns the elements of list that are actions, because EC2's table has resource types for its scenarios in
// the same column.
func actions(list []string) string {
	var out []string
	for _, d := range list {
		if strings.Contains(d, ":") {
			out = append(out, d)
		}
	}
	slices.Sort(out)
	return strings.Join(slices.Compact(out), " ")
}
