// Package accesspolicies is the catalogue of EKS access policies and what each allows inside a cluster. It decides
// single requests against one policy; the eks service knows which principal has which policy with which scope. Any
// package may import it.
package accesspolicies

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"

	authzv1 "k8s.io/api/authorization/v1"
)

//go:embed policies.jsonl
var data []byte

const arnPrefix = "arn:aws:eks::aws:cluster-access-policy/"

// A Policy is an access policy.
type Policy struct {
	Name string `json:"name"`
	// ServiceLinked policies cannot be associated by customers; EKS gives them
	// to its service-linked role.
	ServiceLinked bool `json:"serviceLinked"`
	// Unpublished says why the rules are not complete, for a policy whose permissions are not published. It is empty for others.
	Unpublished string `json:"unpublished"`
	Rules       []Rule `json:"rules"`
}

// A Rule allows verbs on resources or on non-resource URLs, in the words of
// Kubernetes RBAC. An API group such as *.services.k8s.aws stands for all groups with that end.
type Rule struct {
	APIGroups       []string `json:"apiGroups"`
	Resources       []string `json:"resources"`
	ResourceNames   []string `json:"resourceNames"`
	NonResourceURLs []string `json:"nonResourceURLs"`
	Verbs           []string `json:"verbs"`
}

var catalogue = sync.OnceValue(func() []Policy {
	var out []Policy
	for line := range bytes.Lines(data) {
		var p Policy
		if err := json.Unmarshal(line, &p); err != nil {
			panic(fmt.Sprintf("accesspolicies: embedded data: %v", err)) // a broken build
		}
		out = append(out, p)
	}
	return out
})

// ARN is the policy's ARN.
func (p Policy) ARN() string { return arnPrefix + p.Name }

// ARN is the ARN of the policy with that name.
func ARN(name string) string { return arnPrefix + name }

// All returns the policies sorted by name. Treat them as read-only.
func All() []Policy { return catalogue() }

// ByARN returns the policy with that ARN, or false if there is none.
func ByARN(arn string) (Policy, bool) {
	name, ok := strings.CutPrefix(arn, arnPrefix)
	if !ok {
		return Policy{}, false
	}
	i := slices.IndexFunc(catalogue(), func(p Policy) bool { return p.Name == name })
	if i < 0 {
		return Policy{}, false
	}
	return catalogue()[i], true
}

// AllowsResource reports whether p, with cluster scope, allows the request. The caller restricts it to namespaces.
func (p Policy) AllowsResource(a *authzv1.ResourceAttributes) bool {
	resource := a.Resource
	if a.Subresource != "" {
		resource += "/" + a.Subresource
	}
	for _, r := range p.Rules {
		if has(r.Verbs, a.Verb) && r.hasGroup(a.Group) && r.hasResource(resource, a.Subresource) &&
			(len(r.ResourceNames) == 0 || slices.Contains(r.ResourceNames, a.Name)) {
			return true
		}
	}
	return false
}

// AllowsNonResource reports whether p, with cluster scope, allows the request.
func (p Policy) AllowsNonResource(a *authzv1.NonResourceAttributes) bool {
	for _, r := range p.Rules {
		if !has(r.Verbs, a.Verb) {
			continue
		}
		for _, u := range r.NonResourceURLs {
			if prefix, ok := strings.CutSuffix(u, "*"); u == a.Path || ok && strings.HasPrefix(a.Path, prefix) {
				return true
			}
		}
	}
	return false
}

func (r Rule) hasGroup(group string) bool {
	return slices.ContainsFunc(r.APIGroups, func(g string) bool {
		end, ok := strings.CutPrefix(g, "*")
		return g == group || ok && strings.HasSuffix(group, end)
	})
}

func (r Rule) hasResource(resource, sub string) bool {
	return has(r.Resources, resource) || sub != "" && slices.Contains(r.Resources, "*/"+sub)
}

func has(list []string, s string) bool { return slices.Contains(list, s) || slices.Contains(list, "*") }
