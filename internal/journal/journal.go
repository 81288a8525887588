// Package journal keeps what Drydock decided and did.
package journal

import "time"

// A Kind says what an entry tells.
type Kind string

// The kinds of entries.
const (
	KindCall     Kind = "call"     // an AWS API call
	KindDecision Kind = "decision" // an authorization or reachability verdict
	KindStep     Kind = "step"     // a step of a longer story: a node joining
)

// An Entry is one event.
type Entry struct {
	Time    time.Time      `json:"time"`
	Account string         `json:"account,omitempty"`
	Region  string         `json:"region,omitempty"`
	Kind    Kind           `json:"kind"`
	Fields  map[string]any `json:"fields,omitempty"`
	// Minor entries (reads) are dropped first when the journal cannot keep up.
	Minor bool `json:"-"`
}

// A Journal is an append-only record.
type Journal struct{}

// Append records e.
func (j *Journal) Append(e Entry) {}
