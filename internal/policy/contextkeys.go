package policy

import (
	"slices"
	"strings"
)

// ContextKeys lists the condition keys that documents use, in conditions and as variables, spelled as in their first
// use, sorted. It is the answer of GetContextKeysForPrincipalPolicy.
// https://docs.aws.amazon.com/IAM/latest/APIReference/API_GetContextKeysForPrincipalPolicy.html
func ContextKeys(docs ...*Document) []string {
	seen := map[string]bool{}
	var out []string
	add := func(key string) {
		if k := strings.ToLower(key); key != "" && !seen[k] {
			seen[k] = true
			out = append(out, key)
		}
	}
	for _, doc := range docs {
		doc = doc.ready()
		for i := range doc.Statements {
			s := &doc.Statements[i]
			for _, r := range s.resources {
				r.eachKey(add)
			}
			for j, t := range s.tests {
				add(s.Conditions[j].Key)
				for _, w := range t.wants {
					w.eachKey(add)
				}
			}
		}
	}
	slices.Sort(out)
	return out
}

// MissingKeys lists the condition keys that documents use and that values, by keys in lower case, does not contain:
// the simulator's MissingContextValues. https://docs.aws.amazon.com/IAM/latest/APIReference/API_EvaluationResult.html
func MissingKeys(values map[string][]string, docs ...*Document) []string {
	return slices.DeleteFunc(ContextKeys(docs...), func(key string) bool {
		_, ok := values[strings.ToLower(key)]
		return ok
	})
}

func (t *template) eachKey(visit func(key string)) {
	for _, v := range t.vars {
		visit(v.name)
	}
}
