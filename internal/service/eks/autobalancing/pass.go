package autobalancing

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"reflect"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	corev1 "k8s.io/api/core/v1"
	networkingv1 "k8s.io/api/networking/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
)

// Kinds of stacks, and what begins their tags and finalizers.
const (
	kindService = "service"
	kindIngress = "ingress"
)

func finalizer(kind string) string { return kind + ".eks.amazonaws.com/resources" }

// Classes that EKS Auto Mode serves.
const (
	serviceClass      = "eks.amazonaws.com/nlb"
	ingressController = "eks.amazonaws.com/alb"
)

// An object is a Service or an Ingress.
type object interface {
	metav1.Object
	runtime.Object
}

// pass makes AWS have the load balancers that the cluster's objects want, and reports them in their status. It goes on
// after a failure of one, which its object gets as an event.
func (c *cluster) pass(ctx context.Context, rec *record.Cluster) error {
	wanted := map[string][]object{} // by stack
	var leaving []object
	for _, svc := range c.services.All() {
		if svc.DeletionTimestamp == nil && svc.Spec.Type == corev1.ServiceTypeLoadBalancer && svc.Spec.LoadBalancerClass != nil && *svc.Spec.LoadBalancerClass == serviceClass {
			id := stackOf(kindService, svc)
			wanted[id] = append(wanted[id], svc)
		} else if slices.Contains(svc.Finalizers, finalizer(kindService)) {
			leaving = append(leaving, svc)
		}
	}
	for _, ing := range c.ingresses.All() {
		if class := c.classOf(ing); ing.DeletionTimestamp == nil && class != nil {
			id := stackOf(kindIngress, ing)
			wanted[id] = append(wanted[id], ing)
		} else if slices.Contains(ing.Finalizers, finalizer(kindIngress)) {
			leaving = append(leaving, ing)
		}
	}
	if len(wanted)+len(leaving) == 0 {
		return nil
	}
	d := &deployer{s: c.s, key: c.key, rec: rec, svc: c.s.AsService(ctx, c.key.Account, c.key.Region)}
	d.as, d.asErr = c.s.AsClusterRole(ctx, c.key, rec)
	have, err := d.look()
	if err != nil {
		return err
	}
	var failed []error
	for _, o := range leaving {
		kind := kindOf(o)
		err := error(nil)
		if owned := have[stackOf(kind, o)]; owned != nil && len(wanted[owned.id]) == 0 {
			err = d.remove(owned)
		}
		if err == nil {
			err = c.setFinalizer(ctx, o, false)
		} else {
			c.event(ctx, o, corev1.EventTypeWarning, "FailedCleanup", "Failed cleanup due to "+err.Error())
		}
		failed = append(failed, err)
	}
	for id, objects := range wanted {
		failed = append(failed, c.serve(ctx, d, objects[0], have[id]))
	}
	return errors.Join(failed...)
}

func kindOf(o object) string {
	if _, ok := o.(*corev1.Service); ok {
		return kindService
	}
	return kindIngress
}

func stackOf(kind string, o metav1.Object) string {
	return kind + "/" + o.GetNamespace() + "/" + o.GetName()
}

// serve makes the load balancer of an object.
func (c *cluster) serve(ctx context.Context, d *deployer, o object, have *owned) error {
	if err := c.setFinalizer(ctx, o, true); err != nil {
		return err
	}
	st, err := c.model(ctx, d, o)
	if err != nil {
		c.event(ctx, o, corev1.EventTypeWarning, "FailedBuildModel", "Failed build model due to "+err.Error())
		return err
	}
	host, err := d.deploy(st, have)
	if err != nil {
		c.event(ctx, o, corev1.EventTypeWarning, "FailedDeployModel", "Failed deploy model due to "+err.Error())
	}
	if host != "" {
		err = errors.Join(err, c.setHost(ctx, o, host))
	}
	if err == nil {
		c.event(ctx, o, corev1.EventTypeNormal, "SuccessfullyReconciled", "Successfully reconciled")
	}
	return err
}

