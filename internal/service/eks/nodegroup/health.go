package nodegroup

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/access"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
	"github.com/drydock-dev/drydock/internal/service/eks/plane"
	"github.com/drydock-dev/drydock/internal/service/eks/record"
	"github.com/drydock-dev/drydock/internal/store"
)

// The health of a node group. The codes, and the texts without another source, are from
// https://docs.aws.amazon.com/eks/latest/APIReference/API_Issue.html

func issue(code ekstypes.NodegroupIssueCode, message string, resources ...string) ekstypes.Issue {
	if resources == nil {
		resources = []string{}
	}
	return ekstypes.Issue{Code: code, Message: &message, ResourceIds: resources}
}

// [seen] hashicorp/terraform-provider-aws#29416
func notJoined(members []member) ekstypes.Issue {
	return issue(ekstypes.NodegroupIssueCodeNodeCreationFailure, "Instances failed to join the kubernetes cluster", memberIDs(members)...)
}

// [seen] terraform-aws-modules/terraform-aws-eks#2041
func unhealthy(members []member) ekstypes.Issue {
	return issue(ekstypes.NodegroupIssueCodeNodeCreationFailure, "Unhealthy nodes in the kubernetes cluster", memberIDs(members)...)
}

func errUnreachable(cluster string) ekstypes.Issue {
	return issue(ekstypes.NodegroupIssueCodeClusterUnreachable, "Amazon EKS or one or more of your managed nodes is unable to to communicate with your Kubernetes cluster API server. "+
		"This can happen if there are network disruptions or if API servers are timing out processing requests.", cluster)
}

// errNoScalingGroup means that the node group's Auto Scaling group was deleted.
var errNoScalingGroup = errors.New("the Auto Scaling group is gone")

func (w *work) noScalingGroup() ekstypes.Issue {
	return issue(ekstypes.NodegroupIssueCodeAutoScalingGroupNotFound,
		"We couldn't find the Auto Scaling group associated with the managed node group. You may be able to recreate an Auto Scaling group with the same settings to recover.",
		w.g.ResourceName())
}

// issueOf returns the issue for an error from EC2, IAM or Auto Scaling, or nil for any other error.
func issueOf(err error) *ekstypes.Issue {
	var found ekstypes.Issue
	switch c := awserr.CodeOf(err); {
	case errors.Is(err, errNotMIME):
		found = issue(ekstypes.NodegroupIssueCodeEc2LaunchTemplateInvalidConfiguration, errNotMIME.Error())
	case c == "", awsapi.IsThrottle(err):
		return nil
	case c == "ValidationError" && strings.HasPrefix(awserr.TextOf(err), "The subnet ID"): // all of Auto Scaling's refusals have the same code
		found = issue(ekstypes.NodegroupIssueCodeEc2SubnetNotFound, awserr.TextOf(err))
	default:
		found = issue(issueCode(c, awserr.TextOf(err)), awserr.TextOf(err))
	}
	return &found
}

// issueCode returns EKS's code for an error of EC2 or IAM. A launch without a mixed instances
// policy reports no code, only a text.
func issueCode(c, text string) ekstypes.NodegroupIssueCode {
	switch {
	case strings.HasPrefix(c, "InvalidSubnet"), strings.HasPrefix(text, "The subnet ID"):
		return ekstypes.NodegroupIssueCodeEc2SubnetNotFound
	case strings.HasPrefix(c, "InvalidGroup"), strings.HasPrefix(text, "The security group"):
		return ekstypes.NodegroupIssueCodeEc2SecurityGroupNotFound
	case strings.HasPrefix(c, "InvalidAMIID"), strings.HasPrefix(text, "The image id"):
		return ekstypes.NodegroupIssueCodeAmiIdNotFound
	case strings.HasPrefix(c, "InvalidLaunchTemplate"), strings.Contains(text, "launch template does not exist"):
		return ekstypes.NodegroupIssueCodeEc2LaunchTemplateNotFound
	case c == "InsufficientFreeAddressesInSubnet", strings.Contains(text, "enough free addresses"):
		return ekstypes.NodegroupIssueCodeInsufficientFreeAddresses
	case c == "InstanceLimitExceeded", c == "VcpuLimitExceeded", strings.HasPrefix(text, "You have requested more"):
		return ekstypes.NodegroupIssueCodeInstanceLimitExceeded
	case strings.Contains(text, "iamInstanceProfile"):
		return ekstypes.NodegroupIssueCodeIamInstanceProfileNotFound
	case c == "NoSuchEntity", c == "NoSuchEntityException":
		return ekstypes.NodegroupIssueCodeIamNodeRoleNotFound
	}
	return ekstypes.NodegroupIssueCodeAsgInstanceLaunchFailures
}

