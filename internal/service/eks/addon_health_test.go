package eks_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
)

func (w *world) issue(name string, status ekstypes.AddonStatus, code ekstypes.AddonIssueCode, message string) {
	w.Helper()
	got := w.waitAddon(name, status)
	if i := got.Health.Issues; len(i) != 1 || i[0].Code != code || *i[0].Message != message {
		w.Errorf("issues %s, want %s: %s", asJSON(i), code, message)
	}
}

// The role that an add-on is given, on its service account or by an association, must
// allow what its pods need.
func TestAddOnWhoseRoleLacksPermissions(t *testing.T) {
	const lacks = "The add-on is unhealthy because the IAM role of its service account %s does not have the required permissions: %s"
	w := addOnWorld(t)
	role := w.arn("role/pods")
	w.iam.forbid(role, "ec2:DescribeVolumes", "ec2:DescribeInstances", "s3:GetObject")

	// Without a role, the nodes' is not judged.
	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("vpc-cni")})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)
	up := w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), ServiceAccountRoleArn: &role})
	w.issue("vpc-cni", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeAddonPermissionFailure, fmt.Sprintf(lacks, "aws-node", "ec2:DescribeInstances"))
	if done := w.describeUpdate("vpc-cni", *up.Id); done.Status != ekstypes.UpdateStatusFailed || done.Errors[0].ErrorCode != ekstypes.ErrorCodeAccessDenied || !slices.Equal(done.Errors[0].ResourceIds, []string{role}) {
		t.Errorf("update = %s", asJSON(done))
	}
	// An association goes before the annotation.
	w.updateAddon(&awseks.UpdateAddonInput{AddonName: aws.String("vpc-cni"), PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{
		{ServiceAccount: aws.String("aws-node"), RoleArn: aws.String(w.arn("role/other"))},
	}})
	w.waitAddon("vpc-cni", ekstypes.AddonStatusActive)

	w.createAddon(&awseks.CreateAddonInput{AddonName: aws.String("aws-ebs-csi-driver"), PodIdentityAssociations: []ekstypes.AddonPodIdentityAssociations{
		{ServiceAccount: aws.String("ebs-csi-controller-sa"), RoleArn: &role},
	}})
	w.issue("aws-ebs-csi-driver", ekstypes.AddonStatusDegraded, ekstypes.AddonIssueCodeAddonPermissionFailure, fmt.Sprintf(lacks, "ebs-csi-controller-sa", "ec2:DescribeVolumes"))
	// What the policy of the role allows now is seen without an update; and what it no
	// longer does.
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
