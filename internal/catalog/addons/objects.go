package addons

import (
	"bytes"
	"embed"
	"errors"
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"
	"sync"

	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
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
	IPv6       bool // pods and services have IPv6 addresses
}

// Objects returns the objects of a version in a cluster. The caller may change them.
func (a *AddOn) Objects(v *Version, c Cluster) ([]*unstructured.Unstructured, error) {
	values := []string{
		"${registry}", Registry(c.Region),
		"${clusterName}", c.Name,
		"${region}", c.Region,
		"${endpoint}", c.Endpoint,
		"${dnsAddress}", c.DNSAddress,
		"${vpcId}", c.VPCID,
		"${ipFamily}", map[bool]string{false: "IPv4", true: "IPv6"}[c.IPv6],
		"${ipv4}", strconv.FormatBool(!c.IPv6),
		"${ipv6}", strconv.FormatBool(c.IPv6),
		"${version}", v.Version,
		"${appVersion}", strings.Split(v.Version, "-")[0],
	}
	for image, tag := range v.Tags {
		values = append(values, "${tag."+image+"}", tag)
	}
	out := objectsOf(strings.NewReplacer(values...), a.Manifests...)
	for _, c := range slices.Concat(a.Changes, v.Changes) {
		i := indexObject(out, c.Object)
		if i < 0 {
			return nil, fmt.Errorf("%s %s: there is no %s to change", a.Name, v.Version, c.Object)
		}
		if err := edit(out[i].Object, strings.Split(c.Path, "."), c.change); err != nil {
			return nil, fmt.Errorf("%s %s: %s: %w", a.Name, v.Version, c.Object, err)
		}
	}
	return out, nil
}

// IsAPI reports whether an object says that pods of the add-on serve a part of the Kubernetes API. If none does, discovery
// fails, and with it the deletion of every namespace.
func IsAPI(o *unstructured.Unstructured) bool { return o.GetKind() == "APIService" }

func (c Change) change(old any) (any, error) {
	list, _ := old.([]any)
	name, value, set := strings.Cut(c.Flag, "=")
	switch {
	case c.Flag != "" && set:
		return setFlag(list, name, value), nil
	case c.Flag != "":
		i := indexFlag(list, name)
		if i < 0 {
			return nil, fmt.Errorf("there is no argument %s", name)
		}
		return slices.Delete(list, i, i+1), nil
	case len(c.Drop) > 0:
		return without(list, c.Drop), nil
	}
	return runtime.DeepCopyJSONValue(c.Value), nil
}

// without removes strings from the lists in the items of a list, and items in which that leaves a list empty.
func without(list []any, dropped []string) []any {
	return slices.DeleteFunc(list, func(item any) bool {
		m, _ := item.(map[string]any)
		for k, v := range m {
			if texts, ok := v.([]any); ok {
				m[k] = slices.DeleteFunc(texts, func(t any) bool { s, ok := t.(string); return ok && slices.Contains(dropped, s) })
				if len(texts) > 0 && len(m[k].([]any)) == 0 {
					return true
				}
			}
		}
		return false
	})
}

// Move changes an add-on's objects so that they, and everything that refers to their namespace, are in another
// namespace. The first object returned is the namespace itself. A role binding for a role of Namespace stays there.
func Move(objects []*unstructured.Unstructured, namespace string) []*unstructured.Unstructured {
	if namespace == Namespace {
		return objects
	}
	for _, o := range objects {
		role, _, _ := unstructured.NestedString(o.Object, "roleRef", "name")
		stays := o.GetKind() == "RoleBinding" && indexObject(objects, "Role/"+role) < 0
		if o.GetNamespace() != "" && !stays {
			o.SetNamespace(namespace)
		}
		if service, ok, _ := unstructured.NestedMap(o.Object, "spec", "service"); ok && IsAPI(o) {
			service["namespace"] = namespace
			_ = unstructured.SetNestedMap(o.Object, service, "spec", "service") // spec is a map
		}
		subjects, _, _ := unstructured.NestedSlice(o.Object, "subjects")
		for _, s := range subjects {
			if m, ok := s.(map[string]any); ok && m["namespace"] == Namespace {
				m["namespace"] = namespace
			}
		}
		if len(subjects) > 0 {
			o.Object["subjects"] = subjects
		}
	}
	ns := &unstructured.Unstructured{Object: map[string]any{"apiVersion": "v1", "kind": "Namespace"}}
	ns.SetName(namespace)
	return append([]*unstructured.Unstructured{ns}, objects...)
}

// System returns the objects that every new cluster with networking has and that belong to no add-on: the storage
// class gp2, and the kinds of the VPC resource and network policy controllers that EKS runs.
func System() []*unstructured.Unstructured {
	return append(objectsOf(strings.NewReplacer(), "gp2", "network-resources"), ClusterNetworkPolicies()...)
}

// ClusterNetworkPolicies returns the kinds that the network policy controller adds to every cluster, if they are missing.
func ClusterNetworkPolicies() []*unstructured.Unstructured {
	return objectsOf(strings.NewReplacer(), "cluster-network-policies")
}

// Workloads returns the add-on's Deployments and DaemonSets in a namespace, as objects with only a kind, a namespace
// and a name. They are the same in all versions, whatever the configuration.
func (a *AddOn) Workloads(namespace string) []*unstructured.Unstructured {
	out := a.named(func(o *unstructured.Unstructured) bool {
		return o.GetKind() == "Deployment" || o.GetKind() == "DaemonSet"
	})
	for _, o := range out {
		o.SetNamespace(namespace)
	}
	return out
}

// HasAPIs reports whether the add-on has objects that are APIs.
func (a *AddOn) HasAPIs() bool { return len(a.named(IsAPI)) > 0 }

func (a *AddOn) named(which func(*unstructured.Unstructured) bool) []*unstructured.Unstructured {
	var out []*unstructured.Unstructured
	for _, m := range a.Manifests {
		for _, o := range parsed()[m] {
			if !which(o) {
				continue
			}
			named := &unstructured.Unstructured{Object: map[string]any{}}
			named.SetGroupVersionKind(o.GroupVersionKind())
			named.SetName(o.GetName())
			out = append(out, named)
		}
	}
	return out
}

func objectsOf(r *strings.Replacer, manifests ...string) []*unstructured.Unstructured {
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

// substitute replaces variables in the strings of a value in place. Whatever a replacement contains, it stays inside
// its string.
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