// NodegroupLaunchIssue returns the reason why the last launch of a node group of the call's account and region failed, or
// nil if it did not. Until EKS gives up creating a node group, its health does not have it.
func (s *Service) NodegroupLaunchIssue(ctx context.Context, cluster, nodegroup string) (*ekstypes.Issue, error) {
	key, g, err := s.find(ctx, &cluster, &nodegroup)
	if err != nil {
		return nil, err
	}
	found, err := (&work{s: s, key: key, g: &g, svc: s.asService(ctx, key)}).launchIssue()
	if isCode(err, "ValidationError") { // there is no Auto Scaling group yet
		return nil, nil
	}
	return found, err
}

// launchIssue returns the reason why the last launch failed, or nil if it did not.
func (w *work) launchIssue() (*ekstypes.Issue, error) {
	out, err := w.s.AutoScaling.DescribeScalingActivities(w.svc, &awsautoscaling.DescribeScalingActivitiesInput{AutoScalingGroupName: new(w.g.ResourceName()), MaxRecords: new(int32(20))})
	if err != nil {
		return nil, err
	}
	for _, a := range out.Activities {
		if !strings.HasPrefix(*a.Description, "Launching") {
			continue
		}
		if a.StatusCode != autoscalingtypes.ScalingActivityStatusCodeFailed {
			return nil, nil
		}
		c, text := launchRefusal(*a.StatusMessage)
		found := issue(issueCode(c, text), *a.StatusMessage, w.g.ResourceName())
		var in struct {
			Subnet string `json:"Subnet ID"`
		}
		if found.Code == ekstypes.NodegroupIssueCodeInsufficientFreeAddresses && json.Unmarshal([]byte(aws.ToString(a.Details)), &in) == nil && in.Subnet != "" {
			found.ResourceIds = []string{in.Subnet}
		}
		return &found, nil
	}
	return nil, nil
}

// launchRefusal extracts EC2's code and text from the status of a launch. There is a code only with
// a mixed instances policy.
func launchRefusal(status string) (code, text string) {
	_, rest, ok := strings.Cut(status, " Instances. ")
	if !ok {
		return "", status
	}
	code, text, _ = strings.Cut(rest, " - ")
	return code, text
}

// misconfigured returns issues with the group's resources: those that were deleted or changed
// outside of EKS.
func (w *work) misconfigured(ctx context.Context, asg *scalingGroup) ([]ekstypes.Issue, error) {
	var out []ekstypes.Issue
	for _, check := range []func(context.Context, *scalingGroup) (*ekstypes.Issue, error){
		w.roleIssue, w.profileIssue, w.templateIssue, w.scalingGroupIssue, w.networkIssue, w.accessIssue,
	} {
		found, err := check(ctx, asg)
		if err != nil {
			return nil, err
		}
		if found != nil {
			out = append(out, *found)
		}
	}
	return out, nil
}

func (w *work) roleIssue(context.Context, *scalingGroup) (*ekstypes.Issue, error) {
	if _, err := w.s.Identity(w.svc, w.g.Role.ARN); !errors.Is(err, base.ErrNoIdentity) {
		return nil, err
	}
	return new(issue(ekstypes.NodegroupIssueCodeIamNodeRoleNotFound,
		"We couldn't find the IAM role for your managed node group. You may be able to recreate an IAM role with the same settings to recover.", w.g.Role.ARN)), nil
}

