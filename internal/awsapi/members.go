package awsapi

import (
	"sort"
	"strings"
)

// Members is the set of members a request carried, as dotted paths of the API
// model's member names: "resourcesVpcConfig.subnetIds". List and map levels do
// not appear: a tag of the first tag specification is
// "TagSpecifications.Tags.Key". Every container of a present path is present.
type Members map[string]struct{}

// Has reports whether the request carried the member at path.
func (m Members) Has(path string) bool {
	_, ok := m[path]
	return ok
}

// Add records path as present.
func (m Members) Add(path string) { m[path] = struct{}{} }

// Honours is a parsed list of honoured members; see ParseHonours.
type Honours struct {
	exact  map[string]bool // a listed path: covers itself and everything below it
	parent map[string]bool // a container of a listed path: covers only itself
}

// ParseHonours reads a whitespace-separated list of member paths. A listed path covers itself and everything below
// it. Its containers are covered too, but not their other members. "*" covers everything.
func ParseHonours(list string) Honours {
	h := Honours{exact: map[string]bool{}, parent: map[string]bool{}}
	for _, p := range strings.Fields(list) {
		h.exact[p] = true
		for i := strings.LastIndexByte(p, '.'); i > 0; i = strings.LastIndexByte(p[:i], '.') {
			h.parent[p[:i]] = true
		}
	}
	return h
}

// Covers reports whether path is honoured.
func (h Honours) Covers(path string) bool {
	if h.exact["*"] || h.parent[path] {
		return true
	}
	for {
		if h.exact[path] {
			return true
		}
		i := strings.LastIndexByte(path, '.')
		if i < 0 {
			return false
		}
		path = path[:i]
	}
}

// Refused returns the members that h does not cover, sorted, with only the shortest path of each subtree.
func (h Honours) Refused(m Members) []string {
	var out []string
	for p := range m {
		if h.Covers(p) {
			continue
		}
		if i := strings.LastIndexByte(p, '.'); i >= 0 && !h.Covers(p[:i]) {
			continue // its container is already refused
		}
		out = append(out, p)
	}
	sort.Strings(out)
	return out
}
