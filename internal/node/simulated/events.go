package simulated

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"hash/fnv"
	"io"
	"net/http"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxQueuedEvents bounds the events that one node has not written yet.
const maxQueuedEvents = 256

// maxSightings bounds the events that are remembered of one object.
const maxSightings = 32

// eventQueue holds the events that a kubelet has not written yet. They are written when nothing else is due, within
// the cluster's budget, and dropped beyond it.
type eventQueue struct {
	queue []queuedEvent
	// seen remembers what was written, by object. Repeated events are counted instead of being written again.
	seen   map[types.UID]*sightings
	serial int64
}

// sightings are the events that were written about an object.
type sightings struct {
	events []sighting
	// similar has the events that differ only in their messages, by hash of their type and reason.
	similar map[uint64]*similar
}

// A sighting is an event that was written.
type sighting struct {
	event uint64 // hash of what makes it the same event
	first int64  // when, in nanoseconds, plus a serial number: its name, too
	count int32
}

// maxSimilar is how many different messages are written of similar events before they are combined, unless the last
// one is older than similarFor. They are the kubelet's, which compares the object, the type and the reason:
// https://github.com/kubernetes/client-go/blob/master/tools/record/events_cache.go (EventAggregate)
const (
	maxSimilar = 10
	similarFor = 10 * time.Minute
	combined   = "(combined from similar events): "
)

type similar struct {
	messages map[uint64]bool
	last     time.Time
}

type queuedEvent struct {
	happening
	object corev1.ObjectReference
}

func (q *eventQueue) nodeEvent(at time.Time, kind, reason, message string) {
	q.add(queuedEvent{happening: happening{kind: kind, reason: reason, message: message, at: at}})
}

func (q *eventQueue) podEvent(p *pod, h happening) {
	q.add(queuedEvent{happening: h, object: corev1.ObjectReference{
		APIVersion: "v1", Kind: "Pod", Namespace: p.namespace, Name: p.name, UID: p.uid, FieldPath: h.container,
	}})
}

func (q *eventQueue) add(e queuedEvent) {
	if len(q.queue) < maxQueuedEvents {
		q.queue = append(q.queue, e)
	}
}

func (q *eventQueue) forget(uid types.UID) { delete(q.seen, uid) }

// emit writes one event and returns true, or empties the queue if the cluster's budget is used up.
func (q *eventQueue) emit(ctx context.Context, k *kubelet) bool {
	if len(q.queue) == 0 {
		return false
	}
	if !k.client.cluster.events.AllowN(k.now(), 1) {
		q.queue = nil
		return false
	}
	e := q.queue[0]
	q.queue = q.queue[1:]
	if len(q.queue) == 0 {
		q.queue = nil
	}
	if err := q.write(ctx, k, e); err != nil {
		k.m.rt.log.Debug("simulated node: writing an event", "node", k.name, "reason", e.reason, "err", err)
	}
	return true
}

// sight counts an event. New ones have the count 1.
//
// The kubelet compares the object with its field path, the type, the reason and the message:
// https://github.com/kubernetes/client-go/blob/master/tools/record/events_cache.go (getEventKey)
func (q *eventQueue) sight(e *queuedEvent) sighting {
	known := q.seen[e.object.UID]
	if known == nil {
		known = &sightings{similar: map[uint64]*similar{}}
		if q.seen == nil {
			q.seen = map[types.UID]*sightings{}
		}
		q.seen[e.object.UID] = known
	}
	event := hashOf(e.kind, e.reason, e.container, e.message)
	if known.combines(e) {
		event, e.message = hashOf(e.kind, e.reason), combined+e.message
	}
	for i := range known.events {
		if s := &known.events[i]; s.event == event {
			s.count++
			return *s
		}
	}
	q.serial++
	s := sighting{event: event, first: e.at.UnixNano() + q.serial, count: 1}
	if len(known.events) == maxSightings {
		known.events = slices.Delete(known.events, 0, 1)
	}
	known.events = append(known.events, s)
	return s
}

// combines reports whether an event is one of too many that differ only in their messages.
func (k *sightings) combines(e *queuedEvent) bool {
	of := hashOf(e.kind, e.reason)
	like := k.similar[of]
	if like == nil || e.at.Sub(like.last) > similarFor {
		like = &similar{messages: map[uint64]bool{}}
		k.similar[of] = like
	}
	like.last = e.at
	message := hashOf(e.message)
	if len(like.messages) == maxSimilar-1 && !like.messages[message] {
		return true
	}
	like.messages[message] = true
	return false
}

func hashOf(parts ...string) uint64 {
	h := fnv.New64a()
	for _, part := range parts {
		_, _ = io.WriteString(h, part+"\x00") // never fails
	}
	return h.Sum64()
}

func (q *eventQueue) write(ctx context.Context, k *kubelet, e queuedEvent) error {
	if e.object.Kind == "" {
		// In events, the kubelet uses a node's name in place of its UID too.
		e.object = corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: k.name, UID: types.UID(k.name)}
	}
	path := "/api/v1/namespaces/" + cmp.Or(e.object.Namespace, metav1.NamespaceDefault) + "/events"
	s, last := q.sight(&e), metav1.NewTime(e.at)
	name := fmt.Sprintf("%s.%x", e.object.Name, s.first)
	if s.count > 1 {
		body, err := json.Marshal(map[string]any{"count": s.count, "lastTimestamp": last, "message": e.message})
		if err != nil {
			return fmt.Errorf("encoding an event: %w", err)
		}
		err = k.client.do(ctx, http.MethodPatch, path+"/"+name, nil, body, nil)
		if !apierrors.IsNotFound(err) { // events expire; then it is written again, with its count
			return err
		}
	}
	return k.client.do(ctx, http.MethodPost, path, nil, &corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Name: name, Namespace: cmp.Or(e.object.Namespace, metav1.NamespaceDefault)},
		InvolvedObject: e.object, Reason: e.reason, Message: e.message, Type: e.kind,
		Source:         corev1.EventSource{Component: "kubelet", Host: k.name},
		FirstTimestamp: metav1.NewTime(time.Unix(0, s.first)), LastTimestamp: last, Count: s.count,
		ReportingController: "kubelet", ReportingInstance: k.name,
	}, nil)
}
