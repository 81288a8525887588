package fargate

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/drydock-dev/drydock/internal/node/fargate/logrouter"
)

// AnnotationLogging says whether a pod's logs are collected, or why not.
const AnnotationLogging = "Logging"

// The ConfigMap that configures logging for Fargate pods.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html
const (
	loggingNamespace = "aws-observability"
	loggingName      = "aws-logging"
	loggingEnabled   = "LoggingEnabled"
	// This is Drydock's own: on AWS, logs go to all outputs.
	loggingPartly = "LoggingOutputNotAvailable"
	// LoggingDisabled is the annotation's value, before a colon and the reason.
	LoggingDisabled = "LoggingDisabled"
	// Why pods do not log, after that. The first is documented.
	loggingNotFound = "LOGGING_CONFIGMAP_NOT_FOUND"
	loggingInvalid  = "LOGGING_CONFIGMAP_INVALID" // from memory
	// This is Drydock's own: on AWS, the log router can do it.
	loggingMissing = "LOGGING_NOT_AVAILABLE_IN_DRYDOCK"
	// loggingFresh is how long the answer is reused.
	loggingFresh = time.Second
)

// loggingState is whether pods log, as last determined.
type loggingState struct {
	mu    sync.Mutex
	asked time.Time
	last  loggingAnswer
}

// A loggingAnswer says why pods do not log, as an annotation and in a sentence. Both are empty if they do; then data has the log
// router's configuration, and without names outputs whose destinations are not there.
type loggingAnswer struct {
	reason, text string
	data         map[string]string
	without      []string
}

// sent returns the answer for a pod whose logs are to be sent.
func (l loggingAnswer) sent(region string) loggingAnswer {
	if l.reason != "" {
		return l
	}
	r, err := logrouter.New(l.data, region)
	if err == nil && len(r.Outputs) == 0 {
		err = fmt.Errorf("Drydock has no destination for the output plugin %s", strings.Join(r.Without, ", ")) //nolint:staticcheck // a name
	}
	if err != nil {
		return loggingAnswer{reason: loggingMissing, text: "Disabled logging for pod. " + err.Error()}
	}
	l.without = r.Without
	return l
}

// noteLogging records whether a pod logs, as Fargate does: a pod is admitted with the annotation that there is no
// ConfigMap. As on AWS, events do not report missing permissions of the pod execution role
// (aws/containers-roadmap#2293).
//
// AWS deviation: pods of simulated machines write no logs, so none are sent to where the ConfigMap says. Of the log router's
// plugins, those of package logrouter are available.
func (s *Scheduler) noteLogging(ctx context.Context, pod *corev1.Pod, l loggingAnswer) {
	if l.reason == loggingNotFound {
		s.event(ctx, pod, corev1.EventTypeWarning, LoggingDisabled, l.text)
		return
	}
	kind, event, annotation, text := corev1.EventTypeNormal, loggingEnabled, loggingEnabled, "Successfully enabled logging for pod"
	if l.reason != "" {
		kind, event, annotation, text = corev1.EventTypeWarning, LoggingDisabled, LoggingDisabled+": "+l.reason, l.text
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]string{AnnotationLogging: annotation}}})
	if err == nil {
		_, err = s.cfg.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil && ctx.Err() == nil {
		s.log.Debug("fargate: noting whether a pod logs", "pod", pod.Name, "err", err)
		return
	}
	s.event(ctx, pod, kind, event, text)
	if len(l.without) > 0 {
		s.event(ctx, pod, corev1.EventTypeWarning, loggingPartly, "Drydock has no destination for the output plugin "+strings.Join(l.without, ", ")+": logs are sent by the others only")
	}
}

// logs reports whether pods log. Errors are not cached.
func (s *Scheduler) logs(ctx context.Context) (loggingAnswer, error) {
	l := &s.logging
	l.mu.Lock() // concurrent callers wait for the answer
	defer l.mu.Unlock()
	now := s.clock.Now()
	if now.Sub(l.asked) <= loggingFresh {
		return l.last, nil
	}
	m, err := s.cfg.Client.CoreV1().ConfigMaps(loggingNamespace).Get(ctx, loggingName, metav1.GetOptions{})
	var a loggingAnswer
	switch {
	case apierrors.IsNotFound(err):
		a = loggingAnswer{reason: loggingNotFound, text: `Disabled logging because aws-logging configmap was not found. configmap "aws-logging" not found`}
	case err != nil:
		return a, fmt.Errorf("reading the ConfigMap %s/%s: %w", loggingNamespace, loggingName, err)
	default:
		a.data = m.Data
		if why := loggingFault(m); why != "" {
			a = loggingAnswer{reason: loggingInvalid, text: "Disabled logging for pod due to invalid configmap. " + why + ". Please fix the logging configmap"}
		}
	}
	l.asked, l.last = now, a
	return a, nil
}
