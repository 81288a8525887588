// Package kube has functions about Kubernetes objects that several packages need.
package kube

import (
	"strings"

	corev1 "k8s.io/api/core/v1"
)

// NodeReady reports whether a node's kubelet says that it is ready.
func NodeReady(n *corev1.Node) bool {
	for i := range n.Status.Conditions {
		if c := &n.Status.Conditions[i]; c.Type == corev1.NodeReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// PodReady reports whether a pod receives the traffic of its services.
func PodReady(p *corev1.Pod) bool {
	for i := range p.Status.Conditions {
		if c := &p.Status.Conditions[i]; c.Type == corev1.PodReady {
			return c.Status == corev1.ConditionTrue
		}
	}
	return false
}

// InstanceID returns the last part of a node's provider ID: aws:///us-east-1a/i-….
func InstanceID(providerID string) string {
	return providerID[strings.LastIndexByte(providerID, '/')+1:]
}
