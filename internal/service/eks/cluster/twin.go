package cluster

import (
	"cmp"
	"context"
	"encoding/base64"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	"golang.org/x/sync/errgroup"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/client-go/kubernetes"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// heldWait is how often an unchanged cluster of a twin is looked at again.
const heldWait = time.Second

// createCopy gives a cluster of a twin a control plane with its objects. It makes nothing in EC2, KMS or CloudWatch Logs:
// the network was copied, and the rest was not.
func (s *Service) createCopy(ctx context.Context, key store.Key, rec record.Cluster) (time.Duration, error) {
	p, err := s.claim(ctx, key, &rec)
	if err != nil {
		return 0, fmt.Errorf("claiming a control plane: %w", err)
	}
	if rec.Plane.ID != p.ID {
		if err := s.change(ctx, key, rec.UID, func(c *record.Cluster) { c.Plane = p }); err != nil {
			return 0, err
		}
	}
	vpc := *rec.Cluster.ResourcesVpcConfig
	if err := s.ControlPlanes.SetAccess(ctx, p.ID, vpc.EndpointPublicAccess, vpc.PublicAccessCidrs, vpc.EndpointPrivateAccess); err != nil {
		return 0, fmt.Errorf("setting endpoint access: %w", err)
	}
	if err := s.waitReady(ctx, p.ID); err != nil {
		return 0, err
	}
	if rec.Source.ObjectsRead {
		err = s.copyObjects(ctx, key, rec.UID, p.ID)
	} else {
		err = s.ensureBorn(ctx, key, rec, p)
	}
	if err != nil {
		return 0, err
	}
	return 0, s.change(ctx, key, rec.UID, func(c *record.Cluster) {
		if c.Cluster.Status != ekstypes.ClusterStatusCreating {
			return
		}
		c.Plane = p
		d := &c.Cluster
		d.Status, c.Since = ekstypes.ClusterStatusActive, s.Clock.Now().UTC()
		d.Endpoint = &p.Endpoint
		d.CertificateAuthority = &ekstypes.Certificate{Data: new(base64.StdEncoding.EncodeToString(p.CAPEM))}
	})
}

// CopyAt returns the copied cluster of a twin whose source, or whose control plane on AWS, is at a host, with its port unless that
// is 443.
func CopyAt(r store.Reader, account, host string) (record.Cluster, bool) {
	host = strings.TrimSuffix(host, ":443")
	for _, i := range record.Clusters.All(r, store.Scope{Account: account}) {
		c := i.Value
		if c.Source != nil && c.Plane.ID != "" && (strings.EqualFold(c.Source.Endpoint, "https://"+host) || strings.EqualFold(c.Plane.AWSHost, host)) {
			return c, true
		}
	}
	return record.Cluster{}, false
}

// Copying reports whether clusters of an account are still being copied.
func Copying(r store.Reader, account string) bool {
	return slices.ContainsFunc(record.Clusters.All(r, store.Scope{Account: account}), func(i store.Item[record.Cluster]) bool {
		return i.Value.Source != nil && i.Value.Cluster.Status == ekstypes.ClusterStatusCreating
	})
}

// copyWorkers is how many objects are copied at the same time.
const copyWorkers = 16

// A copied object waits for its turn.
type copied struct {
	resource schema.GroupVersionResource
	object   *unstructured.Unstructured
}

// copyObjects puts the objects that were read from the source into the control plane. It can be repeated. What the API
// server does not accept becomes a gap of the twin.
func (s *Service) copyObjects(ctx context.Context, key store.Key, uid, planeID string) error {
	ses, err := s.Sessions.Open(key, planeID)
	if err != nil {
		return err
	}
	turns := map[int][]copied{}
	var left, lost []recording.Gap
	err = s.Twins.Objects(ctx, key.Account, key.ID, func(q recording.KubernetesList, list *base.TwinObjects) error {
		res := schema.GroupVersionResource{Group: q.Group, Version: q.Version, Resource: q.Resource}
		kind := strings.TrimSuffix(list.Kind, "List")
		for _, item := range list.Items {
			o := &unstructured.Unstructured{Object: item}
			o.SetKind(kind)
			o.SetAPIVersion(res.GroupVersion().String())
			if why := notCopied(kind, o); why != "" {
				left = append(left, recording.Gap{
					Service: recording.Kubernetes, Operation: "List", Cluster: key.ID, Resource: res.GroupResource().String(), Subject: o.GetNamespace() + "/" + o.GetName(), Code: recording.NotCopied, Message: why,
				})
			} else if adapt(kind, o) {
				turns[turn(kind)] = append(turns[turn(kind)], copied{res, o})
			}
		}
		return nil
	})
	if err != nil {
		return err
	}
	var mu sync.Mutex
	var gone sync.Map // resources that are not served
	for now := range lastTurn + 1 {
		var g errgroup.Group
		g.SetLimit(copyWorkers)
		for _, c := range turns[now] {
			g.Go(func() error {
				err := s.put(ctx, ses.Objects, c, &gone)
				if err == nil || ctx.Err() != nil {
					return ctx.Err()
				}
				mu.Lock()
				defer mu.Unlock()
				subject := strings.TrimPrefix(c.object.GetNamespace()+"/"+c.object.GetName(), "/")
				lost = append(lost, recording.Gap{
					Service: recording.Kubernetes, Operation: "List", Cluster: key.ID, Resource: c.resource.GroupResource().String(), Subject: subject, Code: recording.NotModelled,
					Message: fmt.Sprintf("%s %s of cluster %s could not be copied: %v", c.object.GetKind(), subject, key.ID, err),
				})
				return nil
			})
		}
		if err := g.Wait(); err != nil {
			return err
		}
		if now == quotaTurn && slices.ContainsFunc(turns[now], func(c copied) bool { return c.object.GetKind() == "ResourceQuota" }) {
			if err := s.awaitQuotas(ctx, ses.Client); err != nil {
				return err
			}
		}
	}
	slices.SortFunc(lost, func(a, b recording.Gap) int { return cmp.Compare(a.Message, b.Message) })
	if n := len(left) - mostNotCopied; n > 0 {
		left = append(left[:mostNotCopied], recording.Gap{
			Service: recording.Kubernetes, Operation: "List", Cluster: key.ID, Resource: "pods", Code: recording.NotCopied, Message: fmt.Sprintf("%d more pods that had ended or were on Fargate were not copied, and it may be one of them", n),
		})
	}
	// If the twin is read again in the meantime, its old control plane is released and takes no more objects.
	still := func(r store.Reader) bool {
		now, err := record.Clusters.Get(r, key)
		return err == nil && now.UID == uid
	}
	return s.Twins.Lost(ctx, key.Account, still, append(lost, left...))
}

// mostNotCopied is how many of the pods that are not copied are kept by name.
const mostNotCopied = 2000

// notCopied returns why a pod is not copied: it has no machine in the twin. It returns "" if it is.
func notCopied(kind string, o *unstructured.Unstructured) string {
	if kind != "Pod" {
		return ""
	}
	phase, _, _ := unstructured.NestedString(o.Object, "status", "phase")
	on, _, _ := unstructured.NestedString(o.Object, "spec", "nodeName")
	name := o.GetNamespace() + "/" + o.GetName()
	switch {
	case phase == "Succeeded" || phase == "Failed":
		return "pod " + name + " had ended (" + phase + ") when it was read, and such pods are not copied"
	case strings.HasPrefix(on, fargateNode):
		return "pod " + name + " was " + cmp.Or(phase, "Pending") + " on Fargate when it was read, and pods on Fargate are not copied"
	}
	return ""
}

// fargateNode is how the names of Fargate's nodes begin.
const fargateNode = "fargate-"

// quotaPatience is how long quotas may take to come into force.
const quotaPatience = 10 * time.Second

// awaitQuotas waits until the quotas are in force: the API server goes by their status, which a controller writes.
func (s *Service) awaitQuotas(ctx context.Context, client kubernetes.Interface) error {
	for end := s.Clock.Now().Add(quotaPatience); s.Clock.Now().Before(end); {
		all, err := client.CoreV1().ResourceQuotas("").List(ctx, metav1.ListOptions{})
		if err != nil {
			return err
		}
		if !slices.ContainsFunc(all.Items, func(q corev1.ResourceQuota) bool { return len(q.Spec.Hard) > 0 && len(q.Status.Hard) == 0 }) {
			return nil
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Clock.After(100 * time.Millisecond):
		}
	}
	return nil
}

// put puts an object. Resources of a new CustomResourceDefinition are served a moment later; those that are not are in gone.
func (s *Service) put(ctx context.Context, objects plane.Objects, c copied, gone *sync.Map) error {
	var err error
	for range 20 {
		if err = objects.Put(ctx, c.resource, c.object); err == nil || !strings.Contains(err.Error(), "the server could not find the requested resource") {
			return err
		}
		if _, ok := gone.Load(c.resource); ok {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-s.Clock.After(100 * time.Millisecond):
		}
	}
	gone.Store(c.resource, true)
	return err
}

// The turn of quotas, and the last one.
const (
	quotaTurn = 3
	lastTurn  = 6
)

// turn is when the objects of a kind are put: each after those that it needs, and controllers after the objects that
// they adopt.
func turn(kind string) int {
	switch kind {
	case "Namespace", "CustomResourceDefinition":
		return 0
	case "Pod", "PersistentVolumeClaim", "ControllerRevision":
		return 2
	case "ResourceQuota", "LimitRange":
		return quotaTurn // they are about the pods that controllers make from now on
	case "ReplicaSet", "StatefulSet", "DaemonSet", "ReplicationController", "Job":
		return 4
	case "Deployment", "CronJob":
		return 5
	case "ValidatingAdmissionPolicyBinding", "MutatingAdmissionPolicyBinding":
		return lastTurn // they are about objects that are still to come
	}
	return 1
}

// adapt makes an object of the source one that can be put here, and reports whether it is to be put. Owners are left out,
// because they have other UIDs here: controllers adopt what they select.
func adapt(kind string, o *unstructured.Unstructured) bool {
	if o.GetDeletionTimestamp() != nil {
		return false
	}
	if by := kube.Operated(o); kind == "Pod" && by != "" {
		notes := o.GetAnnotations()
		if notes == nil {
			notes = map[string]string{}
		}
		notes[kube.AnnotationController] = by
		o.SetAnnotations(notes)
	}
	o.SetOwnerReferences(nil)
	o.SetResourceVersion("")
	o.SetUID("")
	o.SetGenerateName("")
	unstructured.RemoveNestedField(o.Object, "metadata", "creationTimestamp")
	delete(o.Object, "status")
	switch kind {
	case "APIService":
		// Those of other servers are not connected, and the API server makes its own.
		return false
	case "Service":
		return o.GetNamespace() != "default" || o.GetName() != "kubernetes"
	case "Node":
		// Only its kubelet knows whether it is ready. Controllers set these taints.
		taints, _, _ := unstructured.NestedSlice(o.Object, "spec", "taints")
		taints = slices.DeleteFunc(taints, func(t any) bool {
			taint, _ := t.(map[string]any)
			k, _ := taint["key"].(string)
			return strings.HasPrefix(k, "node.kubernetes.io/")
		})
		if len(taints) == 0 {
			unstructured.RemoveNestedField(o.Object, "spec", "taints")
		} else {
			_ = unstructured.SetNestedSlice(o.Object, taints, "spec", "taints")
		}
		return !strings.HasPrefix(o.GetName(), fargateNode)
	case "Pod":
		_, mirror := o.GetAnnotations()["kubernetes.io/config.mirror"]
		return !mirror
	case "Job":
		_ = unstructured.SetNestedField(o.Object, true, "spec", "manualSelector")
	case "PersistentVolume":
		unstructured.RemoveNestedField(o.Object, "spec", "claimRef", "uid")
		unstructured.RemoveNestedField(o.Object, "spec", "claimRef", "resourceVersion")
	case "ValidatingWebhookConfiguration", "MutatingWebhookConfiguration":
		// They are there to be seen, and are never called.
		if strings.HasPrefix(o.GetName(), "pod-identity-webhook") || strings.HasPrefix(o.GetName(), "vpc-resource-") || strings.HasPrefix(o.GetName(), "eks-") || strings.Contains(o.GetName(), "fargate") {
			return false // EKS's own
		}
		hooks, _, _ := unstructured.NestedSlice(o.Object, "webhooks")
		for _, h := range hooks {
			if hook, ok := h.(map[string]any); ok {
				hook["matchConditions"] = []any{map[string]any{"name": "twin", "expression": "false"}}
			}
		}
		_ = unstructured.SetNestedSlice(o.Object, hooks, "webhooks")
	case "CustomResourceDefinition":
		if strategy, _, _ := unstructured.NestedString(o.Object, "spec", "conversion", "strategy"); strategy == "Webhook" {
			_ = unstructured.SetNestedMap(o.Object, map[string]any{"strategy": "None"}, "spec", "conversion")
		}
	}
	return true
}
