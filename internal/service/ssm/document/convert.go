package document

import (
	"bytes"
	"encoding/json"

	"go.yaml.in/yaml/v3"

	"github.com/drydock-dev/drydock/internal/yamlsafe"
)

// Convert returns the content of a valid document in the other format, JSON or YAML.
func Convert(content, format string) (string, error) {
	var out bytes.Buffer
	if format == "JSON" {
		text, err := yamlsafe.ToJSON([]byte(content))
		if err == nil {
			err = json.Indent(&out, text, "", "  ")
		}
		return out.String(), err
	}
	var n yaml.Node // JSON is YAML, and a node keeps the order of its keys
	if err := yaml.Unmarshal([]byte(content), &n); err != nil {
		return "", err
	}
	block(&n)
	enc := yaml.NewEncoder(&out)
	enc.SetIndent(2)
	if err := enc.Encode(&n); err != nil {
		return "", err
	}
	return out.String(), nil
}

// block makes a node's lists and maps multi-line, and leaves quotes to the encoder.
func block(n *yaml.Node) {
	n.Style = 0
	for _, c := range n.Content {
		block(c)
	}
}
