package fargate

import (
	"context"
	"encoding/json"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
)

// AnnotationLogging says of a pod whether it logs, or why not.
const AnnotationLogging = "Logging"

// The ConfigMap by which pods of Fargate log.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html
const (
	loggingNamespace = "aws-observability"
	loggingName      = "aws-logging"
	loggingEnabled   = "LoggingEnabled"
	loggingDisabled  = "LoggingDisabled"
	// Why pods do not log, after that. The first is documented.
	loggingNotFound = "LOGGING_CONFIGMAP_NOT_FOUND"
	loggingInvalid  = "LOGGING_CONFIGMAP_INVALID" // from memory
	// loggingFresh is for how long it is not looked for again.
	loggingFresh = time.Second
)

// loggingState is whether pods logged when it was asked last.
type loggingState struct {
	mu    sync.Mutex
	asked time.Time
	// reason and text say why they do not; both are empty if they do.
	reason, text string
}

// noteLogging says of a pod whether it logs, as Fargate does: a pod is admitted with
// the annotation that there is no ConfigMap. What the pod execution role may not do shows
// in no event, as on AWS (aws/containers-roadmap#2293).
//
// AWS deviation: pods of simulated machines write no logs, so that none are sent where
// the ConfigMap says.
func (s *Scheduler) noteLogging(ctx context.Context, pod *corev1.Pod) {
	reason, text := s.logs(ctx)
	if reason == loggingNotFound {
		s.event(ctx, pod, corev1.EventTypeWarning, loggingDisabled, text)
		return
	}
	kind, event, annotation := corev1.EventTypeNormal, loggingEnabled, loggingEnabled
	if reason != "" {
		kind, event, annotation = corev1.EventTypeWarning, loggingDisabled, loggingDisabled+": "+reason
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]string{AnnotationLogging: annotation}}})
	if err == nil {
		_, err = s.cfg.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil && ctx.Err() == nil {
		s.log.Debug("fargate: noting whether a pod logs", "pod", pod.Name, "err", err)
		return
	}
	if text == "" {
		text = "Successfully enabled logging for pod"
	}
	s.event(ctx, pod, kind, event, text)
}

// logs says why pods do not log, as an annotation and in a sentence; empty if they do.
func (s *Scheduler) logs(ctx context.Context) (reason, text string) {
	l := &s.logging
	l.mu.Lock() // those who ask meanwhile wait for the answer
	defer l.mu.Unlock()
	if now := s.clock.Now(); now.Sub(l.asked) > loggingFresh {
		l.asked, l.reason, l.text = now, "", ""
		m, err := s.cfg.Client.CoreV1().ConfigMaps(loggingNamespace).Get(ctx, loggingName, metav1.GetOptions{})
		if err != nil {
			l.reason, l.text = loggingNotFound, `Disabled logging because aws-logging configmap was not found. configmap "aws-logging" not found`
		} else if why := loggingFault(m); why != "" {
			l.reason, l.text = loggingInvalid, "Disabled logging for pod due to invalid configmap. "+why+". Please fix the logging configmap"
		}
	}
	return l.reason, l.text
}
