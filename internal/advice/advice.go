// Package advice proposes changes that fix what `drydock why` explains, and proves them: a change is data that can be
// applied to a copy of the world, together with the commands that make it on AWS. A change is only proven if it has
// worked on a copy without breaking what worked before.
//
// It is pure: values in, fixes out. Packages that explain (why) build the question; those that print (api) only need
// Fix.
package advice

import (
	"cmp"
	"slices"
	"strings"
)

// A Fix is a set of changes that fix something together.
type Fix struct {
	// Commands are run in order in one POSIX shell.
	Commands []string `json:"commands"`
	// Sketch, if not empty, says that the commands alone do not fix it, what is missing, and how to find that.
	Sketch string `json:"sketch,omitempty"`
	// Replaces says that the fix replaces its subject by another of the same kind.
	Replaces bool `json:"replaces,omitempty"`
	// Proven says that the changes were tried on a copy: what failed works there, and what worked before still does.
	// A fix that is not proven is a sketch, or a retry of a stack's operation.
	Proven bool `json:"proven,omitempty"`
	// Changes are the same changes as data.
	Changes []Change `json:"changes,omitempty"`
	// Cost is the total cost of Changes. It is zero for a sketch without changes.
	Cost Cost `json:"cost,omitzero"`
}

// An Answer is what is known about how to fix something.
type Answer struct {
	Fixes []Fix `json:"fixes,omitempty"`
	// Note says, if there is no fix, what was tried and what is known to be wrong.
	Note string `json:"note,omitempty"`
}

// A Judge applies changes to a copy of the world and asks the engine that refused. It returns nil if what failed works
// on the copy and what worked before still does. Otherwise its error says what is still wrong, or no longer works.
type Judge func(changes []Change) error

// Try tries changes on a copy and returns the fix whose commands make them. If the judge objects, the commands are only
// part of a fix, and its sketch says what is missing.
func Try(judge Judge, changes []Change, commands ...string) []Fix {
	f := Fix{Commands: commands, Changes: priced(changes)}
	f.Cost = costOf(f.Changes)
	if err := judge(changes); err != nil {
		f.Sketch = notEnough + err.Error()
	} else {
		f.Proven = true
	}
	return []Fix{f}
}

// Then appends a fix that has to follow this one. The combined fix is proven if both are.
func (f *Fix) Then(next Fix) {
	f.Commands, f.Changes = slices.Concat(f.Commands, next.Commands), slices.Concat(f.Changes, next.Changes)
	f.Replaces, f.Cost = f.Replaces || next.Replaces, costOf(f.Changes)
	f.Proven, f.Sketch = f.Proven && next.Proven, cmp.Or(f.Sketch, next.Sketch)
}

// Lacks turns a proven fix into a sketch because something else, described by what, would still fail and has no fix.
func (f *Fix) Lacks(what string) {
	if f.Proven {
		f.Proven, f.Sketch = false, notEnough+what
	}
}

// notEnough is the prefix of a sketch's text if the changes were tried and did not suffice.
const notEnough = "tried on a copy, this is not enough: "

// Paste returns a fix whose commands have not been tried, because a stack cannot be deleted or updated on a copy.
// Everything else uses Try.
func Paste(commands ...string) Fix { return Fix{Commands: commands} }

// Sketch returns a fix with something that has to be filled in first.
func Sketch(text string, commands ...string) Fix { return Fix{Sketch: text, Commands: commands} }

// Shell returns the commands as text for a shell.
func (f Fix) Shell() string { return strings.Join(f.Commands, "\n") }

// Text renders fixes, one command per line, each line starting with indent.
func Text(indent string, fixes []Fix) string {
	var b strings.Builder
	for i, f := range fixes {
		label := "fix: "
		if i > 0 {
			label = "or:  "
		}
		if f.Sketch != "" {
			b.WriteString(indent + label + "a sketch: " + f.Sketch + "\n")
			label = "     "
		}
		for _, c := range f.Commands {
			b.WriteString(indent + label + c + "\n")
			label = "     "
		}
		if len(f.Changes) > 0 {
			b.WriteString(indent + "     cost: " + f.Cost.String() + "\n")
		}
	}
	return b.String()
}

// Flat returns each fix as a single string, for places with room for only one line.
func Flat(fixes []Fix) []string {
	out := make([]string, 0, len(fixes))
	for _, f := range fixes {
		out = append(out, cmp.Or(strings.Join(f.Commands, " && "), f.Sketch))
	}
	return out
}
