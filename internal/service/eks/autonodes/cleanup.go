package autonodes

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	computeAuto    = "eks.amazonaws.com/compute-type=auto"
	labelManagedBy = "app.kubernetes.io/managed-by"
)

// noFinalizers is a patch. The controllers that serve the finalizers have stopped.
var noFinalizers = []byte(`{"metadata":{"finalizers":null}}`)

// RemoveObjects removes the nodes and node claims of EKS Auto Mode, whose instances have been terminated, and the
// built-in objects. Users' node pools and node classes stay.
func (s *Service) RemoveObjects(ctx context.Context, ses *plane.Session) error {
	nodes := ses.Client.CoreV1().Nodes()
	list, err := nodes.List(ctx, metav1.ListOptions{LabelSelector: computeAuto})
	if err != nil {
		return fmt.Errorf("listing the nodes of EKS Auto Mode: %w", err)
	}
	for _, n := range list.Items {
		if _, err := nodes.Patch(ctx, n.Name, types.MergePatchType, noFinalizers, metav1.PatchOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the node %s: %w", n.Name, err)
		}
		if err := nodes.Delete(ctx, n.Name, metav1.DeleteOptions{}); err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing the node %s: %w", n.Name, err)
		}
	}
	builtIn := func(o *unstructured.Unstructured) bool { return o.GetLabels()[labelManagedBy] == "eks" }
	all := func(*unstructured.Unstructured) bool { return true }
	return cmp.Or(
		removeAll(ctx, ses, NodePools, builtIn), removeAll(ctx, ses, nodeClaimsResource, all), removeAll(ctx, ses, nodeClassesResource, builtIn),
	)
}

// removeAll removes the custom objects of a resource, or only their finalizers from those that stay.
func removeAll(ctx context.Context, ses *plane.Session, resource schema.GroupVersionResource, goes func(*unstructured.Unstructured) bool) error {
	list, more := ses.Objects.List(ctx, resource)
	if more != nil && !errors.Is(more, plane.ErrTooMany) {
		return fmt.Errorf("listing %s: %w", resource.Resource, more)
	}
	for i := range list {
		o := &list[i]
		if resource == NodePools && !goes(o) {
			continue // users' node pools keep theirs
		}
		err := ses.Objects.Patch(ctx, resource, o.GetName(), map[string]any{"metadata": map[string]any{"finalizers": nil}})
		if err == nil && goes(o) {
			err = ses.Objects.Delete(ctx, o)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing %s %s: %w", resource.Resource, o.GetName(), err)
		}
	}
	if more != nil {
		return fmt.Errorf("more than %d %s exist: the next attempt removes the rest", len(list), resource.Resource)
	}
	return nil
}

// CleanUp removes what EKS Auto Mode has made for a cluster besides its nodes: the instance profile of the built-in node
// pools. Like EKS, it leaves those of users' node classes that still exist when the cluster is deleted.
// https://github.com/aws/containers-roadmap/issues/2531
func (s *Service) CleanUp(ctx context.Context, key store.Key, rec *record.Cluster) error {
	c := rec.Cluster.ComputeConfig
	if c == nil || aws.ToString(c.NodeRoleArn) == "" {
		return nil
	}
	nc := &automode.NodeClass{Name: "default", NodeClassSpec: automode.NodeClassSpec{Role: roleName(*c.NodeRoleArn)}}
	return s.removeProfile(ctx, key, rec, nc)
}
