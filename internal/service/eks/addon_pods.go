package eks

import (
	"cmp"
	"context"
	"fmt"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
)

// insufficientReplicas is the issue of workloads without all their pods: of the first
// reason found, in EKS's words.
//
// https://docs.aws.amazon.com/guardduty/latest/ug/eks-runtime-monitoring-coverage.html
// (pods that are not scheduled, containers that wait); that no pod of a Deployment is
// scheduled is [seen] of aws-ebs-csi-driver and metrics-server.
func insufficientReplicas(ctx context.Context, in Objects, short []*unstructured.Unstructured, deployments int) (*ekstypes.AddonIssue, error) {
	var unscheduled, waiting string
	idle := 0
	for _, o := range short {
		pods, err := in.Pods(ctx, o)
		if err != nil {
			return nil, fmt.Errorf("listing the pods of %s: %w", describeObject(o), err)
		}
		free := 0
		for i := range pods {
			if why := notScheduled(&pods[i]); why != "" {
				unscheduled = cmp.Or(unscheduled, why)
				free++
			}
			waiting = cmp.Or(waiting, waitingContainer(&pods[i]))
		}
		if o.GetKind() == "Deployment" && free > 0 && free == len(pods) {
			idle++
		}
	}
	why := "it doesn't have the desired number of replicas."
	switch {
	case deployments > 0 && idle == deployments:
		why = "all deployments have all pods unscheduled " + unscheduled
	case unscheduled != "":
		why = "one or more pods is not scheduled " + unscheduled
	case waiting != "":
		why = "one or more pods have waiting containers " + waiting
	}
	return addonIssue(ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, "The add-on is unhealthy because "+why), nil
}

// notScheduled is the scheduler's own text on a pod that it finds no node for.
func notScheduled(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// waitingContainer says what a pod's container waits for after it failed, or could not
// start: "CrashLoopBackOff: Error".
func waitingContainer(p *corev1.Pod) string {
	for _, c := range p.Status.ContainerStatuses {
		w := c.State.Waiting
		switch {
		case w == nil || w.Reason == "ContainerCreating" || w.Reason == "PodInitializing":
		case c.LastTerminationState.Terminated != nil:
			return w.Reason + ": " + c.LastTerminationState.Terminated.Reason
		default:
			return w.Reason + ": " + w.Message
		}
	}
	return ""
}
