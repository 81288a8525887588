package policy

import (
	"fmt"
	"strings"
)

// String renders the reasoning for people. It only counts statements of other actions, because there may be
// thousands.
func (e Explanation) String() string {
	var b strings.Builder
	e.Decision.render(&b)
	for _, l := range e.Layers {
		l.render(&b)
	}
	return b.String()
}

func (d *Decision) render(b *strings.Builder) {
	verdict := "allowed"
	switch {
	case d.ExplicitDeny:
		verdict = "denied, " + d.Reason
	case !d.Allowed:
		verdict = "denied, because " + d.Reason
	}
	fmt.Fprintf(b, "%s on %s: %s\n", d.Action, d.Resource, verdict)
}

func (l *LayerExplanation) render(b *strings.Builder) {
	said := "allows nothing, and does not have to"
	switch {
	case l.Denies:
		said = "denies"
	case l.Allows:
		said = "allows"
	case l.Required:
		said = "does not allow, and must"
	}
	fmt.Fprintf(b, "%s: %s\n", l.Type, said)
	other := 0
	for i := range l.Statements {
		s := &l.Statements[i]
		if len(s.Mismatches) > 0 && (s.Mismatches[0].Element == ActionElement || s.Mismatches[0].Element == NotActionElement) {
			other++
			continue
		}
		s.render(b)
	}
	switch {
	case other == 1:
		b.WriteString("  1 statement of other actions\n")
	case other > 1:
		fmt.Fprintf(b, "  %d statements of other actions\n", other)
	case len(l.Statements) == 0:
		b.WriteString("  no statements\n")
	}
}

func (s *StatementExplanation) render(b *strings.Builder) {
	effect := "Allow"
	if s.Deny {
		effect = "Deny"
	}
	fmt.Fprintf(b, "  %s %s", effect, s.Match)
	if s.Start != (Position{}) {
		fmt.Fprintf(b, " (%v-%v)", s.Start, s.End)
	}
	fmt.Fprintf(b, " %s\n", s.Outcome)
	for _, m := range s.Mismatches {
		fmt.Fprintf(b, "    %s\n", m)
	}
}

// String says what did not match, with both values.
func (m Mismatch) String() string {
	what := string(m.Element)
	if m.Element == ConditionElement {
		what += " " + m.Operator + " " + m.Key
	}
	s := what + " is " + list(m.Wanted)
	if m.Resolved != nil {
		s += ", that is " + list(m.Resolved)
	}
	switch {
	case len(m.Unknown) > 0:
		return s + "; unknown: " + strings.Join(m.Unknown, ", ")
	case m.Element == ConditionElement && len(m.Actual) == 0:
		return s + "; the request has no " + m.Key
	case len(m.Actual) == 0:
		return s + "; the request's value is not known"
	}
	return s + "; the request has " + list(m.Actual)
}

// maxListed bounds how many values are shown.
const maxListed = 8

func list(values []string) string {
	shown := values
	if len(values) > maxListed {
		shown = values[:maxListed]
	}
	quoted := make([]string, len(shown))
	for i, v := range shown {
		quoted[i] = fmt.Sprintf("%q", v)
	}
	s := strings.Join(quoted, ", ")
	switch {
	case len(values) == 0:
		return "nothing"
	case len(values) > maxListed:
		return fmt.Sprintf("%s and %d more", s, len(values)-maxListed)
	}
	return s
}
