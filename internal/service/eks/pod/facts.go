// Package pod looks up pods in clusters, for explanations (`drydock why`) and for programs that run
// as pods (`drydock run --pod`). It never changes them.
package pod

import (
	"cmp"
	"context"
	"maps"
	"slices"
	"strconv"
	"strings"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/client-go/kubernetes"
	"k8s.io/utils/ptr"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/podidentity"
)

// A Service looks up pods. It has no API operations.
type Service struct {
	*base.Service
	identities *podidentity.Service
}

// New returns the part of EKS that looks up pods.
func New(b *base.Service, identities *podidentity.Service) *Service { return &Service{b, identities} }

// Facts is what a cluster knows about a pod, for explanations.
type Facts struct {
	Cluster         string
	Account, Region string
	PlaneID         string
	// Pod is nil if the pod was not created. Events are then about its controller.
	Pod *corev1.Pod
	// Events are about the pod, or about the failure to create it, oldest first.
	Events []corev1.Event
	// If the pod was not created, Wanting is how many pods its controller still has to create, Template is their
	// template, if known, and Quotas are the resource quotas of the namespace.
	Wanting  int
	Template *corev1.PodTemplateSpec
	Quotas   []corev1.ResourceQuota
	// Node is the node that the pod is bound to, or nil if it does not exist.
	Node *corev1.Node
	// If the pod is not bound to a node that exists, Nodes are all nodes of the cluster, Scheduled are the pods on them
	// that have not ended, and Volumes are the volumes bound to the pod's claims.
	Nodes     []corev1.Node
	Scheduled []corev1.Pod
	Volumes   []corev1.PersistentVolume
	// Missing are objects without which its containers cannot start.
	Missing []MissingObject
	// Unbound are the unbound volume claims that keep a pod from being scheduled.
	Unbound []UnboundClaim
	// Identity belongs to the pod's service account.
	Identity podidentity.ServiceAccountIdentity
}

// A MissingObject is a ConfigMap or Secret that a pod refers to and that does not exist or lacks a
// key.
type MissingObject struct {
	Kind, Name, Key string
	// Wants is a key that the pod needs of an object that does not exist at all.
	Wants string
	// Volume reports whether the object is mounted rather than used in a container's environment.
	Volume bool
}

// PodFacts looks a pod of a cluster of the call's account and region up. If no pod
// has the name, it may be its owner's, such as a Deployment's: then Pod is the
// owner's pod in the worst state, or the error for the pod that could not be created. Of a
// Deployment its newest ReplicaSet counts.
func (s *Service) PodFacts(ctx context.Context, cluster, namespace, name string) (Facts, error) {
	key, rec, ses, err := s.Session(ctx, cluster)
	if err != nil {
		return Facts{}, err
	}
	f := Facts{Cluster: cluster, Account: key.Account, Region: key.Region, PlaneID: rec.Plane.ID}
	pods := ses.Client.CoreV1().Pods(namespace)
	f.Pod, err = pods.Get(ctx, name, metav1.GetOptions{})
	switch {
	case apierrors.IsNotFound(err):
		f.Pod = nil
		list, err := pods.List(ctx, metav1.ListOptions{})
		if err != nil {
			return f, err
		}
		maker, err := currentMaker(ctx, ses.Client, namespace, name)
		if err != nil {
			return f, err
		}
		own := ownedBy(list.Items, maker)
		if len(own) == 0 { // those of before still run
			own = ownedBy(list.Items, name)
		}
		if len(own) > 0 {
			f.Pod = slices.MaxFunc(own, compareBadness)
		}
		if err := f.findRefusal(ctx, ses.Client, namespace, maker); err != nil {
			return f, err
		}
	case err != nil:
		return f, err
	}
	if f.Pod == nil {
		if n := len(f.Events); n > 0 {
			f.Wanting, f.Template, err = wanting(ctx, ses.Client, namespace, &f.Events[n-1].InvolvedObject)
			if err != nil {
				return f, err
			}
			quotas, err := ses.Client.CoreV1().ResourceQuotas(namespace).List(ctx, metav1.ListOptions{})
			if err != nil {
				return f, err
			}
			f.Quotas = quotas.Items
		}
		return f, nil
	}
	events, err := ses.Client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{
		FieldSelector: fields.Set{"involvedObject.kind": "Pod", "involvedObject.name": f.Pod.Name}.String(),
	})
	if err != nil {
		return f, err
	}
	for _, e := range events.Items {
		if e.InvolvedObject.UID == f.Pod.UID {
			f.Events = append(f.Events, e)
		}
	}
	sortEvents(f.Events)
	if err := f.findNodes(ctx, ses.Client); err != nil {
		return f, err
	}
	if err := f.findMissing(ctx, ses.Client); err != nil {
		return f, err
	}
	if err := f.findUnbound(ctx, ses.Client); err != nil {
		return f, err
	}
	f.Identity, err = s.identities.ServiceAccountIdentity(ctx, cluster, namespace, cmp.Or(f.Pod.Spec.ServiceAccountName, "default"))
	return f, err
}

