package simulated

import (
	"maps"

	corev1 "k8s.io/api/core/v1"

	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node/userdata"
)

// A Shape is what a node of EKS tells its cluster about itself, for kubelets that are not simulated.
type Shape struct {
	Name       string
	ProviderID string
	Version    string // of the kubelet: v1.33.5-eks-1a2b3c4
	Labels     map[string]string
	// Capacity and Allocatable are the node's resources.
	Capacity, Allocatable corev1.ResourceList
	MaxPods               int32
}

// ShapeOf returns the shape of an instance's node.
func ShapeOf(in machine.Instance, cfg *userdata.Config) (Shape, error) {
	sz, err := measure(in, cfg)
	if err != nil {
		return Shape{}, err
	}
	n := nodeObject(in, cfg, nodeName(in, cfg), sz, in.LaunchTime)
	return Shape{
		Name: nodeName(in, cfg), ProviderID: n.Spec.ProviderID, Version: kubeletVersion(in.Image.KubeletVersion), Labels: maps.Clone(n.Labels),
		Capacity: sz.capacity, Allocatable: sz.allocatable, MaxPods: sz.maxPods,
	}, nil
}
