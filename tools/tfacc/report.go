package main

import (
	"fmt"
	"io"
)

// report prints a table of the services, then each test that did not pass and each that is excluded, with its reason.
func report(w io.Writer, outcomes []outcome, excluded []test) {
	count := map[string]map[string]int{}
	var services []string
	add := func(service, end string) {
		if count[service] == nil {
			count[service] = map[string]int{}
			services = append(services, service)
		}
		count[service][end]++
		if service != "all" {
			count["all"][end]++
		}
	}
	count["all"] = map[string]int{}
	for _, o := range outcomes {
		add(o.service, o.end)
	}
	for _, t := range excluded {
		add(t.service, "excluded")
	}
	fmt.Fprintln(w, "| service | passed | failed | excluded before | excluded by what they did |\n|---|---:|---:|---:|---:|")
	for _, s := range append(services, "all") {
		c := count[s]
		fmt.Fprintf(w, "| %s | %d | %d | %d | %d |\n", s, c[passed], c[failed]+c[unending], c["excluded"], c[refused])
	}
	for _, end := range []string{failed, unending, refused} {
		for _, o := range outcomes {
			if o.end == end {
				fmt.Fprintf(w, "%s %s %s: %s\n", end, o.service, o.name, o.reason)
			}
		}
	}
	for _, t := range excluded {
		fmt.Fprintf(w, "excluded %s %s: %s\n", t.service, t.name, t.reason)
	}
}
