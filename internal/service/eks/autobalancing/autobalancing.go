// Package autobalancing creates the load balancers of EKS Auto Mode: a Network Load Balancer for each Service of the class
// eks.amazonaws.com/nlb, and an Application Load Balancer for the Ingresses of classes whose controller is
// eks.amazonaws.com/alb.
//
// A pass over a cluster compares its objects with the AWS resources that carry the cluster's tag, and changes what
// differs, so it can be repeated after a crash. As on AWS, EKS creates and changes as the cluster role, in a session
// with the tag eks:eks-cluster-name, and describes and deletes as its service-linked role.
// https://docs.aws.amazon.com/aws-managed-policy/latest/reference/AmazonEKSLoadBalancingPolicy.html
package autobalancing

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"

	corev1 "k8s.io/api/core/v1"
	discoveryv1 "k8s.io/api/discovery/v1"
	networkingv1 "k8s.io/api/networking/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/client-go/tools/cache"
	"sigs.k8s.io/yaml"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

const component = "eks-load-balancing" // that reports events

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
	c.follower.Follow(ses, func(ctx context.Context) {
		s.Passes(ctx, key, ses, "load balancers of EKS Auto Mode", c.wake, c.start, c.pass)
	})
}

// of returns what is known of a cluster in a session of its control plane.
func (s *Service) of(key store.Key, ses *plane.Session) *cluster {
	return plane.Value(ses, func(ses *plane.Session) *cluster {
		return &cluster{s: s, key: key, ses: ses, wake: make(chan struct{}, 1), events: plane.Events{Session: ses, Component: component, Now: s.Now}}
	})
}

// A cluster is one whose load balancers are followed.
type cluster struct {
	s        *Service
	key      store.Key
	ses      *plane.Session
	wake     chan struct{}
	events   plane.Events
	follower plane.Follower

	services  plane.Watched[*corev1.Service]
	slices    plane.Watched[*discoveryv1.EndpointSlice]
	ingresses plane.Watched[*networkingv1.Ingress]
	classes   plane.Watched[*networkingv1.IngressClass]
}

//go:embed params.yaml
var paramsCRD []byte

// start makes the API server serve IngressClassParams, and watches the objects until ctx ends.
func (c *cluster) start(ctx context.Context) error {
	o := &unstructured.Unstructured{}
	if err := yaml.Unmarshal(paramsCRD, &o.Object); err != nil {
		return err
	}
	if err := c.ses.Objects.Apply(ctx, o, plane.ApplyOptions{Force: true}); err != nil {
		return err
	}
	core, net := c.ses.Client.CoreV1(), c.ses.Client.NetworkingV1()
	c.services = plane.Watch(ctx, c.ses, &corev1.Service{}, core.Services(""), nil, c.notify)
	c.slices = plane.Watch(ctx, c.ses, &discoveryv1.EndpointSlice{}, c.ses.Client.DiscoveryV1().EndpointSlices(""), cache.Indexers{byService: func(o any) ([]string, error) {
		e, ok := o.(*discoveryv1.EndpointSlice)
		if !ok {
			return nil, nil
		}
		return []string{e.Namespace + "/" + e.Labels[discoveryv1.LabelServiceName]}, nil
	}}, c.notify)
	c.ingresses = plane.Watch(ctx, c.ses, &networkingv1.Ingress{}, net.Ingresses(""), nil, c.notify)
	c.classes = plane.Watch(ctx, c.ses, &networkingv1.IngressClass{}, net.IngressClasses(), nil, c.notify)
	if !cache.WaitForCacheSync(ctx.Done(), c.services.Synced, c.slices.Synced, c.ingresses.Synced, c.classes.Synced) {
		return ctx.Err()
	}
	return nil
}

const byService = "service"

func (c *cluster) notify() {
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// Disable stops following a cluster whose EKS Auto Mode is disabled, deletes its load balancers, and removes the finalizers of
// their objects, which nothing serves any more. A load balancer that cannot be deleted is left behind, and its object gets an
// event. Follow starts again.
// https://docs.aws.amazon.com/eks/latest/userguide/auto-disable.html
func (s *Service) Disable(ctx context.Context, key store.Key, rec *record.Cluster, ses *plane.Session) error {
	if s.LoadBalancers == nil {
		return nil
	}
	c := s.of(key, ses)
	c.follower.Stop()
	left, err := s.deleteAll(ctx, key, rec)
	if err != nil {
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
		id := stackOf(kindOf(o), o)
		if why := left[id]; why != nil {
			c.event(ctx, o, corev1.EventTypeWarning, "FailedCleanup", "The load balancer is left behind, because EKS Auto Mode is disabled: "+why.Error())
		}
		// The finalizer goes first: its patch has the resource version, which the status changes.
		err := c.setFinalizer(ctx, o, false)
		if err == nil {
			err = c.setHost(ctx, o, "")
		}
		if err != nil {
			errs = append(errs, fmt.Errorf("releasing %s: %w", id, err))
		}
	}
	return errors.Join(errs...)
}

// DeleteAll deletes all load balancers of a cluster. Those that cannot be deleted are left behind.
func (s *Service) DeleteAll(ctx context.Context, key store.Key, rec *record.Cluster) error {
	if s.LoadBalancers == nil {
		return nil
	}
	left, err := s.deleteAll(ctx, key, rec)
	for id, why := range left {
		s.Log.Info("leaving the load balancer of an object behind", "cluster", key.String(), "object", id, "err", why)
	}
	return err
}

// deleteAll deletes all load balancers of a cluster, which is being deleted or updated. It returns why those that users protect or
// use are left, by the stack. A security group may be in use for a while after its load balancer has been deleted.
func (s *Service) deleteAll(ctx context.Context, key store.Key, rec *record.Cluster) (left map[string]error, _ error) {
	d := &deployer{s: s, key: key, rec: rec, svc: s.AsService(ctx, key.Account, key.Region)}
	d.as, d.asErr = s.AsClusterRole(ctx, key, rec)
	have, err := d.look()
	if err != nil {
		return nil, err
	}
	left = map[string]error{}
	var errs []error
	for id, owned := range have {
		switch err := d.remove(owned); {
		case awserr.CodeOf(err) == "DependencyViolation" && s.Clock.Since(rec.Since) < base.GroupWait:
			errs = append(errs, fmt.Errorf("deleting the load balancer of %s: %w", id, err))
		case err != nil && inUse(err):
			left[id] = err
		case err != nil:
			errs = append(errs, fmt.Errorf("deleting the load balancer of %s: %w", id, err))
		}
	}
	return left, errors.Join(errs...)
}

// inUse reports whether something cannot be deleted because a user protects it or something else uses it.
func inUse(err error) bool {
	return slices.Contains([]string{"OperationNotPermitted", "ResourceInUse", "DependencyViolation"}, awserr.CodeOf(err))
}
