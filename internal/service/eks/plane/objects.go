package plane

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/api/meta"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/rest"
)

// FieldManager is the field manager name of EKS's changes to cluster objects.
// https://docs.aws.amazon.com/eks/latest/userguide/kubernetes-field-management.html
const FieldManager = "eks"

// applyWorkers is how many objects are applied at the same time.
const applyWorkers = 16

// Objects reads and changes objects of any kind in a cluster.
type Objects interface {
	// Apply creates an object or changes it by server-side apply. If another manager has set a
	// field to a different value, the error is a conflict, an [apierrors.StatusError].
	Apply(ctx context.Context, o *unstructured.Unstructured, how ApplyOptions) error
	// Put creates an object of a resource, or replaces the one that exists. If it has managed fields, they stay as they are.
	Put(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) error
	// Get returns the current object with the kind, namespace and name of o.
	Get(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error)
	// Any reports whether there is an object of a resource. It is false if the server does not serve the resource.
	Any(ctx context.Context, r schema.GroupVersionResource) (bool, error)
	// List returns the objects of a resource. It returns none if the server does not serve it. If there are very many, it
	// returns some of them and ErrTooMany.
	List(ctx context.Context, r schema.GroupVersionResource) ([]unstructured.Unstructured, error)
	// Watchable returns the objects of a resource for Watch.
	Watchable(r schema.GroupVersionResource) Watchable
	// Patch and PatchStatus merge a change into an object without a namespace, or into its status.
	Patch(ctx context.Context, r schema.GroupVersionResource, name string, change map[string]any) error
	PatchStatus(ctx context.Context, r schema.GroupVersionResource, name string, change map[string]any) error
	// Delete deletes an object and its dependents. It is not an error if the object does not exist.
	// If o has a UID and the object has another, the error is a conflict.
	Delete(ctx context.Context, o *unstructured.Unstructured) error
	// Pods returns some of the pods that the workload o selects, leaving out pods that are being
	// deleted.
	Pods(ctx context.Context, o *unstructured.Unstructured) ([]corev1.Pod, error)
}

// Watchable are the objects of a resource in all namespaces.
type Watchable interface {
	List(ctx context.Context, o metav1.ListOptions) (*unstructured.UnstructuredList, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}

// podsListed limits the result of [Objects.Pods], and listPages of listPage objects that of [Objects.List].
const (
	podsListed = 500
	listPage   = 500
	listPages  = 20
)

// ErrTooMany is returned by [Objects.List].
var ErrTooMany = fmt.Errorf("more than %d objects exist", listPages*listPage)

// ApplyOptions control how objects are applied.
type ApplyOptions struct {
	// Force takes over fields that others manage.
	Force bool
	// DryRun changes nothing.
	DryRun bool
}

// dynamicObjects implements Objects with a dynamic client.
type dynamicObjects struct{ client dynamic.Interface }

// NewObjects returns the objects of the API server that rc connects to.
func NewObjects(rc *rest.Config) (Objects, error) {
	client, err := dynamic.NewForConfig(rc)
	return dynamicObjects{client}, err
}

func (d dynamicObjects) resource(o *unstructured.Unstructured) dynamic.ResourceInterface {
	// The kinds come from the add-on catalogue, and all have a regular plural.
	plural, _ := meta.UnsafeGuessKindToResource(o.GroupVersionKind())
	r := d.client.Resource(plural)
	if ns := o.GetNamespace(); ns != "" {
		return r.Namespace(ns)
	}
	return r
}

func (d dynamicObjects) Apply(ctx context.Context, o *unstructured.Unstructured, how ApplyOptions) error {
	opts := metav1.ApplyOptions{FieldManager: FieldManager, Force: how.Force}
	if how.DryRun {
		opts.DryRun = []string{metav1.DryRunAll}
	}
	_, err := d.resource(o).Apply(ctx, o.GetName(), o, opts)
	return err
}

func (d dynamicObjects) Any(ctx context.Context, r schema.GroupVersionResource) (bool, error) {
	list, err := d.client.Resource(r).List(ctx, metav1.ListOptions{Limit: 1})
	if apierrors.IsNotFound(err) {
		return false, nil
	}
	return err == nil && len(list.Items) > 0, err
}

func (d dynamicObjects) Watchable(r schema.GroupVersionResource) Watchable {
	return d.client.Resource(r)
}

func (d dynamicObjects) List(ctx context.Context, r schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	var out []unstructured.Unstructured
	next := ""
	for range listPages {
		page, err := d.client.Resource(r).List(ctx, metav1.ListOptions{Limit: listPage, Continue: next})
		if apierrors.IsNotFound(err) {
			return nil, nil
		}
		if err != nil {
			return nil, err
		}
		out = append(out, page.Items...)
		if next = page.GetContinue(); next == "" {
			return out, nil
		}
	}
	return out, ErrTooMany
}

func (d dynamicObjects) Put(ctx context.Context, r schema.GroupVersionResource, o *unstructured.Unstructured) error {
	var in dynamic.ResourceInterface = d.client.Resource(r)
	if ns := o.GetNamespace(); ns != "" {
		in = d.client.Resource(r).Namespace(ns)
	}
	fields := o.GetManagedFields()
	o.SetManagedFields(nil)
	_, err := in.Create(ctx, o, metav1.CreateOptions{FieldManager: FieldManager})
	if apierrors.IsAlreadyExists(err) {
		var old *unstructured.Unstructured
		if old, err = in.Get(ctx, o.GetName(), metav1.GetOptions{}); err != nil {
			return err
		}
		o.SetResourceVersion(old.GetResourceVersion())
		o.SetUID(old.GetUID())
		_, err = in.Update(ctx, o, metav1.UpdateOptions{FieldManager: FieldManager})
	}
	if err != nil || len(fields) == 0 {
		return err
	}
	// The API server takes managed fields as they are only from a change that changes nothing else.
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"managedFields": fields}})
	if err != nil {
		return err
	}
	_, err = in.Patch(ctx, o.GetName(), types.MergePatchType, patch, metav1.PatchOptions{FieldManager: FieldManager})
	return err
}

