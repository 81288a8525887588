package plane

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"sync"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/tools/cache"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/store"
)

// LabelNodegroup labels every node of a managed node group.
const LabelNodegroup = "eks.amazonaws.com/nodegroup"

var (
	ErrNotRunning = errors.New("the EKS service is not running")
	ErrNoAnswer   = errors.New("the control plane does not answer")
)

// Sessions are the open connections to clusters' control planes. Each has one client and one watch
// each of nodes and of aws-auth, opened on first use. A session lives until its cluster is deleted
// or Run ends. Get replaces one whose control plane was released.
type Sessions struct {
	cfg Config

	mu      sync.Mutex
	base    context.Context // Run's context; nil while it is not running
	running chan struct{}   // closed while it is running
	wg      sync.WaitGroup
	byPlane map[string]*Session
	owners  map[string]store.Key // cache from plane to cluster
}

// A Session is the open connection to one control plane.
type Session struct {
	Client kubernetes.Interface
	// Objects gives access to objects of any kind, for add-ons.
	Objects Objects
	Context context.Context //nolint:containedctx // the session's lifetime, ended by cancel
	cancel  context.CancelFunc
	// released is closed when the control plane is released.
	released <-chan struct{}
	Nodes    func() *Nodes
	all      *Sessions

	mu     sync.Mutex
	values map[reflect.Type]any
}

// Value returns the session's value of type T, creating it on first use. Parts of EKS use it to
// keep state per control plane.
func Value[T any](s *Session, make func(*Session) T) T {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := reflect.TypeFor[T]()
	if v, ok := s.values[t].(T); ok {
		return v
	}
	v := make(s)
	s.values[t] = v
	return v
}

// NewSessions returns a set of sessions. None can be opened before Run.
func NewSessions(cfg Config) *Sessions {
	return &Sessions{cfg: cfg, running: make(chan struct{}), byPlane: map[string]*Session{}, owners: map[string]store.Key{}}
}

// Run allows sessions to be opened until ctx ends, then closes all of them and waits.
func (ss *Sessions) Run(ctx context.Context, ready chan<- struct{}) {
	ss.mu.Lock()
	ss.base = ctx
	close(ss.running)
	ss.mu.Unlock()
	close(ready)
	<-ctx.Done()
	ss.mu.Lock()
	ss.base, ss.running = nil, make(chan struct{})
	for id, s := range ss.byPlane {
		s.cancel()
		delete(ss.byPlane, id)
	}
	ss.mu.Unlock()
	ss.wg.Wait()
}

// Running returns a channel that is closed once Run allows sessions to be opened.
func (ss *Sessions) Running() <-chan struct{} {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	return ss.running
}

// Get returns the session of a control plane, opening it if necessary.
func (ss *Sessions) Get(planeID string) (*Session, error) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s, ok := ss.byPlane[planeID]; ok {
		select {
		case <-s.released:
			s.cancel()
			delete(ss.byPlane, planeID)
		default:
			return s, nil
		}
	}
	if ss.base == nil {
		return nil, ErrNotRunning
	}
	released := ss.cfg.ControlPlanes.Released(planeID)
	rc, err := ss.cfg.ControlPlanes.RESTConfig(planeID)
	if err != nil {
		return nil, err
	}
	rc.QPS = -1 // the server is our own, and a thousand nodes may be labelled at once
	rc.ContentType = runtime.ContentTypeProtobuf
	rc.UserAgent = "eks.amazonaws.com"
	client, err := ss.cfg.NewClient(rc)
	if err != nil {
		return nil, fmt.Errorf("connecting to control plane %s: %w", planeID, err)
	}
	objects, err := ss.cfg.NewObjects(rc)
	if err != nil {
		return nil, fmt.Errorf("connecting to control plane %s: %w", planeID, err)
	}
	ctx, cancel := context.WithCancel(ss.base)
	s := &Session{Client: client, Objects: objects, Context: ctx, cancel: cancel, released: released, all: ss, values: map[reflect.Type]any{}}
	s.Nodes = sync.OnceValue(func() *Nodes { return watchNodes(s) })
	ss.byPlane[planeID] = s
	return s, nil
}

// Drop closes the session of a control plane.
func (ss *Sessions) Drop(planeID string) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if s, ok := ss.byPlane[planeID]; ok {
		s.cancel()
		delete(ss.byPlane, planeID)
	}
	delete(ss.owners, planeID)
}

// DropCluster closes the sessions of a deleted cluster.
func (ss *Sessions) DropCluster(k store.Key) {
	ss.mu.Lock()
	var planes []string
	for id, of := range ss.owners {
		if of == k {
			planes = append(planes, id)
		}
	}
	ss.mu.Unlock()
	for _, id := range planes {
		ss.Drop(id)
	}
}

// Open is Get, and remembers which cluster the control plane belongs to.
func (ss *Sessions) Open(k store.Key, planeID string) (*Session, error) {
	ss.SetCluster(planeID, k)
	return ss.Get(planeID)
}

// Cluster returns the cluster that a control plane was last known to belong to.
func (ss *Sessions) Cluster(planeID string) (store.Key, bool) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	k, ok := ss.owners[planeID]
	return k, ok
}

