package main

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

// A test whose second plan fails is at fault alone: the others are examined, also those without anything in the state.
func TestExamine(t *testing.T) {
	dir := t.TempDir()
	terraform := filepath.Join(dir, "terraform")
	if err := os.WriteFile(terraform, []byte(`#!/bin/sh
case "$1 $3" in
plan*)
	if grep -q broken t*/main.tf; then
		for f in $(grep -l broken t*/main.tf); do
			echo '{"diagnostic":{"severity":"error","summary":"cannot be planned","range":{"filename":"'$f'"}}}'
		done
		exit 1
	fi
	if grep -q nobody t*/main.tf; then
		echo '{"diagnostic":{"severity":"error","summary":"no credentials"}}'
		exit 1
	fi ;;
"show plan") echo '{"resource_changes":[{"address":"module.t2.aws_sqs_queue.q","change":{"actions":["update"],"before":{"delay":0},"after":{"delay":5}}}]}' ;;
show*) echo '{"values":{"root_module":{"child_modules":[
	{"address":"module.t0","resources":[{"address":"module.t0.aws_sqs_queue.q","values":{"delay":0}}]},
	{"address":"module.t1","resources":[{"address":"module.t1.aws_sqs_queue.q","values":{"delay":0}}]},
	{"address":"module.t2","resources":[{"address":"module.t2.aws_sqs_queue.q","values":{"delay":0}}]}]}}}' ;;
esac
`), 0o755); err != nil {
		t.Fatal(err)
	}
	var batch []*candidate
	add := func(delay string, configs ...string) {
		c := &candidate{dir: filepath.Join(dir, "t"+strconv.Itoa(len(batch)))}
		for _, text := range configs {
			c.steps = append(c.steps, step{config: text, checks: []check{{"TestCheckResourceAttr", "aws_sqs_queue.q", "delay", delay}}})
		}
		if err := c.write(len(configs) - 1); err != nil {
			t.Fatal(err)
		}
		batch = append(batch, c)
	}
	add("0", "broken", "broken") // also with the configuration of the step before
	add("1", "", "fine")
	add("0", "", "fine")
	add("0", "", "fine")
	a := &applier{terraform: terraform}
	if err := a.examine(t.Context(), dir, batch, 1); err != nil {
		t.Fatal(err)
	}
	const broken = "step 2: second plan: cannot be planned"
	for i, want := range [][]string{
		{broken, broken},
		{`step 2: aws_sqs_queue.q: delay is "0", want "1"`},
		{`step 2: the second plan is not empty: aws_sqs_queue.q [update]: delay "0" → "5"`},
		{"step 2: aws_sqs_queue.q is not in the state"},
	} {
		var got []string
		for _, f := range batch[i].faults {
			got = append(got, strings.Replace(f, "module.t"+strconv.Itoa(i)+".", "", 1))
		}
		if !slices.Equal(got, want) {
			t.Errorf("test %d: faults %q, want %q", i, got, want)
		}
	}

	// If the plan fails and no test is at fault, the batch is not examined.
	add("0", "", "nobody")
	if err := a.examine(t.Context(), dir, batch, 1); err == nil || !strings.Contains(err.Error(), "no credentials") {
		t.Errorf("the batch counts as examined: %v", err)
	}
}

// A plan that fails after it has read data sources has changed nothing.
func TestChanges(t *testing.T) {
	read := `{"type":"apply_start","hook":{"resource":{"addr":"module.t0.data.aws_vpc.v"},"action":"read"}}` + "\n"
	create := `{"type":"apply_start","hook":{"resource":{"addr":"module.t1.aws_vpc.v"},"action":"create"}}` + "\n"
	if changes([]byte(read)) || !changes([]byte(read+create)) {
		t.Error("reading counts as a change, or creating does not")
	}
}
