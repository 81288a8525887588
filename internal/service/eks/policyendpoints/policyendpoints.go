// Package policyendpoints resolves the network policies of clusters, as the network policy controller in EKS's control plane
// does: each NetworkPolicy gets a PolicyEndpoint with the addresses that its selectors currently match. The agents of nodes
// enforce PolicyEndpoints. ClusterNetworkPolicies become ClusterPolicyEndpoints in the same way.
//
// The ConfigMap amazon-vpc-cni, which the VPC CNI's add-on configures with enableNetworkPolicy, turns it on.
// https://docs.aws.amazon.com/eks/latest/userguide/cni-network-policy-configure.html
package policyendpoints

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"time"

	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/cache"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/netpolicy"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// settle is how long a pass waits for more changes, and retry how long after a failure.
	settle = 100 * time.Millisecond
	retry  = 2 * time.Second
)

// A Service resolves network policies.
type Service struct{ *base.Service }

// New returns the part of EKS that resolves network policies.
func New(b *base.Service) *Service { return &Service{b} }

// Follow resolves the network policies of a cluster until the session of its control plane ends. Following it again does
// nothing.
func (s *Service) Follow(key store.Key, planeID string) {
	ses, err := s.Sessions.Open(key, planeID)
	if err != nil {
		return // the next reconciliation opens it
	}
	c := plane.Value(ses, func(ses *plane.Session) *cluster {
		return &cluster{
			s: s, key: key, ses: ses, wake: make(chan struct{}, 1), written: map[types.UID][]byte{},
			events: plane.Events{Session: ses, Component: "amazon-network-policy-controller", Now: s.Now},
		}
	})
	c.follower.Follow(ses, c.run)
}

// The ConfigMap with the settings of the VPC CNI.
const (
	settingsName = "amazon-vpc-cni"
	settings     = metav1.NamespaceSystem + "/" + settingsName
)

// enabled reports whether it turns network policies on.
func enabled(config *corev1.ConfigMap) bool {
	return config.Data["enable-network-policy-controller"] == "true"
}

// A cluster is one whose network policies are resolved.
type cluster struct {
	s        *Service
	key      store.Key
	ses      *plane.Session
	follower plane.Follower
	wake     chan struct{}

	policies plane.Watched[*networkingv1.NetworkPolicy]
	configs  plane.Watched[*corev1.ConfigMap]
	// ClusterNetworkPolicies are watched from when network policies are on and the cluster has the kind, and pods and namespaces
	// from the first policy on.
	on              bool
	clusterPolicies plane.Watched[*unstructured.Unstructured]
	watching        bool
	pods            plane.Watched[*corev1.Pod]
	namespaces      plane.Watched[*corev1.Namespace]

	written map[types.UID][]byte // the last spec of each policy
	events  plane.Events
}

func (c *cluster) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

func (c *cluster) run(ctx context.Context) {
	c.policies = plane.Watch(ctx, c.ses, &networkingv1.NetworkPolicy{}, c.ses.Client.NetworkingV1().NetworkPolicies(""), nil, c.notify)
	c.configs = plane.Watch(ctx, c.ses, &corev1.ConfigMap{}, c.ses.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem), nil, c.notify)
	var again <-chan time.Time
	said := ""
	for {
		select {
		case <-ctx.Done():
			return
		case <-c.wake:
		case <-again:
		}
		select {
		case <-ctx.Done():
			return
		case <-c.s.Clock.After(settle):
		}
		again = nil
		err := c.pass(ctx)
		if err == nil {
			said = ""
			continue
		}
		if text := err.Error(); text != said && ctx.Err() == nil {
			said = text
			c.s.Log.Warn("network policies are not resolved: it is tried again", "cluster", c.key.String(), "err", err)
		}
		again = c.s.Clock.After(retry)
	}
}

