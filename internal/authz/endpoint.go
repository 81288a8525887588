package authz

import (
	"sync"

	"github.com/drydock-dev/drydock/internal/policy"
)

// maxEndpointPolicies bounds the cache. When it is full, it is emptied.
const maxEndpointPolicies = 256

// endpointPolicies caches parsed documents by their text.
type endpointPolicies struct {
	mu   sync.Mutex
	docs map[string]*policy.Document
}

// nothing stands for a document that does not parse: it allows nothing.
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
