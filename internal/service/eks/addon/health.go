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
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
	"github.com/drydock-dev/drydock/internal/kube"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// The health of an add-on. The codes are from
// https://docs.aws.amazon.com/eks/latest/APIReference/API_AddonIssue.html

func newIssue(code ekstypes.AddonIssueCode, message string) *ekstypes.AddonIssue {
	return &ekstypes.AddonIssue{Code: code, Message: &message, ResourceIds: []string{}}
}

// applyIssue returns the issue for an apply error that retrying will not fix, or nil for any other
// error.
func applyIssue(err error) *ekstypes.AddonIssue {
	var conflict *conflictError
	switch {
	case errors.As(err, &conflict):
		return newIssue(ekstypes.AddonIssueCodeConfigurationConflict, conflict.Error())
	case apierrors.IsUnauthorized(err):
		return newIssue(ekstypes.AddonIssueCodeAccessDenied, reason(err))
	case apierrors.IsForbidden(err), apierrors.IsInvalid(err), apierrors.IsBadRequest(err):
		// EKS has full access, so only an admission plugin can have refused. The text is the API
		// server's.
		return newIssue(ekstypes.AddonIssueCodeAdmissionRequestDenied, reason(err))
	}
	return nil
}

// reason returns the API server's message from an error.
func reason(err error) string {
	var status apierrors.APIStatus
	if errors.As(err, &status) {
		return status.Status().Message
	}
	return err.Error()
}

// permissionIssue returns an issue if a role given to the add-on lacks permissions that its pods
// need, or nil. Pods without a role of their own use the node's role, which is not the add-on's
// concern. Neither is a role for which no pods run, in a cluster without nodes.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_AddonIssue.html
func (s *Service) permissionIssue(ctx context.Context, cluster store.Key, a *addons.AddOn, p record.AddonSpec, idle map[string]bool) (*ekstypes.AddonIssue, error) {
	if s.RoleDenies == nil {
		return nil, nil
	}
	for _, sa := range a.ServiceAccounts {
		if idle[sa.Name] {
			continue
		}
		role := p.Role
		if rec, err := record.PodIdentities.Get(s.Store, record.PodIdentityKey(cluster, p.NamespaceOrDefault(), sa.Name)); err == nil {
			role = *rec.Association.RoleArn
		} else if !errors.Is(err, store.ErrNotFound) {
			return nil, err
		}
		if role == "" {
			continue
		}
		denied, err := s.RoleDenies(ctx, role, sa.Needs)
		if err != nil {
			return nil, fmt.Errorf("asking what %s may do: %w", role, err)
		}
		if len(denied) > 0 {
			issue := newIssue(ekstypes.AddonIssueCodeAddonPermissionFailure, // the text is from memory
				fmt.Sprintf("The add-on is unhealthy because the IAM role of its service account %s does not have the required permissions: %s", sa.Name, strings.Join(denied, ", ")))
			issue.ResourceIds = []string{role}
			return issue, nil
		}
	}
	return nil, nil
}

// updateErrorOf converts an issue to the error of an update.
func updateErrorOf(i *ekstypes.AddonIssue) ekstypes.ErrorDetail {
	d := ekstypes.ErrorDetail{ErrorCode: ekstypes.ErrorCode(i.Code), ErrorMessage: i.Message, ResourceIds: i.ResourceIds}
	switch i.Code {
	case ekstypes.AddonIssueCodeInternalFailure:
		d.ErrorCode = ekstypes.ErrorCodeUnknown
	case ekstypes.AddonIssueCodeAddonPermissionFailure: // updates have no such code
		d.ErrorCode = ekstypes.ErrorCodeAccessDenied
	}
	return d
}

