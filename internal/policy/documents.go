package policy

import "sync"

// maxDocuments bounds a Documents; when it is full it forgets everything.
const maxDocuments = 1024

// Documents caches parsed resource policies by their text. The zero value is empty and
// ready to use.
type Documents struct {
	mu   sync.Mutex
	docs map[string]*Document
}

// Get returns the parsed form of a policy. A text that cannot be parsed becomes a policy that allows nothing.
func (d *Documents) Get(text string) *Document {
	d.mu.Lock()
	defer d.mu.Unlock()
	if doc, ok := d.docs[text]; ok {
		return doc
	}
	doc, err := Parse(Key, text) // the most permissive grammar of resource policies: the service checked its own when it stored the text
	if err != nil {
		doc = &Document{}
	}
	if d.docs == nil || len(d.docs) >= maxDocuments {
		d.docs = map[string]*Document{}
	}
	d.docs[text] = doc
	return doc
}
