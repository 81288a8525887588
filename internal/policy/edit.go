package policy

import "encoding/json"

// WithStatement returns the text of a document with one more statement, which is JSON.
// Existing statements are kept. An empty document has none.
func WithStatement(document, statement string) (string, error) {
	var doc struct {
		Version   string          `json:",omitempty"`
		ID        string          `json:"Id,omitempty"`
		Statement json.RawMessage // one, or a list
	}
	var all []json.RawMessage
	if document == "" {
		doc.Version = "2012-10-17"
	} else if err := json.Unmarshal([]byte(document), &doc); err != nil {
		return "", err
	} else if json.Unmarshal(doc.Statement, &all) != nil {
		all = []json.RawMessage{doc.Statement}
	}
	var err error
	if doc.Statement, err = json.Marshal(append(all, json.RawMessage(statement))); err != nil {
		return "", err
	}
	out, err := json.Marshal(doc)
	return string(out), err
}
