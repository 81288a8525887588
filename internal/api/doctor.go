package api

import (
	"context"
	"encoding/json"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
)

// The severities of findings, the worst first. Something unknown may be as bad as an error.
const (
	HarmError   = "error"   // something does not work
	HarmWarning = "warning" // something works, and should be changed
	HarmUnknown = "unknown" // it could not be read from a twin's source
)

var harms = []string{HarmError, HarmWarning, HarmUnknown}

// A Diagnosis lists what is wrong with a cluster.
type Diagnosis struct {
	Account  string `json:"account"`
	Region   string `json:"region"`
	Cluster  string `json:"cluster"`
	Status   string `json:"status"`  // EKS's
	Checked  int    `json:"checked"` // how many things were checked
	Findings []Ill  `json:"findings"`
	// Settling says that nodes are still joining, so another diagnosis may find more, or less.
	Settling bool `json:"settling,omitempty"`
}

// An Ill is one problem.
type Ill struct {
	Harm    string `json:"harm"`
	Check   string `json:"check"`   // such as node
	Subject string `json:"subject"` // such as an instance
	Text    string `json:"text"`
	// Evidence are lines that show it.
	Evidence []string     `json:"evidence,omitempty"`
	Fixes    []advice.Fix `json:"fixes,omitempty"`
}

// Diagnose checks everything in a cluster. cluster may be empty if there is only one. If settled is set and nodes are
// still joining, it checks nothing else.
func (c *Client) Diagnose(ctx context.Context, p Place, cluster string, settled bool) (Diagnosis, error) {
	return get[Diagnosis](ctx, c, "doctor", p.values("cluster", cluster, "settled", strconv.FormatBool(settled)))
}

// Sort puts the worst findings first.
func (d *Diagnosis) Sort() {
	slices.SortStableFunc(d.Findings, func(a, b Ill) int { return slices.Index(harms, a.Harm) - slices.Index(harms, b.Harm) })
}

// Has reports whether there is a finding with the given harm.
func (d *Diagnosis) Has(harm string) bool {
	return slices.ContainsFunc(d.Findings, func(i Ill) bool { return i.Harm == harm })
}

func (d *Diagnosis) title() string {
	return fmt.Sprintf("Cluster %s of account %s in %s is %s: %d checks, %d findings.", d.Cluster, d.Account, d.Region, d.Status, d.Checked, len(d.Findings))
}

// Text renders the diagnosis as one page. Findings with the same cause are shown once.
func (d *Diagnosis) Text() string {
	var b strings.Builder
	b.WriteString(d.title() + "\n")
	for _, g := range d.groups() {
		first := g[0]
		fmt.Fprintf(&b, "\n%s: %s %s: %s\n", first.Harm, first.Check, strings.Join(subjects(g), ", "), first.Text)
		for _, e := range first.Evidence {
			b.WriteString("  " + strings.ReplaceAll(e, "\n", "\n  ") + "\n")
		}
		b.WriteString(advice.Text("  ", first.Fixes))
	}
	if d.Settling {
		b.WriteString("\nNodes are still on their way: ask again.\n")
	}
	return b.String()
}

// groups are the findings that say the same of several subjects.
func (d *Diagnosis) groups() [][]Ill {
	var out [][]Ill
	for _, f := range d.Findings {
		i := slices.IndexFunc(out, func(g []Ill) bool { return g[0].Harm == f.Harm && g[0].Check == f.Check && g[0].Text == f.Text })
		if i < 0 {
			out = append(out, []Ill{f})
		} else {
			out[i] = append(out[i], f)
		}
	}
	return out
}

// subjects names at most a few.
func subjects(g []Ill) []string {
	var out []string
	for _, f := range g {
		if len(out) == 5 {
			return append(out, fmt.Sprintf("and %d more", len(g)-5))
		}
		out = append(out, f.Subject)
	}
	return out
}

// SARIF writes the findings in the format of code scanners.
// https://docs.oasis-open.org/sarif/sarif/v2.1.0/sarif-v2.1.0.html
func (d *Diagnosis) SARIF(w io.Writer) error {
	type text struct {
		Text string `json:"text"`
	}
	type rule struct {
		ID string `json:"id"`
	}
	type logical struct {
		Name string `json:"fullyQualifiedName"`
	}
	type location struct {
		Logical []logical `json:"logicalLocations"`
	}
	type result struct {
		Rule      string     `json:"ruleId"`
		Level     string     `json:"level"`
		Message   text       `json:"message"`
		Locations []location `json:"locations"`
	}
	rules, results := []rule{}, []result{}
	for _, f := range d.Findings {
		if !slices.Contains(rules, rule{f.Check}) {
			rules = append(rules, rule{f.Check})
		}
		level := map[string]string{HarmError: "error", HarmWarning: "warning", HarmUnknown: "note"}[f.Harm]
		said := f.Subject + ": " + f.Text
		for _, fix := range f.Fixes {
			said += "\nfix: " + fix.Shell()
		}
		results = append(results, result{f.Check, level, text{said}, []location{{[]logical{{d.Account + "/" + d.Region + "/" + d.Cluster + "/" + f.Subject}}}}})
	}
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(map[string]any{
		"$schema": "https://json.schemastore.org/sarif-2.1.0.json", "version": "2.1.0",
		"runs": []any{map[string]any{"tool": map[string]any{"driver": map[string]any{"name": "drydock doctor", "rules": rules}}, "results": results}},
	})
}

var diagnosisPage = template.Must(template.New("doctor").Parse(`<!DOCTYPE html>
<html lang="en"><meta charset="utf-8"><title>{{.Title}}</title>
<style>body{font:15px/1.5 system-ui,sans-serif;max-width:60rem;margin:2rem auto;padding:0 1rem}pre{background:#f4f4f4;padding:.5rem;overflow:auto}.error{color:#b00}.warning{color:#960}.unknown{color:#667}</style>
<h1>{{.Title}}</h1>
{{range .Groups}}{{with index . 0}}<h2 class="{{.Harm}}">{{.Harm}}: {{.Check}}</h2><p>{{.Text}}</p>{{if .Evidence}}<pre>{{range .Evidence}}{{.}}
{{end}}</pre>{{end}}{{range .Fixes}}{{if .Sketch}}<p>A sketch: {{.Sketch}}</p>{{end}}<pre>{{range .Commands}}{{.}}
{{end}}</pre>{{end}}{{end}}<ul>{{range .}}<li>{{.Subject}}</li>{{end}}</ul>
{{end}}</html>
`))

// HTML writes the diagnosis as a self-contained page.
func (d *Diagnosis) HTML(w io.Writer) error {
	return diagnosisPage.Execute(w, struct {
		Title  string
		Groups [][]Ill
	}{d.title(), d.groups()})
}
