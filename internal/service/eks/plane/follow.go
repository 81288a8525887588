package plane

import (
	"context"
	"sync"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// A Follower runs a function in the background of a session, at most once at a time. Its zero value is ready for use.
type Follower struct {
	mu   sync.Mutex
	stop context.CancelFunc // nil while the function does not run
	done chan struct{}
}

// Follow runs a function until Stop is called or the session ends. It does nothing if one is running. The function must return when
// its context ends.
func (f *Follower) Follow(s *Session, run func(ctx context.Context)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.stop != nil {
		return
	}
	ctx, cancel := context.WithCancel(s.Context)
	done := make(chan struct{})
	f.stop, f.done = cancel, done
	if !s.Go(func() {
		defer func() {
			f.mu.Lock()
			f.stop = nil
			f.mu.Unlock()
			cancel()
			close(done)
		}()
		run(ctx)
	}) {
		cancel()
		f.stop = nil
	}
}

// Stop ends the function and waits until it has returned.
func (f *Follower) Stop() {
	f.mu.Lock()
	stop, done := f.stop, f.done
	f.mu.Unlock()
	if stop != nil {
		stop()
		<-done
	}
}

// Watched are the objects of one kind in a cluster.
type Watched[T runtime.Object] struct{ inf cache.SharedIndexInformer }

// Watch watches the objects of a kind until ctx ends, and calls changed after each change.
func Watch[T runtime.Object, L runtime.Object](ctx context.Context, s *Session, kind T, client interface {
	List(ctx context.Context, o metav1.ListOptions) (L, error)
	Watch(ctx context.Context, o metav1.ListOptions) (watch.Interface, error)
}, index cache.Indexers, changed func()) Watched[T] {
	inf := s.Informer(ctx, kind,
		func(ctx context.Context, o metav1.ListOptions) (runtime.Object, error) { return client.List(ctx, o) }, client.Watch, index)
	_, err := inf.AddEventHandler(cache.ResourceEventHandlerFuncs{
		AddFunc: func(any) { changed() }, UpdateFunc: func(_, _ any) { changed() }, DeleteFunc: func(any) { changed() },
	})
	if err != nil { // only if the informer has stopped
		s.all.cfg.Log.Error("watching a control plane", "err", err)
	}
	return Watched[T]{inf}
}

// Synced reports whether all objects have been listed.
func (w Watched[T]) Synced() bool { return w.inf.HasSynced() }

// All returns all objects. They are shared: do not modify them.
func (w Watched[T]) All() []T {
	var out []T
	for _, o := range w.inf.GetStore().List() {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}

// Get returns the object with a key, NAMESPACE/NAME or NAME.
func (w Watched[T]) Get(key string) (T, bool) {
	o, _, _ := w.inf.GetStore().GetByKey(key) // never fails
	t, ok := o.(T)
	return t, ok
}

// By returns the objects with a value in an index.
func (w Watched[T]) By(index, value string) []T {
	objects, _ := w.inf.GetIndexer().ByIndex(index, value) // fails only without the index
	var out []T
	for _, o := range objects {
		if t, ok := o.(T); ok {
			out = append(out, t)
		}
	}
	return out
}
