package model

import (
	"embed"
	"fmt"
	"io/fs"
	"sort"
	"strings"
	"sync"
)

//go:embed data/*.jsonl
var data embed.FS

// loaders holds one lazy parse per model; packages maps SDK package names to
// model names. Both are fixed after the first use.
var (
	loaders = sync.OnceValue(newLoaders)
	// packageOf lists the services whose SDK package has another name than
	// their model.
	packageOf = map[string]string{
		"elb":                  "elasticloadbalancing",
		"elbv2":                "elasticloadbalancingv2",
		"events":               "eventbridge",
		"logs":                 "cloudwatchlogs",
		"ecr-public":           "ecrpublic",
		"ec2-instance-connect": "ec2instanceconnect",
		"eks-auth":             "eksauth",
		"service-quotas":       "servicequotas",
	}
)

// PackageOf returns the name of a model's package in aws-sdk-go-v2.
func PackageOf(name string) string {
	if p, ok := packageOf[name]; ok {
		return p
	}
	return name
}

func newLoaders() map[string]func() (*Service, error) {
	out := map[string]func() (*Service, error){}
	files, _ := fs.Glob(data, "data/*.jsonl") // the pattern is well-formed
	for _, f := range files {
		name := strings.TrimSuffix(strings.TrimPrefix(f, "data/"), ".jsonl")
		load := sync.OnceValues(func() (*Service, error) {
			b, err := data.ReadFile(f)
			if err != nil {
				return nil, err
			}
			return Parse(b)
		})
		out[name] = load
		out[PackageOf(name)] = load
	}
	return out
}

// Names lists the models, sorted.
func Names() []string {
	var out []string
	for name := range loaders() {
		if _, err := fs.Stat(data, "data/"+name+".jsonl"); err == nil {
			out = append(out, name)
		}
	}
	sort.Strings(out)
	return out
}

// Get returns the model of a service by its model's name or its SDK package's
// name, parsing it on first use.
func Get(name string) (*Service, error) {
	load, ok := loaders()[name]
	if !ok {
		return nil, fmt.Errorf("no API model %q", name)
	}
	return load()
}

// Source returns the compact text of a model, by the model's name.
func Source(name string) ([]byte, error) {
	return data.ReadFile("data/" + name + ".jsonl")
}
