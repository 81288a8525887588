// Package advice proposes changes that fix what `drydock why` explains, and proves them: a change is data that can be
// applied to a copy of the world, together with the commands that make it on AWS. A change is only proven if it has
// worked on a copy without breaking what worked before.
//
// It is pure: values in, fixes out. Packages that explain (why) build the question; those that print (api) only need
// Fix.
package advice

import (
	"cmp"
	"strings"
)

// A Fix is a set of changes that fix something together.
type Fix struct {
	// Commands are run in order in one POSIX shell.
	Commands []string `json:"commands"`
	// Sketch, if not empty, says that the commands cannot be run as they are, what to fill in, and how to find it.
	Sketch string `json:"sketch,omitempty"`
	// Replaces says that the fix replaces its subject by another of the same kind.
	Replaces bool `json:"replaces,omitempty"`
	// Proven says that the changes were tried on a copy: what failed works there, and what worked before still does.
	Proven bool `json:"proven,omitempty"`
	// Changes are the same changes as data.
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

// Do returns a single fix that makes a change with the given commands.
func Do(c Change, commands ...string) []Fix { return []Fix{{Commands: commands, Changes: []Change{c}}} }

// Each returns alternative fixes of one command each, which can be pasted.
func Each(commands ...string) []Fix {
	out := make([]Fix, 0, len(commands))
	for _, c := range commands {
		out = append(out, Paste(c))
	}
	return out
}

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
