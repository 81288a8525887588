package why

import (
	"github.com/drydock-dev/drydock/internal/advice"
	"strings"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
)

func TestIssuesOfNodeGroupsHaveFixes(t *testing.T) {
	g := &ekstypes.Nodegroup{
		ClusterName: aws.String("dev"), NodegroupName: aws.String("ng"), NodeRole: aws.String("arn:aws:iam::111122223333:role/team/node"), Subnets: []string{"subnet-1", "subnet-2"},
		LaunchTemplate: &ekstypes.LaunchTemplateSpecification{Id: aws.String("lt-1"), Version: aws.String("3")},
		Resources:      &ekstypes.NodegroupResources{AutoScalingGroups: []ekstypes.AutoScalingGroup{{Name: aws.String("eks-ng-1")}}},
	}
	for code, want := range map[ekstypes.NodegroupIssueCode]string{
		ekstypes.NodegroupIssueCodeAutoScalingGroupNotFound:              "aws eks delete-nodegroup --cluster-name dev --nodegroup-name ng --region eu-west-1",
		ekstypes.NodegroupIssueCodeEc2LaunchTemplateInvalidConfiguration: "aws ec2 create-launch-template-version --launch-template-id lt-1 --source-version 3 ",
		ekstypes.NodegroupIssueCodeIamNodeRoleNotFound:                   "aws iam create-role --role-name node ",
		ekstypes.NodegroupIssueCodeInsufficientFreeAddresses:             "--subnet-ids subnet-1 subnet-2 --region eu-west-1",
		ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures:             "--auto-scaling-group-name eks-ng-1 --region eu-west-1",
		ekstypes.NodegroupIssueCodeNodeCreationFailure:                   "", // its nodes say more
	} {
		if got := advice.Text("", nodegroupFixes(&ekstypes.Issue{Code: code}, g, "eu-west-1")); !strings.Contains(got, want) || want == "" && got != "" {
			t.Errorf("%s: %q, want %q", code, got, want)
		}
	}
}
