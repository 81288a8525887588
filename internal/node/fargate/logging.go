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

// The ConfigMap by which pods of Fargate log.
// https://docs.aws.amazon.com/eks/latest/userguide/fargate-logging.html
const (
	loggingNamespace  = "aws-observability"
	loggingName       = "aws-logging"
	annotationLogging = "Logging"
	loggingEnabled    = "LoggingEnabled"
	// loggingFresh is for how long it is not looked for again.
	loggingFresh = time.Second
)

// loggingState is whether pods logged when it was asked last.
type loggingState struct {
	mu    sync.Mutex
	asked time.Time
	on    bool
}

// noteLogging says of a pod whether it logs, as Fargate does: a pod is admitted with
// the annotation that it does not.
//
// AWS deviation: pods of simulated machines write no logs, so that none are sent where
// the ConfigMap says, and what it says is not judged.
func (s *Scheduler) noteLogging(ctx context.Context, pod *corev1.Pod) {
	if !s.logs(ctx) {
		s.event(ctx, pod, corev1.EventTypeWarning, "LoggingDisabled", `Disabled logging because aws-logging configmap was not found. configmap "aws-logging" not found`)
		return
	}
	patch, err := json.Marshal(map[string]any{"metadata": map[string]any{"uid": pod.UID, "annotations": map[string]string{annotationLogging: loggingEnabled}}})
	if err == nil {
		_, err = s.cfg.Client.CoreV1().Pods(pod.Namespace).Patch(ctx, pod.Name, types.MergePatchType, patch, metav1.PatchOptions{})
	}
	if err != nil && ctx.Err() == nil {
		s.log.Debug("fargate: noting that a pod logs", "pod", pod.Name, "err", err)
		return
	}
	s.event(ctx, pod, corev1.EventTypeNormal, "LoggingEnabled", "Successfully enabled logging for pod")
}

// logs reports whether there is a ConfigMap for logging.
func (s *Scheduler) logs(ctx context.Context) bool {
	l := &s.logging
	l.mu.Lock() // those who ask meanwhile wait for the answer
	defer l.mu.Unlock()
	if now := s.clock.Now(); now.Sub(l.asked) > loggingFresh {
		_, err := s.cfg.Client.CoreV1().ConfigMaps(loggingNamespace).Get(ctx, loggingName, metav1.GetOptions{})
		l.asked, l.on = now, err == nil
	}
	return l.on
}
