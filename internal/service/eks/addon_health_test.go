package eks_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	corev1 "k8s.io/api/core/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

func (w *world) issue(name string, status ekstypes.AddonStatus, code ekstypes.AddonIssueCode, message string) {
	w.Helper()
	got := w.waitAddon(name, status)
	if i := got.Health.Issues; len(i) != 1 || i[0].Code != code || *i[0].Message != message {
		w.Errorf("issues %s, want %s: %s", asJSON(i), code, message)
	}
}

// A role given to an add-on, on its service account or by an association, must allow what its pods
// need.
func TestAddOnWhoseRoleLacksPermissions(t *testing.T) {
	const lacks = "The add-on is unhealthy because the IAM role of its service account %s does not have the required permissions: %s"
	w := addOnWorld(t)
	role := w.arn("role/pods")
	w.iam.forbid(role, "ec2:DescribeVolumes", "ec2:DescribeInstances", "s3:GetObject")

	// Without a role of its own, the node role is not checked.
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni")})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	up := w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), ServiceAccountRoleArn: &role})
	w.issue("vpc-cni", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeAddonPermissionFailure, fmt.Sprintf(lacks, "aws-node", "ec2:DescribeInstances"))
	w.wantNote("the add-on vpc-cni is DEGRADED: AddonPermissionFailure: "+fmt.Sprintf(lacks, "aws-node", "ec2:DescribeInstances"), true)
	if done := w.describeUpdate("vpc-cni", *up.Id); done.Status != ekstypes.UpdateStatusFailed || done.Errors[0].ErrorCode != ekstypes.ErrorCodeAccessDenied || !slices.Equal(done.Errors[0].ResourceIds, []string{role}) {
		t.Errorf("update = %s", asJSON(done))
	}
	// An association takes precedence over the annotation.
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{
		{ServiceAccount: aws.String("aws-node"), RoleArn: aws.String(w.arn("role/other"))},
	}})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)

	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("aws-ebs-csi-driver"), PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{
		{ServiceAccount: aws.String("ebs-csi-controller-sa"), RoleArn: &role},
	}})
	w.issue("aws-ebs-csi-driver", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeAddonPermissionFailure, fmt.Sprintf(lacks, "ebs-csi-controller-sa", "ec2:DescribeVolumes"))
	// A DaemonSet without nodes has no pods that could fail.
	objects := w.objects()
	objects.spread(awsNode)
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), ServiceAccountRoleArn: &role, PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{}})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	// A change of the role's permissions takes effect without an update, in both directions.
	w.iam.forbid(role)
	w.waitAddon("aws-ebs-csi-driver", ekstypes.AddonStatusActive)
	w.iam.forbid(role, "ec2:DescribeVolumes")
	w.waitAddon("aws-ebs-csi-driver", ekstypes.AddonStatusDegraded)
}

func TestAddOnHealthSaysWhatIsMissing(t *testing.T) {
	w := addOnWorld(t)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("metrics-server")})
	w.waitAddon("metrics-server", ekstypes.AddonStatusActive)
	objects := w.objects()
	objects.mu.Lock()
	delete(objects.byID, "Deployment kube-system/metrics-server")
	objects.mu.Unlock()
	w.issue("metrics-server", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeK8sResourceNotFound, "The add-on is unhealthy because these resources are not found: deployment/metrics-server")
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("metrics-server")})
	w.waitAddon("metrics-server", ekstypes.AddonStatusActive)

	objects.refuse("Deployment kube-system/metrics-server", apierrors.NewUnauthorized("who is asking?"))
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("metrics-server"), ConfigurationValues: aws.String("replicas: 3")})
	w.issue("metrics-server", ekstypes.AddonStatusUpdateFailed, ekstypes.AddonIssueCodeAccessDenied, "who is asking?")
	objects.refuse("Deployment kube-system/metrics-server", errors.New("try again"))
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("metrics-server")})
	w.waitAddon("metrics-server", ekstypes.AddonStatusUpdating)
	objects.refuse("Deployment kube-system/metrics-server", nil)
	w.waitAddon("metrics-server", ekstypes.AddonStatusActive)
}

const awsNode = "DaemonSet kube-system/aws-node"

