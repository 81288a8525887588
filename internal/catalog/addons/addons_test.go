package addons_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/catalog/eksversions"
)

func TestEveryVersionHasItsObjects(t *testing.T) {
	in := addons.Cluster{Name: "dev", Region: "eu-west-1", Endpoint: "https://x.gr7.eu-west-1.eks.amazonaws.com", DNSAddress: "10.100.0.10", VPCID: "vpc-1"}
	for _, a := range addons.All() {
		for _, v := range a.Versions {
			t.Run(a.Name+" "+v.Version, func(t *testing.T) {
				objects := a.Objects(&v, in)
				if len(objects) == 0 {
					t.Fatal("it has no objects")
				}
				seen, workloads := map[string]bool{}, map[string]bool{}
				for _, o := range a.Workloads() {
					workloads[o.GetAPIVersion()+" "+o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName()] = true
				}
				for _, o := range objects {
					id := o.GetKind() + " " + o.GetNamespace() + "/" + o.GetName()
					if seen[id] || o.GetName() == "" || o.GetAPIVersion() == "" {
						t.Errorf("%q is there twice or has no name", id)
					}
					seen[id] = true
					if o.GetKind() == "Deployment" || o.GetKind() == "DaemonSet" {
						if id := o.GetAPIVersion() + " " + id; !workloads[id] {
							t.Errorf("%q is no workload", id)
						} else {
							delete(workloads, id)
						}
					}
					raw, err := o.MarshalJSON()
					if err != nil {
						t.Fatal(err)
					}
					if i := strings.Index(string(raw), "${"); i >= 0 {
						t.Errorf("%s: not replaced: %.60s", id, raw[i:])
					}
				}
				if len(workloads) > 0 {
					t.Errorf("workloads that are no objects: %v", workloads)
				}
				for _, sa := range a.ServiceAccounts {
					if !seen["ServiceAccount kube-system/"+sa.Name] {
						t.Errorf("no service account %s", sa.Name)
					}
				}
			})
		}
	}
}

func TestEveryReleaseHasOneDefault(t *testing.T) {
	for _, a := range addons.All() {
		for _, k := range eksversions.All() {
			n := 0
			for _, v := range a.Versions {
				if slices.Contains(v.DefaultFor, k.Minor) {
					n++
					if !slices.Contains(v.Kubernetes, k.Minor) {
						t.Errorf("%s %s is the default of %s, for which it is not", a.Name, v.Version, k.Minor)
					}
				}
			}
			if n != 1 {
				t.Errorf("%s has %d defaults for %s", a.Name, n, k.Minor)
			}
		}
	}
}

func TestObjectsAreTheCallers(t *testing.T) {
	a, _ := addons.Lookup("coredns")
	first := a.Objects(&a.Versions[0], addons.Cluster{})
	first[0].SetName("changed")
	if again := a.Objects(&a.Versions[0], addons.Cluster{}); again[0].GetName() == "changed" {
		t.Error("a change to objects shows in the next ones")
	}
}

// A value of every type, and what of it must be found in the object.
var samples = map[string]struct{ value, found string }{
	"string":    {`sample`, "sample"},
	"integer":   {`7`, "7"},
	"object":    {`{nodeAffinity: {}}`, "nodeAffinity"},
	"objects":   {`[{key: sample}]`, "sample"},
	"strings":   {`{sample: yes it is}`, "yes it is"},
	"flag":      {`"true"`, "true"},
	"resources": {`{limits: {cpu: 123m}}`, "123m"},
}

func TestEverySettingChangesItsObject(t *testing.T) {
	for _, a := range addons.All() {
		for _, s := range a.Settings {
			t.Run(a.Name+" "+s.Value+" "+s.Object, func(t *testing.T) {
				names := strings.Split(s.Value, ".")
				text := strings.Join(names, ": {") + ": " + samples[s.Type].value + strings.Repeat("}", len(names)-1)
				values, err := addons.Parse(text)
				if err != nil {
					t.Fatal(err)
				}
				if wrong := a.Validate(values); len(wrong) > 0 {
					t.Fatalf("%s: %v", text, wrong)
				}
				objects := a.Objects(&a.Versions[0], addons.Cluster{})
				if err := a.Configure(objects, values.(map[string]any)); err != nil {
					t.Fatal(err)
				}
				before := a.Objects(&a.Versions[0], addons.Cluster{})
				for i, o := range objects {
					if o.GetKind()+"/"+o.GetName() != s.Object {
						continue
					}
					was, err1 := before[i].MarshalJSON()
					is, err2 := o.MarshalJSON()
					if err1 != nil || err2 != nil || string(was) == string(is) || !strings.Contains(string(is), samples[s.Type].found) {
						t.Errorf("%s changes nothing of %s: %v %v", text, s.Object, err1, err2)
					}
				}
			})
		}
	}
}
