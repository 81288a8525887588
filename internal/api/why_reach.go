package api

import (
	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/reach"
)

// A ReachExplanation is whether a connection can be made, and what makes it possible.
type ReachExplanation struct {
	reach.Verdict
	advice.Answer
}

// Text draws both.
func (e *ReachExplanation) Text() string {
	s := e.Verdict.Text() + advice.Text("  ", e.Fixes)
	if e.Note != "" {
		s += "  no fix: " + e.Note + "\n"
	}
	return s
}
