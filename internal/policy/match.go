package policy

import (
	"strings"

	"github.com/drydock-dev/drydock/internal/glob"
)

// A verdict is the answer to "does this apply". The answer may be that what is known about the request is not enough
// to decide.
type verdict int8

const (
	no verdict = iota
	unknown
	yes
)

func both(a, b verdict) verdict { return min(a, b) }

func not(v verdict) verdict { return yes - v }

func is(b bool) verdict {
	if b {
		return yes
	}
	return no
}

// applies matches action, resource and conditions of s. Elements that definitely do not match take precedence over
// those that cannot be decided.
func (s *Statement) applies(q *question) verdict {
	if !s.action(q) {
		return no
	}
	v := s.resource(q)
	for i := 0; i < len(s.tests) && v != no; i++ {
		v = both(v, s.tests[i].holds(&q.Context))
	}
	return v
}

func (s *Statement) action(q *question) bool {
	return s.actions.has(q) == (s.NotActions == nil)
}

// resource matches Resource and NotResource. Statements without either (trust policies) apply to the resource that
// they are attached to.
func (s *Statement) resource(q *question) verdict {
	if s.resources == nil {
		return yes
	}
	v := no
	for i := range s.resources {
		if v = max(v, s.resources[i].matches(q)); v == yes {
			break
		}
	}
	if s.NotResources != nil {
		return not(v)
	}
	return v
}

// matches matches one Resource pattern. An empty resource is unknown; "*" is the resource of an action that has none.
func (t *arnTemplate) matches(q *question) verdict {
	switch {
	case t.all:
		return yes
	case q.Resource == "", !q.Context.spend(t.work(q.Resource)):
		return unknown
	}
	return t.match(&q.arn, q.fields, &q.Context)
}

// unknownKeys adds the keys that prevent deciding s.
func (s *Statement) unknownKeys(q *question, keys []string) []string {
	add := func(key string) {
		if _, known := q.Context.get(key); !known && !q.unknown[key] {
			if q.unknown == nil {
				q.unknown = map[string]bool{}
			}
			q.unknown[key] = true
			keys = append(keys, key)
		}
	}
	for i := range s.resources {
		for _, p := range s.resources[i].vars {
			add(p.key)
		}
	}
	for i := range s.tests {
		add(s.tests[i].key)
		for _, w := range s.tests[i].wants {
			for _, p := range w.vars {
				add(p.key)
			}
		}
	}
	return keys
}

// An actionSet is a statement's Action or NotAction, in lower case. If there are many patterns, they are indexed by
// vendor; those with a wildcard in the vendor are under "". AWS's ReadOnlyAccess names 2,500 actions.
type actionSet struct {
	all      bool
	patterns []glob.Pattern
	byVendor map[string][]glob.Pattern
}

// manyActions is the number of patterns from which on an index by vendor pays off.
const manyActions = 16

func compileActions(patterns []string) actionSet {
	var out actionSet
	for _, p := range patterns {
		out.all = out.all || isStars(p)
		out.patterns = append(out.patterns, glob.New(strings.ToLower(p), nil))
	}
	if len(patterns) >= manyActions {
		out.byVendor = map[string][]glob.Pattern{}
		for _, g := range out.patterns {
			out.byVendor[vendorOf(&g)] = append(out.byVendor[vendorOf(&g)], g)
		}
	}
	return out
}

func (a *actionSet) has(q *question) bool {
	if a.all {
		return true
	}
	if a.byVendor == nil {
		return anyGlob(a.patterns, q.action)
	}
	return anyGlob(a.byVendor[q.vendor], q.action) || anyGlob(a.byVendor[""], q.action)
}

// vendorOf returns the vendor of an action pattern, or "" if there is a wildcard before the colon.
func vendorOf(g *glob.Pattern) string {
	vendor, _, ok := strings.Cut(g.Text, ":")
	if !ok || strings.ContainsAny(vendor, "*?") {
		return ""
	}
	return vendor
}

func anyGlob(globs []glob.Pattern, s string) bool {
	for i := range globs {
		if globs[i].Match(s) {
			return true
		}
	}
	return false
}

func isStars(s string) bool { return s != "" && strings.Trim(s, "*") == "" }
