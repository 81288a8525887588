// Package eventpattern parses EventBridge's event patterns and matches events against them. It uses neither
// the store nor a clock.
//
// As in AWS's own matcher (https://github.com/aws/event-ruler), patterns and events are flattened
// into fields, whose names are their paths, joined by dots. A pattern matches if each of its fields
// matches a field of the event. Fields from a list of objects must come from the same object.
// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html
package eventpattern

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
)

const (
	// maxCombinations is the maximum number of patterns without $or that a pattern expands to.
	// https://docs.aws.amazon.com/eventbridge/latest/userguide/eb-create-pattern-operators.html#eb-filtering-complex-example-or
	maxCombinations = 1000
	maxDepth        = 100
)

// An Error says why a pattern is invalid, in AWS's words.
type Error struct{ Reason string }

func (e *Error) Error() string { return e.Reason }

// A fault is an error at a place in a pattern. AWS wraps the errors of some lists again, which repeats the place.
type fault struct {
	reason string
	at     int
	twice  bool
}

func (f *fault) Error() string { return f.reason }

// invalid returns an error without a place.
func invalid(format string, args ...any) error { return &Error{fmt.Sprintf(format, args...)} }

// invalidAt returns an error at a place.
func invalidAt(at int, format string, args ...any) error {
	return &fault{reason: fmt.Sprintf(format, args...), at: at}
}

// A Pattern is a parsed event pattern.
type Pattern struct {
	// alternatives are the combinations of fields that $or allows.
	alternatives [][]field
}

// A field is a condition on one field of an event: one of the matchers must match its value.
type field struct {
	path string
	any  []matcher
}

// Parse parses a pattern. Its error is an *Error.
func Parse(text string) (*Pattern, error) {
	alternatives, err := parse(text)
	if f, ok := errors.AsType[*fault](err); ok {
		at := "\n at " + location(text, f.at)
		if f.twice {
			at += at
		}
		return nil, invalid("%s", f.reason+at)
	}
	return &Pattern{alternatives}, err
}

func parse(text string) ([][]field, error) {
	n, err := decode(text)
	if err != nil {
		return nil, err
	}
	if _, ok := n.value.(object); !ok {
		return nil, invalidAt(n.at, "Filter is not an object")
	}
	return parseObject("", n, 0)
}

func join(path, name string) string {
	if path == "" {
		return name
	}
	return path + "." + name
}

// parseObject returns the combinations of fields that an object in a pattern expands to.
func parseObject(path string, n node, depth int) ([][]field, error) {
	o := n.value.(object)
	if len(o) == 0 {
		return nil, invalidAt(n.end, "Empty objects are not allowed")
	}
	out := [][]field{nil}
	for _, m := range o {
		var some [][]field
		var err error
		switch v := m.value.value.(type) {
		case object:
			some, err = parseObject(join(path, m.name), m.value, depth+1)
		case []node:
			if m.name == "$or" && isOr(v) {
				for _, e := range v {
					var more [][]field
					if more, err = parseObject(path, e, depth+1); err != nil {
						return nil, err
					}
					some = append(some, more...)
				}
				break
			}
			var f field
			f, err = parseField(join(path, m.name), m.value)
			some = [][]field{{f}}
		default:
			err = invalidAt(m.value.at, "\"%s\" must be an object or an array", m.name)
		}
		if err != nil {
			return nil, err
		}
		if len(out)*len(some) > maxCombinations {
			return nil, invalid("Rule is too complex - $or has more than %d combinations", maxCombinations)
		}
		next := make([][]field, 0, len(out)*len(some))
		for _, a := range out {
			for _, b := range some {
				next = append(next, slices.Concat(a, b))
			}
		}
		out = next
	}
	return out, nil
}

// isOr reports whether the value of a member named $or makes it the operator: a list of at least
// two objects, none of which is a match expression. Otherwise $or is the name of a field.
func isOr(list []node) bool {
	for _, v := range list {
		o, ok := v.value.(object)
		if !ok || len(o) == 1 && parserOf(o[0].name) != nil {
			return false
		}
	}
	return len(list) > 1
}

func parseField(path string, n node) (field, error) {
	f, list := field{path: path}, n.value.([]node)
	if len(list) == 0 {
		return f, invalidAt(n.end, "Empty arrays are not allowed")
	}
	for _, v := range list {
		m, err := parseMatcher(v)
		if err != nil {
			return f, err
		}
		f.any = append(f.any, m)
	}
	return f, nil
}

// An Event is a flattened event.
type Event struct{ fields map[string][]leaf }

// A leaf is a value in an event: a string, json.Number, bool or nil.
type leaf struct {
	value any
	// places are the list elements that contain the value.
	places []place
}

// A place is an element of a list, identified by the list's number in the event and the element's
// index.
type place struct{ list, element int }

// maxLeaves limits how many values of an event are considered. An event can be up to 1 MiB.
const maxLeaves = 200_000

// ParseEvent parses an event.
func ParseEvent(raw []byte) (*Event, error) {
	n, err := decode(string(bytes.TrimSpace(raw)))
	if err != nil {
		return nil, err
	}
	if _, ok := n.value.(object); !ok {
		return nil, errors.New("the event is not an object")
	}
	f := flattener{out: map[string][]leaf{}}
	f.add("", n, nil)
	return &Event{f.out}, nil
}

type flattener struct {
	out           map[string][]leaf
	lists, leaves int
}

func (f *flattener) add(path string, n node, places []place) {
	switch v := n.value.(type) {
	case object:
		for _, m := range v {
			f.add(join(path, m.name), m.value, places)
		}
	case []node:
		f.lists++
		list := f.lists
		for i, e := range v {
			f.add(path, e, append(slices.Clip(places), place{list, i}))
		}
	default:
		if f.leaves++; f.leaves <= maxLeaves {
			f.out[path] = append(f.out[path], leaf{v, places})
		}
	}
}

// Matches reports whether an event matches.
func (p *Pattern) Matches(e *Event) bool {
	budget := 100_000
	return slices.ContainsFunc(p.alternatives, func(fields []field) bool { return e.has(fields, nil, &budget) })
}

// has reports whether the event has all the fields in places that are consistent with those chosen
// so far. budget limits how many choices are tried.
func (e *Event) has(fields []field, chosen []place, budget *int) bool {
	if len(fields) == 0 {
		return true
	}
	f, leaves := &fields[0], e.fields[fields[0].path]
	if len(leaves) == 0 {
		absent := slices.ContainsFunc(f.any, func(m matcher) bool { x, ok := m.(exists); return ok && !bool(x) })
		return absent && e.has(fields[1:], chosen, budget)
	}
	for _, l := range leaves {
		if *budget--; *budget < 0 {
			return false
		}
		if !agree(chosen, l.places) || !slices.ContainsFunc(f.any, func(m matcher) bool { return m.matches(l.value) }) {
			continue
		}
		if e.has(fields[1:], append(slices.Clip(chosen), l.places...), budget) {
			return true
		}
		if len(l.places) == 0 {
			return false // this value adds no places, so no other one can do better
		}
	}
	return false
}

// agree reports whether two sets of places do not contain different elements of the same list.
func agree(a, b []place) bool {
	for _, x := range a {
		for _, y := range b {
			if x.list == y.list && x.element != y.element {
				return false
			}
		}
	}
	return true
}