// health returns the add-on's issue, or nil if it is healthy. coming reports that pods are missing
// but nothing is known to keep them from starting, so they may still come.
func (w *work) health(ctx context.Context) (issue *ekstypes.AddonIssue, coming bool, err error) {
	var missing []string
	var short []*unstructured.Unstructured
	deployments := 0
	idle := map[string]bool{} // service accounts that only DaemonSets without pods use
	for _, o := range w.a.Workloads(w.rec.Spec().NamespaceOrDefault()) {
		got, err := w.objects.Get(ctx, o)
		switch {
		case apierrors.IsNotFound(err):
			missing = append(missing, strings.ToLower(o.GetKind())+"/"+o.GetName())
		case err != nil:
			return nil, false, fmt.Errorf("reading %s: %w", plane.Describe(o), err)
		case !rolledOut(got):
			short = append(short, got)
		}
		if got != nil {
			account, _, _ := unstructured.NestedString(got.Object, "spec", "template", "spec", "serviceAccountName")
			others, known := idle[account]
			idle[account] = (others || !known) && o.GetKind() == "DaemonSet" && statusNumber(got, "desiredNumberScheduled") == 0
		}
		if o.GetKind() == "Deployment" {
			deployments++
		}
	}
	issue, err = w.s.permissionIssue(ctx, w.key.Owner(), w.a, w.rec.Spec(), idle)
	if err != nil || issue != nil {
		return issue, false, err
	}
	switch {
	case len(missing) > 0: // the text is from memory
		return newIssue(ekstypes.AddonIssueCodeK8sResourceNotFound, "The add-on is unhealthy because these resources are not found: "+strings.Join(missing, ", ")), false, nil
	case len(short) > 0:
		return w.shortOfPods(ctx, short, deployments)
	}
	return nil, false, nil
}

// rolledOut reports whether a workload has all its pods, ready and up to date. In a cluster without
// nodes a DaemonSet needs none.
func rolledOut(o *unstructured.Unstructured) bool {
	number := func(field string) int64 { return statusNumber(o, field) }
	if number("observedGeneration") < o.GetGeneration() {
		return false
	}
	if o.GetKind() == "DaemonSet" {
		want := number("desiredNumberScheduled")
		return number("numberReady") >= want && number("updatedNumberScheduled") >= want
	}
	want, ok, _ := unstructured.NestedInt64(o.Object, "spec", "replicas")
	if !ok {
		want = 1
	}
	return number("readyReplicas") >= want && number("updatedReplicas") >= want
}

// statusNumber returns a number from an object's status, or 0 if it is not set.
func statusNumber(o *unstructured.Unstructured, field string) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, "status", field)
	return n
}

// shortOfPods returns the issue of workloads that lack pods, worded as EKS words the first reason
// found, or nil if pods are missing only on nodes that are leaving. coming reports that no reason
// was found or that leaving nodes may be the reason.
//
// The texts on unscheduled pods and waiting containers are from
// https://docs.aws.amazon.com/guardduty/latest/ug/eks-runtime-monitoring-coverage.html
// The text on Deployments without any scheduled pod is [seen] for aws-ebs-csi-driver and
// metrics-server.
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

// leaving returns the names of the nodes that are leaving the cluster, because they are being
// deleted or their instance has terminated.
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

// errNodesUnknown makes the reconciler retry.
var errNodesUnknown = errors.New("the cluster's nodes are not known yet")

// rolledOutBut reports whether a DaemonSet lacks pods only on nodes that are leaving. Its status
// counts a node until the Node object is deleted.
func rolledOutBut(o *unstructured.Unstructured, pods []corev1.Pod, leaving map[string]bool) bool {
	if o.GetKind() != "DaemonSet" || len(leaving) == 0 || statusNumber(o, "observedGeneration") < o.GetGeneration() {
		return false
	}
	// The DaemonSet controller recognizes up-to-date pods by this label.
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

// podTemplateGeneration is the label that names the template generation of a DaemonSet's pod.
const podTemplateGeneration = "pod-template-generation"

// notScheduled returns the scheduler's message if it found no node for a pod, or "".
func notScheduled(p *corev1.Pod) string {
	for _, c := range p.Status.Conditions {
		if c.Type == corev1.PodScheduled && c.Status == corev1.ConditionFalse {
			return c.Message
		}
	}
	return ""
}

// waitingContainer describes why a container of the pod is waiting after it failed or could not
// start, as in "CrashLoopBackOff: Error".
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
