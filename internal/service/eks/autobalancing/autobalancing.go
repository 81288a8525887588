// Package autobalancing creates the load balancers of EKS Auto Mode: a Network Load Balancer for each Service of the class
// eks.amazonaws.com/nlb, and an Application Load Balancer for the Ingresses of classes whose controller is
// eks.amazonaws.com/alb.
//
// A pass over a cluster reads its objects and what carries the cluster's tag in AWS, and changes what differs, so it can
// be repeated after a crash. As on AWS, EKS creates and changes as the cluster role, in a session with the tag
// eks:eks-cluster-name, and describes and deletes as its service-linked role.
// https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonEKSLoadBalancingPolicy.html
package autobalancing

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/internal/automode"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

const (
	// settle is how long a pass waits for more changes.
	settle = 200 * time.Millisecond
	// retry is how long it waits after a failure, and resync after a success: users may change load balancers, too.
	retry  = 5 * time.Second
	resync = time.Minute
)

// A Service creates load balancers.
type Service struct{ *base.Service }

// New returns the part of EKS that creates the load balancers of EKS Auto Mode.
func New(b *base.Service) *Service { return &Service{b} }

// Follow keeps the load balancers of a cluster in line with its objects, until the session of its control plane ends or
// EKS Auto Mode is disabled.
func (s *Service) Follow(key store.Key, planeID string) {
	if s.LoadBalancers == nil {
		return
	}
	ses, err := s.Sessions.Open(key, planeID)
	if err != nil {
		return // the next reconciliation opens it
	}
	c := s.of(key, ses)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ended = false
	if !c.running {
		c.running = true
		ses.Go(c.run)
	}
}

// of returns what is known of a cluster in a session of its control plane.
func (s *Service) of(key store.Key, ses *plane.Session) *cluster {
	return plane.Value(ses, func(ses *plane.Session) *cluster {
		return &cluster{s: s, key: key, ses: ses, wake: make(chan struct{}, 1), told: map[string]string{}}
	})
}

// A cluster is one whose load balancers are followed.
type cluster struct {
	s    *Service
	key  store.Key
	ses  *plane.Session
	wake chan struct{}
	told map[string]string // the last event of each object

	passing sync.Mutex // held during a pass

	mu      sync.Mutex
	running bool
	ended   bool // no pass begins before the next Follow

	once                                 sync.Once
	services, slices, ingresses, classes cache.SharedIndexInformer
}

func (c *cluster) run() {
	defer func() {
		c.mu.Lock()
		c.running = false
		c.mu.Unlock()
	}()
	ctx := c.ses.Context
	c.once.Do(c.watch)
	for {
		err := c.define(ctx)
		if err == nil {
			break
		}
		c.s.Log.Debug("defining the types of load balancing", "cluster", c.key.String(), "err", err)
		select {
		case <-ctx.Done():
			return
		case <-c.s.Clock.After(retry):
		}
	}
	nodes := c.ses.Nodes()
	select {
	case <-ctx.Done():
		return
	case <-nodes.Synced:
	}
	if !cache.WaitForCacheSync(ctx.Done(), c.services.HasSynced, c.slices.HasSynced, c.ingresses.HasSynced, c.classes.HasSynced) {
		return // the session has ended
	}
	for {
		next := nodes.Next()
		again, on := c.attempt(ctx)
		if !on {
			return
		}
		select {
		case <-ctx.Done():
			return
		case <-c.s.Clock.After(again):
		case <-next:
		case <-c.wake:
		}
		select {
		case <-ctx.Done():
			return
		case <-c.s.Clock.After(settle):
		}
	}
}

// attempt makes a pass, and returns how long the next one may wait at most. It returns false if EKS Auto Mode is disabled.
func (c *cluster) attempt(ctx context.Context) (again time.Duration, on bool) {
	c.passing.Lock()
	defer c.passing.Unlock()
	c.mu.Lock()
	ended := c.ended
	c.mu.Unlock()
	if ended {
		return 0, false
	}
	rec, err := record.Clusters.Get(c.s.Store, c.key)
	switch {
	case errors.Is(err, store.ErrNotFound):
		return 0, false
	case err == nil && (rec.Cluster.ComputeConfig == nil || !*rec.Cluster.ComputeConfig.Enabled || rec.Plane.ID == ""):
		return 0, false
	case err == nil:
		err = c.pass(ctx, &rec)
	}
	if err != nil {
		c.s.Log.Debug("load balancers of EKS Auto Mode", "cluster", c.key.String(), "err", err)
		return retry, true
	}
	return resync, true
}

//go:embed params.yaml
var paramsCRD []byte

