// Package addons is the catalogue of EKS add-ons: their versions per Kubernetes release, their configuration options,
// and the Kubernetes objects that each consists of. It builds objects but does not apply them. Any package may import
// it.
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

// Namespace is the default namespace for the pods of every add-on in the catalogue.
const Namespace = "kube-system"

// An AddOn is an add-on that EKS offers.
type AddOn struct {
	Name             string
	Type             string // networking, storage, …
	Publisher, Owner string // eks and aws by default
	// Manifests are the files with its objects.
	Manifests []string
	// ComputeTypes are where its pods run: ec2, fargate, …
	ComputeTypes []string
	// ServiceAccounts are the service accounts whose pods need permissions in AWS.
	ServiceAccounts []ServiceAccount
	// RequiresIAMPermissions says that the add-on is useless without IAM permissions.
	RequiresIAMPermissions bool `json:"requiresIamPermissions"`
	// Movable says that it can be in another namespace than Namespace.
	Movable bool
	// Changes are the differences between EKS's objects and the manifests, for all versions.
	Changes []Change
	// Pods and Settings are what configuration values can change.
	Pods     []Pods
	Settings []Setting
	// Refused are values of EKS's schema that have no effect here, by name, with their schemas.
	Refused map[string]map[string]any
	// Versions are the add-on's versions, newest first.
	Versions []Version
}

// A ServiceAccount is an add-on's Kubernetes service account and the AWS-managed policies recommended for its role,
// including their paths.
type ServiceAccount struct {
	Name     string
	Policies []string
	// Needs are the actions without which its pods are useless.
	Needs []string
}

// A Version is one version of an add-on.
type Version struct {
	Version string // v1.20.4-eksbuild.2
	// Kubernetes are the releases it runs on. DefaultFor are those for which it is the default version.
	Kubernetes []string
	DefaultFor []string
	// Tags are the tags of those images that have their own versions.
	Tags map[string]string
	// Changes are the differences between its objects and the manifests that are specific to this version.
	Changes []Change
	// Without are the configuration values that only later versions have.
	Without []string
}

// A Change is a field in which objects differ from their manifest.
type Change struct {
	// Object is a KIND/NAME, Path as in a [Setting].
	Object, Path string
	// Value is the new value of the field; nil removes the field.
	Value any
	// Flag applies to a list of arguments: NAME=VALUE replaces the argument NAME; NAME alone removes it.
	Flag string
	// Drop applies to a list of objects: it removes these strings from the lists in them.
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

// All returns the add-ons sorted by name. Treat them as read-only.
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

// Default returns the default version for a Kubernetes release, or nil if the add-on is not offered there.
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
