package policyendpoints

import (
	"context"
	"encoding/json"
	"fmt"
	"net/netip"

	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"

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
	raw, err := ses.Client.Discovery().RESTClient().Get().AbsPath("/apis", resource.Group, resource.Version, resource.Resource).DoRaw(ctx)
	if err != nil {
		return nil, err
	}
	var list struct {
		Items []struct{ Spec netpolicy.Spec }
	}
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	var all []netpolicy.Spec
	for _, p := range list.Items {
		all = append(all, p.Spec)
	}
	if d := netpolicy.Check(all, from, to, protocol, port); d != nil {
		return d, nil
	}
	agents, err := ses.Client.AppsV1().DaemonSets(system).Get(ctx, "aws-node", metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	strict := false
	for _, c := range agents.Spec.Template.Spec.Containers {
		for _, e := range c.Env {
			strict = strict || e.Name == "NETWORK_POLICY_ENFORCING_MODE" && e.Value == "strict"
		}
	}
	if !strict {
		return nil, nil
	}
	for _, end := range []struct {
		direction     networkingv1.PolicyType
		address, peer netip.Addr
	}{{networkingv1.PolicyTypeEgress, from, to}, {networkingv1.PolicyTypeIngress, to, from}} {
		if netpolicy.Selected(all, end.address) {
			continue
		}
		pods, err := ses.Client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("status.podIP", end.address.String()).String()})
		if err != nil {
			return nil, err
		}
		for _, p := range pods.Items {
			if p.Spec.HostNetwork || p.Status.HostIP == p.Status.PodIP || end.direction == networkingv1.PolicyTypeIngress && p.Status.HostIP == end.peer.String() {
				continue
			}
			return &netpolicy.Drop{Pod: netpolicy.Pod{HostIP: p.Status.HostIP, PodIP: p.Status.PodIP, Name: p.Name, Namespace: p.Namespace}, Direction: end.direction}, nil
		}
	}
	return nil, nil
}
