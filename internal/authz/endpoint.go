package authz

import (
	"sync"

	"github.com/drydock-dev/drydock/internal/policy"
)

// maxEndpointPolicies bounds the cache; when it is full it forgets everything.
const maxEndpointPolicies = 256

// endpointPolicies are parsed documents by their texts.
type endpointPolicies struct {
	mu   sync.Mutex
	docs map[string]*policy.Document
}

// nothing is what a document that does not parse allows.
var nothing = &policy.Document{}

func (e *endpointPolicies) get(text string) *policy.Document {
	e.mu.Lock()
	defer e.mu.Unlock()
	if doc, ok := e.docs[text]; ok {
		return doc
	}
	doc, err := policy.Parse(policy.Endpoint, text)
	if err != nil {
		doc = nothing
	}
	if e.docs == nil || len(e.docs) >= maxEndpointPolicies {
		e.docs = map[string]*policy.Document{}
	}
	e.docs[text] = doc
	return doc
}
