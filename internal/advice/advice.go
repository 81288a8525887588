// Package advice proposes changes that mend what `drydock why` explains, and proves them:
// a change is data that knows how to alter a copy of the world and which commands make it
// on AWS. Only what has worked on a copy, without breaking what worked before, is proven.
//
// It is pure: values in, fixes out. Packages that explain (why) build the question; those
// that print (api) need only Fix.
package advice

import (
	"cmp"
	"strings"
)

// A Fix is a set of changes that together mend something.
type Fix struct {
	// Commands are run in order in one POSIX shell.
	Commands []string `json:"commands"`
	// Sketch, if not empty, says that the commands cannot be run as they are: what has to
	// be filled in, and how to find it.
	Sketch string `json:"sketch,omitempty"`
	// Replaces says that what the fix is about makes room for another of its kind.
	Replaces bool `json:"replaces,omitempty"`
	// Proven says that the changes were tried on a copy: what failed works then, and what
	// worked before still does.
	Proven bool `json:"proven,omitempty"`
	// Changes are the same as data.
	Changes []Change `json:"changes,omitempty"`
}

// An Answer is what is known about how to fix something.
type Answer struct {
	Fixes []Fix `json:"fixes,omitempty"`
	// Note says, if there is no fix, what was tried and what is known to be wrong.
	Note string `json:"note,omitempty"`
}

// Paste returns a fix whose commands can be pasted.
func Paste(commands ...string) Fix { return Fix{Commands: commands} }

// Each returns alternatives of one command each, which can be pasted.
func Each(commands ...string) []Fix {
	out := make([]Fix, 0, len(commands))
	for _, c := range commands {
		out = append(out, Paste(c))
	}
	return out
}

// Sketch returns a fix of which something has to be filled in first.
func Sketch(text string, commands ...string) Fix { return Fix{Sketch: text, Commands: commands} }

// Shell returns the commands as text for a shell.
func (f Fix) Shell() string { return strings.Join(f.Commands, "\n") }

// Text draws fixes, one command per line; indent begins each line.
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
	}
	return b.String()
}

// Flat returns each fix as one string, for what has room for a line only.
func Flat(fixes []Fix) []string {
	out := make([]string, 0, len(fixes))
	for _, f := range fixes {
		out = append(out, cmp.Or(strings.Join(f.Commands, " && "), f.Sketch))
	}
	return out
}