// A new add-on is CREATING while its pods may still start: eksctl gives up on one that is DEGRADED
// for a moment.
func TestNewAddOnWaitsForItsPods(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock, func(w *world) { w.timing.AddonUnhealthy, w.timing.AddonRollout = 0, time.Hour })
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.objects().stop(awsNode, true)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni")})
	w.lookedAt(3)
	w.waitAddon("vpc-cni", ekstypes.AddonStatusCreating)
	w.objects().stop(awsNode, false)
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
}

// An update fails if its rollout does not complete, not if pods are missing during the rollout.
func TestAddOnUpdateWaitsForItsRollout(t *testing.T) {
	t.Parallel()
	w := newWorld(t, withClock, func(w *world) {
		w.timing.AddonUnhealthy, w.timing.AddonStuck, w.timing.AddonRollout = 0, 0, time.Hour
	})
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni")})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	update := func() *ekstypes.Update {
		return w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni")})
	}
	w.objects().stop(awsNode, true)
	up := update()
	w.lookedAt(3)
	if now := w.describeUpdate("vpc-cni", *up.Id); now.Status != ekstypes.UpdateStatusInProgress {
		t.Errorf("while it is rolled out, the update is %s", asJSON(now))
	}
	w.objects().stop(awsNode, false)
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	if done := w.describeUpdate("vpc-cni", *up.Id); done.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("update = %s", asJSON(done))
	}

	failed := func(up *ekstypes.Update, message string) {
		t.Helper()
		w.issue("vpc-cni", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, "The add-on is unhealthy because "+message)
		if done := w.describeUpdate("vpc-cni", *up.Id); done.Status != ekstypes.UpdateStatusFailed || done.Errors[0].ErrorCode != ekstypes.ErrorCodeInsufficientNumberOfReplicas {
			t.Errorf("update = %s", asJSON(done))
		}
	}
	w.objects().stop(awsNode, true)
	up = update()
	w.lookedAt(2)
	w.fake.Step(time.Hour)
	failed(up, "it doesn't have the desired number of replicas.")
	// A known obstacle to starting pods is reported sooner.
	w.objects().pending(awsNode, corev1.Pod{Status: corev1.PodStatus{Conditions: []corev1.PodCondition{
		{Type: corev1.PodScheduled, Status: corev1.ConditionFalse, Message: "0/1 nodes are available."},
	}}})
	failed(update(), "one or more pods is not scheduled 0/1 nodes are available.")
}

// Pods that a DaemonSet lacks on a node whose instance has terminated are not a problem of the
// add-on.
func TestAddOnOfANodeThatLeaves(t *testing.T) {
	t.Parallel()
	w := newWorld(t, func(w *world) { w.timing.AddonUnhealthy, w.timing.AddonStuck, w.timing.AddonRollout = 0, 0, 0 })
	w.cluster("dev", ekstypes.AuthenticationModeApi)
	for _, id := range []string{"i-stays", "i-leaves"} {
		i := instance(id, "node-"+id)
		w.ec2.mu.Lock()
		w.ec2.instances[id] = i
		w.ec2.mu.Unlock()
		if err := join(w.kubernetes(), i, ""); err != nil {
			t.Fatal(err)
		}
	}
	pod := func(instance string, ready corev1.ConditionStatus) corev1.Pod {
		return corev1.Pod{
			Spec:   corev1.PodSpec{NodeName: "node-" + instance},
			Status: corev1.PodStatus{Conditions: []corev1.PodCondition{{Type: corev1.PodReady, Status: ready}}},
		}
	}
	const short = "The add-on is unhealthy because it doesn't have the desired number of replicas."
	stays, leaves := pod("i-stays", corev1.ConditionTrue), pod("i-leaves", corev1.ConditionFalse)
	w.objects().spread(awsNode, stays, leaves)
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni")})
	w.issue("vpc-cni", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, short)

	w.ec2.end("i-leaves")
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	up := w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni")})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	if done := w.describeUpdate("vpc-cni", *up.Id); done.Status != ekstypes.UpdateStatusSuccessful {
		t.Errorf("update = %s", asJSON(done))
	}

	// An outdated pod on a node that stays is a problem.
	stays.ObjectMeta = metav1.ObjectMeta{Labels: map[string]string{"pod-template-generation": "1"}}
	w.objects().spread(awsNode, stays, leaves)
	w.issue("vpc-cni", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeInsufficientNumberOfReplicas, short)
}
