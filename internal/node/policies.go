package node

import (
	"slices"
	"strings"
)

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

// ActionsOfNodes are what nodes call of the service of an action, on their way to Ready and
// for their pods' addresses and images: what lets one through lets all of them through.
func ActionsOfNodes(action string) []string {
	service, _, _ := strings.Cut(action, ":")
	out := []string{}
	for _, a := range []string{
		ActionDescribeInstances, ActionDescribeInterfaces, ActionCreateInterface, ActionAttachInterface, ActionAssignAddresses, ActionUnassignAddresses,
		ActionDescribeSubnets, ActionDetachInterface, ActionDeleteInterface, ActionModifyInterface, ActionCreateTags,
		ActionGetObject, ActionAssumeForPod, ActionGetToken, ActionGetImage, ActionGetLayer,
	} {
		if strings.HasPrefix(a, service+":") {
			out = append(out, a)
		}
	}
	if !slices.Contains(out, action) {
		out = append(out, action)
	}
	return out
}

// AllowCommand is the command by which a node's role is allowed an action: it attaches
// the AWS-managed policy of nodes that does.
func AllowCommand(roleARN, action string) string {
	return "aws iam attach-role-policy --role-name " + roleARN[strings.LastIndexByte(roleARN, '/')+1:] + " --policy-arn arn:aws:iam::aws:policy/" + policyFor(action)
}
