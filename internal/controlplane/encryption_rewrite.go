package controlplane

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"
	k8sdiscovery "k8s.io/client-go/discovery"
	"k8s.io/client-go/dynamic"
	"k8s.io/client-go/metadata"
	"k8s.io/client-go/rest"
)

// rewritePage is how many objects are listed at a time, and rewriters how many are written concurrently.
const rewritePage, rewriters = 500, 8

// rewrite writes every object again, which encrypts those that are not encrypted yet. On EKS,
// eks:kms-storage-migrator does that.
func (p *plane) rewrite(ctx context.Context, cfg *rest.Config) error {
	resources, err := storedResources(ctx, cfg)
	if err != nil {
		return err
	}
	client, err := metadata.NewForConfig(cfg)
	if err != nil {
		return err
	}
	var refused refusals
	for _, gvr := range resources {
		objects := client.Resource(gvr)
		for next := ""; ; {
			page, err := objects.List(ctx, metav1.ListOptions{Limit: rewritePage, Continue: next})
			if apierrors.IsNotFound(err) {
				break // its CRD has just been deleted
			}
			if err != nil {
				return fmt.Errorf("listing %s: %w", gvr.Resource, err)
			}
			var group errgroup.Group
			group.SetLimit(rewriters)
			for i := range page.Items {
				group.Go(func() error { return rewriteObject(ctx, objects, gvr, &page.Items[i], &refused) })
			}
			if err := group.Wait(); err != nil {
				return err
			}
			if next = page.Continue; next == "" {
				break
			}
		}
	}
	if n := refused.count.Load(); n > 0 {
		p.m.cfg.Log.Warn("some objects are not encrypted with the cluster's key, because the cluster's admission rejects writing them; they are encrypted when they are next written",
			"plane", p.id, "objects", n, "err", *refused.example.Load())
	}
	return nil
}

// refusals are objects that the user's own admission webhooks or policies do not allow to be written.
type refusals struct {
	count   atomic.Int64
	example atomic.Pointer[error]
}

func rewriteObject(ctx context.Context, objects metadata.Getter, gvr schema.GroupVersionResource, o *metav1.PartialObjectMetadata, refused *refusals) error {
	var in metadata.ResourceInterface = objects
	if o.Namespace != "" {
		in = objects.Namespace(o.Namespace)
	}
	// A concurrent change has rewritten the object, which is sufficient.
	patch := fmt.Sprintf(`{"metadata":{"uid":%q,"resourceVersion":%q}}`, o.UID, o.ResourceVersion)
	_, err := in.Patch(ctx, o.Name, types.MergePatchType, []byte(patch), metav1.PatchOptions{})
	if err == nil || apierrors.IsNotFound(err) || apierrors.IsConflict(err) {
		return nil
	}
	err = fmt.Errorf("writing %s %s/%s: %w", gvr.Resource, o.Namespace, o.Name, err)
	// A Secret must not stay unencrypted because of a webhook.
	if refusedByUser(err) && gvr.GroupResource() != (schema.GroupResource{Resource: "secrets"}) {
		refused.count.Add(1)
		refused.example.CompareAndSwap(nil, &err)
		return nil
	}
	return err
}

// refusedByUser reports whether the user is certainly the reason why a write was refused: by admission, or by
// validation that has become stricter than the object. Any other failure may be temporary, including everything that
// the API server or etcd cannot do now.
func refusedByUser(err error) bool {
	status := apierrors.APIStatus(nil)
	if !errors.As(err, &status) {
		return false
	}
	switch s := status.Status(); s.Code {
	case http.StatusBadRequest, http.StatusForbidden, http.StatusUnprocessableEntity:
		return true
	case http.StatusInternalServerError:
		// k8s.io/apiserver/pkg/util/webhook and pkg/admission/plugin/webhook/errors
		return strings.Contains(s.Message, "failed calling webhook") || strings.Contains(s.Message, "denied the request")
	}
	return false
}

// storedResources lists what a plane's own API server stores, without what it forwards to aggregated API servers.
// Events are left out: they expire within the hour, and writing them would prolong that.
func storedResources(ctx context.Context, cfg *rest.Config) ([]schema.GroupVersionResource, error) {
	elsewhere, err := aggregated(ctx, cfg)
	if err != nil {
		return nil, err
	}
	client, err := k8sdiscovery.NewDiscoveryClientForConfig(cfg)
	if err != nil {
		return nil, err
	}
	groups, lists, err := client.ServerGroupsAndResources()
	if failed := (*k8sdiscovery.ErrGroupDiscoveryFailed)(nil); errors.As(err, &failed) {
		for gv, err := range failed.Groups {
			if !elsewhere.Has(gv) {
				return nil, fmt.Errorf("discovering resources of %s: %w", gv, err)
			}
		}
	} else if err != nil {
		return nil, fmt.Errorf("discovering resources: %w", err)
	}
	of := map[string][]metav1.APIResource{}
	for _, list := range lists {
		of[list.GroupVersion] = list.APIResources
	}
	// A resource with several versions is only stored once.
	seen := sets.New(schema.GroupResource{Resource: "events"}, schema.GroupResource{Group: "events.k8s.io", Resource: "events"})
	var out []schema.GroupVersionResource
	for _, group := range groups {
		for _, version := range group.Versions {
			gv := schema.GroupVersion{Group: group.Name, Version: version.Version}
			if elsewhere.Has(gv) {
				continue
			}
			for _, r := range of[gv.String()] {
				gvr := gv.WithResource(r.Name)
				if strings.Contains(r.Name, "/") || !slices.Contains(r.Verbs, "list") || !slices.Contains(r.Verbs, "patch") || seen.Has(gvr.GroupResource()) {
					continue
				}
				seen.Insert(gvr.GroupResource())
				out = append(out, gvr)
			}
		}
	}
	return out, nil
}

// aggregated returns the group versions that other API servers serve.
func aggregated(ctx context.Context, cfg *rest.Config) (sets.Set[schema.GroupVersion], error) {
	client, err := dynamic.NewForConfig(cfg)
	if err != nil {
		return nil, err
	}
	services, err := client.Resource(schema.GroupVersionResource{Group: "apiregistration.k8s.io", Version: "v1", Resource: "apiservices"}).List(ctx, metav1.ListOptions{})
	if err != nil {
		return nil, fmt.Errorf("listing API services: %w", err)
	}
	out := sets.New[schema.GroupVersion]()
	for _, s := range services.Items {
		if service, found, _ := unstructured.NestedMap(s.Object, "spec", "service"); found && service != nil {
			group, _, _ := unstructured.NestedString(s.Object, "spec", "group")
			version, _, _ := unstructured.NestedString(s.Object, "spec", "version")
			out.Insert(schema.GroupVersion{Group: group, Version: version})
		}
	}
	return out, nil
}
