package addon

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
)

// shortOfPods returns the issue of workloads without all their pods, nil if they lack
// them only where a node is leaving: of the first reason found, in EKS's words. Coming
// says that there is none, or that nodes are leaving, which may be the reason.
//
// https://docs.aws.amazon.com/guardduty/latest/ug/eks-runtime-monitoring-coverage.html
// (pods that are not scheduled, containers that wait); that no pod of a Deployment is
// scheduled is [seen] of aws-ebs-csi-driver and metrics-server.
func (w *work) shortOfPods(ctx context.Context, short []*unstructured.Unstructured, deployments int) (issue *ekstypes.AddonIssue, coming bool, err error) {
	leaving, err := w.leaving(ctx)
	if err != nil {
		return nil, false, err
	}
	var unscheduled, waiting string
	idle, lacking := 0, 0
	for _, o := range short {
		pods, err := w.objects.Pods(ctx, o)
		if err != nil {
			return nil, false, fmt.Errorf("listing the pods of %s: %w", plane.Describe(o), err)
		}
		if rolledOutBut(o, pods, leaving) {
			continue
		}
		lacking++
		free := 0
		for i := range pods {
			if leaving[pods[i].Spec.NodeName] {
				continue
			}
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
	if lacking == 0 {
		return nil, false, nil
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
	coming = len(leaving) > 0 || unscheduled == "" && waiting == ""
	return newIssue(ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, "The add-on is unhealthy because "+why), coming, nil
}

// leaving returns the names of the nodes that are leaving the cluster: they are being
// deleted, or their instance has ended.
func (w *work) leaving(ctx context.Context) (map[string]bool, error) {
	nodes := w.nodes()
	select {
	case <-nodes.Synced:
	default:
		return nil, errNodesUnknown
	}
	out := map[string]bool{}
	var instances []string
	for _, n := range nodes.All() {
		if n.DeletionTimestamp != nil {
			out[n.Name] = true
		} else if id := kube.InstanceID(n.Spec.ProviderID); strings.HasPrefix(id, "i-") {
			instances = append(instances, id)
		}
	}
	ended, err := w.s.EndedInstances(w.s.AsService(ctx, w.key.Account, w.key.Region), instances)
	if err != nil {
		return nil, err
	}
	for _, id := range ended {
		if n := nodes.OfInstance(id); n != nil {
			out[n.Name] = true
		}
	}
	return out, nil
}

// errNodesUnknown makes reconcile look again.
var errNodesUnknown = errors.New("the cluster's nodes are not known yet")

// rolledOutBut reports whether a DaemonSet lacks pods only on nodes that are leaving. Its
// status counts those as long as there is a Node.
func rolledOutBut(o *unstructured.Unstructured, pods []corev1.Pod, leaving map[string]bool) bool {
	if o.GetKind() != "DaemonSet" || len(leaving) == 0 || statusNumber(o, "observedGeneration") < o.GetGeneration() {
		return false
	}
	// The label by which the DaemonSet controller recognizes an updated pod.
	template := o.GetAnnotations()[appsv1.DeprecatedTemplateGeneration]
	good := map[string]bool{}
	for i := range pods {
		if p := &pods[i]; kube.PodReady(p) && p.Labels[podTemplateGeneration] == template {
			good[p.Spec.NodeName] = true
		}
	}
	excused := 0
	for name := range leaving {
		if !good[name] {
			excused++
		}
	}
	return int64(len(good)+excused) >= statusNumber(o, "desiredNumberScheduled")
}

// podTemplateGeneration is the label that says of which template a DaemonSet's pod is.
const podTemplateGeneration = "pod-template-generation"

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
