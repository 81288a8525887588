package addon

import (
	"context"
	"errors"
	"fmt"
	"strings"

	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/drydock-dev/drydock/internal/catalog/addons"
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
// concern.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_AddonIssue.html
func (s *Service) permissionIssue(ctx context.Context, cluster store.Key, a *addons.AddOn, p record.AddonSpec) (*ekstypes.AddonIssue, error) {
	if s.RoleDenies == nil {
		return nil, nil
	}
	for _, sa := range a.ServiceAccounts {
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

// health returns what is wrong with the add-on, nil if nothing is. Coming says that its
// pods are missing for no reason that keeps them from coming yet.
func (w *work) health(ctx context.Context) (issue *ekstypes.AddonIssue, coming bool, err error) {
	issue, err = w.s.permissionIssue(ctx, record.ClusterOf(w.key), w.a, w.rec.Spec())
	if err != nil || issue != nil {
		return issue, false, err
	}
	var missing []string
	var short []*unstructured.Unstructured
	deployments := 0
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
		if o.GetKind() == "Deployment" {
			deployments++
		}
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

// statusNumber is a number of an object's status, 0 if it is not there.
func statusNumber(o *unstructured.Unstructured, field string) int64 {
	n, _, _ := unstructured.NestedInt64(o.Object, "status", field)
	return n
}