func (w *work) profileIssue(context.Context, *scalingGroup) (*ekstypes.Issue, error) {
	_, err := w.s.InstanceProfiles.GetInstanceProfile(w.svc, &awsiam.GetInstanceProfileInput{InstanceProfileName: &w.g.InstanceProfile})
	if err == nil || !isCode(err, "NoSuchEntity") {
		return nil, err
	}
	return new(issue(ekstypes.NodegroupIssueCodeIamInstanceProfileNotFound,
		"We couldn't find the IAM instance profile for your managed node group. You may be able to recreate an instance profile with the same settings to recover.", w.g.InstanceProfile)), nil
}

func (w *work) templateIssue(context.Context, *scalingGroup) (*ekstypes.Issue, error) {
	_, err := w.s.templateVersion(w.svc, &ekstypes.LaunchTemplateSpecification{Id: &w.g.LaunchTemplateID}, w.g.LaunchVersion())
	if err == nil || !strings.HasPrefix(awserr.CodeOf(err), "InvalidLaunchTemplate") {
		return nil, err
	}
	return new(issue(ekstypes.NodegroupIssueCodeEc2LaunchTemplateNotFound,
		"We couldn't find the Amazon EC2 launch template for your managed node group. You may be able to recreate a launch template with the same settings to recover.", w.g.LaunchTemplateID)), nil
}

// scalingGroupIssue compares the Auto Scaling group with what EKS created. Users may change its
// size.
func (w *work) scalingGroupIssue(_ context.Context, asg *scalingGroup) (*ekstypes.Issue, error) {
	changed := func(what string) *ekstypes.Issue { // from memory
		return new(issue(ekstypes.NodegroupIssueCodeAutoScalingGroupInvalidConfiguration,
			fmt.Sprintf("The Auto Scaling group associated with the managed node group was modified outside of Amazon EKS: its %s.", what), w.g.ResourceName()))
	}
	want := slices.Sorted(slices.Values(w.g.Nodegroup.Subnets))
	switch {
	case asg.template.id != w.g.LaunchTemplateID:
		return changed("launch template is not the one that Amazon EKS created"), nil
	case asg.template.version != w.g.LaunchVersion(): // [seen] nebari-dev/nebari#2668
		return new(issue(ekstypes.NodegroupIssueCodeEc2LaunchTemplateVersionMismatch, fmt.Sprintf(
			"The Amazon EC2 Launch Template : %s has a new version associated with your Autoscaling group, which is not managed by Amazon EKS. Expected Launch Template version: %s",
			w.g.LaunchTemplateID, w.g.LaunchVersion()), w.g.ResourceName())), nil
	case w.shift() != nil: // EKS itself has changed its subnets
	case !slices.Equal(slices.Compact(slices.Sorted(slices.Values(asg.subnets))), slices.Compact(want)):
		return changed("subnets are not those of the node group"), nil
	}
	return nil, nil
}

// networkIssue reports a subnet or security group that no longer exists.
func (w *work) networkIssue(context.Context, *scalingGroup) (*ekstypes.Issue, error) {
	_, err := w.s.Network.DescribeSubnets(w.svc, &awsec2.DescribeSubnetsInput{SubnetIds: w.g.Nodegroup.Subnets})
	switch {
	case err == nil:
	case strings.HasPrefix(awserr.CodeOf(err), "InvalidSubnet"):
		return new(issue(ekstypes.NodegroupIssueCodeEc2SubnetNotFound, awserr.TextOf(err), ekserr.QuotedID(err, w.g.Nodegroup.Subnets))), nil
	default:
		return nil, err
	}
	group := aws.ToString(w.cluster.Cluster.ResourcesVpcConfig.ClusterSecurityGroupId)
	_, err = w.s.Network.DescribeSecurityGroups(w.svc, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{group}})
	if err == nil || !strings.HasPrefix(awserr.CodeOf(err), "InvalidGroup") {
		return nil, err
	}
	return new(issue(ekstypes.NodegroupIssueCodeEc2SecurityGroupNotFound,
		"We couldn't find the cluster security group for the cluster. You must recreate your cluster.", group)), nil
}

