package eks_test

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net/http"
	"reflect"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/runtime/schema"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/dynamic"
	dynamicfake "k8s.io/client-go/dynamic/fake"
	"k8s.io/client-go/rest"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks"
)

// fakeObjects are the objects of one cluster. They support server-side apply's field ownership as
// far as tests need it.
type fakeObjects struct {
	patched map[string]map[string]any              // by RESOURCE/NAME or RESOURCE/NAME/status
	lists   map[string][]unstructured.Unstructured // what List returns, by resource
	mu      sync.Mutex
	byID    map[string]*unstructured.Unstructured
	// foreign are fields that another manager owns, by object and dotted path.
	foreign map[string]map[string]any
	// refused are objects that admission rejects, and the errors.
	refused map[string]error
	// short are workloads whose pods do not start.
	short map[string]bool
	// finalized are objects that stay after a deletion, and how often they were deleted.
	finalized map[string]int
	// read counts the reads.
	read int
	// watched has the objects of resources that are watched.
	watched *dynamicfake.FakeDynamicClient
	// pods are the pods of each workload.
	pods map[string][]corev1.Pod
	// listed counts how often pods were listed, and lookups the calls of Any and List.
	listed, lookups int
	// wanted is the desired number of pods of DaemonSets whose status follows their pods.
	wanted map[string]int64
	// served are the paths of resources with objects, for Any.
	served map[string]bool
	// silent, if not nil, is the error of every read.
	silent error
	// users are objects to which EKS has applied nothing. replaced are objects that a user
	// recreates just before they are deleted.
	users, replaced map[string]bool
	// made counts created objects.
	made int
}

// objects returns the objects of the only control plane.
func (p *fakePlanes) objects(rc *rest.Config) (eks.Objects, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.objectsOf == nil {
		p.objectsOf = map[string]*fakeObjects{}
	}
	o, ok := p.objectsOf[rc.Host]
	if !ok {
		o = &fakeObjects{byID: map[string]*unstructured.Unstructured{}, foreign: map[string]map[string]any{}, refused: map[string]error{}, short: map[string]bool{}}
		p.objectsOf[rc.Host] = o
	}
	return o, nil
}

func (w *world) objects() *fakeObjects {
	pl, _ := w.planes.only()
	o, err := w.planes.objects(&rest.Config{Host: pl.ID})
	if err != nil {
		w.Fatal(err)
	}
	return o.(*fakeObjects)
}

func objectID(o *unstructured.Unstructured) string {
	return strings.TrimPrefix(o.GetKind()+" "+o.GetNamespace()+"/"+o.GetName(), "/")
}

func (f *fakeObjects) Put(_ context.Context, _ schema.GroupVersionResource, o *unstructured.Unstructured) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.refused[objectID(o)]; err != nil {
		return err
	}
	f.put(o)
	return nil
}

func (f *fakeObjects) Apply(_ context.Context, o *unstructured.Unstructured, how eks.ApplyOptions) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := objectID(o)
	if err := f.refused[id]; err != nil {
		return err
	}
	o = o.DeepCopy()
	var causes []metav1.StatusCause
	for path, theirs := range f.foreign[id] {
		ours, ok, err := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...)
		switch {
		case err != nil:
			return err
		case ok && !reflect.DeepEqual(ours, theirs) && !how.Force:
			causes = append(causes, metav1.StatusCause{Type: metav1.CauseTypeFieldManagerConflict, Field: "." + path, Message: `conflict with "kubectl-edit" using v1`})
		case ok && how.Force && !how.DryRun:
			delete(f.foreign[id], path)
		default:
			if err := unstructured.SetNestedField(o.Object, theirs, strings.Split(path, ".")...); err != nil {
				return err
			}
		}
	}
	if causes != nil {
		return apierrors.NewApplyConflict(causes, fmt.Sprintf("Apply failed with %d conflict: %s", len(causes), causes[0].Message))
	}
	if !how.DryRun {
		delete(f.users, id)
		f.put(o)
	}
	return nil
}