// wanting returns how many pods a controller still has to create, and their template.
func wanting(ctx context.Context, client kubernetes.Interface, namespace string, of *corev1.ObjectReference) (int, *corev1.PodTemplateSpec, error) {
	opts := metav1.GetOptions{}
	switch of.Kind {
	case "ReplicaSet":
		rs, err := found(client.AppsV1().ReplicaSets(namespace).Get(ctx, of.Name, opts))
		if rs == nil {
			return 0, nil, err
		}
		return int(ptr.Deref(rs.Spec.Replicas, 1) - rs.Status.Replicas), &rs.Spec.Template, nil
	case "StatefulSet":
		set, err := found(client.AppsV1().StatefulSets(namespace).Get(ctx, of.Name, opts))
		if set == nil {
			return 0, nil, err
		}
		return int(ptr.Deref(set.Spec.Replicas, 1) - set.Status.Replicas), &set.Spec.Template, nil
	case "DaemonSet":
		set, err := found(client.AppsV1().DaemonSets(namespace).Get(ctx, of.Name, opts))
		if set == nil {
			return 0, nil, err
		}
		return int(set.Status.DesiredNumberScheduled - set.Status.CurrentNumberScheduled), &set.Spec.Template, nil
	case "Job":
		job, err := found(client.BatchV1().Jobs(namespace).Get(ctx, of.Name, opts))
		if job == nil {
			return 0, nil, err
		}
		wanted := ptr.Deref(job.Spec.Parallelism, 1)
		if job.Spec.Completions != nil {
			wanted = min(wanted, *job.Spec.Completions-job.Status.Succeeded)
		}
		return int(wanted - job.Status.Active), &job.Spec.Template, nil
	}
	return 0, nil, nil
}

// ownedBy are the pods of a maker.
func ownedBy(pods []corev1.Pod, maker string) []*corev1.Pod {
	var out []*corev1.Pod
	for i := range pods {
		if owner := metav1.GetControllerOf(&pods[i]); owner != nil && madeBy(owner.Name, maker) {
			out = append(out, &pods[i])
		}
	}
	return out
}

func compareBadness(a, b *corev1.Pod) int { return cmp.Compare(badness(a), badness(b)) }

// annotationRevision counts the ReplicaSets of a Deployment.
// https://kubernetes.io/docs/concepts/workloads/controllers/deployment/#checking-rollout-history-of-a-deployment
const annotationRevision = "deployment.kubernetes.io/revision"

// currentMaker is what makes the pods of a name now: of a Deployment its newest ReplicaSet.
func currentMaker(ctx context.Context, client kubernetes.Interface, namespace, name string) (string, error) {
	d, err := client.AppsV1().Deployments(namespace).Get(ctx, name, metav1.GetOptions{})
	if apierrors.IsNotFound(err) {
		return name, nil
	}
	if err != nil {
		return "", err
	}
	sets, err := client.AppsV1().ReplicaSets(namespace).List(ctx, metav1.ListOptions{})
	if err != nil {
		return "", err
	}
	newest := 0
	for i := range sets.Items {
		rs := &sets.Items[i]
		n, err := strconv.Atoi(rs.Annotations[annotationRevision])
		if err == nil && n > newest && metav1.IsControlledBy(rs, d) {
			newest, name = n, rs.Name
		}
	}
	return name, nil
}

// madeBy reports whether owner, a ReplicaSet or Job, has the controller's name or begins with it,
// as those created by a Deployment or CronJob do.
func madeBy(owner, maker string) bool {
	return owner == maker || strings.HasPrefix(owner, maker+"-") && !strings.Contains(owner[len(maker)+1:], "-")
}

func badness(p *corev1.Pod) int {
	switch {
	case p.Status.Phase == corev1.PodSucceeded:
		return 0
	case p.Status.Phase == corev1.PodRunning && kube.PodReady(p):
		return 1
	case p.Status.Phase == corev1.PodRunning:
		return 2
	}
	return 3
}