// accessIssue reports that the node role has no access to the cluster.
func (w *work) accessIssue(ctx context.Context, _ *scalingGroup) (*ekstypes.Issue, error) {
	role, err := w.s.Identity(w.svc, w.g.Role.ARN)
	if errors.Is(err, base.ErrNoIdentity) {
		return nil, nil // roleIssue reports it
	}
	if err != nil {
		return nil, err
	}
	if w.cluster.UsesAPI() {
		entry, err := record.AccessEntries.Get(w.s.Store, w.key.Owner().Below(w.g.Role.ARN))
		switch {
		case err == nil && entry.PrincipalID == role.ID && access.IsNode(access.EntryMapping(&entry)):
			return nil, nil
		case store.IgnoreNotFound(err) != nil:
			return nil, err
		case !w.cluster.UsesConfigMap(): // from memory
			return new(issue(ekstypes.NodegroupIssueCodeAccessDenied,
				"Your worker nodes do not have access to the cluster. Verify if the node instance role has an access entry of type EC2_LINUX.", w.g.Role.ARN)), nil
		}
	}
	auth, err := w.s.access.AuthMap(ctx, w.cluster.Plane.ID)
	if err != nil {
		return new(errUnreachable(w.cluster.Name())), nil
	}
	to, ok := auth.Find(access.WithoutPath(w.g.Role.ARN), w.key.Account)
	switch {
	case ok && access.IsNode(to):
		return nil, nil
	case auth.Invalid != nil: // [seen] aws/containers-roadmap#1287
		return new(issue(ekstypes.NodegroupIssueCodeAccessDenied, "The aws-auth ConfigMap in your cluster is invalid.", w.cluster.Name())), nil
	}
	// [seen] particuleio/teks#62
	return new(issue(ekstypes.NodegroupIssueCodeAccessDenied,
		"Your worker nodes do not have access to the cluster. Verify if the node instance role is present and correctly configured in the aws-auth ConfigMap.", w.g.Role.ARN)), nil
}

// publicAddressIssue reports subnets that route to an internet gateway but give instances no public
// address. EKS does not assign any itself, so these instances could not reach the internet.
// https://aws.amazon.com/blogs/containers/upcoming-changes-to-ip-assignment-for-eks-managed-node-groups/
func (w *work) publicAddressIssue() (*ekstypes.Issue, error) {
	if own := w.g.Nodegroup.LaunchTemplate; own != nil {
		v, err := w.s.templateVersion(w.svc, &ekstypes.LaunchTemplateSpecification{Id: own.Id}, *own.Version)
		if err != nil || slices.ContainsFunc(v.LaunchTemplateData.NetworkInterfaces, func(n ec2types.LaunchTemplateInstanceNetworkInterfaceSpecification) bool {
			return aws.ToBool(n.AssociatePublicIpAddress)
		}) {
			return nil, err
		}
	}
	got, err := w.s.Network.DescribeSubnets(w.svc, &awsec2.DescribeSubnetsInput{SubnetIds: w.g.Nodegroup.Subnets})
	if err != nil {
		return nil, err
	}
	tables, err := w.s.Network.DescribeRouteTables(w.svc, &awsec2.DescribeRouteTablesInput{Filters: []ec2types.Filter{
		base.EC2Filter("vpc-id", aws.ToString(w.cluster.Cluster.ResourcesVpcConfig.VpcId)),
	}})
	if err != nil {
		return nil, err
	}
	var bare []string
	for _, sn := range got.Subnets {
		if !aws.ToBool(sn.MapPublicIpOnLaunch) && base.RoutesToInternet(tables.RouteTables, *sn.SubnetId) {
			bare = append(bare, *sn.SubnetId)
		}
	}
	if len(bare) == 0 {
		return nil, nil
	}
	// [seen] aws/amazon-vpc-cni-k8s#878
	return new(issue(ekstypes.NodegroupIssueCodeEc2SubnetInvalidConfiguration, fmt.Sprintf(
		"One or more Amazon EC2 Subnets of [%s] for node group %s does not automatically assign public IP addresses to instances launched into it. "+
			"If you want your instances to be assigned a public IP address, then you need to enable auto-assign public IP address for the subnet. "+
			"See IP addressing in VPC guide: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-ip-addressing.html#subnet-public-ip",
		strings.Join(bare, ", "), *w.g.Nodegroup.NodegroupName), bare...)), nil
}

