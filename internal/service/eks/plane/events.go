package plane

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// Events records events about objects, and drops repetitions. One goroutine at a time may use it.
type Events struct {
	Session   *Session
	Component string // that reports them
	Now       func() time.Time

	last  map[types.UID]recorded // by the object's UID
	count int                    // of events
}

// A recorded is the last event of an object.
type recorded struct {
	reason, text string
	at           time.Time
}

const (
	// eventsRemembered limits how many objects an Events remembers. When it forgets them, an event may be repeated.
	eventsRemembered = 10000
	// warningRepeated is after how long a warning is repeated: the API server deletes events after an hour.
	warningRepeated = 30 * time.Minute
	// eventSize is the maximum length of a message, as the API server limits it.
	eventSize = 1024
)

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

// Begin records that something begins, unless it is being retried: unless the object's last event has the same reason and message,
// or the reason failure. ref needs everything but the resource version.
func (e *Events) Begin(ctx context.Context, ref corev1.ObjectReference, reason, message, failure string) {
	if e.last[ref.UID].reason != failure {
		e.Record(ctx, ref, corev1.EventTypeNormal, reason, message)
	}
}

// Record records an event about an object, unless the object's last event is the same. A warning is repeated after half an hour. ref
// needs everything but the resource version.
func (e *Events) Record(ctx context.Context, ref corev1.ObjectReference, typ, reason, message string) {
	next := recorded{reason, Steady(message), e.Now()}
	last := e.last[ref.UID]
	if last.reason == next.reason && last.text == next.text && (typ != corev1.EventTypeWarning || next.at.Sub(last.at) < warningRepeated) {
		return
	}
	if len(message) > eventSize {
		message = strings.ToValidUTF8(message[:eventSize], "")
	}
	now, namespace := metav1.NewTime(next.at), ref.Namespace
	if namespace == "" {
		namespace = metav1.NamespaceDefault
	}
	e.count++
	_, err := e.Session.Client.CoreV1().Events(namespace).Create(ctx, &corev1.Event{
		ObjectMeta:     metav1.ObjectMeta{Name: fmt.Sprintf("%s.%x", ref.Name, now.UnixNano()+int64(e.count)), Namespace: namespace},
		InvolvedObject: ref, Type: typ, Reason: reason, Message: message, Count: 1, FirstTimestamp: now, LastTimestamp: now,
		Source: corev1.EventSource{Component: e.Component},
	}, metav1.CreateOptions{})
	if err != nil {
		if ctx.Err() == nil {
			e.Session.all.cfg.Log.Debug("recording an event", "object", ref.Name, "err", err)
		}
		return // the next pass tries again
	}
	if e.last == nil || len(e.last) > eventsRemembered {
		e.last = map[types.UID]recorded{}
	}
	e.last[ref.UID] = next
}