// findRefusal looks in the controller's events for the reason why a pod could not be created. A pod
// created after that failure takes precedence.
func (f *Facts) findRefusal(ctx context.Context, client kubernetes.Interface, namespace, name string) error {
	events, err := client.CoreV1().Events(namespace).List(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("reason", "FailedCreate").String()})
	if err != nil {
		return err
	}
	for _, e := range events.Items {
		of := e.InvolvedObject.Name
		if e.Reason == "FailedCreate" && (madeBy(of, name) || strings.HasPrefix(name, of+"-") || strings.Contains(e.Message, `"`+name+`"`)) {
			f.Events = append(f.Events, e)
		}
	}
	sortEvents(f.Events)
	if n := len(f.Events); n > 0 && (f.Pod == nil || badness(f.Pod) < 3 && lastSeen(&f.Events[n-1]).After(f.Pod.CreationTimestamp.Time)) {
		f.Pod = nil
		return nil
	}
	f.Events = nil
	return nil
}

func sortEvents(events []corev1.Event) {
	slices.SortStableFunc(events, func(a, b corev1.Event) int {
		return cmp.Or(lastSeen(&a).Compare(lastSeen(&b).Time), cmp.Compare(a.Name, b.Name))
	})
}

// lastSeen returns when an event last happened. Controllers use different fields for it.
func lastSeen(e *corev1.Event) metav1.Time {
	switch {
	case e.Series != nil:
		return metav1.Time{Time: e.Series.LastObservedTime.Time}
	case !e.LastTimestamp.IsZero():
		return e.LastTimestamp
	case !e.EventTime.IsZero():
		return metav1.Time{Time: e.EventTime.Time}
	}
	return e.CreationTimestamp
}

// found returns what was read from the API server; nil if it does not exist.
func found[T any](o *T, err error) (*T, error) {
	if err == nil {
		return o, nil
	}
	if apierrors.IsNotFound(err) {
		err = nil
	}
	return nil, err
}

func (f *Facts) findNodes(ctx context.Context, client kubernetes.Interface) error {
	if name := f.Pod.Spec.NodeName; name != "" {
		var err error
		if f.Node, err = found(client.CoreV1().Nodes().Get(ctx, name, metav1.GetOptions{})); f.Node != nil || err != nil {
			return err
		}
	}
	list, err := client.CoreV1().Nodes().List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	f.Nodes = list.Items
	pods, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{ResourceVersion: "0"})
	if err != nil {
		return err
	}
	for i := range pods.Items {
		if p := &pods.Items[i]; p.Spec.NodeName != "" && p.Status.Phase != corev1.PodSucceeded && p.Status.Phase != corev1.PodFailed {
			f.Scheduled = append(f.Scheduled, *p)
		}
	}
	return nil
}

// findMissing looks up the ConfigMaps and Secrets that the kubelet needs to start the containers.
func (f *Facts) findMissing(ctx context.Context, client kubernetes.Interface) error {
	type ref struct{ kind, name string }
	seen := map[ref]map[string]bool{} // their keys; nil if the object does not exist
	keys := func(kind, name string) (map[string]bool, error) {
		r := ref{kind, name}
		if have, ok := seen[r]; ok {
			return have, nil
		}
		var have map[string]bool
		e := environmentOf(ctx, client, f.Pod, nil)
		if kind == "Secret" {
			if o, err := e.Secret(name); err != nil {
				return nil, err
			} else if o != nil {
				have = keySet(o.Data)
			}
		} else if o, err := e.ConfigMap(name); err != nil {
			return nil, err
		} else if o != nil {
			have = keySet(o.Data)
			maps.Copy(have, keySet(o.BinaryData))
		}
		seen[r] = have
		return have, nil
	}
	for _, r := range references(&f.Pod.Spec) {
		have, err := keys(r.Kind, r.Name)
		if err != nil {
			return err
		}
		if have == nil {
			r.Wants, r.Key = r.Key, ""
			i := slices.IndexFunc(f.Missing, func(m MissingObject) bool {
				return m.Kind == r.Kind && m.Name == r.Name && m.Volume == r.Volume
			})
			if i >= 0 {
				f.Missing[i].Wants = cmp.Or(f.Missing[i].Wants, r.Wants)
				continue
			}
		} else if r.Key == "" || have[r.Key] {
			continue
		}
		if !slices.Contains(f.Missing, r) {
			f.Missing = append(f.Missing, r)
		}
	}
	return nil
}

