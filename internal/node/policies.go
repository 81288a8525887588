package node

import "strings"

// policyFor maps an action to the AWS-managed policy that allows it to nodes.
// https://docs.aws.amazon.com/eks/latest/userguide/create-node-role.html
func policyFor(action string) string {
	switch {
	case strings.HasPrefix(action, "ecr:"):
		return "AmazonEC2ContainerRegistryReadOnly"
	case action == "eks:DescribeCluster", action == ActionDescribeInstances, action == ActionAssumeForPod:
		return "AmazonEKSWorkerNodePolicy"
	default:
		return "AmazonEKS_CNI_Policy"
	}
}

// AllowCommand returns the command that allows an action to a node's role: it attaches the AWS-managed policy for
// nodes that contains the action.
func AllowCommand(roleARN, action string) string {
	return "aws iam attach-role-policy --role-name " + roleARN[strings.LastIndexByte(roleARN, '/')+1:] + " --policy-arn arn:aws:iam::aws:policy/" + policyFor(action)
}
