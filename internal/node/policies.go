package node

import "strings"

// policyFor names the AWS-managed policy by which nodes are allowed an action.
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

// AllowCommand is the command by which a node's role is allowed an action: it attaches
// the AWS-managed policy of nodes that does.
func AllowCommand(roleARN, action string) string {
	return "aws iam attach-role-policy --role-name " + roleARN[strings.LastIndexByte(roleARN, '/')+1:] + " --policy-arn arn:aws:iam::aws:policy/" + policyFor(action)
}
