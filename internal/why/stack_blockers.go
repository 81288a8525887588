package why

import (
	"context"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"

	"github.com/drydock-dev/drydock/internal/advice"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/cloudformation"
)

// A blocker is what keeps a resource from being deleted, with the commands that delete it. Without commands it belongs
// to another service.
type blocker struct {
	text     string
	commands []string
}

// inTheWay returns the fixes that delete what keeps a resource from being deleted, and says what that is.
func (q *stackQuestion) inTheWay(ctx context.Context, e *cloudformation.StoryEvent) ([]advice.Fix, string) {
	ctx = awsapi.AsService(ctx, q.account, q.region, awsapi.ServiceRole{
		Service: "cloudformation.amazonaws.com", Name: "AWSServiceRoleForCloudFormation", Session: "CloudFormation",
	}, time.Now())
	var found []blocker
	switch e.Type {
	case "AWS::EC2::Subnet":
		found = q.interfaces(ctx, "subnet-id", e.PhysicalID)
	case "AWS::EC2::SecurityGroup":
		found = append(q.interfaces(ctx, "group-id", e.PhysicalID), q.references(ctx, e.PhysicalID)...)
	case "AWS::EC2::VPC":
		found = q.inVPC(ctx, e.PhysicalID)
	case "AWS::EC2::VPCGatewayAttachment", "AWS::EC2::InternetGateway":
		for _, r := range q.Resources {
			if r.Type == "AWS::EC2::VPC" {
				found = append(found, q.interfaces(ctx, "vpc-id", r.PhysicalID)...)
			}
		}
	case "AWS::IAM::Role":
		found = q.ofRole(ctx, e.PhysicalID)
	case "AWS::EKS::Cluster":
		found = q.inCluster(ctx, e.PhysicalID)
	case "AWS::S3::Bucket":
		found = []blocker{{"the objects in " + e.PhysicalID, []string{"aws s3 rm s3://" + e.PhysicalID + " --recursive" + q.at()}}}
	case "AWS::ECR::Repository":
		found = []blocker{{"the images in " + e.PhysicalID, []string{"aws ecr delete-repository --force --repository-name " + e.PhysicalID + q.at()}}}
	}
	if len(found) == 0 {
		return nil, ""
	}
	var texts []string
	fix := advice.Fix{}
	for _, b := range found {
		texts = append(texts, b.text)
		fix.Commands = append(fix.Commands, b.commands...)
		if len(b.commands) == 0 {
			fix.Sketch = "delete what owns " + b.text
		}
	}
	return []advice.Fix{fix}, "in the way: " + strings.Join(texts, "; ")
}

func (q *stackQuestion) at() string { return " --region " + q.region }

// own reports whether a resource is the stack's, so that deleting the stack deletes it.
func (q *stackQuestion) own(id *string) bool {
	return slices.ContainsFunc(q.Resources, func(r cloudformation.StoryResource) bool {
		return r.PhysicalID == aws.ToString(id) && r.Status != "DELETE_COMPLETE" && r.Status != "DELETE_SKIPPED"
	})
}

func filter(name, value string) []ec2types.Filter {
	return []ec2types.Filter{{Name: &name, Values: []string{value}}}
}

// interfaces are the network interfaces that a filter finds, by the instances that they are attached to.
func (q *stackQuestion) interfaces(ctx context.Context, name, value string) (out []blocker) {
	found, err := awsapi.Do[awsec2.DescribeNetworkInterfacesOutput](ctx, q.x.cfg.API, &awsec2.DescribeNetworkInterfacesInput{Filters: filter(name, value)})
	if err != nil {
		return nil
	}
	seen := map[string]bool{}
	for _, n := range found.NetworkInterfaces {
		id, instance := aws.ToString(n.NetworkInterfaceId), ""
		if n.Attachment != nil {
			instance = aws.ToString(n.Attachment.InstanceId)
		}
		switch {
		case q.own(&id), instance != "" && q.own(&instance), seen[instance]:
		case instance != "":
			seen[instance] = true
			out = append(out, blocker{"instance " + instance + " (" + id + ")", []string{
				"aws ec2 terminate-instances --instance-ids " + instance + q.at(), "aws ec2 wait instance-terminated --instance-ids " + instance + q.at(),
			}})
		case aws.ToBool(n.RequesterManaged) || n.InterfaceType != ec2types.NetworkInterfaceTypeInterface:
			out = append(out, blocker{text: fmt.Sprintf("network interface %s (%s)", id, aws.ToString(n.Description))})
		default:
			out = append(out, blocker{"network interface " + id, []string{"aws ec2 delete-network-interface --network-interface-id " + id + q.at()}})
		}
	}
	return out
}

