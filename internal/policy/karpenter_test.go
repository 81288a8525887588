package policy_test

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/drydock-dev/drydock/internal/policy"
)

// What Karpenter v1.14's controller may do in the cluster "dev" of us-east-1, as
// its CloudFormation template has it, and as the EKS Terraform module's karpenter
// submodule does.
// https://github.com/aws/karpenter-provider-aws/blob/main/website/content/en/v1.14/getting-started/getting-started-with-karpenter/cloudformation.yaml
// https://github.com/terraform-aws-modules/terraform-aws-eks/blob/v21.19.0/modules/karpenter/policy.tf
type karpenter struct{ terraform bool }

type (
	statement  map[string]any
	conditions map[string]map[string]any
)

// tagged are conditions on tags: "owned" and the like must be equal, "*" must be
// there.
func tagged(kind string, tags map[string]string) conditions {
	out := conditions{}
	for tag, value := range tags {
		op := "StringEquals"
		if value == "*" {
			op = "StringLike"
		}
		if out[op] == nil {
			out[op] = map[string]any{}
		}
		out[op]["aws:"+kind+"/"+tag] = value
	}
	return out
}

func (c conditions) and(others ...conditions) conditions {
	for _, o := range others {
		for op, keys := range o {
			for k, v := range keys {
				if c[op] == nil {
					c[op] = map[string]any{}
				}
				c[op][k] = v
			}
		}
	}
	return c
}

const (
	owned    = "kubernetes.io/cluster/dev"
	nodepool = "karpenter.sh/nodepool"
	class    = "karpenter.k8s.aws/ec2nodeclass"
	region   = "topology.kubernetes.io/region"
	cluster  = "eks:eks-cluster-name"
	nodeRole = "arn:aws:iam::111122223333:role/KarpenterNodeRole-dev"
	profiles = "arn:aws:iam::111122223333:instance-profile/*"
	ownARN   = "arn:aws:eks:us-east-1:111122223333:cluster/dev"
	queue    = "arn:aws:sqs:us-east-1:111122223333:dev"
)

// ec2 makes ARN patterns of resource types; images and snapshots have no account.
func ec2(types ...string) (out []string) {
	for _, t := range types {
		account := "*"
		if t == "image" || t == "snapshot" {
			account = ""
		}
		out = append(out, "arn:aws:ec2:us-east-1:"+account+":"+t+"/*")
	}
	return out
}

func allow(sid string, actions, resources any, c conditions) statement {
	s := statement{"Sid": sid, "Effect": "Allow", "Action": actions, "Resource": resources}
	if c != nil {
		s["Condition"] = c
	}
	return s
}

