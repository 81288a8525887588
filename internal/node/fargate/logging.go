package fargate

import (
	"context"
	"encoding/json"
	"fmt"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationLogging says whether a pod's logs are collected, or why not.
const AnnotationLogging = "Logging"

// The ConfigMap that configures logging for Fargate pods.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html
const (
	loggingNamespace = "aws-observability"
	loggingName      = "aws-logging"
	loggingEnabled   = "LoggingEnabled"
	// LoggingDisabled is the annotation's value, before a colon and the reason.
	LoggingDisabled = "LoggingDisabled"
	// Why pods do not log, after that. The first is documented.
	loggingNotFound = "LOGGING_CONFIGMAP_NOT_FOUND"
	loggingInvalid  = "LOGGING_CONFIGMAP_INVALID" // from memory
	// loggingFresh is how long the answer is reused.
	loggingFresh = time.Second
)

// loggingState is whether pods log, as last determined.
type loggingState struct {
	mu    sync.Mutex
	asked time.Time
	last  loggingAnswer
}

// A loggingAnswer says why pods do not log, as an annotation and in a sentence. Both are empty if they do.
type loggingAnswer struct{ reason, text string }

// noteLogging records whether a pod logs, as Fargate does: a pod is admitted with the annotation that there is no
// ConfigMap. As on AWS, events do not report missing permissions of the pod execution role
// (aws/containers-roadmap#2293).
//
// AWS deviation: pods of simulated machines write no logs, so none are sent to where the ConfigMap says.
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
		a = loggingAnswer{loggingNotFound, `Disabled logging because aws-logging configmap was not found. configmap "aws-logging" not found`}
	case err != nil:
		return a, fmt.Errorf("reading the ConfigMap %s/%s: %w", loggingNamespace, loggingName, err)
	default:
		if why := loggingFault(m); why != "" {
			a = loggingAnswer{loggingInvalid, "Disabled logging for pod due to invalid configmap. " + why + ". Please fix the logging configmap"}
		}
	}
	l.asked, l.last = now, a
	return a, nil
}