// address6Issue reports subnets that give the nodes of an IPv6 cluster no IPv6 address.
func (w *work) address6Issue() (*ekstypes.Issue, error) {
	if !w.cluster.IPv6() {
		return nil, nil
	}
	got, err := w.s.Network.DescribeSubnets(w.svc, &awsec2.DescribeSubnetsInput{SubnetIds: w.g.Nodegroup.Subnets})
	if err != nil {
		return nil, err
	}
	var bare []string
	for _, sn := range got.Subnets {
		if !aws.ToBool(sn.AssignIpv6AddressOnCreation) {
			bare = append(bare, *sn.SubnetId)
		}
	}
	if len(bare) == 0 {
		return nil, nil
	}
	// [seen] eksctl-io/eksctl#4701
	return new(issue(ekstypes.NodegroupIssueCodeEc2SubnetMissingIpv6Assignment, fmt.Sprintf(
		"One or more Amazon EC2 Subnets of [%s] for node group %s does not automatically assign IPv6 addresses to instances launched into it. "+
			"See IP addressing in VPC guide: https://docs.aws.amazon.com/vpc/latest/userguide/vpc-ip-addressing.html#subnet-public-ip",
		strings.Join(bare, ", "), *w.g.Nodegroup.NodegroupName), bare...)), nil
}

// noteMissing records since when instances have had no Ready node, and removes those that have one.
func (w *work) noteMissing(ctx context.Context, missing []member) error {
	return w.noteSince(ctx, missing, func(g *record.Nodegroup) *map[string]time.Time { return &g.Missing })
}

// noteSince records since when members have been in a list, and removes those that no longer are.
func (w *work) noteSince(ctx context.Context, members []member, list func(*record.Nodegroup) *map[string]time.Time) error {
	old := *list(w.g)
	same := len(old) == len(members)
	for _, m := range members {
		_, known := old[m.id]
		same = same && known
	}
	if same {
		return nil
	}
	now := w.s.Clock.Now().UTC()
	return w.change(ctx, func(g *record.Nodegroup) {
		old, noted := *list(g), map[string]time.Time{}
		for _, m := range members {
			noted[m.id] = now
			if since, known := old[m.id]; known {
				noted[m.id] = since
			}
		}
		*list(g) = noted
	})
}

// missingFor returns the members that have had no Ready node for at least limit.
func (w *work) missingFor(members []member, limit time.Duration) []member {
	var out []member
	for _, m := range members {
		if since, known := w.g.Missing[m.id]; known && w.s.Clock.Since(since) >= limit {
			out = append(out, m)
		}
	}
	return out
}

// nodeIssues returns the issues of instances that never joined and of those whose nodes are gone or
// NotReady.
func nodeIssues(never, sick []member) []ekstypes.Issue {
	var out []ekstypes.Issue
	if len(never) > 0 {
		out = append(out, notJoined(never))
	}
	if len(sick) > 0 {
		out = append(out, unhealthy(sick))
	}
	return out
}

// lastJoin is when the newest node of the members was created.
func lastJoin(members []member, nodes *plane.Nodes) time.Time {
	var last time.Time
	for _, m := range members {
		if n := nodes.OfInstance(m.id); n != nil && n.CreationTimestamp.After(last) {
			last = n.CreationTimestamp.Time
		}
	}
	return last
}
