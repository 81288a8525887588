package api

import (
	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/reach"
)

// A ReachExplanation says whether a connection can be made, and what would make it possible.
type ReachExplanation struct {
	reach.Verdict
	advice.Answer
}

// Text renders both.
func (e *ReachExplanation) Text() string {
	s := e.Verdict.Text() + advice.Text("  ", e.Fixes)
	if e.Note != "" {
		s += "  no fix: " + e.Note + "\n"
	}
	return s
}
