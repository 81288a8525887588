package why

import (
	"context"
	"regexp"
	"strings"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/api"
	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/node"
)

// hint says what is behind a step that failed without a decision of the network, IAM
// or the cluster: the step's cause is all that the program on the node had, and here the
// rest of the world can be looked at.
func (x *Explainer) hint(e *api.NodeExplanation, m *machine.Instance, s *node.Step) *api.Reason {
	at := " --region " + e.Region
	switch {
	case s.Name == node.StepMetadata:
		return &api.Reason{By: "EC2", Code: "MetadataOff", Component: e.Instance, Text: "the instance's metadata service does not answer it, which is where user data and credentials are",
			Fixes: []advice.Fix{advice.Paste(
				"aws ec2 modify-instance-metadata-options --instance-id "+e.Instance+" --http-endpoint enabled"+at,
				"aws ec2 reboot-instances --instance-ids "+e.Instance+at)}}
	case s.Name == node.StepScript:
		return x.scriptHint(e, m, s.Cause)
	case s.Name == node.StepDescribe && s.Cause == "AccessDeniedException":
		return &api.Reason{By: node.ByIAM, Code: "AccessDeniedException", Component: "eks:DescribeCluster", Text: "the role " + e.Role + " may not describe the cluster, which bootstrap.sh does unless it is given endpoint and authority",
			Fixes: x.relaunchAfter(e, m, node.AllowCommand(e.Role, "eks:DescribeCluster"))}
	case s.Name == node.StepDescribe && s.Cause == "ResourceNotFoundException":
		return x.userDataHint(e, m, "NoSuchCluster", "user data names a cluster that "+e.Region+" does not have; aws eks list-clusters"+at+" lists those that it has")
	case s.Name == node.StepUserData:
		return x.userDataHint(e, m, "UserData", "the image's programs could make no node's configuration of user data")
	case s.Name == node.StepDNS && s.Cause == node.CauseNoSuchHost:
		return x.userDataHint(e, m, "NoSuchEndpoint", "no cluster has this endpoint"+describe(e, "cluster.endpoint"))
	case s.Name == node.StepEndpoint && s.Cause == node.CauseWrongAuthority:
		return x.userDataHint(e, m, "WrongAuthority", "the certificate authority in user data is not the cluster's"+describe(e, "cluster.certificateAuthority.data"))
	case s.Name == node.StepRegister:
		return x.registerHint(e, s.Evidence)
	case s.Name == node.StepNetwork && s.Cause == "InsufficientFreeAddressesInSubnet" && m != nil:
		return &api.Reason{By: "EC2", Code: "InsufficientFreeAddressesInSubnet", Component: m.SubnetID, Text: "every pod takes an address of the node's subnet, which has none left",
			Fixes: oneSketch("delete what needs no address any more, or launch nodes in a subnet with room; these have the addresses",
				"aws ec2 describe-network-interfaces --filters Name=subnet-id,Values="+m.SubnetID+" --query 'NetworkInterfaces[].[NetworkInterfaceId,Status,Description]'"+at)}
	}
	return credentialsHint(e, m, s.Cause)
}

func describe(e *api.NodeExplanation, query string) string {
	if e.Cluster == "" {
		return ""
	}
	return "; aws eks describe-cluster --name " + e.Cluster + " --query " + query + " --region " + e.Region + " shows it"
}

// userDataHint is of wrong user data: it runs once, so the instance is replaced.
func (x *Explainer) userDataHint(e *api.NodeExplanation, m *machine.Instance, code, text string) *api.Reason {
	return &api.Reason{By: node.ByImage, Code: code, Component: "user data of " + e.Instance, Text: text, Fixes: x.relaunch(e, m, "", "")}
}

