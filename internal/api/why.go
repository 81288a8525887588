package api

import (
	"fmt"
	"strings"
	"time"

	"github.com/drydock-dev/drydock/internal/advice"
)

// The states of a step.
const (
	StepOK      = "ok"
	StepFailed  = "failed"
	StepWarning = "warning"
	StepPending = "pending" // not reached yet
)

// A Step is one of the steps that a node or a pod goes through before it can be used.
type Step struct {
	Name     string    `json:"name"`
	State    string    `json:"state"`
	Evidence string    `json:"evidence,omitempty"`
	Time     time.Time `json:"time,omitzero"`
	Reason   *Reason   `json:"reason,omitempty"`
}

// A Reason is the decision behind a failed step.
type Reason struct {
	By        string `json:"by"` // network, IAM, cluster, …
	Code      string `json:"code,omitempty"`
	Component string `json:"component,omitempty"`
	Text      string `json:"text"`
	// Fixes are alternatives, the least intrusive first. If the list is empty, Note says what was tried.
	Fixes []advice.Fix `json:"fixes,omitempty"`
	Note  string       `json:"note,omitempty"`
	// Failures are the rows of docs/failures that describe it.
	Failures []string `json:"failures,omitempty"`
}

func firstFailed(steps []Step) *Step {
	for i := range steps {
		if steps[i].State == StepFailed {
			return &steps[i]
		}
	}
	return nil
}

// chainText renders a chain of steps on one screen.
func chainText(title string, steps []Step, notes []string, verdict string) string {
	var b strings.Builder
	b.WriteString(title + "\n\n")
	for i := range steps {
		b.WriteString(steps[i].Text())
	}
	for _, n := range notes {
		b.WriteString("  ! " + n + "\n")
	}
	b.WriteString("\n" + verdict + "\n")
	return b.String()
}

// Text renders the step.
func (s *Step) Text() string {
	var b strings.Builder
	mark := map[string]string{StepOK: "✔", StepFailed: "✘", StepWarning: "!", StepPending: "·"}[s.State]
	lines := strings.Split(strings.TrimRight(s.Evidence, "\n"), "\n")
	fmt.Fprintf(&b, "%s\n", strings.TrimRight(fmt.Sprintf("  %s %-16s  %s", mark, s.Name, lines[0]), " "))
	for _, l := range lines[1:] {
		b.WriteString("      " + l + "\n")
	}
	if s.Reason != nil {
		s.Reason.write(&b, "      ")
	}
	return b.String()
}

func (r *Reason) write(b *strings.Builder, indent string) {
	head := "because of " + r.By
	if r.Code != "" {
		head += ", " + r.Code
	}
	if r.Component != "" {
		head += ", " + r.Component
	}
	b.WriteString(indent + head + ":\n")
	for line := range strings.Lines(r.Text) {
		b.WriteString(indent + "  " + strings.TrimRight(line, "\n") + "\n")
	}
	b.WriteString(advice.Text(indent, r.Fixes))
	if r.Note != "" {
		b.WriteString(indent + "no fix: " + r.Note + "\n")
	}
}
