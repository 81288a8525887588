package addons

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	utilyaml "k8s.io/apimachinery/pkg/util/yaml"
)

//go:embed manifests/*.yaml
var files embed.FS

// A Cluster is what the objects of an add-on depend on besides its version.
type Cluster struct {
	Name     string
	Region   string
	Endpoint string // https://0123….gr7.us-east-1.eks.amazonaws.com
	// DNSAddress is the cluster IP of the service kube-dns.
	DNSAddress string
	VPCID      string
}

// Objects returns the objects of a version in a cluster. They are the caller's.
func (a *AddOn) Objects(v *Version, c Cluster) []*unstructured.Unstructured {
	values := []string{
		"${registry}", Registry(c.Region),
		"${clusterName}", c.Name,
		"${region}", c.Region,
		"${endpoint}", c.Endpoint,
		"${dnsAddress}", c.DNSAddress,
		"${vpcId}", c.VPCID,
		"${version}", v.Version,
		"${appVersion}", strings.Split(v.Version, "-")[0],
	}
	for image, tag := range v.Tags {
		values = append(values, "${tag."+image+"}", tag)
	}
	return objects(strings.NewReplacer(values...), a.Manifests...)
}

// System returns the objects that every cluster with networking is born with and
// no add-on owns: the storage class gp2, and the kinds of the VPC resource and
// network policy controllers that EKS runs.
func System() []*unstructured.Unstructured {
	return objects(strings.NewReplacer(), "gp2", "network-resources")
}

// Workloads names the Deployments and DaemonSets of the add-on, which are the same in
// all its versions whatever their configuration: objects of a kind, a namespace and a
// name.
func (a *AddOn) Workloads() []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, m := range a.Manifests {
		for _, o := range parsed()[m] {
			if o.GetKind() != "Deployment" && o.GetKind() != "DaemonSet" {
				continue
			}
			named := &unstructured.Unstructured{Object: map[string]any{}}
			named.SetGroupVersionKind(o.GroupVersionKind())
			named.SetNamespace(o.GetNamespace())
			named.SetName(o.GetName())
			out = append(out, named)
		}
	}
	return out
}

func objects(r *strings.Replacer, manifests ...string) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, m := range manifests {
		for _, o := range parsed()[m] {
			o = o.DeepCopy()
			for k, v := range o.Object {
				o.Object[k] = substitute(r, v)
			}
			out = append(out, o)
		}
	}
	return out
}

// substitute replaces variables in the strings of a value, which it changes. A
// value put in stays inside its string, whatever it contains.
func substitute(r *strings.Replacer, v any) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			v[k] = substitute(r, e)
		}
	case []any:
		for i, e := range v {
			v[i] = substitute(r, e)
		}
	case string:
		if strings.Contains(v, "${") {
			return r.Replace(v)
		}
	}
	return v
}

// parsed are the embedded manifests by name.
var parsed = sync.OnceValue(func() map[string][]*unstructured.Unstructured {
	out := map[string][]*unstructured.Unstructured{}
	entries, err := files.ReadDir("manifests")
	if err == nil {
		for _, e := range entries {
			var objects []*unstructured.Unstructured
			objects, err = parse(e.Name())
			if err != nil {
				break
			}
			out[strings.TrimSuffix(e.Name(), ".yaml")] = objects
		}
	}
	if err != nil {
		panic(fmt.Sprintf("addons: embedded manifests: %v", err)) // a broken build
	}
	return out
})

func parse(file string) ([]*unstructured.Unstructured, error) {
	raw, err := files.ReadFile("manifests/" + file)
	if err != nil {
		return nil, err
	}
	var out []*unstructured.Unstructured
	for d := utilyaml.NewYAMLOrJSONDecoder(bytes.NewReader(raw), 4096); ; {
		o := &unstructured.Unstructured{}
		switch err := d.Decode(o); {
		case errors.Is(err, io.EOF):
			return out, nil
		case err != nil:
			return nil, fmt.Errorf("%s: %w", file, err)
		case len(o.Object) > 0:
			out = append(out, o)
		}
	}
}
