package autonodes

import (
	"context"
	"encoding/json"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// The paths of EKS Auto Mode's kinds in a cluster.
const (
	nodeClaims  = "/apis/karpenter.sh/v1/nodeclaims"
	nodePools   = "/apis/karpenter.sh/v1/nodepools"
	nodeClasses = "/apis/eks.amazonaws.com/v1/nodeclasses"

	computeAuto = "eks.amazonaws.com/compute-type=auto"
	managed     = "app.kubernetes.io/managed-by=eks"
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
	for _, of := range []struct {
		path, selector string
		keep           bool // the object stays, without its finalizers
	}{{nodePools, managed, false}, {nodeClaims, "", false}, {nodeClasses, managed, false}, {nodeClasses, "", true}} {
		if err := removeAll(ctx, ses, of.path, of.selector, of.keep); err != nil {
			return err
		}
	}
	return nil
}

// removeAll removes custom objects of EKS Auto Mode.
func removeAll(ctx context.Context, ses *plane.Session, path, selector string, keep bool) error {
	client := ses.Client.Discovery().RESTClient()
	raw, err := client.Get().AbsPath(path).Param("labelSelector", selector).SetHeader("Accept", "application/json").DoRaw(ctx)
	if apierrors.IsNotFound(err) { // the types have never been installed
		return nil
	}
	if err != nil {
		return fmt.Errorf("listing %s: %w", path, err)
	}
	var list struct {
		Items []struct {
			Metadata metav1.ObjectMeta `json:"metadata"`
		} `json:"items"`
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return err
	}
	for _, o := range list.Items {
		object := path + "/" + o.Metadata.Name
		_, err := client.Patch(types.MergePatchType).AbsPath(object).SetHeader("Accept", "application/json").Body(noFinalizers).DoRaw(ctx)
		if err == nil && !keep {
			_, err = client.Delete().AbsPath(object).SetHeader("Accept", "application/json").DoRaw(ctx)
		}
		if err != nil && !apierrors.IsNotFound(err) {
			return fmt.Errorf("removing %s: %w", object, err)
		}
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
