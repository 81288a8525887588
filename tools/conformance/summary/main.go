// Command summary prints what a run of the conformance tests has shown, as a table of Markdown and a list of what failed.
//
//	summary REPORT.json
package main

import (
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/onsi/ginkgo/v2/types"
)

func main() {
	if len(os.Args) != 2 {
		fmt.Fprintln(os.Stderr, "usage: summary REPORT.json")
		os.Exit(2)
	}
	b, err := os.ReadFile(os.Args[1])
	var reports []types.Report
	if err == nil {
		err = json.Unmarshal(b, &reports)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "summary:", err)
		os.Exit(1)
	}
	print(reports)
}

func print(reports []types.Report) {
	type count struct{ passed, failed, skipped int }
	groups := map[string]*count{}
	var failed, skipped []string
	for _, r := range reports {
		fmt.Printf("%s, %.0f s\n\n", r.StartTime.UTC().Format("2006-01-02"), r.RunTime.Seconds())
		for _, s := range r.SpecReports {
			if s.LeafNodeType != types.NodeTypeIt || s.State == types.SpecStateSkipped && s.Failure.Message == "" {
				continue // it was not selected
			}
			name := strings.Join(append(slices.Clone(s.ContainerHierarchyTexts), s.LeafNodeText), " ")
			group, _, _ := strings.Cut(name, " ")
			c := groups[group]
			if c == nil {
				c = &count{}
				groups[group] = c
			}
			why, _, _ := strings.Cut(strings.TrimSpace(s.Failure.Message), "\n")
			switch {
			case s.State == types.SpecStatePassed:
				c.passed++
			case s.State == types.SpecStateSkipped:
				c.skipped++
				skipped = append(skipped, "- "+name+": "+why)
			default:
				c.failed++
				failed = append(failed, "- "+name+": "+why)
			}
		}
	}
	fmt.Println("| group | passed | failed | skipped |\n|---|---|---|---|")
	var all count
	names := make([]string, 0, len(groups))
	for g := range groups {
		names = append(names, g)
	}
	slices.Sort(names)
	for _, g := range names {
		c := groups[g]
		fmt.Printf("| %s | %d | %d | %d |\n", strings.Trim(g, "[]"), c.passed, c.failed, c.skipped)
		all = count{all.passed + c.passed, all.failed + c.failed, all.skipped + c.skipped}
	}
	fmt.Printf("| all | %d | %d | %d |\n", all.passed, all.failed, all.skipped)
	for title, list := range map[string][]string{"Failed": failed, "Skipped": skipped} {
		if len(list) > 0 {
			slices.Sort(list)
			fmt.Printf("\n%s:\n%s\n", title, strings.Join(list, "\n"))
		}
	}
}
