package app

import (
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// amiTypes maps EKS's AMI types to images of the catalogue.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_Nodegroup.html
var amiTypes = map[string]struct {
	family        images.Family
	arch, variant string
}{
	"AL2_x86_64":                 {images.AL2, "x86_64", ""},
	"AL2_x86_64_GPU":             {images.AL2, "x86_64", "gpu"},
	"AL2_ARM_64":                 {images.AL2, "arm64", ""},
	"AL2023_x86_64_STANDARD":     {images.AL2023, "x86_64", ""},
	"AL2023_ARM_64_STANDARD":     {images.AL2023, "arm64", ""},
	"AL2023_x86_64_NVIDIA":       {images.AL2023, "x86_64", "nvidia"},
	"AL2023_x86_64_NEURON":       {images.AL2023, "x86_64", "neuron"},
	"AL2023_ARM_64_NVIDIA":       {images.AL2023, "arm64", "nvidia"},
	"BOTTLEROCKET_x86_64":        {images.Bottlerocket, "x86_64", ""},
	"BOTTLEROCKET_ARM_64":        {images.Bottlerocket, "arm64", ""},
	"BOTTLEROCKET_x86_64_NVIDIA": {images.Bottlerocket, "x86_64", "nvidia"},
	"BOTTLEROCKET_ARM_64_NVIDIA": {images.Bottlerocket, "arm64", "nvidia"},
}

func nodeImage(region, version, amiType string) (eks.Image, bool) {
	t, ok := amiTypes[amiType]
	if !ok {
		return eks.Image{}, false
	}
	img, ok := images.EKS(region, t.family, version, t.arch, t.variant)
	return eks.Image{ID: img.ID, ReleaseVersion: img.ReleaseVersion}, ok
}

func nodeInstanceType(name string) (eks.InstanceType, bool) {
	t, ok := instancetypes.Lookup(name)
	return eks.InstanceType{Architectures: t.Architectures, MaxPods: t.MaxPods()}, ok
}
