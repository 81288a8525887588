// Package images is the catalogue of Amazon's public machine images that Drydock knows: the EKS-optimised ones
// (Amazon Linux 2 up to Kubernetes 1.32, Amazon Linux 2023, Bottlerocket) and plain operating systems, with the
// public SSM parameters that refer to them. Image IDs are invented, but never change in a region; names have AWS's
// form. Any package may import it.
package images

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/regions"
)

// KubernetesVersions maps a Kubernetes minor to the patch release of its images' kubelet. It is the only such table
// of the images.
func KubernetesVersions() map[string]string {
	return map[string]string{
		"1.29": "1.29.15",
		"1.30": "1.30.14",
		"1.31": "1.31.14",
		"1.32": "1.32.11",
		"1.33": "1.33.8",
		"1.34": "1.34.4",
		"1.35": "1.35.2",
		"1.36": "1.36.1",
	}
}

// releases are the dates of the EKS-optimised images, oldest first, and the Bottlerocket release of that time. The
// last is the recommended one; the others can still be launched, so that a node group can be outdated.
func releases() []release {
	return []release{{"20260709", "1.46.0", "9c1f2b6a"}, {"20260917", "1.48.0", "5e07c2d4"}}
}

type release struct{ date, bottlerocket, build string }

// A Family is the operating system of an image, which determines how its user data is read and how a node joins.
type Family string

// The families.
const (
	AL2          Family = "al2"
	AL2023       Family = "al2023"
	Bottlerocket Family = "bottlerocket"
	Ubuntu       Family = "ubuntu"
)

// Owners of the images.
const (
	OwnerEKS    = "602401143452" // EKS-optimised Amazon Linux
	OwnerAmazon = "137112412989" // Amazon Linux
	OwnerBR     = "092701018921" // Bottlerocket
	OwnerUbuntu = "099720109477" // Canonical
)

// An Image is one machine image in one region.
type Image struct {
	ID           string
	Region       string
	Name         string
	Description  string
	OwnerID      string
	OwnerAlias   string // "amazon", or empty
	Architecture string // x86_64, arm64
	Family       Family
	Variant      string // standard, nvidia, neuron; gpu for AL2
	// KubernetesVersion is the minor of an EKS-optimised image: 1.36. It is empty for a plain operating system, which
	// does not join a cluster.
	KubernetesVersion string
	KubeletVersion    string // 1.36.1
	// ReleaseVersion is EKS's name for the release: 1.36.1-20260917, or 1.48.0-0a1b2c3d for Bottlerocket.
	ReleaseVersion string
	Created        time.Time
	RootDevice     string
	Devices        []Device
	// Base is the name of the catalogue image that a user's image derives from. It is empty for catalogue images.
	Base string
}

// BaseName returns the name of the catalogue image with the same operating system.
func (i Image) BaseName() string { return cmp.Or(i.Base, i.Name) }

// A Device is a block device in an image's mapping. Only users' images set the last five fields.
type Device struct {
	Name      string
	SizeGiB   int32
	Type      string // gp2, gp3
	Encrypted bool

	IOPS, Throughput     int32
	KMSKeyID, SnapshotID string
	Keep                 bool // the volume outlives its instance
}

// A Parameter is a public SSM parameter.
type Parameter struct {
	Name, Value string
	Modified    time.Time
	// DataType is aws:ec2:image for image IDs, and text otherwise.
	DataType string
}

type region struct {
	name   string
	images []Image
	byID   map[string]int
	byName map[string]int
	params []Parameter // sorted by name
}

// catalogue holds each region's images, built when first needed.
var catalogue = sync.OnceValue(func() map[string]func() *region {
	out := map[string]func() *region{}
	for _, r := range regions.All() {
		out[r.Name] = sync.OnceValue(func() *region { return build(r.Name) })
	}
	return out
})

func load(name string) *region {
	if f, ok := catalogue()[name]; ok {
		return f()
	}
	return &region{} // there is no such region, so there are no images
}

// All returns the images of a region, newest first. Treat it as read-only.
func All(regionName string) []Image { return load(regionName).images }

// ByID returns the region's image with that ID, or false if there is none.
func ByID(regionName, id string) (Image, bool) {
	r := load(regionName)
	i, ok := r.byID[id]
	if !ok {
		return Image{}, false
	}
	return r.images[i], true
}

// ByName returns the region's image with that name, or false if there is none. Without the release ("-v20260917") the
// name means the newest one. It may also be the name of a public SSM parameter that holds an image ID.
func ByName(regionName, name string) (Image, bool) {
	r := load(regionName)
	if i, ok := r.byName[name]; ok {
		return r.images[i], true
	}
	if p, ok := ParameterByName(regionName, name); ok && p.DataType == "aws:ec2:image" {
		return ByID(regionName, p.Value)
	}
	for _, img := range r.images {
		if strings.HasPrefix(img.Name, name+"-v") {
			return img, true // newest first
		}
	}
	return Image{}, false
}

// EKS returns the recommended EKS-optimised image, or false if AWS publishes none of that kind. An empty variant
// means standard.
func EKS(regionName string, family Family, kubernetesVersion, architecture, variant string) (Image, bool) {
	if variant == "" {
		variant = "standard"
	}
	for _, img := range load(regionName).images {
		if img.Family == family && img.KubernetesVersion == kubernetesVersion && img.Architecture == architecture && img.Variant == variant {
			return img, true // newest first
		}
	}
	return Image{}, false
}

// Parameters returns the public parameters of a region, sorted by name. Treat
// it as read-only.
func Parameters(regionName string) []Parameter { return load(regionName).params }

// ParameterByName returns the public parameter of that name, or false if there is
// none.
func ParameterByName(regionName, name string) (Parameter, bool) {
	params := load(regionName).params
	i, ok := slices.BinarySearchFunc(params, name, func(p Parameter, n string) int { return strings.Compare(p.Name, n) })
	if !ok {
		return Parameter{}, false
	}
	return params[i], true
}

func build(name string) *region {
	b := &builder{region: name, params: map[string]Parameter{}}
	for minor, patch := range KubernetesVersions() {
		for i, rel := range releases() {
			b.eks(minor, patch, rel, i == len(releases())-1)
		}
	}
	b.plain()
	r := &region{name: name, images: b.images, byID: map[string]int{}, byName: map[string]int{}}
	slices.SortFunc(r.images, func(a, c Image) int {
		if d := c.Created.Compare(a.Created); d != 0 {
			return d
		}
		return strings.Compare(a.Name, c.Name)
	})
	for i, img := range r.images {
		r.byID[img.ID], r.byName[img.Name] = i, i
	}
	for _, p := range b.params {
		r.params = append(r.params, p)
	}
	slices.SortFunc(r.params, func(a, c Parameter) int { return strings.Compare(a.Name, c.Name) })
	return r
}

func imageID(region, name string) string {
	sum := sha256.Sum256([]byte(region + "/" + name))
	return "ami-0" + hex.EncodeToString(sum[:])[:16]
}

func minorNumber(version string) int {
	_, minor, _ := strings.Cut(version, ".")
	n, _ := strconv.Atoi(minor)
	return n
}