// SetCluster remembers which cluster a control plane belongs to.
func (ss *Sessions) SetCluster(planeID string, k store.Key) {
	ss.mu.Lock()
	defer ss.mu.Unlock()
	ss.owners[planeID] = k
}

// A Nodes watches the nodes of one cluster on behalf of all its node groups.
type Nodes struct {
	index  cache.Indexer
	Synced chan struct{}

	mu      sync.Mutex
	changed chan struct{} // closed by the next change
}

const (
	byNodegroup = "nodegroup"
	byInstance  = "instance"
)

func watchNodes(s *Session) *Nodes {
	w := &Nodes{Synced: make(chan struct{}), changed: make(chan struct{})}
	nodes := s.Client.CoreV1().Nodes()
	inf := s.Informer(s.Context, &corev1.Node{},
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return nodes.List(ctx, o) },
		func(ctx context.Context, o metav1.ListOptions) (watch.Interface, error) { return nodes.Watch(ctx, o) },
		cache.Indexers{byNodegroup: func(obj any) ([]string, error) {
			if n, ok := obj.(*corev1.Node); ok && n.Labels[LabelNodegroup] != "" {
				return []string{n.Labels[LabelNodegroup]}, nil
			}
			return nil, nil
		}, byInstance: func(obj any) ([]string, error) {
			if n, ok := obj.(*corev1.Node); ok && n.Spec.ProviderID != "" {
				return []string{kube.InstanceID(n.Spec.ProviderID)}, nil
			}
			return nil, nil
		}})
	w.index = inf.GetIndexer()
	// Heartbeats do not change a node in any way that matters here.
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { w.notify() },
		UpdateFunc: func(old, obj any) {
			o, ok1 := old.(*corev1.Node)
			n, ok2 := obj.(*corev1.Node)
			if !ok1 || !ok2 || kube.NodeReady(o) != kube.NodeReady(n) || o.Generation != n.Generation || len(o.Labels) != len(n.Labels) || len(o.Spec.Taints) != len(n.Spec.Taints) {
				w.notify()
			}
		},
		DeleteFunc: func(any) { w.notify() },
	})
	if err != nil {
		s.all.cfg.Log.Error("watching nodes", "err", err)
		return w
	}
	s.Go(func() {
		if cache.WaitForCacheSync(s.Context.Done(), inf.HasSynced) {
			close(w.Synced)
		}
	})
	return w
}

func (w *Nodes) notify() {
	w.mu.Lock()
	defer w.mu.Unlock()
	close(w.changed)
	w.changed = make(chan struct{})
}

// Next returns a channel that the next change closes. Call it before reading nodes, so that no
// change is missed.
func (w *Nodes) Next() <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.changed
}

// InNodegroup returns the nodes labelled with a node group. The nodes are shared: do not modify
// them.
func (w *Nodes) InNodegroup(name string) []*corev1.Node { return w.find(byNodegroup, name) }

// OfInstance returns the node of an instance, or nil if it has none.
func (w *Nodes) OfInstance(instanceID string) *corev1.Node {
	for _, n := range w.find(byInstance, instanceID) {
		return n
	}
	return nil
}

// All returns all nodes. They are shared: do not modify them.
func (w *Nodes) All() []*corev1.Node {
	var out []*corev1.Node
	for _, o := range w.index.List() {
		if n, ok := o.(*corev1.Node); ok {
			out = append(out, n)
		}
	}
	return out
}

func (w *Nodes) find(index, value string) []*corev1.Node {
	objs, err := w.index.ByIndex(index, value)
	if err != nil {
		return nil // impossible: the index exists
	}
	out := make([]*corev1.Node, 0, len(objs))
	for _, o := range objs {
		if n, ok := o.(*corev1.Node); ok {
			out = append(out, n)
		}
	}
	return out
}

// Informer returns an informer that runs until ctx ends, which is the session's context or one of it.
func (s *Session) Informer(ctx context.Context, of runtime.Object, list cache.ListWithContextFunc, watch cache.WatchFuncWithContext, index cache.Indexers) cache.SharedIndexInformer {
	lw := cache.ToListWatcherWithWatchListSemantics(&cache.ListWatch{ListWithContextFunc: list, WatchFuncWithContext: watch}, s.Client)
	inf := cache.NewSharedIndexInformer(lw, of, 0, index)
	_ = inf.SetTransform(func(obj any) (any, error) { // fails only after a start
		if m, ok := obj.(metav1.Object); ok {
			m.SetManagedFields(nil)
		}
		if n, ok := obj.(*corev1.Node); ok {
			n.Status.Images = nil
		}
		return obj, nil
	})
	_ = inf.SetWatchErrorHandlerWithContext(func(ctx context.Context, _ *cache.Reflector, err error) {
		s.all.cfg.Log.Log(ctx, slog.LevelDebug, "watching a control plane", "err", err)
	})
	s.Go(func() { inf.RunWithContext(ctx) })
	return inf
}

// Go runs f in the background. It returns false if Run has ended.
func (s *Session) Go(f func()) bool {
	ss := s.all
	ss.mu.Lock()
	defer ss.mu.Unlock()
	if ss.base == nil {
		return false
	}
	ss.wg.Go(f)
	return true
}
