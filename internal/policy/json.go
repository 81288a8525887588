package policy

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strings"
	"unicode/utf8"
)

// A node is a JSON value that keeps the order of its fields.
type node struct {
	kind       nodeKind
	start, end int    // isObject: offsets in the text
	text       string // isString: the string; isScalar: true, false or the number as written
	items      []node
	fields     []field
}

type field struct {
	name  string
	value node
}

func (n node) has(name string) bool {
	for _, f := range n.fields {
		if f.name == name {
			return true
		}
	}
	return false
}

type nodeKind int

const (
	isString nodeKind = iota
	isScalar
	isNull
	isArray
	isObject
)

var errJSON = errors.New("not the JSON of a policy")

// readJSON reads text as IAM does: strictly, and without duplicate keys, which would let two readers of one document
// see different policies.
func readJSON(text string) (node, error) {
	if len(text) > maxBytes || !utf8.ValidString(text) {
		return node{}, errJSON
	}
	dec := json.NewDecoder(strings.NewReader(text))
	dec.UseNumber()
	n, err := readNode(dec, 0)
	if err != nil {
		return node{}, err
	}
	if _, err := dec.Token(); !errors.Is(err, io.EOF) {
		return node{}, errJSON
	}
	return n, nil
}

func readNode(dec *json.Decoder, depth int) (node, error) {
	if depth > maxDepth {
		return node{}, errJSON
	}
	tok, err := dec.Token()
	if err != nil {
		return node{}, err
	}
	switch t := tok.(type) {
	case string:
		return node{kind: isString, text: t}, nil
	case json.Number:
		return node{kind: isScalar, text: t.String()}, nil
	case bool:
		return node{kind: isScalar, text: fmt.Sprint(t)}, nil
	case nil:
		return node{kind: isNull}, nil
	case json.Delim:
		if t == '[' {
			return readArray(dec, depth)
		}
		return readObject(dec, depth)
	}
	return node{}, errJSON
}

func readArray(dec *json.Decoder, depth int) (node, error) {
	n := node{kind: isArray}
	for dec.More() {
		item, err := readNode(dec, depth+1)
		if err != nil {
			return node{}, err
		}
		n.items = append(n.items, item)
	}
	_, err := dec.Token() // the closing bracket
	return n, err
}

func readObject(dec *json.Decoder, depth int) (node, error) {
	n := node{kind: isObject, start: int(dec.InputOffset()) - 1}
	seen := map[string]bool{}
	for dec.More() {
		tok, err := dec.Token()
		if err != nil {
			return node{}, err
		}
		name, ok := tok.(string)
		if !ok || seen[name] {
			return node{}, errJSON
		}
		seen[name] = true
		value, err := readNode(dec, depth+1)
		if err != nil {
			return node{}, err
		}
		n.fields = append(n.fields, field{name, value})
	}
	_, err := dec.Token() // the closing brace
	n.end = int(dec.InputOffset())
	return n, err
}

// locate records where the statements of doc are in text. As in IAM's simulator, a statement starts where whatever
// precedes it ends, including white space:
// https://docs.aws.amazon.com/cli/latest/reference/iam/simulate-principal-policy.html#examples
func locate(text string, root node, doc *Document) {
	for _, f := range root.fields {
		if f.name != "Statement" {
			continue
		}
		list := []node{f.value}
		if f.value.kind == isArray {
			list = f.value.items
		}
		at, pos := 0, Position{Line: 1, Column: 1}
		advance := func(to int) Position {
			for ; at < to; at++ {
				pos.Column++
				if text[at] == '\n' {
					pos = Position{Line: pos.Line + 1, Column: 1}
				}
			}
			return pos
		}
		for i := range list {
			doc.Statements[i].start = advance(len(strings.TrimRight(text[:list[i].start], " \t\r\n")))
			doc.Statements[i].end = advance(list[i].end)
		}
	}
}