// define makes the API server serve IngressClassParams.
func (c *cluster) define(ctx context.Context) error {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(paramsCRD, &o.Object); err != nil {
		return err
	}
	return c.ses.Objects.Apply(ctx, o, plane.ApplyOptions{Force: true})
}

// watch starts the watches, which last as long as the session.
func (c *cluster) watch() {
	core, net, disc := c.ses.Client.CoreV1(), c.ses.Client.NetworkingV1(), c.ses.Client.DiscoveryV1()
	of := func(o runtime.Object, list func(context.Context, metav1.ListOptions) (runtime.Object, error), watch func(context.Context, metav1.ListOptions) (watch.Interface, error), index cache.Indexers) cache.SharedIndexInformer {
		inf := c.ses.Informer(o, list, watch, index)
		_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
			AddFunc: func(any) { c.notify() }, UpdateFunc: func(_, _ any) { c.notify() }, DeleteFunc: func(any) { c.notify() },
		})
		if err != nil {
			c.s.Log.Error("watching for load balancers", "err", err)
		}
		return inf
	}
	c.services = of(&corev1.Service{},
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return core.Services("").List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return core.Services("").Watch(ctx, o)
		}, nil)
	c.slices = of(&discoveryv1.EndpointSlice{},
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return disc.EndpointSlices("").List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return disc.EndpointSlices("").Watch(ctx, o)
		},
		cache.Indexers{byService: func(o any) ([]string, error) {
			e, ok := o.(*discoveryv1.EndpointSlice)
			if !ok {
				return nil, nil
			}
			return []string{e.Namespace + "/" + e.Labels[discoveryv1.LabelServiceName]}, nil
		}})
	c.ingresses = of(&networkingv1.Ingress{},
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return net.Ingresses("").List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return net.Ingresses("").Watch(ctx, o)
		}, nil)
	c.classes = of(&networkingv1.IngressClass{},
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) {
			return net.IngressClasses().List(ctx, o)
		},
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) {
			return net.IngressClasses().Watch(ctx, o)
		}, nil)
}

const byService = "service"

func (c *cluster) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// asCluster returns a context in which EKS calls as the cluster role.
func (s *Service) asCluster(ctx context.Context, key store.Key, rec *record.Cluster) (context.Context, error) {
	return s.AutoNodes.AsClusterRole(ctx, *rec.Cluster.Arn, *rec.Cluster.RoleArn, key.Region, map[string]string{automode.TagCluster: key.ID})
}

// Disable stops following a cluster whose EKS Auto Mode is disabled, deletes its load balancers, and removes the finalizers of
// their objects, which nothing serves any more. Follow starts again.
// https://docs.aws.amazon.com/eks/latest/userguide/auto-disable.html
func (s *Service) Disable(ctx context.Context, key store.Key, rec *record.Cluster, ses *plane.Session) error {
	if s.LoadBalancers == nil {
		return nil
	}
	c := s.of(key, ses)
	c.mu.Lock()
	c.ended = true
	c.mu.Unlock()
	c.passing.Lock() // waits for the pass that is running
	defer c.passing.Unlock()
	if err := s.DeleteAll(ctx, key, rec); err != nil {
		return err
	}
	services, err := ses.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing services: %w", err)
	}
	ingresses, err := ses.Client.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return fmt.Errorf("listing ingresses: %w", err)
	}
	var all []object
	for i := range services.Items {
		all = append(all, &services.Items[i])
	}
	for i := range ingresses.Items {
		all = append(all, &ingresses.Items[i])
	}
	var errs []error
	for _, o := range all {
		if !slices.Contains(o.GetFinalizers(), finalizer(kindOf(o))) {
			continue
		}
		// The finalizer goes first: its patch has the resource version, which the status changes.
		err := c.setFinalizer(ctx, o, false)
		if err == nil {
			err = c.setHost(ctx, o, "")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("releasing %s: %w", stackOf(kindOf(o), o), err))
		}
	}
	return errors.Join(errs...)
}

// DeleteAll deletes all load balancers of a cluster.
func (s *Service) DeleteAll(ctx context.Context, key store.Key, rec *record.Cluster) error {
	if s.LoadBalancers == nil {
		return nil
	}
	d := &deployer{s: s, key: key, rec: rec, svc: s.AsService(ctx, key.Account, key.Region)}
	d.as, d.asErr = s.asCluster(ctx, key, rec)
	have, err := d.look()
	if err != nil {
		return err
	}
	var errs []error
	for id, owned := range have {
		if err := d.remove(owned); err != nil {
			errs = append(errs, fmt.Errorf("deleting the load balancer of %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}