// references are the rules of other security groups that refer to one.
func (q *stackQuestion) references(ctx context.Context, group string) (out []blocker) {
	found, err := awsapi.Do[awsec2.DescribeSecurityGroupRulesOutput](ctx, q.x.cfg.API, &awsec2.DescribeSecurityGroupRulesInput{})
	if err != nil {
		return nil
	}
	for _, r := range found.SecurityGroupRules {
		if r.ReferencedGroupInfo == nil || aws.ToString(r.ReferencedGroupInfo.GroupId) != group || aws.ToString(r.GroupId) == group {
			continue
		}
		direction := "ingress"
		if aws.ToBool(r.IsEgress) {
			direction = "egress"
		}
		out = append(out, blocker{"rule " + aws.ToString(r.SecurityGroupRuleId) + " of " + aws.ToString(r.GroupId), []string{
			"aws ec2 revoke-security-group-" + direction + " --group-id " + aws.ToString(r.GroupId) + " --security-group-rule-ids " + aws.ToString(r.SecurityGroupRuleId) + q.at(),
		}})
	}
	return out
}

// inVPC are the things in a VPC that are not the stack's.
func (q *stackQuestion) inVPC(ctx context.Context, vpc string) []blocker {
	out := q.interfaces(ctx, "vpc-id", vpc)
	one := func(id *string, kind, command string) {
		if !q.own(id) {
			out = append(out, blocker{kind + " " + aws.ToString(id), []string{"aws ec2 " + command + " " + aws.ToString(id) + q.at()}})
		}
	}
	if found, err := awsapi.Do[awsec2.DescribeSubnetsOutput](ctx, q.x.cfg.API, &awsec2.DescribeSubnetsInput{Filters: filter("vpc-id", vpc)}); err == nil {
		for _, s := range found.Subnets {
			one(s.SubnetId, "subnet", "delete-subnet --subnet-id")
		}
	}
	if found, err := awsapi.Do[awsec2.DescribeSecurityGroupsOutput](ctx, q.x.cfg.API, &awsec2.DescribeSecurityGroupsInput{Filters: filter("vpc-id", vpc)}); err == nil {
		for _, g := range found.SecurityGroups {
			if aws.ToString(g.GroupName) != "default" {
				one(g.GroupId, "security group", "delete-security-group --group-id")
			}
		}
	}
	if found, err := awsapi.Do[awsec2.DescribeInternetGatewaysOutput](ctx, q.x.cfg.API, &awsec2.DescribeInternetGatewaysInput{Filters: filter("attachment.vpc-id", vpc)}); err == nil {
		for _, g := range found.InternetGateways {
			one(g.InternetGatewayId, "internet gateway", "detach-internet-gateway --vpc-id "+vpc+" --internet-gateway-id")
		}
	}
	if found, err := awsapi.Do[awsec2.DescribeRouteTablesOutput](ctx, q.x.cfg.API, &awsec2.DescribeRouteTablesInput{Filters: filter("vpc-id", vpc)}); err == nil {
		for _, t := range found.RouteTables {
			if !slices.ContainsFunc(t.Associations, func(a ec2types.RouteTableAssociation) bool { return aws.ToBool(a.Main) }) {
				one(t.RouteTableId, "route table", "delete-route-table --route-table-id")
			}
		}
	}
	return out
}

