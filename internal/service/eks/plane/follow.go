package plane

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/tools/cache"
)

// A Follower runs a function in the background of a session, once at a time. The zero value is one that does not run.
type Follower struct {
	mu   sync.Mutex
	stop context.CancelFunc // nil while it does not run
	done chan struct{}
}

// Follow runs a function until Stop, or until the session ends, unless it runs already. The function must return when its
// context ends.
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
	if err != nil { // only after its end
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

// Events gives objects events, but not the same one again and again.
type Events struct {
	Session   *Session
	Component string // that reports them
	Now       func() time.Time

	told  map[string]string // the last event of each object, by UID
	count int               // of events
}

// eventsRemembered bounds what an Events remembers. When it forgets, an event may come once more.
const eventsRemembered = 10000

// Steady returns the part of an error message that is the same in each attempt. Denials contain the name of a session, which is a
// number, and an encoded message.
func Steady(message string) string {
	message, _, _ = strings.Cut(message, "Encoded authorization failure message")
	return strings.Map(func(r rune) rune {
		if unicode.IsDigit(r) {
			return -1
		}
		return r
	}, message)
}

// Tell gives an object an event, unless it was given the same one last. ref needs everything but the resource version. One
// goroutine at a time may call it.
func (e *Events) Tell(ctx context.Context, ref corev1.ObjectReference, typ, reason, message string) {
	id := string(ref.UID)
	if e.told[id] == reason+Steady(message) {
		return
	}
	if e.told == nil || len(e.told) > eventsRemembered {
		e.told = map[string]string{}
	}
	e.told[id] = reason + Steady(message)
	if len(message) > 1024 {
		message = strings.ToValidUTF8(message[:1024], "")
	}
	now, namespace := metav1.NewTime(e.Now()), ref.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	e.count++
	_, err := e.Session.Client.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", ref.Name, now.UnixNano()+int64(e.count)), Namespace: namespace},
		InvolvedObject: ref, Type: typ, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: e.Component},
	}, metav1.CreateOptions{})
	if err != nil && ctx.Err() == nil {
		e.Session.all.cfg.Log.Debug("an event of an object", "object", ref.Name, "err", err)
	}
}
