package api

import (
	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/reach"
)

// A ReachExplanation says whether a connection can be made, and what would make it possible.
type ReachExplanation struct {
	reach.Verdict
	advice.Answer
	// Unknown lists what could not be read from a twin's source. If it is not empty, the verdict is unknown: the hops are what
	// is known.
	Unknown []string `json:"unknown,omitempty"`
}

// Text renders both.
func (e *ReachExplanation) Text() string {
	if len(e.Unknown) > 0 {
		return unknownText(e.Unknown) + "What is known of the path:\n" + e.Verdict.Text()
	}
	s := e.Verdict.Text() + advice.Text("  ", e.Fixes)
	if e.Note != "" {
		s += "  no fix: " + e.Note + "\n"
	}
	return s
}
