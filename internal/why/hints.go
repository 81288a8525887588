package why

import (
	"regexp"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// hint says what is behind a step that failed without a decision of the network, IAM
// or the cluster: what the program on the node saw is all that it had, and here the
// rest of the world can be looked at.
func hint(e *api.NodeExplanation, m *machine.Instance, s *node.Step) *api.Reason {
	switch s.Name {
	case node.StepMetadata:
		return &api.Reason{By: "EC2", Code: "MetadataOff", Component: e.Instance, Text: "the instance's metadata service does not answer it, which is where user data and credentials are",
			Fixes: advice.Each("aws ec2 modify-instance-metadata-options --instance-id " + e.Instance + " --http-endpoint enabled && aws ec2 reboot-instances --instance-ids " + e.Instance)}
	case node.StepScript:
		return scriptHint(e, m, s.Evidence)
	case node.StepDescribe:
		if strings.Contains(s.Evidence, "AccessDeniedException") {
			return &api.Reason{By: node.ByIAM, Code: "AccessDeniedException", Component: "eks:DescribeCluster", Text: "the role " + e.Role + " may not describe the cluster, which bootstrap.sh does unless it is given endpoint and authority",
				Fixes: advice.Each(node.AllowCommand(e.Role, "eks:DescribeCluster"))}
		}
		if strings.Contains(s.Evidence, "ResourceNotFoundException") {
			return userDataHint(e, "NoSuchCluster", "user data names a cluster that "+e.Region+" does not have; aws eks list-clusters tells those that it has")
		}
	case node.StepUserData:
		return userDataHint(e, "UserData", "the image's programs could make no node's configuration of user data")
	case node.StepDNS:
		if strings.Contains(s.Evidence, "no such host") {
			return userDataHint(e, "NoSuchEndpoint", "no cluster has this endpoint"+describe(e, "cluster.endpoint"))
		}
	case node.StepEndpoint:
		if strings.Contains(s.Evidence, "x509") {
			return userDataHint(e, "WrongAuthority", "the certificate authority in user data is not the cluster's"+describe(e, "cluster.certificateAuthority.data"))
		}
	case node.StepRegister:
		return registerHint(e, s.Evidence)
	case node.StepNetwork:
		if strings.Contains(s.Evidence, "no free addresses") && m != nil {
			return &api.Reason{By: "EC2", Code: "InsufficientFreeAddressesInSubnet", Component: m.SubnetID, Text: "every pod takes an address of the node's subnet, which has none left",
				Fixes: advice.Each("aws ec2 describe-network-interfaces --filters Name=subnet-id,Values=" + m.SubnetID + " --query 'NetworkInterfaces[].[NetworkInterfaceId,Status,Description]'")}
		}
	}
	return credentialsHint(e, m, s.Evidence)
}

func describe(e *api.NodeExplanation, query string) string {
	if e.Cluster == "" {
		return ""
	}
	return "; aws eks describe-cluster --name " + e.Cluster + " --query " + query + " tells it"
}

// userDataHint is of wrong user data: it runs once, so the instance is replaced.
func userDataHint(e *api.NodeExplanation, code, text string) *api.Reason {
	return &api.Reason{By: node.ByImage, Code: code, Component: "user data of " + e.Instance, Text: text,
		Fixes: advice.Each("aws ec2 terminate-instances --instance-ids " + e.Instance + " && aws ec2 run-instances --user-data file://MENDED …")}
}

// scriptHint is of user data whose script failed before it came to its end.
func scriptHint(e *api.NodeExplanation, m *machine.Instance, evidence string) *api.Reason {
	why := userDataHint(e, "ScriptFailed", "the script did not come to its end; what it printed: aws ec2 get-console-output --latest --output text --instance-id "+e.Instance)
	if m == nil {
		return why
	}
	switch text := string(m.UserData); {
	case strings.Contains(evidence, "commands that a simulated machine does not have"):
		why.Code, why.Text = "UnknownCommand", "user data runs commands that neither the image nor a simulated machine has"
	case m.Image.Family == images.AL2023 && strings.Contains(text, "/etc/eks/bootstrap.sh"):
		why.Code, why.Text = "BootstrapRemoved", "images of Amazon Linux 2023 have no bootstrap.sh any more: user data has to be a NodeConfig of nodeadm"
	}
	return why
}

var nodesModified = regexp.MustCompile(`node "([^"]*)" is not allowed to modify node "([^"]*)"`)

// registerHint is of a node that the cluster knows as somebody else.
func registerHint(e *api.NodeExplanation, evidence string) *api.Reason {
	why := &api.Reason{By: node.ByCluster, Code: "Forbidden", Component: e.Role}
	edit := "kubectl edit configmap aws-auth --namespace kube-system"
	switch m := nodesModified.FindStringSubmatch(evidence); {
	case m != nil:
		why.Text = "aws-auth maps the role to the user system:node:" + m[1] + ", and the node is " + m[2] + ": its username has to be system:node:{{EC2PrivateDNSName}}"
		why.Fixes = advice.Each(edit)
	case strings.Contains(evidence, `User "system:node:`) && strings.Contains(evidence, "cannot create resource"):
		why.Text = "the cluster knows the node, and in none of the groups system:bootstrappers and system:nodes"
		why.Fixes = advice.Each(edit)
	case strings.Contains(evidence, `User "arn:aws:sts::`):
		why.Text = "the cluster knows the role as a user, not as a node: its access entry is of another type than EC2_LINUX"
		why.Fixes = advice.Each("aws eks delete-access-entry --cluster-name " + e.Cluster + " --principal-arn " + e.Role +
			" && aws eks create-access-entry --cluster-name " + e.Cluster + " --principal-arn " + e.Role + " --type EC2_LINUX")
	default:
		return nil
	}
	return why
}

// credentialsHint is of an instance that is not given credentials.
func credentialsHint(e *api.NodeExplanation, m *machine.Instance, evidence string) *api.Reason {
	if m == nil || !strings.Contains(evidence, "credentials") {
		return nil
	}
	switch {
	case m.ProfileARN == "" && strings.Contains(evidence, "no instance profile"):
		return &api.Reason{By: node.ByIAM, Code: "NoInstanceProfile", Component: e.Instance, Text: "the instance has no instance profile, so it has no role",
			Fixes: advice.Each("aws ec2 associate-iam-instance-profile --instance-id " + e.Instance + " --iam-instance-profile Name=NAME")}
	case strings.Contains(evidence, "cannot assume the role"):
		return &api.Reason{By: node.ByIAM, Code: "AssumeRoleUnauthorizedAccess", Component: m.RoleARN, Text: "the trust policy of the role does not let ec2.amazonaws.com assume it",
			Fixes: advice.Each("aws iam update-assume-role-policy --role-name " + roleName(m.RoleARN) +
				` --policy-document '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}'`)}
	}
	return nil
}