func keySet[V any](m map[string]V) map[string]bool {
	out := make(map[string]bool, len(m))
	for k := range m {
		out[k] = true
	}
	return out
}

// references returns the ConfigMaps and Secrets that a pod refers to.
func references(spec *corev1.PodSpec) []MissingObject {
	var out []MissingObject
	add := func(kind, name, key string, volume bool, optional *bool) {
		if name != "" && (optional == nil || !*optional) {
			out = append(out, MissingObject{Kind: kind, Name: name, Key: key, Volume: volume})
		}
	}
	items := func(kind, name string, of []corev1.KeyToPath, optional *bool) {
		add(kind, name, "", true, optional)
		for _, i := range of {
			add(kind, name, i.Key, true, optional)
		}
	}
	for i := range spec.Volumes {
		v := &spec.Volumes[i]
		if c := v.ConfigMap; c != nil {
			items("ConfigMap", c.Name, c.Items, c.Optional)
		}
		if s := v.Secret; s != nil {
			items("Secret", s.SecretName, s.Items, s.Optional)
		}
		if v.Projected == nil {
			continue
		}
		for _, p := range v.Projected.Sources {
			if c := p.ConfigMap; c != nil {
				items("ConfigMap", c.Name, c.Items, c.Optional)
			}
			if s := p.Secret; s != nil {
				items("Secret", s.Name, s.Items, s.Optional)
			}
		}
	}
	for _, containers := range [][]corev1.Container{spec.InitContainers, spec.Containers} {
		for i := range containers {
			for _, e := range containers[i].EnvFrom {
				if e.ConfigMapRef != nil {
					add("ConfigMap", e.ConfigMapRef.Name, "", false, e.ConfigMapRef.Optional)
				}
				if e.SecretRef != nil {
					add("Secret", e.SecretRef.Name, "", false, e.SecretRef.Optional)
				}
			}
			for _, e := range containers[i].Env {
				if e.ValueFrom == nil {
					continue
				}
				if r := e.ValueFrom.ConfigMapKeyRef; r != nil {
					add("ConfigMap", r.Name, r.Key, false, r.Optional)
				}
				if r := e.ValueFrom.SecretKeyRef; r != nil {
					add("Secret", r.Name, r.Key, false, r.Optional)
				}
			}
		}
	}
	return out
}

// An UnboundClaim is a PersistentVolumeClaim without a volume.
type UnboundClaim struct {
	Claim *corev1.PersistentVolumeClaim
	// Class is its storage class, or nil if the claim names none or the class does not exist.
	Class *storagev1.StorageClass
	// Selected reports whether the scheduler has chosen a node for the pod and is waiting for a
	// provisioner to create the volume there.
	Selected bool
}

// findUnbound looks up the claims that keep the pod from being scheduled, and the volumes of the others. The scheduler
// itself reports claims that do not exist. A pod whose node is gone is replaced by one that has to be scheduled.
func (f *Facts) findUnbound(ctx context.Context, client kubernetes.Interface) error {
	if f.Node != nil {
		return nil
	}
	for i := range f.Pod.Spec.Volumes {
		v := &f.Pod.Spec.Volumes[i]
		name := ""
		switch {
		case v.PersistentVolumeClaim != nil:
			name = v.PersistentVolumeClaim.ClaimName
		case v.Ephemeral != nil:
			name = f.Pod.Name + "-" + v.Name // https://kubernetes.io/docs/concepts/storage/ephemeral-volumes/#persistentvolumeclaim-naming
		default:
			continue
		}
		claim, err := found(client.CoreV1().PersistentVolumeClaims(f.Pod.Namespace).Get(ctx, name, metav1.GetOptions{}))
		if err != nil {
			return err
		}
		if claim == nil {
			continue
		}
		if volume := claim.Spec.VolumeName; volume != "" {
			v, err := found(client.CoreV1().PersistentVolumes().Get(ctx, volume, metav1.GetOptions{}))
			if err != nil {
				return err
			}
			if v != nil {
				f.Volumes = append(f.Volumes, *v)
			}
			continue
		}
		u := UnboundClaim{Claim: claim, Selected: claim.Annotations["volume.kubernetes.io/selected-node"] != ""}
		if class := claim.Spec.StorageClassName; class != nil && *class != "" {
			if u.Class, err = found(client.StorageV1().StorageClasses().Get(ctx, *class, metav1.GetOptions{})); err != nil {
				return err
			}
		}
		f.Unbound = append(f.Unbound, u)
	}
	return nil
}
