package advice

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/drydock-dev/drydock/internal/reach"
)

// Limits of the search.
const (
	most      = 3   // sets of changes combined
	beam      = 24  // networks kept for the next step
	maxTrials = 600 // networks tried
	maxShown  = 3
)

// A trial is a network that has been changed.
type trial struct {
	net     *reach.Snapshot
	changes []Change
	cost    int
}

// Network returns the smallest sets of changes with which a connection and everything after it can be made, and which
// do not break anything that worked.
func Network(s *reach.Snapshot, c Connection) Answer {
	first, v := c.failing(s)
	if first == nil {
		return Answer{}
	}
	p := prover{c: &c, base: s, seen: map[string]bool{}}
	found := p.search()
	if len(found) == 0 {
		for i := range v.Explanations {
			if f, ok := balancer(s.Region(), &v.Explanations[i]); ok {
				return Answer{Fixes: []Fix{f}}
			}
		}
		return Answer{Note: p.nothing(v)}
	}
	var out Answer
	for _, t := range found {
		f := Fix{Proven: true, Changes: priced(t.changes)}
		f.Cost = costOf(f.Changes)
		for i := range t.changes {
			f.Commands = append(f.Commands, t.changes[i].commands(s.Region())...)
		}
		out.Fixes = append(out.Fixes, f)
	}
	return out
}

// failing returns the first need that fails, with its verdict.
func (c *Connection) failing(s *reach.Snapshot) (*Need, *reach.Verdict) {
	for i := range c.Needs {
		if v := c.check(s, &c.Needs[i]); !v.Reachable {
			return &c.Needs[i], v
		}
	}
	return nil, nil
}

type prover struct {
	c      *Connection
	base   *reach.Snapshot
	seen   map[string]bool
	trials int
	tried  []Change
	before []Need // what works and must not break; nil if not computed yet
}

// search tries combinations of changes, the smallest first. Each step continues with the networks in which something
// still fails.
func (p *prover) search() []trial {
	level := []trial{{net: p.base}}
	var found []trial
	for range most {
		var next []trial
		for _, t := range level {
			need, v := p.c.failing(t.net)
			was := signature(need, v)
			prop := proposer{s: t.net, need: need, v: v, other: p.c.failingServices(t.net, need)}
			for _, set := range prop.propose() {
				after, ok := p.try(t, set)
				if !ok {
					continue
				}
				need, v := p.c.failing(after.net)
				switch {
				case need == nil:
					if after, ok = p.least(after); ok {
						found = append(found, after)
					}
				case signature(need, v) != was: // it has changed something
					next = append(next, after)
				}
			}
		}
		slices.SortStableFunc(next, func(a, b trial) int { return a.cost - b.cost })
		level = next[:min(beam, len(next))]
	}
	return best(found)
}

// try applies a set of changes, unless that has already been tried.
func (p *prover) try(t trial, set []Change) (trial, bool) {
	if p.trials++; p.trials > maxTrials {
		return trial{}, false
	}
	out := trial{net: t.net, changes: slices.Concat(t.changes, set), cost: t.cost}
	if key := keyOf(out.changes); p.seen[key] {
		return trial{}, false
	} else {
		p.seen[key] = true
	}
	for i := range set {
		if out.net = set[i].apply(out.net); out.net == nil {
			return trial{}, false
		}
		out.cost += set[i].Cost.total()
	}
	if len(t.changes) == 0 {
		p.tried = append(p.tried, set...)
	}
	return out, true
}

func keyOf(changes []Change) string {
	keys := make([]string, len(changes))
	for i := range changes {
		keys[i] = changes[i].key()
	}
	slices.Sort(keys)
	return strings.Join(keys, "\n")
}

// least removes changes that are not needed, and reports whether the remaining ones break nothing.
func (p *prover) least(t trial) (trial, bool) {
	for i := len(t.changes) - 1; i >= 0 && len(t.changes) > 1; i-- {
		without := slices.Delete(slices.Clone(t.changes), i, i+1)
		if s := replay(p.base, without); s != nil {
			if need, _ := p.c.failing(s); need == nil {
				t.net, t.changes, t.cost = s, without, t.cost-t.changes[i].Cost.total()
			}
		}
	}
	return t, p.harmless(t.net)
}

func replay(s *reach.Snapshot, changes []Change) *reach.Snapshot {
	for i := range changes {
		if slices.ContainsFunc(changes[i].Groups, func(g string) bool { return s.Get(g) == nil }) {
			return nil
		}
		if s = changes[i].apply(s); s == nil {
			return nil
		}
	}
	return s
}

// signature identifies how a need fails, to compare failures.
func signature(n *Need, v *reach.Verdict) string {
	var b strings.Builder
	fmt.Fprint(&b, n.Name, n.Flow.To, v.Destination)
	for _, x := range v.Explanations {
		fmt.Fprint(&b, "|", x.Code, x.Component, x.Direction, x.Return, x.Interface)
	}
	return b.String()
}

// failingServices returns the services that needs other than the given one cannot reach, by the names of their
// endpoints.
func (c *Connection) failingServices(s *reach.Snapshot, but *Need) []string {
	var out []string
	for i := range c.Needs {
		n := &c.Needs[i]
		if n == but || n.Name == "" || c.check(s, n).Reachable {
			continue
		}
		service, ok := serviceOf(s.Region(), n.Name)
		switch {
		case ok:
		case strings.Contains(n.Name, ".s3."):
			service = "s3"
		default:
			continue
		}
		if !slices.Contains(out, service) {
			out = append(out, service)
		}
	}
	return out
}

// best returns the cheapest trials, without those that only add to another one.
func best(found []trial) []trial {
	slices.SortStableFunc(found, func(a, b trial) int {
		return cmp.Or(a.cost-b.cost, len(a.changes)-len(b.changes), strings.Compare(keyOf(a.changes), keyOf(b.changes)))
	})
	var out []trial
	keys := map[string]bool{}
	for _, t := range found {
		key := keyOf(t.changes)
		if keys[key] || len(out) == maxShown || slices.ContainsFunc(out, func(o trial) bool { return sameKinds(o, t) }) {
			continue
		}
		keys[key] = true
		out = append(out, t)
	}
	return out
}

// sameKinds reports whether two sets change the same resources in the same ways. Only the one that opens less is
// worth showing.
func sameKinds(a, b trial) bool {
	kinds := func(t trial) []string {
		m := map[string]bool{}
		for _, c := range t.changes {
			r := c.Resource
			if c.Kind == CreateEndpoint || c.Kind == CreateGroup || strings.HasPrefix(r, "$") {
				r = c.Service
			}
			if c.Kind == CreateGroup {
				continue
			}
			m[string(c.Kind)+r] = true
		}
		return slices.Sorted(maps.Keys(m))
	}
	x, y := kinds(a), kinds(b)
	for _, k := range x {
		if !slices.Contains(y, k) {
			return false
		}
	}
	return true
}

// nothing returns the note for when no set of changes was found.
func (p *prover) nothing(v *reach.Verdict) string {
	kinds := map[string]bool{}
	for _, c := range p.tried {
		kinds[string(c.Kind)] = true
	}
	text := "no change that was tried mends this"
	if len(kinds) > 0 {
		text = fmt.Sprintf("none of %d sets of changes that were tried on a copy mends this without breaking something else (%s)",
			min(p.trials, maxTrials), strings.Join(slices.Sorted(maps.Keys(kinds)), ", "))
	}
	if len(v.Explanations) > 0 {
		text += "; what is known to be wrong: " + v.Explanations[0].Text
	}
	return text
}