// scriptHint is of user data whose script failed before it came to its end.
func (x *Explainer) scriptHint(e *api.NodeExplanation, m *machine.Instance, cause string) *api.Reason {
	why := x.userDataHint(e, m, "ScriptFailed", "the script did not come to its end; what it printed: aws ec2 get-console-output --latest --output text --instance-id "+e.Instance+" --region "+e.Region)
	if m == nil {
		return why
	}
	switch text := string(m.UserData); {
	case cause == node.CauseUnknownCommand:
		why.Code, why.Text = "UnknownCommand", "user data runs commands that neither the image nor a simulated machine has"
	case m.Image.Family == images.AL2023 && strings.Contains(text, "/etc/eks/bootstrap.sh"):
		why.Code, why.Text = "BootstrapRemoved", "Amazon Linux 2023 images no longer have bootstrap.sh: user data must be a NodeConfig for nodeadm"
	}
	return why
}

var nodesModified = regexp.MustCompile(`node "([^"]*)" is not allowed to modify node "([^"]*)"`)

// registerHint is for a node that the cluster identifies as another user.
func (x *Explainer) registerHint(e *api.NodeExplanation, evidence string) *api.Reason {
	why := &api.Reason{By: node.ByCluster, Code: "Forbidden", Component: e.Role}
	subject := &node.Subject{Cluster: e.Cluster, Role: e.Role}
	edit := func() []advice.Fix {
		plane, err := x.planeOf(e)
		if err != nil {
			return nil
		}
		subject.PlaneID = plane
		return x.editAuth(context.Background(), subject, "EC2_LINUX")
	}
	switch m := nodesModified.FindStringSubmatch(evidence); {
	case m != nil:
		why.Text = "aws-auth maps the role to the user system:node:" + m[1] + ", but the node is " + m[2] + ": its username must be system:node:{{EC2PrivateDNSName}}"
		why.Fixes = edit()
	case strings.Contains(evidence, `User "system:node:`) && strings.Contains(evidence, "cannot create resource"):
		why.Text = "the cluster recognizes the node, but puts it in neither of the groups system:bootstrappers and system:nodes"
		why.Fixes = edit()
	case strings.Contains(evidence, `User "arn:aws:sts::`):
		why.Text = "the cluster treats the role as a user, not as a node: the type of its access entry is not EC2_LINUX"
		why.Fixes = []advice.Fix{replaceEntry(e.Region, subject)}
	default:
		return nil
	}
	return why
}

// replaceEntry makes an access entry that is another's, or of another type, anew.
func replaceEntry(region string, s *node.Subject) advice.Fix {
	return advice.Paste(
		"aws eks delete-access-entry --cluster-name "+s.Cluster+" --principal-arn "+s.Role+" --region "+region,
		createEntry(region, s, "EC2_LINUX"))
}

// credentialsHint is of an instance that is not given credentials.
func credentialsHint(e *api.NodeExplanation, m *machine.Instance, cause string) *api.Reason {
	if m == nil {
		return nil
	}
	switch {
	case cause == node.CauseNoProfile && m.ProfileARN == "":
		return &api.Reason{By: node.ByIAM, Code: "NoInstanceProfile", Component: e.Instance, Text: "the instance has no instance profile, so it has no role",
			Fixes: oneSketch("set PROFILE to the name of an instance profile with a node's role (aws iam list-instance-profiles --query 'InstanceProfiles[].[InstanceProfileName,Roles[0].RoleName]' --output text)",
				"aws ec2 associate-iam-instance-profile --instance-id "+e.Instance+" --iam-instance-profile Name=$PROFILE --region "+e.Region)}
	case cause == node.CauseNotTrusted:
		return &api.Reason{By: node.ByIAM, Code: node.CauseNotTrusted, Component: m.RoleARN, Text: "the trust policy of the role does not let ec2.amazonaws.com assume it",
			Fixes: advice.Each("aws iam update-assume-role-policy --role-name " + roleName(m.RoleARN) +
				` --policy-document '{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"ec2.amazonaws.com"},"Action":"sts:AssumeRole"}]}'`)}
	}
	return nil
}
