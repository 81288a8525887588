package simulated

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// maxQueuedEvents bounds the events that one node has not written yet.
const maxQueuedEvents = 256

// eventQueue holds the events that a kubelet has not written yet. They are written when nothing else is due, within
// the cluster's budget, and dropped beyond it.
type eventQueue struct {
	queue []queuedEvent
	// warned remembers warnings. Repeated ones are counted instead of being written again.
	warned map[warning]*warned
	serial int64
}

type queuedEvent struct {
	happening
	object corev1.ObjectReference
}

type warning struct {
	uid                        types.UID
	reason, container, message string
}

type warned struct {
	namespace, name string
	count           int32
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

func (q *eventQueue) forget(uid types.UID) {
	for w := range q.warned {
		if w.uid == uid {
			delete(q.warned, w)
		}
	}
}

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

func (q *eventQueue) write(ctx context.Context, k *kubelet, e queuedEvent) error {
	key := warning{e.object.UID, e.reason, e.container, e.message}
	at := metav1.NewTime(e.at)
	if w := q.warned[key]; w != nil && e.kind == corev1.EventTypeWarning {
		w.count++
		body, err := json.Marshal(map[string]any{"count": w.count, "lastTimestamp": at, "message": e.message})
		if err != nil {
			return fmt.Errorf("encoding an event: %w", err)
		}
		return k.client.do(ctx, http.MethodPatch, "/api/v1/namespaces/"+w.namespace+"/events/"+w.name, nil, body, nil)
	}
	if e.object.Kind == "" {
		// In events, the kubelet uses a node's name in place of its UID too.
		e.object = corev1.ObjectReference{APIVersion: "v1", Kind: "Node", Name: k.name, UID: types.UID(k.name)}
	}
	namespace := e.object.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	q.serial++
	ev := &corev1.Event{
		TypeMeta:       metav1.TypeMeta{APIVersion: "v1", Kind: "Event"},
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", e.object.Name, e.at.UnixNano()+q.serial), Namespace: namespace},
		InvolvedObject: e.object, Reason: e.reason, Message: e.message, Type: e.kind,
		Source:         corev1.EventSource{Component: "kubelet", Host: k.name},
		FirstTimestamp: at, LastTimestamp: at, Count: 1,
		ReportingController: "kubelet", ReportingInstance: k.name,
	}
	if e.kind == corev1.EventTypeWarning {
		if q.warned == nil {
			q.warned = map[warning]*warned{}
		}
		q.warned[key] = &warned{namespace: namespace, name: ev.Name, count: 1}
	}
	return k.client.do(ctx, http.MethodPost, "/api/v1/namespaces/"+namespace+"/events", nil, ev, nil)
}