func (k karpenter) statements() []statement {
	launched := []string{"fleet", "instance", "volume", "network-interface", "launch-template", "spot-instances-request"}
	created := launched
	discovered := []string{
		"ec2:DescribeCapacityReservations", "ec2:DescribeImages", "ec2:DescribeInstances", "ec2:DescribeInstanceStatus", "ec2:DescribeInstanceTypeOfferings",
		"ec2:DescribeInstanceTypes", "ec2:DescribeLaunchTemplates", "ec2:DescribePlacementGroups", "ec2:DescribeSecurityGroups",
		"ec2:DescribeSpotPriceHistory", "ec2:DescribeSubnets",
	}
	passedTo := []string{"ec2.amazonaws.com", "ec2.amazonaws.com.cn"}
	shift := allow("AllowZonalShiftStatusReadOnly", "arc-zonal-shift:GetManagedResource", "*", conditions{"StringEquals": {"arc-zonal-shift:ResourceIdentifier": ownARN}})
	if k.terraform {
		created = append(launched[:len(launched):len(launched)], "capacity-reservation")
		discovered = append(discovered, "ec2:DescribeAvailabilityZones")
		passedTo = []string{"ec2.amazonaws.com"}
		shift = allow("AllowZonalShiftReadActions", "arc-zonal-shift:GetManagedResource", ownARN, nil)
	}
	run := []string{"ec2:RunInstances", "ec2:CreateFleet"}
	ownedTag := map[string]string{owned: "owned", nodepool: "*"}
	requestTags := map[string]string{owned: "owned", cluster: "dev", nodepool: "*"}
	profileTags := map[string]string{owned: "owned", region: "us-east-1", class: "*"}
	newProfileTags := map[string]string{owned: "owned", cluster: "dev", region: "us-east-1", class: "*"}
	return []statement{
		allow("AllowScopedEC2InstanceAccessActions", run, ec2("image", "snapshot", "security-group", "subnet", "capacity-reservation", "placement-group"), nil),
		allow("AllowScopedEC2LaunchTemplateAccessActions", run, ec2("launch-template"), tagged("ResourceTag", ownedTag)),
		allow("AllowScopedEC2InstanceActionsWithTags", append(run[:2:2], "ec2:CreateLaunchTemplate"), ec2(created...), tagged("RequestTag", requestTags)),
		allow("AllowScopedResourceCreationTagging", "ec2:CreateTags", ec2(launched...), tagged("RequestTag", requestTags).and(conditions{
			"StringEquals": {"ec2:CreateAction": []string{"RunInstances", "CreateFleet", "CreateLaunchTemplate"}},
		})),
		allow("AllowScopedResourceTagging", "ec2:CreateTags", ec2("instance"), tagged("ResourceTag", ownedTag).and(conditions{
			"StringEqualsIfExists":      {"aws:RequestTag/" + cluster: "dev"},
			"ForAllValues:StringEquals": {"aws:TagKeys": []string{cluster, "karpenter.sh/nodeclaim", "Name"}},
		})),
		allow("AllowScopedDeletion", []string{"ec2:TerminateInstances", "ec2:DeleteLaunchTemplate"}, ec2("instance", "launch-template"), tagged("ResourceTag", ownedTag)),
		allow("AllowRegionalReadActions", discovered, "*", conditions{"StringEquals": {"aws:RequestedRegion": "us-east-1"}}),
		allow("AllowSSMReadActions", "ssm:GetParameter", "arn:aws:ssm:us-east-1::parameter/aws/service/*", nil),
		allow("AllowPricingReadActions", "pricing:GetProducts", "*", nil),
		shift,
		allow("AllowInterruptionQueueActions", []string{"sqs:DeleteMessage", "sqs:GetQueueUrl", "sqs:ReceiveMessage"}, queue, nil),
		allow("AllowPassingInstanceRole", "iam:PassRole", nodeRole, conditions{"StringEquals": {"iam:PassedToService": passedTo}}),
		allow("AllowScopedInstanceProfileCreationActions", "iam:CreateInstanceProfile", profiles, tagged("RequestTag", newProfileTags)),
		allow("AllowScopedInstanceProfileTagActions", "iam:TagInstanceProfile", profiles, tagged("ResourceTag", profileTags).and(tagged("RequestTag", newProfileTags))),
		allow("AllowScopedInstanceProfileActions", []string{"iam:AddRoleToInstanceProfile", "iam:RemoveRoleFromInstanceProfile", "iam:DeleteInstanceProfile"}, profiles, tagged("ResourceTag", profileTags)),
		allow("AllowInstanceProfileReadActions", "iam:GetInstanceProfile", profiles, nil),
		allow("AllowUnscopedInstanceProfileListAction", "iam:ListInstanceProfiles", "*", nil),
		allow("AllowAPIServerEndpointDiscovery", "eks:DescribeCluster", ownARN, nil),
	}
}

func (k karpenter) policies(t *testing.T) policy.Policies {
	t.Helper()
	text, err := json.Marshal(map[string]any{"Version": policy.Version2012, "Statement": k.statements()})
	if err != nil {
		t.Fatal(err)
	}
	doc, err := policy.Parse(policy.Identity, string(text))
	if err != nil {
		t.Fatal(err)
	}
	return policy.Policies{Identity: []policy.Source{{Name: "KarpenterController", Document: doc}}}
}

func ec2ARN(what string) string { return "arn:aws:ec2:us-east-1:111122223333:" + what }

// Tags as a request or a resource has them.
const (
	ownTags       = "aws:ResourceTag/" + owned + "=owned;aws:ResourceTag/" + nodepool + "=default"
	newTags       = "aws:RequestTag/" + owned + "=owned;aws:RequestTag/" + cluster + "=dev;aws:RequestTag/" + nodepool + "=default"
	ownProfile    = "aws:ResourceTag/" + owned + "=owned;aws:ResourceTag/" + region + "=us-east-1;aws:ResourceTag/" + class + "=default"
	newProfile    = "aws:RequestTag/" + owned + "=owned;aws:RequestTag/" + cluster + "=dev;aws:RequestTag/" + region + "=us-east-1;aws:RequestTag/" + class + "=default"
	othersCluster = "aws:ResourceTag/kubernetes.io/cluster/prod=owned;aws:ResourceTag/" + nodepool + "=default"
)