// setFinalizer adds or removes the finalizer of an object.
func (c *cluster) setFinalizer(ctx context.Context, o object, on bool) error {
	name := finalizer(kindOf(o))
	now := o.GetFinalizers()
	if slices.Contains(now, name) == on {
		return nil
	}
	next := slices.DeleteFunc(slices.Clone(now), func(f string) bool { return f == name })
	if on {
		next = append(next, name)
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"finalizers": next, "resourceVersion": o.GetResourceVersion()}})
	if err != nil {
		return err
	}
	if kindOf(o) == kindService {
		_, err = c.ses.Client.CoreV1().Services(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	} else {
		_, err = c.ses.Client.NetworkingV1().Ingresses(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if !on && apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// setHost writes the DNS name of an object's load balancer in its status. An empty name means none.
func (c *cluster) setHost(ctx context.Context, o object, host string) error {
	var was, want any
	if svc, ok := o.(*corev1.Service); ok {
		var list []corev1.LoadBalancerIngress
		if host != "" {
			list = append(list, corev1.LoadBalancerIngress{Hostname: host})
		}
		was, want = svc.Status.LoadBalancer.Ingress, list
	} else if ing, ok := o.(*networkingv1.Ingress); ok {
		var list []networkingv1.IngressLoadBalancerIngress
		if host != "" {
			list = append(list, networkingv1.IngressLoadBalancerIngress{Hostname: host})
		}
		was, want = ing.Status.LoadBalancer.Ingress, list
	}
	if reflect.DeepEqual(was, want) {
		return nil
	}
	patch, err := json.Marshal(map[string]any{"status": map[string]any{"loadBalancer": map[string]any{"ingress": want}}})
	if err != nil {
		return err
	}
	if kindOf(o) == kindService {
		_, err = c.ses.Client.CoreV1().Services(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	} else {
		_, err = c.ses.Client.NetworkingV1().Ingresses(o.GetNamespace()).Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{}, "status")
	}
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

// event records an event about an object.
func (c *cluster) event(ctx context.Context, o object, typ, reason, message string) {
	c.events.Record(ctx, referenceTo(o), typ, reason, message)
}

func referenceTo(o object) corev1.ObjectReference {
	ref := corev1.ObjectReference{Kind: "Service", APIVersion: "v1", Namespace: o.GetNamespace(), Name: o.GetName(), UID: o.GetUID(), ResourceVersion: o.GetResourceVersion()}
	if kindOf(o) == kindIngress {
		ref.Kind, ref.APIVersion = "Ingress", "networking.k8s.io/v1"
	}
	return ref
}

// Notes says which Services and Ingresses of a cluster wait for their load balancers, and what their last event says.
func Notes(ctx context.Context, ses *plane.Session) ([]string, error) {
	services, err := ses.Client.CoreV1().Services("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	classes, err := ses.Client.NetworkingV1().IngressClasses().List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	ingresses, err := ses.Client.NetworkingV1().Ingresses("").List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, err
	}
	var waiting []object
	for i := range services.Items {
		svc := &services.Items[i]
		if aws.ToString(svc.Spec.LoadBalancerClass) == serviceClass && (len(svc.Status.LoadBalancer.Ingress) == 0 || svc.DeletionTimestamp != nil) {
			waiting = append(waiting, svc)
		}
	}
	for i := range ingresses.Items {
		ing := &ingresses.Items[i]
		ours := slices.ContainsFunc(classes.Items, func(c networkingv1.IngressClass) bool {
			return c.Name == aws.ToString(ing.Spec.IngressClassName) && c.Spec.Controller == ingressController
		})
		if ours && (len(ing.Status.LoadBalancer.Ingress) == 0 || ing.DeletionTimestamp != nil) {
			waiting = append(waiting, ing)
		}
	}
	var out []string
	for _, o := range waiting {
		kind := referenceTo(o).Kind
		events, err := ses.Client.CoreV1().Events(o.GetNamespace()).List(ctx, metav1.ListOptions{FieldSelector: "involvedObject.name=" + o.GetName() + ",involvedObject.kind=" + kind})
		if err != nil {
			return nil, err
		}
		why := "there is no event yet"
		for _, e := range events.Items {
			if e.Source.Component == component && e.InvolvedObject.UID == o.GetUID() {
				why = e.Reason + ": " + e.Message
			}
		}
		out = append(out, fmt.Sprintf("EKS Auto Mode's load balancer of the %s %s/%s is not ready: %s", kind, o.GetNamespace(), o.GetName(), why))
	}
	return out, nil
}
