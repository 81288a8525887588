package simulated

import (
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
)

// Events that differ only in their messages are combined from the tenth on, as the kubelet combines them, until there
// has been none for ten minutes.
func TestSimilarEventsAreCombined(t *testing.T) {
	var q eventQueue
	now := time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	see := func(reason, message string) (sighting, string) {
		now = now.Add(time.Second)
		e := queuedEvent{happening: happening{kind: corev1.EventTypeWarning, reason: reason, message: message, at: now}, object: corev1.ObjectReference{Kind: "Pod", UID: "1"}}
		s := q.sight(&e)
		return s, e.message
	}
	for i := range 12 {
		s, message := see("FailedMount", fmt.Sprint("attempt ", i))
		if want := int32(max(1, i-8)); s.count != want {
			t.Errorf("event %d: count %d, want %d", i, s.count, want)
		}
		if got := strings.HasPrefix(message, "(combined from similar events): attempt "); got != (i >= 9) {
			t.Errorf("event %d: %q", i, message)
		}
	}
	if s, message := see("FailedMount", "attempt 3"); s.count != 2 || message != "attempt 3" {
		t.Errorf("a repeated one: %d, %q", s.count, message)
	}
	if s, message := see("Failed", "attempt 12"); s.count != 1 || message != "attempt 12" {
		t.Errorf("another reason: %d, %q", s.count, message)
	}
	now = now.Add(11 * time.Minute)
	if s, message := see("FailedMount", "attempt 13"); s.count != 1 || message != "attempt 13" {
		t.Errorf("after a pause: %d, %q", s.count, message)
	}
}
