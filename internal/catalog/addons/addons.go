// Package addons is the catalogue of EKS add-ons: their versions per Kubernetes
// release, what of them can be configured, and the Kubernetes objects each consists
// of. It makes objects and applies none. Any package may import it.
package addons

import (
	_ "embed"
	"fmt"
	"slices"
	"sync"

	"sigs.k8s.io/yaml"
)

//go:embed addons.yaml
var data []byte

// Namespace is where every add-on of the catalogue has its pods by default.
const Namespace = "kube-system"

// An AddOn is an add-on that EKS offers.
type AddOn struct {
	Name             string
	Type             string // networking, storage, …
	Publisher, Owner string // eks and aws, if not said
	// Manifests are the files with its objects.
	Manifests []string
	// ComputeTypes are where its pods run: ec2, fargate, …
	ComputeTypes []string
	// ServiceAccounts are those whose pods need rights in AWS.
	ServiceAccounts []ServiceAccount
	// RequiresIAMPermissions says that the add-on does nothing useful without
	// IAM permissions.
	RequiresIAMPermissions bool `json:"requiresIamPermissions"`
	// Movable says that it can be in another namespace than Namespace.
	Movable bool
	// Changes are the differences between EKS's objects and the manifests that all
	// versions share.
	Changes []Change
	// Pods and Settings are what configuration values can change.
	Pods     []Pods
	Settings []Setting
	// Refused are values of EKS's schema that change nothing here, by name and with
	// their schemas.
	Refused map[string]map[string]any
	// Versions are its versions, newest first.
	Versions []Version
}

// A ServiceAccount is an add-on's Kubernetes service account and the AWS-managed
// policies recommended for its role, path included.
type ServiceAccount struct {
	Name     string
	Policies []string
	// Needs are actions its pods do nothing useful without.
	Needs []string
}

// A Version is one version of an add-on.
type Version struct {
	Version string // v1.20.4-eksbuild.2
	// Kubernetes are the releases it runs on, DefaultFor those for which it is
	// the version of an add-on that names none.
	Kubernetes []string
	DefaultFor []string
	// Tags are the tags of its images that have a version of their own.
	Tags map[string]string
	// Changes are the differences between its objects and the manifests, which belong
	// to one version.
	Changes []Change
	// Without are the configuration values that only later versions have.
	Without []string
}

// A Change is a field in which objects differ from their manifest.
type Change struct {
	// Object is a KIND/NAME, Path as in a [Setting].
	Object, Path string
	// Value is what the field becomes; nothing: it is removed.
	Value any
	// Flag, of a list of arguments: NAME=VALUE takes the place of the argument NAME;
	// NAME alone removes it.
	Flag string
	// Drop, of a list of objects, are strings removed from the lists in those.
	Drop []string
}

var catalogue = sync.OnceValue(func() []AddOn {
	var all []AddOn
	if err := yaml.UnmarshalStrict(data, &all); err != nil {
		panic(fmt.Sprintf("addons: embedded data: %v", err)) // a broken build
	}
	for i := range all {
		a := &all[i]
		if a.Owner == "" {
			a.Publisher, a.Owner = "eks", "aws"
		}
		var pods []Setting
		for _, p := range a.Pods {
			pods = append(pods, p.settings()...)
		}
		a.Settings = append(pods, a.Settings...)
	}
	return all
})

// All returns the add-ons by name. Treat them as read-only.
func All() []AddOn { return catalogue() }

// Lookup returns the add-on with that name, or false if there is none.
func Lookup(name string) (*AddOn, bool) {
	all := catalogue()
	i := slices.IndexFunc(all, func(a AddOn) bool { return a.Name == name })
	if i < 0 {
		return nil, false
	}
	return &all[i], true
}

// Version returns a version of the add-on, or nil if there is none.
func (a *AddOn) Version(version string) *Version {
	return a.find(func(v *Version) bool { return v.Version == version })
}

// Default returns the default version for a Kubernetes release, nil if the
// add-on is not offered there.
func (a *AddOn) Default(kubernetes string) *Version {
	return a.find(func(v *Version) bool { return slices.Contains(v.DefaultFor, kubernetes) })
}

func (a *AddOn) find(match func(*Version) bool) *Version {
	for i := range a.Versions {
		if match(&a.Versions[i]) {
			return &a.Versions[i]
		}
	}
	return nil
}
