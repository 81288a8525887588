// Package yamlsafe reads YAML that users wrote. Its parser, sigs.k8s.io/yaml, expands aliases, which can turn 70 KB
// of text into gigabytes. This package first computes the size and rejects what would become too large.
package yamlsafe

import (
	"bytes"
	"errors"

	yamlv3 "go.yaml.in/yaml/v3"
	"sigs.k8s.io/yaml"
)

// Limit is the maximum size in bytes of a document with its aliases expanded.
const Limit = 1 << 20

const (
	// nodeCost is the cost of a value besides its text.
	nodeCost = 16
	// maxDepth is how deeply values may nest. It is the depth that go-yaml allows without aliases.
	maxDepth = 10_000
	// maxError bounds the text of an error, because the parser quotes what it cannot convert.
	maxError = 1 << 10
)

// ErrAliases rejects a document whose aliases expand to too much or to themselves. Its text is go-yaml's for too many
// aliases.
var ErrAliases = errors.New("yaml: document contains excessive aliasing")

// ToJSON converts a YAML document to JSON.
func ToJSON(doc []byte) ([]byte, error) { return convert(doc, yaml.YAMLToJSON) }

// ToJSONStrict is ToJSON that rejects duplicate keys.
func ToJSONStrict(doc []byte) ([]byte, error) { return convert(doc, yaml.YAMLToJSONStrict) }

// Unmarshal decodes a YAML document through JSON.
func Unmarshal(doc []byte, into any) error {
	if err := check(doc); err != nil {
		return err
	}
	return brief(yaml.Unmarshal(doc, into))
}

// Parse returns a document's nodes: aliases as they are, tags as they were written.
func Parse(doc []byte) (*yamlv3.Node, error) {
	if err := check(doc); err != nil {
		return nil, err
	}
	var root yamlv3.Node
	return &root, brief(yamlv3.Unmarshal(doc, &root))
}

func convert(doc []byte, by func([]byte) ([]byte, error)) ([]byte, error) {
	if err := check(doc); err != nil {
		return nil, err
	}
	out, err := by(doc)
	return out, brief(err)
}

// brief truncates the text of a long error.
func brief(err error) error {
	if err == nil || len(err.Error()) <= maxError {
		return err
	}
	return errors.New(string(bytes.ToValidUTF8([]byte(err.Error()[:maxError]), nil)) + "...")
}

// check rejects a document whose aliases expand to too much.
func check(doc []byte) error {
	if !bytes.Contains(doc, []byte("*")) {
		return nil // there are no aliases, in any encoding
	}
	var root yamlv3.Node // which keeps aliases unexpanded
	if err := yamlv3.Unmarshal(doc, &root); err != nil {
		return brief(err)
	}
	c := counter{sizes: map[*yamlv3.Node]size{}}
	if s := c.size(&root); c.aliases && (s.bytes > Limit || s.depth > maxDepth) {
		return ErrAliases
	}
	return nil
}

// A size is the expanded size of a value.
type size struct{ bytes, depth int }

// tooMuch is the size of a value that contains itself.
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
		c.sizes[n] = tooMuch // until the size is known: a reference to it from here is inside the value itself
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
