// Package policyendpoints resolves the network policies of clusters, as the network policy controller in EKS's control plane
// does: each NetworkPolicy gets a PolicyEndpoint with the addresses that its selectors mean at the moment. The agents of nodes
// enforce those.
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
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"

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
	plane.Value(ses, func(ses *plane.Session) *follower {
		f := &follower{s: s, key: key, ses: ses, wake: make(chan struct{}, 1), written: map[types.UID][]byte{}}
		f.policies = watched(f, &networkingv1.NetworkPolicy{}, ses.Client.NetworkingV1().NetworkPolicies("").List, ses.Client.NetworkingV1().NetworkPolicies("").Watch, "")
		configs := ses.Client.CoreV1().ConfigMaps(metav1.NamespaceSystem)
		f.settings = watched(f, &corev1.ConfigMap{}, configs.List, configs.Watch, fields.OneTermEqualSelector("metadata.name", settingsName).String())
		ses.Go(f.run)
		return f
	})
}

// settingsName is the ConfigMap with the settings of the VPC CNI.
const settingsName = "amazon-vpc-cni"

// A follower resolves the network policies of one cluster.
type follower struct {
	s                  *Service
	key                store.Key
	ses                *plane.Session
	wake               chan struct{}
	policies, settings cache.SharedIndexInformer
	// pods and namespaces are watched from the first policy on.
	pods, namespaces cache.SharedIndexInformer
	written          map[types.UID][]byte // the last spec of each policy
}

// watched returns an informer that wakes the follower.
func watched[T runtime.Object](f *follower, of runtime.Object, list func(context.Context, metav1.ListOptions) (T, error), watcher func(context.Context, metav1.ListOptions) (watch.Interface, error), selector string) cache.SharedIndexInformer {
	inf := f.ses.Informer(f.ses.Context, of,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			o.FieldSelector = selector
			return list(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			o.FieldSelector = selector
			return watcher(ctx, o)
		}, cache.Indexers{})
	kick := func(any) {
		select {
		case f.wake <- struct{}{}:
		default:
		}
	}
	if _, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{AddFunc: kick, UpdateFunc: func(_, now any) { kick(now) }, DeleteFunc: kick}); err != nil {
		f.s.Log.Error("watching what network policies need", "err", err)
	}
	return inf
}

func (f *follower) run() {
	ctx := f.ses.Context
	for again := time.Duration(0); ; {
		var later <-chan time.Time
		if again > 0 {
			later = f.s.Clock.After(again)
		}
		select {
		case <-ctx.Done():
			return
		case <-f.wake:
		case <-later:
		}
		select {
		case <-ctx.Done():
			return
		case <-f.s.Clock.After(settle):
		}
		again = 0
		if err := f.pass(ctx); err != nil {
			f.s.Log.Debug("resolving network policies", "cluster", f.key.String(), "err", err)
			again = retry
		}
	}
}

// enabled reports whether the settings of the VPC CNI turn network policies on.
func (f *follower) enabled() bool {
	for _, obj := range f.settings.GetIndexer().List() {
		if c, ok := obj.(*corev1.ConfigMap); ok && c.Name == settingsName {
			return c.Data["enable-network-policy-controller"] == "true"
		}
	}
	return false
}

// pass resolves all policies and writes those that mean something else than before. The garbage collector removes what belongs
// to policies that are deleted.
func (f *follower) pass(ctx context.Context) error {
	all := f.policies.GetIndexer().List()
	if !f.enabled() || len(all) == 0 {
		return nil
	}
	if f.pods == nil {
		f.pods = watched(f, &corev1.Pod{}, f.ses.Client.CoreV1().Pods("").List, f.ses.Client.CoreV1().Pods("").Watch, "")
		f.namespaces = watched(f, &corev1.Namespace{}, f.ses.Client.CoreV1().Namespaces().List, f.ses.Client.CoreV1().Namespaces().Watch, "")
	}
	if !f.pods.HasSynced() || !f.namespaces.HasSynced() {
		return errors.New("the pods are not known yet")
	}
	c := netpolicy.Cluster{Namespaces: map[string]*corev1.Namespace{}}
	for _, obj := range f.pods.GetIndexer().List() {
		if p, ok := obj.(*corev1.Pod); ok {
			c.Pods = append(c.Pods, p)
		}
	}
	for _, obj := range f.namespaces.GetIndexer().List() {
		if n, ok := obj.(*corev1.Namespace); ok {
			c.Namespaces[n.Name] = n
		}
	}
	var errs []error
	kept := map[types.UID][]byte{}
	for _, obj := range all {
		p, ok := obj.(*networkingv1.NetworkPolicy)
		if !ok || p.DeletionTimestamp != nil {
			continue
		}
		spec, err := f.write(ctx, p, c)
		if err != nil {
			errs = append(errs, fmt.Errorf("network policy %s/%s: %w", p.Namespace, p.Name, err))
			continue
		}
		kept[p.UID] = spec
	}
	f.written = kept
	return errors.Join(errs...)
}

var resource = schema.GroupVersionResource{Group: "networking.k8s.aws", Version: "v1alpha1", Resource: "policyendpoints"}

// write writes the PolicyEndpoint of a policy, unless it has been written like this, and returns its specification.
func (f *follower) write(ctx context.Context, p *networkingv1.NetworkPolicy, c netpolicy.Cluster) ([]byte, error) {
	spec, err := netpolicy.Resolve(p, c)
	if err != nil {
		return nil, err
	}
	raw, err := json.Marshal(spec)
	if err != nil || bytes.Equal(raw, f.written[p.UID]) {
		return raw, err
	}
	var content map[string]any
	if err := json.Unmarshal(raw, &content); err != nil {
		return nil, err
	}
	o := &unstructured.Unstructured{Object: map[string]any{"spec": content}}
	o.SetAPIVersion(resource.GroupVersion().String())
	o.SetKind("PolicyEndpoint")
	o.SetNamespace(p.Namespace)
	h := fnv.New32a()
	_, _ = h.Write([]byte(p.UID))
	o.SetName(fmt.Sprintf("%.240s-%05x", p.Name, h.Sum32()&0xfffff))
	o.SetOwnerReferences([]metav1.OwnerReference{*metav1.NewControllerRef(p, networkingv1.SchemeGroupVersion.WithKind("NetworkPolicy"))})
	return raw, f.ses.Objects.Put(ctx, resource, o)
}