// put creates or replaces an object.
func (f *fakeObjects) put(o *unstructured.Unstructured) {
	if old, ok := f.byID[objectID(o)]; ok {
		o.SetUID(old.GetUID())
	} else {
		f.made++
		o.SetUID(types.UID(fmt.Sprint(f.made)))
	}
	f.byID[objectID(o)] = o
}

// remake deletes and recreates an object, as a user would.
func (f *fakeObjects) remake(id string) {
	o := f.byID[id]
	delete(f.byID, id)
	delete(f.replaced, id)
	f.put(o.DeepCopy())
	if f.users == nil {
		f.users = map[string]bool{}
	}
	f.users[id] = true
}

// place makes a workload have one ready pod on a node.
func (f *fakeObjects) place(id, node string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.pods == nil {
		f.pods = map[string][]corev1.Pod{}
	}
	f.pods[id] = []corev1.Pod{{Spec: corev1.PodSpec{NodeName: node}, Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: corev1.ConditionTrue}}}}}
}

// usersOwn makes a user recreate an object.
func (f *fakeObjects) usersOwn(id string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.remake(id)
}

// managed returns which manager set which fields of an object.
func (f *fakeObjects) managed(id string) []metav1.ManagedFieldsEntry {
	entry := func(manager, fields string) metav1.ManagedFieldsEntry {
		return metav1.ManagedFieldsEntry{Manager: manager, FieldsV1: metav1.NewFieldsV1(fields)}
	}
	const all = `{"f:metadata":{},"f:spec":{}}`
	if f.users[id] {
		return []metav1.ManagedFieldsEntry{entry("kubectl", all)}
	}
	out := []metav1.ManagedFieldsEntry{entry("eks", all), entry("controller", `{"f:metadata":{},"f:status":{}}`)}
	for path := range f.foreign[id] {
		first, _, _ := strings.Cut(path, ".")
		out = append(out, entry("kubectl-edit", fmt.Sprintf(`{"f:%s":{}}`, first)))
	}
	return out
}

// roll sets the status of a workload depending on whether its pods run.
func (f *fakeObjects) roll(o *unstructured.Unstructured) error {
	n, found, err := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if err != nil {
		return err
	}
	if !found {
		n = 1
	}
	running := n
	if f.short[objectID(o)] {
		running = 0
	}
	if wanted, ok := f.wanted[objectID(o)]; ok {
		n, running = wanted, 0
		for _, p := range f.pods[objectID(o)] {
			if kube.PodReady(&p) {
				running++
			}
		}
	}
	return unstructured.SetNestedMap(o.Object, map[string]any{
		"desiredNumberScheduled": n, "numberReady": running, "updatedNumberScheduled": n, "readyReplicas": running, "updatedReplicas": n,
	}, "status")
}

// stop sets whether the pods of a workload are missing.
func (f *fakeObjects) stop(id string, missing bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.short[id] = missing
}

func (f *fakeObjects) refuse(id string, err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused[id] = err
}

func (f *fakeObjects) Get(_ context.Context, o *unstructured.Unstructured) (*unstructured.Unstructured, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.read++
	if f.silent != nil {
		return nil, f.silent
	}
	if got, ok := f.byID[objectID(o)]; ok {
		got = got.DeepCopy()
		got.SetManagedFields(f.managed(objectID(o)))
		return got, f.roll(got)
	}
	return nil, apierrors.NewNotFound(schema.GroupResource{Resource: o.GetKind()}, o.GetName())
}

func (f *fakeObjects) Any(_ context.Context, r schema.GroupVersionResource) (bool, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookups++
	return f.served["/apis/"+r.Group+"/"+r.Version+"/"+r.Resource], f.silent
}

func (f *fakeObjects) List(_ context.Context, r schema.GroupVersionResource) ([]unstructured.Unstructured, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.lookups++
	return f.lists[r.Resource], f.silent
}

