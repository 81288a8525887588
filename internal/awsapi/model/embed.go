package model

import (
	"bytes"
	"cmp"
	"embed"
	"encoding/json"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"sync"
)

//go:embed data/*.jsonl
var data embed.FS

// heads are the first lines of the models, which contain each service's names. The rest of a model is parsed when it
// is first needed (loaders).
var heads = sync.OnceValue(func() []MetadataRecord {
	files, _ := fs.Glob(data, "data/*.jsonl") // sorted; the pattern is valid
	out := make([]MetadataRecord, 0, len(files))
	for _, f := range files {
		b, err := data.ReadFile(f)
		if err != nil {
			panic(err) // it is embedded
		}
		line, _, _ := bytes.Cut(b, []byte("\n"))
		var rec Record
		if err := json.Unmarshal(line, &rec); err != nil || rec.Metadata == nil {
			panic(fmt.Sprintf("%s does not begin with its metadata: %v", f, err))
		}
		out = append(out, *rec.Metadata)
	}
	return out
})

// loaders holds one lazy parse per model, under the model's name and its SDK package's.
var loaders = sync.OnceValue(func() map[string]func() (*Service, error) {
	out := map[string]func() (*Service, error){}
	for _, h := range heads() {
		load := sync.OnceValues(func() (*Service, error) {
			b, err := Source(h.Name)
			if err != nil {
				return nil, err
			}
			return Parse(b)
		})
		out[h.Name], out[h.Package] = load, load
	}
	return out
})

// Name returns the name of a model, given that name or the name of its SDK package, or false if no model matches.
func Name(name string) (string, bool) {
	h, ok := headsByName()[name]
	return h.Name, ok
}

// headsByName holds each head under the model's name and its SDK package's.
var headsByName = sync.OnceValue(func() map[string]MetadataRecord {
	out := map[string]MetadataRecord{}
	for _, h := range heads() {
		out[h.Name], out[h.Package] = h, h
	}
	return out
})

// Names lists the models, sorted.
func Names() []string {
	var out []string
	for _, h := range heads() {
		out = append(out, h.Name)
	}
	slices.Sort(out) // names sort differently from files: "eks-auth.jsonl" comes before "eks.jsonl"
	return out
}

// BySigningName returns the names of the models whose requests carry a service name in their credential scope, the
// newest API first. Elastic Load Balancing has two.
func BySigningName(name string) []string {
	var found []MetadataRecord
	for _, h := range heads() {
		if h.signingName() == name {
			found = append(found, h)
		}
	}
	slices.SortStableFunc(found, func(a, b MetadataRecord) int { return strings.Compare(b.APIVersion, a.APIVersion) })
	var out []string
	for _, h := range found {
		out = append(out, h.Name)
	}
	return out
}

// SigningName returns the service name in the credential scope of requests to a service, which is given by its model
// name or its SDK package name. It returns false if there is no such model.
func SigningName(service string) (string, bool) {
	h, ok := headsByName()[service]
	return h.signingName(), ok
}

func (m *MetadataRecord) signingName() string { return cmp.Or(m.SigningName, m.EndpointPrefix) }

// Get returns the model of a service by its model name or its SDK package name and parses it on first use.
func Get(name string) (*Service, error) {
	load, ok := loaders()[name]
	if !ok {
		return nil, fmt.Errorf("no API model %q", name)
	}
	return load()
}

// Source returns the compact text of a model by the model's name.
func Source(name string) ([]byte, error) {
	return data.ReadFile("data/" + name + ".jsonl")
}