// pass resolves all policies and writes those that mean something else than before. The garbage collector removes what belongs
// to policies that are deleted.
func (c *cluster) pass(ctx context.Context) error {
	config, ok := c.configs.Get(settings)
	all := c.policies.All()
	if !ok || !enabled(config) {
		clear(c.written) // what others change in the meantime is put right when it is turned on again
		return nil
	}
	// NetworkPolicies do not wait for ClusterNetworkPolicies, whose kind the API server may refuse, for example because of a webhook.
	var errs []error
	if !c.on {
		if err := c.kinds(ctx); err != nil {
			errs = append(errs, fmt.Errorf("adding the kind of ClusterNetworkPolicies: %w", err))
		} else {
			c.on = true
			c.clusterPolicies = plane.Watch(ctx, c.ses, &unstructured.Unstructured{}, c.ses.Objects.Watchable(clusterPolicies), nil, c.notify)
			c.ses.Go(func() {
				if cache.WaitForCacheSync(ctx.Done(), c.clusterPolicies.Synced) {
					c.notify()
				}
			})
		}
	}
	// Once they have been listed, they stay. Before that, nothing of them is in written.
	var clusterWide []*unstructured.Unstructured
	if c.on && c.clusterPolicies.Synced() {
		clusterWide = c.clusterPolicies.All()
	}
	if len(all)+len(clusterWide) == 0 {
		return errors.Join(errs...)
	}
	if !c.watching {
		c.watching = true
		c.pods = plane.Watch(ctx, c.ses, &corev1.Pod{}, c.ses.Client.CoreV1().Pods(""), nil, c.notify)
		c.namespaces = plane.Watch(ctx, c.ses, &corev1.Namespace{}, c.ses.Client.CoreV1().Namespaces(), nil, c.notify)
	}
	if !cache.WaitForCacheSync(ctx.Done(), c.pods.Synced, c.namespaces.Synced) {
		return nil // ctx has ended
	}
	now := netpolicy.Cluster{Pods: c.pods.All(), Namespaces: map[string]*corev1.Namespace{}}
	for _, n := range c.namespaces.All() {
		now.Namespaces[n.Name] = n
	}
	kept := map[types.UID][]byte{}
	write := func(of *unstructured.Unstructured, r schema.GroupVersionResource, kind string, spec any, err error) {
		var raw []byte
		if err == nil {
			raw, err = c.write(ctx, of, r, kind, spec)
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("%s %s/%s: %w", of.GetKind(), of.GetNamespace(), of.GetName(), err))
			return
		}
		kept[of.GetUID()] = raw
	}
	for _, p := range all {
		if p.DeletionTimestamp != nil {
			continue
		}
		of := &unstructured.Unstructured{}
		of.SetGroupVersionKind(networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"))
		of.SetNamespace(p.Namespace)
		of.SetName(p.Name)
		of.SetUID(p.UID)
		spec, err := netpolicy.Resolve(p, now)
		write(of, endpoints, "PolicyEndpoint", spec, err)
	}
	for _, p := range clusterWide {
		if p.GetDeletionTimestamp() != nil {
			continue
		}
		var policy struct {
			Spec netpolicy.ClusterPolicy `json:"spec"`
		}
		err := runtime.DefaultUnstructuredConverter.FromUnstructured(p.Object, &policy)
		var spec netpolicy.ClusterSpec
		if err == nil {
			spec, err = netpolicy.ResolveCluster(p.GetName(), policy.Spec, now)
		}
		if errors.Is(err, netpolicy.ErrTooLarge) {
			ref := corev1.ObjectReference{APIVersion: p.GetAPIVersion(), Kind: p.GetKind(), Name: p.GetName(), UID: p.GetUID()}
			c.events.Record(ctx, ref, corev1.EventTypeWarning, "TooLarge", err.Error())
		}
		write(p, clusterEndpoints, "ClusterPolicyEndpoint", spec, err)
	}
	c.written = kept
	return errors.Join(errs...)
}

// kinds adds the kinds of ClusterNetworkPolicies to a cluster that has none, such as one of an older version.
func (c *cluster) kinds(ctx context.Context) error {
	for _, o := range addons.ClusterNetworkPolicies() {
		if _, err := c.ses.Objects.Get(ctx, o); apierrors.IsNotFound(err) {
			err = c.ses.Objects.Apply(ctx, o, plane.ApplyOptions{})
			if err != nil {
				return err
			}
		} else if err != nil {
			return err
		}
	}
	return nil
}

var (
	endpoints        = schema.GroupVersionResource{Group: "networking.k8s.aws", Version: "v1alpha1", Resource: "policyendpoints"}
	clusterEndpoints = endpoints.GroupVersion().WithResource("clusterpolicyendpoints")
	clusterPolicies  = endpoints.GroupVersion().WithResource("clusternetworkpolicies")
)

// write writes the PolicyEndpoint or ClusterPolicyEndpoint of a policy, unless it has been written like this, and returns its
// specification.
func (c *cluster) write(ctx context.Context, of *unstructured.Unstructured, r schema.GroupVersionResource, kind string, spec any) ([]byte, error) {
	raw, err := json.Marshal(spec)
	if err != nil || bytes.Equal(raw, c.written[of.GetUID()]) {
		return raw, err
	}
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	o.SetAPIVersion(r.GroupVersion().String())
	o.SetKind(kind)
	o.SetNamespace(of.GetNamespace())
	h := fnv.New32a()
	_, _ = h.Write([]byte(of.GetUID()))
	o.SetName(fmt.Sprintf("%.240s-%05x", of.GetName(), h.Sum32()&0xfffff))
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(of, of.GroupVersionKind())})
	return raw, c.ses.Objects.Put(ctx, r, o)
}
