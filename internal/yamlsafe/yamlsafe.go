// Package yamlsafe reads YAML that users wrote. Its parser, sigs.k8s.io/yaml, writes
// out what aliases stand for: 70 KB of text become gigabytes. This package counts
// first, and refuses what would become too much.
package yamlsafe

import (
	"bytes"
	"errors"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Limit is how many bytes a document with aliases may become.
const Limit = 1 << 20

const (
	// nodeCost is what a value costs beside its text.
	nodeCost = 16
	// maxDepth is how deep values may lie in each other, as deep as go-yaml lets them
	// without aliases.
	maxDepth = 10_000
	// maxError bounds the text of an error: the parser quotes what it cannot convert.
	maxError = 1 << 10
)

// ErrAliases refuses a document whose aliases stand for too much, or for themselves,
// with go-yaml's text for too many.
var ErrAliases = errors.New("yaml: document contains excessive aliasing")

// ToJSON converts a YAML document to JSON.
func ToJSON(doc []byte) ([]byte, error) { return convert(doc, yaml.YAMLToJSON) }

// ToJSONStrict is ToJSON that refuses the same key twice.
func ToJSONStrict(doc []byte) ([]byte, error) { return convert(doc, yaml.YAMLToJSONStrict) }

// Unmarshal decodes a YAML document by its JSON.
func Unmarshal(doc []byte, into any) error {
	if err := check(doc); err != nil {
		return err
	}
	return brief(yaml.Unmarshal(doc, into))
}

func convert(doc []byte, by func([]byte) ([]byte, error)) ([]byte, error) {
	if err := check(doc); err != nil {
		return nil, err
	}
	out, err := by(doc)
	return out, brief(err)
}

// brief cuts the text of a long error.
func brief(err error) error {
	if err == nil || len(err.Error()) <= maxError {
		return err
	}
	return errors.New(string(bytes.ToValidUTF8([]byte(err.Error()[:maxError]), nil)) + "...")
}

// check refuses a document whose aliases become too much.
func check(doc []byte) error {
	if !bytes.Contains(doc, []byte("*")) {
		return nil // no aliases, in whatever encoding
	}
	var root yamlv3.Node // which holds aliases as they are
	if err := yamlv3.Unmarshal(doc, &root); err != nil {
		return brief(err)
	}
	c := counter{sizes: map[*yamlv3.Node]size{}}
	if s := c.size(&root); c.aliases && (s.bytes > Limit || s.depth > maxDepth) {
		return ErrAliases
	}
	return nil
}

// A size is what becomes of a value.
type size struct{ bytes, depth int }

// tooMuch is what becomes of a value in itself.
var tooMuch = size{bytes: Limit + 1, depth: maxDepth + 1}

type counter struct {
	// sizes are those of values with an anchor.
	sizes   map[*yamlv3.Node]size
	aliases bool
}

func (c *counter) size(n *yamlv3.Node) size {
	if n.Kind == yamlv3.AliasNode {
		c.aliases = true
		n = n.Alias
	}
	if n.Anchor != "" {
		if s, ok := c.sizes[n]; ok {
			return s
		}
		c.sizes[n] = tooMuch // until it is known: what comes here again is within itself
	}
	s := size{bytes: nodeCost + len(n.Value)}
	for _, child := range n.Content {
		in := c.size(child)
		s.bytes = min(s.bytes+in.bytes, Limit+1) // never overflows
		s.depth = max(s.depth, in.depth+1)
	}
	if n.Anchor != "" {
		c.sizes[n] = s
	}
	return s
}