func (f *fakeObjects) Watchable(r schema.GroupVersionResource) eks.Watchable { return f.resource(r) }

// resource returns the objects of a resource that is watched.
func (f *fakeObjects) resource(r schema.GroupVersionResource) dynamic.ResourceInterface {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.watched == nil {
		f.watched = dynamicfake.NewSimpleDynamicClientWithCustomListKinds(runtime.NewScheme(), map[schema.GroupVersionResource]string{clusterPolicies: "ClusterNetworkPolicyList"})
	}
	return f.watched.Resource(r)
}

func (f *fakeObjects) Patch(_ context.Context, r schema.GroupVersionResource, name string, change map[string]any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.patched == nil {
		f.patched = map[string]map[string]any{}
	}
	f.patched[r.Resource+"/"+name] = change
	return f.silent
}

func (f *fakeObjects) PatchStatus(ctx context.Context, r schema.GroupVersionResource, name string, change map[string]any) error {
	return f.Patch(ctx, r, name+"/status", change)
}

func (f *fakeObjects) Delete(_ context.Context, o *unstructured.Unstructured) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	id := objectID(o)
	if _, stays := f.finalized[id]; stays {
		f.finalized[id]++
		return nil
	}
	if f.replaced[id] {
		f.remake(id)
	}
	if now, ok := f.byID[id]; ok && o.GetUID() != "" && o.GetUID() != now.GetUID() {
		return apierrors.NewConflict(schema.GroupResource{Resource: o.GetKind()}, o.GetName(), errors.New("the UID in the precondition does not match"))
	}
	delete(f.byID, id)
	return nil
}

// pending makes the pods of a workload Pending.
func (f *fakeObjects) pending(id string, pods ...corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.short[id], f.pods = true, map[string][]corev1.Pod{id: pods}
}

// spread gives a DaemonSet these pods, and sets its desired number accordingly.
func (f *fakeObjects) spread(id string, pods ...corev1.Pod) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.wanted, f.pods = map[string]int64{id: int64(len(pods))}, map[string][]corev1.Pod{id: pods}
}

// lookedAt waits until missing pods have been listed n more times.
func (w *world) lookedAt(n int) {
	w.Helper()
	f := w.objects()
	looks := func() int {
		f.mu.Lock()
		defer f.mu.Unlock()
		return f.listed
	}
	before := looks()
	w.eventually(func() error {
		if got := looks() - before; got < n {
			return fmt.Errorf("looked at %d times, want %d", got, n)
		}
		return nil
	})
}

func (f *fakeObjects) Pods(_ context.Context, o *unstructured.Unstructured) ([]corev1.Pod, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.listed++
	return slices.Clone(f.pods[objectID(o)]), nil
}

func (f *fakeObjects) ids() []string {
	f.mu.Lock()
	defer f.mu.Unlock()
	return slices.Sorted(maps.Keys(f.byID))
}

// edit changes a field as a user of kubectl would.
func (f *fakeObjects) edit(id, path string, value any) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.byID[id]
	if !ok {
		return errors.New("no " + id)
	}
	if f.foreign[id] == nil {
		f.foreign[id] = map[string]any{}
	}
	f.foreign[id][path] = value
	return unstructured.SetNestedField(o.Object, value, strings.Split(path, ".")...)
}

func (f *fakeObjects) field(id, path string) any {
	f.mu.Lock()
	defer f.mu.Unlock()
	o, ok := f.byID[id]
	if !ok {
		return nil
	}
	v, _, _ := unstructured.NestedFieldNoCopy(o.Object, strings.Split(path, ".")...)
	return v
}

// forbidden returns an error like that of a validating webhook.
func forbidden(message string) error {
	return &apierrors.StatusError{ErrStatus: metav1.Status{Status: metav1.StatusFailure, Code: http.StatusForbidden, Reason: metav1.StatusReasonForbidden, Message: message}}
}
