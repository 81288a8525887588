package policyendpoints

import (
	"context"
	"fmt"
	"net/netip"

	authorizationv1 "k8s.io/api/authorization/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"

	"github.com/drydock-dev/drydock/internal/netpolicy"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// A Drop says that a cluster's network policies drop a connection.
type Drop struct {
	Cluster string
	netpolicy.Drop
}

// Drop returns what the network policies of an account's clusters in a region drop of a connection, or nil.
func (s *Service) Drop(ctx context.Context, account, region string, from, to netip.Addr, protocol string, port uint16) (*Drop, error) {
	for _, i := range record.Clusters.All(s.Store, store.Scope{Account: account, Region: region}) {
		if base.Usable(i.Value) != nil {
			continue
		}
		ses, err := s.Sessions.Open(i.Key, i.Value.Plane.ID)
		if err != nil {
			continue // its control plane is not running
		}
		d, err := drop(ctx, ses, from, to, protocol, port)
		if err != nil {
			return nil, fmt.Errorf("the network policies of cluster %s: %w", i.Key.ID, err)
		}
		if d != nil {
			return &Drop{i.Key.ID, *d}, nil
		}
	}
	return nil, nil
}

func drop(ctx context.Context, ses *plane.Session, from, to netip.Addr, protocol string, port uint16) (*netpolicy.Drop, error) {
	system := metav1.NamespaceSystem
	config, err := ses.Client.CoreV1().ConfigMaps(system).Get(ctx, settingsName, metav1.GetOptions{})
	if apierrors.IsNotFound(err) || err == nil && !enabled(config) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	var p netpolicy.Policies
	if p.Namespaced, err = specs[netpolicy.Spec](ctx, ses, endpoints); err != nil {
		return nil, err
	}
	agents, err := ses.Client.AppsV1().DaemonSets(system).Get(ctx, agentName, metav1.GetOptions{})
	if err != nil && !apierrors.IsNotFound(err) {
		return nil, err
	}
	if err == nil {
		for _, c := range agents.Spec.Template.Spec.Containers {
			for _, e := range c.Env {
				p.Strict = p.Strict || e.Name == "NETWORK_POLICY_ENFORCING_MODE" && e.Value == "strict"
			}
		}
	}
	knows, err := ses.Client.AuthorizationV1().SubjectAccessReviews().Create(ctx, &authorizationv1.SubjectAccessReview{Spec: authorizationv1.SubjectAccessReviewSpec{
		User:               "system:serviceaccount:" + system + ":" + agentName,
		ResourceAttributes: &authorizationv1.ResourceAttributes{Group: clusterEndpoints.Group, Resource: clusterEndpoints.Resource, Verb: "list"},
	}}, metav1.CreateOptions{})
	if err != nil {
		return nil, err
	}
	if knows.Status.Allowed {
		if p.Cluster, err = specs[netpolicy.ClusterSpec](ctx, ses, clusterEndpoints); err != nil {
			return nil, err
		}
	}
	return p.Check(from, to, protocol, port, func(address netip.Addr) (*netpolicy.Pod, error) {
		pods, err := ses.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("status.podIP", address.String()).String()})
		if err != nil {
			return nil, err
		}
		for _, p := range pods.Items {
			if !p.Spec.HostNetwork {
				return &netpolicy.Pod{HostIP: p.Status.HostIP, PodIP: p.Status.PodIP, Name: p.Name, Namespace: p.Namespace}, nil
			}
		}
		return nil, nil
	})
}

// agentName is the DaemonSet with the agents, and its service account. Agents before version 1.21 of the VPC CNI know no
// ClusterPolicyEndpoints, and their role does not let them.
const agentName = "aws-node"

// specs returns the specifications of all objects of a resource.
func specs[T any](ctx context.Context, ses *plane.Session, of schema.GroupVersionResource) ([]T, error) {
	all, err := ses.Objects.List(ctx, of)
	if err != nil {
		return nil, err
	}
	var out []T
	for _, o := range all {
		var s struct {
			Spec T `json:"spec"`
		}
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(o.Object, &s); err != nil {
			return nil, err
		}
		out = append(out, s.Spec)
	}
	return out, nil
}