var karpenterCalls = []struct {
	name, action, on, context string
	want                      bool
}{
	// RunInstances and CreateFleet touch many resources; each must be allowed.
	{"an image", "ec2:RunInstances", "arn:aws:ec2:us-east-1::image/ami-1", "", true},
	{"a snapshot", "ec2:CreateFleet", "arn:aws:ec2:us-east-1::snapshot/snap-1", "", true},
	{"a subnet", "ec2:RunInstances", ec2ARN("subnet/subnet-1"), "", true},
	{"a subnet of another account", "ec2:RunInstances", "arn:aws:ec2:us-east-1:444455556666:subnet/subnet-1", "", true},
	{"a security group", "ec2:CreateFleet", ec2ARN("security-group/sg-1"), "", true},
	{"an image of another region", "ec2:RunInstances", "arn:aws:ec2:eu-west-1::image/ami-1", "", false},
	{"a key pair", "ec2:RunInstances", ec2ARN("key-pair/ann"), "", false},
	{"its launch template", "ec2:RunInstances", ec2ARN("launch-template/lt-1"), ownTags, true},
	{"its launch template, in a fleet", "ec2:CreateFleet", ec2ARN("launch-template/lt-1"), ownTags, true},
	{"a launch template without the discovery tag", "ec2:RunInstances", ec2ARN("launch-template/lt-1"), "aws:ResourceTag/" + nodepool + "=default", false},
	{"a launch template without a node pool", "ec2:RunInstances", ec2ARN("launch-template/lt-1"), "aws:ResourceTag/" + owned + "=owned", false},
	{"a launch template shared with the cluster", "ec2:RunInstances", ec2ARN("launch-template/lt-1"), "aws:ResourceTag/" + owned + "=shared;aws:ResourceTag/" + nodepool + "=default", false},
	{"another cluster's launch template", "ec2:RunInstances", ec2ARN("launch-template/lt-1"), othersCluster, false},
	{"an instance with tags", "ec2:RunInstances", ec2ARN("instance/*"), newTags, true},
	{"an instance without tags", "ec2:RunInstances", ec2ARN("instance/*"), "", false},
	{"an instance for another cluster", "ec2:RunInstances", ec2ARN("instance/*"), strings.Replace(newTags, "=dev", "=prod", 1), false},
	{"a volume", "ec2:RunInstances", ec2ARN("volume/*"), newTags, true},
	{"a network interface", "ec2:RunInstances", ec2ARN("network-interface/*"), newTags, true},
	{"a spot request", "ec2:RunInstances", ec2ARN("spot-instances-request/*"), newTags, true},
	{"a fleet", "ec2:CreateFleet", ec2ARN("fleet/*"), newTags, true},
	{"a fleet without a node pool", "ec2:CreateFleet", ec2ARN("fleet/*"), strings.Join(strings.Split(newTags, ";")[:2], ";"), false},
	{"a launch template is made with tags", "ec2:CreateLaunchTemplate", ec2ARN("launch-template/*"), newTags, true},
	{"a launch template is made without", "ec2:CreateLaunchTemplate", ec2ARN("launch-template/*"), "", false},
	{"a vpc is made", "ec2:CreateVpc", ec2ARN("vpc/*"), newTags, false},

	// Tags.
	{"tags on creation", "ec2:CreateTags", ec2ARN("instance/i-1"), newTags + ";ec2:CreateAction=RunInstances", true},
	{"tags on creation of a volume by itself", "ec2:CreateTags", ec2ARN("volume/vol-1"), newTags + ";ec2:CreateAction=CreateVolume", false},
	{"tags later, on its instance", "ec2:CreateTags", ec2ARN("instance/i-1"), ownTags + ";aws:TagKeys=Name|karpenter.sh/nodeclaim;aws:RequestTag/Name=n", true},
	{"tags later, with the cluster's name", "ec2:CreateTags", ec2ARN("instance/i-1"), ownTags + ";aws:TagKeys=" + cluster + ";aws:RequestTag/" + cluster + "=dev", true},
	{"tags later, with another cluster's name", "ec2:CreateTags", ec2ARN("instance/i-1"), ownTags + ";aws:TagKeys=" + cluster + ";aws:RequestTag/" + cluster + "=prod", false},
	{"tags later, with another key", "ec2:CreateTags", ec2ARN("instance/i-1"), ownTags + ";aws:TagKeys=Name|team", false},
	{"tags later, on another's instance", "ec2:CreateTags", ec2ARN("instance/i-1"), othersCluster + ";aws:TagKeys=Name", false},

	// Deletion.
	{"its instance ends", "ec2:TerminateInstances", ec2ARN("instance/i-1"), ownTags, true},
	{"another's instance ends", "ec2:TerminateInstances", ec2ARN("instance/i-1"), "", false},
	{"its launch template goes", "ec2:DeleteLaunchTemplate", ec2ARN("launch-template/lt-1"), ownTags, true},
	{"another's launch template goes", "ec2:DeleteLaunchTemplate", ec2ARN("launch-template/lt-1"), othersCluster, false},
	{"a volume goes", "ec2:DeleteVolume", ec2ARN("volume/vol-1"), ownTags, false},

	// Discovery.
	{"describe in its region", "ec2:DescribeInstanceTypes", "*", "aws:RequestedRegion=us-east-1", true},
	{"describe in another region", "ec2:DescribeInstanceTypes", "*", "aws:RequestedRegion=eu-west-1", false},
	{"describe something else", "ec2:DescribeVpcs", "*", "aws:RequestedRegion=us-east-1", false},
	{"a public parameter", "ssm:GetParameter", "arn:aws:ssm:us-east-1::parameter/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id", "", true},
	{"an own parameter", "ssm:GetParameter", "arn:aws:ssm:us-east-1:111122223333:parameter/secret", "", false},
	{"prices", "pricing:GetProducts", "*", "", true},
	{"its cluster", "eks:DescribeCluster", ownARN, "", true},
	{"another cluster", "eks:DescribeCluster", "arn:aws:eks:us-east-1:111122223333:cluster/prod", "", false},
	{"its cluster's zonal shift", "arc-zonal-shift:GetManagedResource", ownARN, "arc-zonal-shift:ResourceIdentifier=" + ownARN, true},
	{"the interruption queue", "sqs:ReceiveMessage", queue, "", true},
	{"another queue", "sqs:ReceiveMessage", queue + "2", "", false},

	// Roles and instance profiles.
	{"the node role to EC2", "iam:PassRole", nodeRole, "iam:PassedToService=ec2.amazonaws.com", true},
	{"the node role to Lambda", "iam:PassRole", nodeRole, "iam:PassedToService=lambda.amazonaws.com", false},
	{"another role to EC2", "iam:PassRole", "arn:aws:iam::111122223333:role/admin", "iam:PassedToService=ec2.amazonaws.com", false},
	{"a profile is made with tags", "iam:CreateInstanceProfile", "arn:aws:iam::111122223333:instance-profile/karpenter/us-east-1/dev/x/dev_1", newProfile, true},
	{"a profile is made without", "iam:CreateInstanceProfile", "arn:aws:iam::111122223333:instance-profile/p", "", false},
	{"its profile is tagged", "iam:TagInstanceProfile", "arn:aws:iam::111122223333:instance-profile/p", ownProfile + ";" + newProfile, true},
	{"another's profile is tagged", "iam:TagInstanceProfile", "arn:aws:iam::111122223333:instance-profile/p", newProfile, false},
	{"a role for its profile", "iam:AddRoleToInstanceProfile", "arn:aws:iam::111122223333:instance-profile/p", ownProfile, true},
	{"a role for another region's profile", "iam:AddRoleToInstanceProfile", "arn:aws:iam::111122223333:instance-profile/p", strings.Replace(ownProfile, "=us-east-1", "=eu-west-1", 1), false},
	{"any profile is read", "iam:GetInstanceProfile", "arn:aws:iam::111122223333:instance-profile/p", "", true},
	{"profiles are listed", "iam:ListInstanceProfiles", "*", "", true},
	{"a role is made", "iam:CreateRole", "arn:aws:iam::111122223333:role/r", "", false},
	{"a key is made", "iam:CreateAccessKey", "arn:aws:iam::111122223333:user/admin", "", false},
}