func (d dynamicObjects) Get(ctx context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	return d.resource(o).Get(ctx, o.GetName(), metav1.GetOptions{})
}

func (d dynamicObjects) Patch(ctx context.Context, r schema.GroupVersionResource, name string, change map[string]any) error {
	return d.patch(ctx, r, name, change)
}

func (d dynamicObjects) PatchStatus(ctx context.Context, r schema.GroupVersionResource, name string, change map[string]any) error {
	return d.patch(ctx, r, name, change, "status")
}

func (d dynamicObjects) patch(ctx context.Context, r schema.GroupVersionResource, name string, change map[string]any, subresources ...string) error {
	b, err := json.Marshal(change)
	if err != nil {
		return err
	}
	_, err = d.client.Resource(r).Patch(ctx, name, types.MergePatchType, b, metav1.PatchOptions{FieldManager: FieldManager}, subresources...)
	return err
}

func (d dynamicObjects) Delete(ctx context.Context, o *unstructured.Unstructured) error {
	opts := metav1.DeleteOptions{PropagationPolicy: new(metav1.DeletePropagationBackground)}
	if uid := o.GetUID(); uid != "" {
		opts.Preconditions = metav1.NewUIDPreconditions(string(uid))
	}
	err := d.resource(o).Delete(ctx, o.GetName(), opts)
	if apierrors.IsNotFound(err) {
		return nil
	}
	return err
}

func (d dynamicObjects) Pods(ctx context.Context, o *unstructured.Unstructured) ([]corev1.Pod, error) {
	labels, _, err := unstructured.NestedStringMap(o.Object, "spec", "selector", "matchLabels")
	if err != nil || len(labels) == 0 {
		return nil, err
	}
	pods := d.client.Resource(corev1.SchemeGroupVersion.WithResource("pods")).Namespace(o.GetNamespace())
	list, err := pods.List(ctx, metav1.ListOptions{LabelSelector: metav1.FormatLabelSelector(&metav1.LabelSelector{MatchLabels: labels}), Limit: podsListed})
	if err != nil {
		return nil, err
	}
	var out []corev1.Pod
	for _, item := range list.Items {
		var p corev1.Pod
		if err := runtime.DefaultUnstructuredConverter.FromUnstructured(item.Object, &p); err != nil {
			return nil, err
		}
		if p.DeletionTimestamp == nil {
			out = append(out, p)
		}
	}
	return out, nil
}

// stage is the order in which objects are applied: first namespaces and CRDs, because others depend
// on them; last the workloads, because they depend on others.
func stage(o *unstructured.Unstructured) int {
	switch o.GetKind() {
	case "Namespace", "CustomResourceDefinition":
		return 0
	case "DaemonSet", "Deployment":
		return 2
	}
	return 1
}

// Each calls fn for all objects, several at a time, one stage after the other. It stops after a
// stage with errors and returns all of them.
func Each(ctx context.Context, objects []*unstructured.Unstructured, fn func(context.Context, *unstructured.Unstructured) error) error {
	for now := range 3 {
		errs := make([]error, len(objects))
		var g errgroup.Group
		g.SetLimit(applyWorkers)
		for i, o := range objects {
			if stage(o) == now {
				g.Go(func() error { errs[i] = fn(ctx, o); return nil })
			}
		}
		_ = g.Wait() // fn's errors are in errs
		if err := errors.Join(errs...); err != nil {
			return err
		}
	}
	return nil
}

// Describe names an object for use in messages.
func Describe(o *unstructured.Unstructured) string {
	if o.GetNamespace() == "" {
		return fmt.Sprintf("%s %s", o.GetKind(), o.GetName())
	}
	return fmt.Sprintf("%s %s/%s", o.GetKind(), o.GetNamespace(), o.GetName())
}
