package authz

import (
	"embed"
	"maps"
	"slices"
	"strconv"
	"strings"
	"sync"
)

//go:embed data/*.txt
var data embed.FS

// A Reference is the authorization reference of one IAM prefix. It is shared and must not be changed.
type Reference struct {
	Prefix  string
	Actions map[string]*Action // by name in lower case
	Types   map[string]*ResourceType
	Names   map[string]string // condition keys as AWS writes them, by their names in lower case
}

// An Action is a row of the reference.
type Action struct {
	Name   string
	Access string // Read, List, Write, Tagging, Permissions management
	// Keys are the condition keys that the action has on every resource, in lower case.
	Keys []string
	// Types are the resource types that it touches.
	Types []ActionType
}

// An ActionType is a resource type of an action.
type ActionType struct {
	Name     string
	Required bool
	Keys     []string // condition keys on this resource, in lower case
}

// A ResourceType is a kind of resource.
type ResourceType struct {
	Name string
	ARN  string // arn:${Partition}:ec2:${Region}:${Account}:vpc/${VpcId}
	Keys []string
}

// loaders holds one lazy parse per prefix.
var loaders = sync.OnceValue(func() map[string]func() *Reference {
	out := map[string]func() *Reference{}
	files, _ := data.ReadDir("data") // embedded
	for _, f := range files {
		prefix := strings.TrimSuffix(f.Name(), ".txt")
		out[prefix] = sync.OnceValue(func() *Reference {
			b, _ := data.ReadFile("data/" + f.Name()) // embedded
			return parseReference(prefix, string(b))
		})
	}
	return out
})

// Prefixes returns the IAM prefixes that have a reference.
func Prefixes() []string { return slices.Sorted(maps.Keys(loaders())) }

// ReferenceOf returns the reference of an IAM prefix.
func ReferenceOf(prefix string) (*Reference, bool) {
	load, ok := loaders()[prefix]
	if !ok {
		return nil, false
	}
	return load(), true
}

// ActionOf returns the reference's row for an action such as ec2:RunInstances, and the reference that contains it.
func ActionOf(action string) (*Action, *Reference, bool) {
	prefix, name := split(action)
	ref, ok := ReferenceOf(strings.ToLower(prefix))
	if !ok {
		return nil, nil, false
	}
	act, ok := ref.Actions[strings.ToLower(name)]
	return act, ref, ok
}

// parseReference reads what tools/authgen writes.
func parseReference(prefix, text string) *Reference {
	ref := &Reference{Prefix: prefix, Actions: map[string]*Action{}, Types: map[string]*ResourceType{}, Names: map[string]string{}}
	var keys []string
	numbered := func(list string) []string {
		var out []string
		for n := range strings.FieldsSeq(list) {
			if i, err := strconv.Atoi(n); err == nil && i < len(keys) {
				out = append(out, keys[i])
			}
		}
		return out
	}
	var action *Action
	for line := range strings.Lines(text) {
		f := append(strings.Split(strings.TrimSuffix(line, "\n"), "\t"), "", "", "")
		switch f[0] {
		case "K":
			key := strings.ToLower(f[2])
			keys = append(keys, key)
			ref.Names[key] = f[2]
		case "R":
			ref.Types[f[1]] = &ResourceType{Name: f[1], ARN: f[2], Keys: numbered(f[3])}
		case "A":
			action = &Action{Name: f[1], Access: f[2], Keys: numbered(f[3])}
			ref.Actions[strings.ToLower(f[1])] = action
		case "T":
			name, required := strings.CutSuffix(f[1], "*")
			action.Types = append(action.Types, ActionType{Name: name, Required: required, Keys: numbered(f[2])})
		}
	}
	return ref
}

// has reports whether a list of the reference contains key. ${TagKey} and other variables in its names match
// anything.
func has(list []string, key string) bool {
	for _, k := range list {
		if k == key {
			return true
		}
		if i := strings.Index(k, "${"); i > 0 && strings.HasPrefix(key, k[:i]) && len(key) > i {
			return true
		}
	}
	return false
}