func TestKarpentersController(t *testing.T) {
	for _, k := range []karpenter{{terraform: false}, {terraform: true}} {
		p := k.policies(t)
		for _, c := range karpenterCalls {
			t.Run(fmt.Sprintf("%s (terraform %v)", c.name, k.terraform), func(t *testing.T) {
				req := policy.Request{
					Action: c.action, Resource: c.on, ResourceAccount: "111122223333",
					Principal: policy.Principal{Account: "111122223333", ARN: "arn:aws:sts::111122223333:assumed-role/karpenter/1", RoleARN: "arn:aws:iam::111122223333:role/karpenter"},
					Context:   policy.Context{Values: contextOf(c.context)},
				}
				if e := policy.Explain(req, p); e.Decision.Allowed != c.want {
					t.Errorf("allowed: %v\n%s", e.Decision.Allowed, e)
				}
			})
		}
	}
}

// A person who forgot the discovery tag gets it suggested.
func TestMissingDiscoveryTagIsSuggested(t *testing.T) {
	req := policy.Request{
		Action: "ec2:RunInstances", Resource: ec2ARN("launch-template/lt-1"), Principal: ann,
		Context: policy.Context{Values: contextOf("aws:ResourceTag/" + nodepool + "=default")},
	}
	suggestions := policy.Suggest(req, karpenter{}.policies(t))
	if len(suggestions) == 0 {
		t.Fatal("no suggestion")
	}
	want := policy.Change{
		Kind: policy.SetKey, Type: policy.IdentityBased, Key: "aws:ResourceTag/" + owned, Operator: "StringEquals",
		Values: []string{"owned"}, Wanted: []string{"owned"},
	}
	for _, s := range suggestions {
		if got := s.Changes[0]; len(s.Changes) == 1 && got.Key == want.Key && got.Values[0] == want.Values[0] {
			return
		}
	}
	t.Errorf("got %v, want %+v", suggestions, want)
}