// ofRole is what has to be removed from a role before it can be deleted.
func (q *stackQuestion) ofRole(ctx context.Context, role string) (out []blocker) {
	if found, err := awsapi.Do[awsiam.ListAttachedRolePoliciesOutput](ctx, q.x.cfg.API, &awsiam.ListAttachedRolePoliciesInput{RoleName: &role}); err == nil {
		for _, p := range found.AttachedPolicies {
			out = append(out, blocker{"the policy " + aws.ToString(p.PolicyArn), []string{"aws iam detach-role-policy --role-name " + role + " --policy-arn " + aws.ToString(p.PolicyArn)}})
		}
	}
	if found, err := awsapi.Do[awsiam.ListRolePoliciesOutput](ctx, q.x.cfg.API, &awsiam.ListRolePoliciesInput{RoleName: &role}); err == nil {
		for _, name := range found.PolicyNames {
			out = append(out, blocker{"the inline policy " + name, []string{"aws iam delete-role-policy --role-name " + role + " --policy-name " + quoted(name)}})
		}
	}
	if found, err := awsapi.Do[awsiam.ListInstanceProfilesForRoleOutput](ctx, q.x.cfg.API, &awsiam.ListInstanceProfilesForRoleInput{RoleName: &role}); err == nil {
		for _, p := range found.InstanceProfiles {
			out = append(out, blocker{"the instance profile " + aws.ToString(p.InstanceProfileName), []string{
				"aws iam remove-role-from-instance-profile --role-name " + role + " --instance-profile-name " + aws.ToString(p.InstanceProfileName),
			}})
		}
	}
	return out
}

// inCluster are the node groups and Fargate profiles of a cluster.
func (q *stackQuestion) inCluster(ctx context.Context, cluster string) (out []blocker) {
	of := " --cluster-name " + cluster
	if found, err := awsapi.Do[awseks.ListNodegroupsOutput](ctx, q.x.cfg.API, &awseks.ListNodegroupsInput{ClusterName: &cluster}); err == nil {
		for _, name := range found.Nodegroups {
			which := of + " --nodegroup-name " + name + q.at()
			out = append(out, blocker{"the node group " + name, []string{"aws eks delete-nodegroup" + which, "aws eks wait nodegroup-deleted" + which}})
		}
	}
	if found, err := awsapi.Do[awseks.ListFargateProfilesOutput](ctx, q.x.cfg.API, &awseks.ListFargateProfilesInput{ClusterName: &cluster}); err == nil {
		for _, name := range found.FargateProfileNames {
			which := of + " --fargate-profile-name " + name + q.at()
			out = append(out, blocker{"the Fargate profile " + name, []string{"aws eks delete-fargate-profile" + which, "aws eks wait fargate-profile-deleted" + which}})
		}
	}
	return out
}

// templateFixes are sketches for failures that the template or its parameters cause, recognized by AWS's texts.
func (q *stackQuestion) templateFixes(text string) []advice.Fix {
	for _, known := range []struct {
		text     *regexp.Regexp
		sketch   string
		commands []string
	}{
		{regexp.MustCompile(`HandlerErrorCode: AlreadyExists|already exists`), "delete what has the name, or give the resource another one", nil},
		{regexp.MustCompile(`HandlerErrorCode: ServiceLimitExceeded|LimitExceeded`), "have the quota raised, or delete what counts towards it", []string{"aws service-quotas list-service-quotas --service-code ec2" + q.at()}},
		{regexp.MustCompile(`No export named`), "create the stack that exports it first; these are exported", []string{"aws cloudformation list-exports" + q.at()}},
		{regexp.MustCompile(`Action denied by stack policy`), "update the stack with --stack-policy-during-update-body, which overrides this policy once", []string{"aws cloudformation get-stack-policy --stack-name " + q.out.Stack + q.at()}},
		{regexp.MustCompile(`for parameter name (\w+) does not exist`), "pass a value that exists", nil},
	} {
		if known.text.MatchString(text) {
			return []advice.Fix{{Sketch: known.sketch, Commands: known.commands}}
		}
	}
	return nil
}
