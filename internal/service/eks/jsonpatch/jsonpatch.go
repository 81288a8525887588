// Package jsonpatch builds the JSON patches with which EKS's webhooks change pods. It does not
// apply patches.
package jsonpatch

import (
	"encoding/json"
	"strings"
)

// An Operation is one operation of a JSON patch.
type Operation struct {
	Op    string `json:"op"`
	Path  string `json:"path"`
	Value any    `json:"value"`
}

// Add adds a value or replaces an existing one.
func Add(path string, value any) Operation { return Operation{"add", path, value} }

// SetEntry sets an entry of a string map, which may be nil.
func SetEntry(path string, in *map[string]string, key, value string) Operation {
	if *in == nil {
		*in = map[string]string{key: value}
		return Add(path, map[string]string{key: value})
	}
	(*in)[key] = value
	return Add(path+"/"+strings.NewReplacer("~", "~0", "/", "~1").Replace(key), value)
}

// Encode encodes a patch. It returns nil if the patch changes nothing.
func Encode(ops []Operation, err error) ([]byte, error) {
	if err != nil || len(ops) == 0 {
		return nil, err
	}
	return json.Marshal(ops)
}
