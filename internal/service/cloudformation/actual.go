package cloudformation

import (
	"maps"
	"net/url"
	"reflect"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	awslogs "github.com/aws/aws-sdk-go-v2/service/cloudwatchlogs"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awsecr "github.com/aws/aws-sdk-go-v2/service/ecr"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	awsevents "github.com/aws/aws-sdk-go-v2/service/eventbridge"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
	iamtypes "github.com/aws/aws-sdk-go-v2/service/iam/types"
	awskms "github.com/aws/aws-sdk-go-v2/service/kms"
	awss3 "github.com/aws/aws-sdk-go-v2/service/s3"
	awssqs "github.com/aws/aws-sdk-go-v2/service/sqs"
	sqstypes "github.com/aws/aws-sdk-go-v2/service/sqs/types"
	awsssm "github.com/aws/aws-sdk-go-v2/service/ssm"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// actual has a reader for each type whose resources can be imported and checked for drift. A reader returns the current
// properties of a resource; those that it leaves out count as equal. If the resource does not exist, it returns the
// service's error or errNone.
var actual = map[string]func(r *request) (*template.Map, error){
	"AWS::AutoScaling::AutoScalingGroup": func(r *request) (*template.Map, error) {
		out, err := call[awsautoscaling.DescribeAutoScalingGroupsOutput](r, &awsautoscaling.DescribeAutoScalingGroupsInput{AutoScalingGroupNames: []string{r.id}})
		if err != nil {
			return nil, err
		}
		g, err := first(out.AutoScalingGroups)
		m := shown(g, "DefaultCooldown", "Cooldown")
		m.Set("VPCZoneIdentifier", list(strings.Split(aws.ToString(g.VPCZoneIdentifier), ",")))
		dropped(m, "Tags", "LaunchTemplate", "MixedInstancesPolicy")
		return m, err
	},
	"AWS::EC2::EIP": func(r *request) (*template.Map, error) {
		out, err := call[awsec2.DescribeAddressesOutput](r, &awsec2.DescribeAddressesInput{PublicIps: []string{r.id}})
		if err != nil {
			return nil, err
		}
		a, err := first(out.Addresses)
		return shown(a), err
	},
	"AWS::EC2::Instance": func(r *request) (*template.Map, error) {
		out, err := call[awsec2.DescribeInstancesOutput](r, &awsec2.DescribeInstancesInput{InstanceIds: []string{r.id}})
		if err != nil {
			return nil, err
		}
		all, err := first(out.Reservations)
		if err != nil || len(all.Instances) == 0 || all.Instances[0].State.Name == ec2types.InstanceStateNameTerminated {
			return nil, errNone
		}
		i := all.Instances[0]
		m := only(shown(i), "EbsOptimized", "EbsOptimized", "ImageId", "ImageId", "InstanceType", "InstanceType", "KeyName", "KeyName", "PrivateIpAddress", "PrivateIpAddress",
			"SourceDestCheck", "SourceDestCheck", "SubnetId", "SubnetId", "Tags", "Tags")
		var groups []string
		for _, g := range i.SecurityGroups {
			groups = append(groups, aws.ToString(g.GroupId))
		}
		m.Set("SecurityGroupIds", list(groups))
		return m, nil
	},
	"AWS::EC2::InternetGateway": func(r *request) (*template.Map, error) {
		out, err := call[awsec2.DescribeInternetGatewaysOutput](r, &awsec2.DescribeInternetGatewaysInput{InternetGatewayIds: []string{r.id}})
		if err != nil {
			return nil, err
		}
		g, err := first(out.InternetGateways)
		return shown(g), err
	},
	"AWS::EC2::KeyPair": func(r *request) (*template.Map, error) {
		out, err := call[awsec2.DescribeKeyPairsOutput](r, &awsec2.DescribeKeyPairsInput{KeyNames: []string{r.id}})
		if err != nil {
			return nil, err
		}
		k, err := first(out.KeyPairs)
		return shown(k), err
	},
	"AWS::EC2::NatGateway": func(r *request) (*template.Map, error) {
		out, err := call[awsec2.DescribeNatGatewaysOutput](r, &awsec2.DescribeNatGatewaysInput{NatGatewayIds: []string{r.id}})
		if err != nil {
			return nil, err
		}
		g, err := first(out.NatGateways)
		if err != nil || g.State == ec2types.NatGatewayStateDeleted {
			return nil, errNone
		}
		return shown(g), nil
	},
	"AWS::EC2::RouteTable": func(r *request) (*template.Map, error) {
		out, err := call[awsec2.DescribeRouteTablesOutput](r, &awsec2.DescribeRouteTablesInput{RouteTableIds: []string{r.id}})
		if err != nil {
			return nil, err
		}
		t, err := first(out.RouteTables)
		return shown(t), err
	},
	"AWS::EC2::SecurityGroup": actualGroup,
	"AWS::EC2::Subnet": func(r *request) (*template.Map, error) {
		out, err := call[awsec2.DescribeSubnetsOutput](r, &awsec2.DescribeSubnetsInput{SubnetIds: []string{r.id}})
		if err != nil {
			return nil, err
		}
		s, err := first(out.Subnets)
		return shown(s), err
	},
	"AWS::EC2::VPC": func(r *request) (*template.Map, error) {
		out, err := call[awsec2.DescribeVpcsOutput](r, &awsec2.DescribeVpcsInput{VpcIds: []string{r.id}})
		if err != nil {
			return nil, err
		}
		v, err := first(out.Vpcs)
		if err != nil {
			return nil, err
		}
		m := shown(v)
		names, err := call[awsec2.DescribeVpcAttributeOutput](r, &awsec2.DescribeVpcAttributeInput{VpcId: &r.id, Attribute: ec2types.VpcAttributeNameEnableDnsHostnames})
		if err != nil {
			return nil, err
		}
		support, err := call[awsec2.DescribeVpcAttributeOutput](r, &awsec2.DescribeVpcAttributeInput{VpcId: &r.id, Attribute: ec2types.VpcAttributeNameEnableDnsSupport})
		if err != nil {
			return nil, err
		}
		m.Set("EnableDnsHostnames", aws.ToBool(names.EnableDnsHostnames.Value))
		m.Set("EnableDnsSupport", aws.ToBool(support.EnableDnsSupport.Value))
		return m, nil
	},
	"AWS::EC2::VPCEndpoint": func(r *request) (*template.Map, error) {
		out, err := call[awsec2.DescribeVpcEndpointsOutput](r, &awsec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{r.id}})
		if err != nil {
			return nil, err
		}
		e, err := first(out.VpcEndpoints)
		m := shown(e)
		m.Set("PolicyDocument", document(e.PolicyDocument))
		return m, err
	},
	"AWS::EC2::Volume": func(r *request) (*template.Map, error) {
		out, err := call[awsec2.DescribeVolumesOutput](r, &awsec2.DescribeVolumesInput{VolumeIds: []string{r.id}})
		if err != nil {
			return nil, err
		}
		v, err := first(out.Volumes)
		return shown(v), err
	},
	"AWS::ECR::Repository": func(r *request) (*template.Map, error) {
		out, err := call[awsecr.DescribeRepositoriesOutput](r, &awsecr.DescribeRepositoriesInput{RepositoryNames: []string{r.id}})
		if err != nil {
			return nil, err
		}
		repo, err := first(out.Repositories)
		m := shown(repo)
		dropped(m, "ImageTagMutabilityExclusionFilters")
		return m, err
	},
	"AWS::EKS::Cluster": func(r *request) (*template.Map, error) {
		out, err := call[awseks.DescribeClusterOutput](r, &awseks.DescribeClusterInput{Name: &r.id})
		if err != nil {
			return nil, err
		}
		return only(shown(out.Cluster), "Name", "Name", "RoleArn", "RoleArn", "Version", "Version", "DeletionProtection", "DeletionProtection"), nil
	},
	"AWS::EKS::Nodegroup": func(r *request) (*template.Map, error) {
		cluster, name, _ := strings.Cut(r.id, "/")
		out, err := call[awseks.DescribeNodegroupOutput](r, &awseks.DescribeNodegroupInput{ClusterName: &cluster, NodegroupName: &name})
		if err != nil {
			return nil, err
		}
		m := shown(out.Nodegroup)
		dropped(m, "Tags", "LaunchTemplate", "RemoteAccess", "Taints")
		return m, nil
	},
	"AWS::Events::Rule": func(r *request) (*template.Map, error) {
		bus, name, ok := strings.Cut(r.id, "|")
		if !ok {
			bus, name = "default", r.id
		}
		out, err := call[awsevents.DescribeRuleOutput](r, &awsevents.DescribeRuleInput{Name: &name, EventBusName: &bus})
		if err != nil {
			return nil, err
		}
		m := shown(out)
		m.Set("EventPattern", document(out.EventPattern))
		dropped(m, "EventBusName")
		return m, nil
	},
	"AWS::IAM::InstanceProfile": func(r *request) (*template.Map, error) {
		out, err := call[awsiam.GetInstanceProfileOutput](r, &awsiam.GetInstanceProfileInput{InstanceProfileName: &r.id})
		if err != nil {
			return nil, err
		}
		m := shown(out.InstanceProfile)
		var roles []string
		for _, role := range out.InstanceProfile.Roles {
			roles = append(roles, aws.ToString(role.RoleName))
		}
		m.Set("Roles", list(roles))
		return m, nil
	},
	"AWS::IAM::ManagedPolicy": func(r *request) (*template.Map, error) {
		out, err := call[awsiam.GetPolicyOutput](r, &awsiam.GetPolicyInput{PolicyArn: &r.id})
		if err != nil {
			return nil, err
		}
		version, err := call[awsiam.GetPolicyVersionOutput](r, &awsiam.GetPolicyVersionInput{PolicyArn: &r.id, VersionId: out.Policy.DefaultVersionId})
		if err != nil {
			return nil, err
		}
		m := shown(out.Policy, "PolicyName", "ManagedPolicyName")
		m.Set("PolicyDocument", document(version.PolicyVersion.Document))
		return m, nil
	},
	"AWS::IAM::Role": func(r *request) (*template.Map, error) {
		out, err := call[awsiam.GetRoleOutput](r, &awsiam.GetRoleInput{RoleName: &r.id})
		if err != nil {
			return nil, err
		}
		m := shown(out.Role)
		m.Set("AssumeRolePolicyDocument", document(out.Role.AssumeRolePolicyDocument))
		dropped(m, "PermissionsBoundary")
		if b := out.Role.PermissionsBoundary; b != nil {
			m.Set("PermissionsBoundary", aws.ToString(b.PermissionsBoundaryArn))
		}
		attached, err := call[awsiam.ListAttachedRolePoliciesOutput](r, &awsiam.ListAttachedRolePoliciesInput{RoleName: &r.id})
		if err != nil {
			return nil, err
		}
		m.Set("ManagedPolicyArns", r.attached(attached.AttachedPolicies))
		return m, nil
	},
	"AWS::IAM::User": func(r *request) (*template.Map, error) {
		out, err := call[awsiam.GetUserOutput](r, &awsiam.GetUserInput{UserName: &r.id})
		if err != nil {
			return nil, err
		}
		m := shown(out.User)
		dropped(m, "PermissionsBoundary")
		attached, err := call[awsiam.ListAttachedUserPoliciesOutput](r, &awsiam.ListAttachedUserPoliciesInput{UserName: &r.id})
		if err != nil {
			return nil, err
		}
		m.Set("ManagedPolicyArns", r.attached(attached.AttachedPolicies))
		return m, nil
	},
	"AWS::KMS::Key": func(r *request) (*template.Map, error) {
		out, err := call[awskms.DescribeKeyOutput](r, &awskms.DescribeKeyInput{KeyId: &r.id})
		if err != nil {
			return nil, err
		}
		policy, err := call[awskms.GetKeyPolicyOutput](r, &awskms.GetKeyPolicyInput{KeyId: &r.id})
		if err != nil {
			return nil, err
		}
		m := shown(out.KeyMetadata)
		m.Set("KeyPolicy", document(policy.Policy))
		return m, nil
	},
	"AWS::Logs::LogGroup": func(r *request) (*template.Map, error) {
		out, err := call[awslogs.DescribeLogGroupsOutput](r, &awslogs.DescribeLogGroupsInput{LogGroupNamePrefix: &r.id})
		if err != nil {
			return nil, err
		}
		for _, g := range out.LogGroups {
			if aws.ToString(g.LogGroupName) == r.id {
				return shown(g), nil
			}
		}
		return nil, errNone
	},
	"AWS::S3::Bucket": func(r *request) (*template.Map, error) {
		if _, err := call[awss3.HeadBucketOutput](r, &awss3.HeadBucketInput{Bucket: &r.id}); err != nil {
			return nil, err
		}
		m := &template.Map{}
		m.Set("BucketName", r.id)
		versions, err := call[awss3.GetBucketVersioningOutput](r, &awss3.GetBucketVersioningInput{Bucket: &r.id})
		if err == nil && versions.Status != "" {
			status := &template.Map{}
			status.Set("Status", string(versions.Status))
			m.Set("VersioningConfiguration", status)
		}
		return m, err
	},
	"AWS::SQS::Queue": func(r *request) (*template.Map, error) {
		out, err := call[awssqs.GetQueueAttributesOutput](r, &awssqs.GetQueueAttributesInput{QueueUrl: &r.id, AttributeNames: []sqstypes.QueueAttributeName{sqstypes.QueueAttributeNameAll}})
		if err != nil {
			return nil, err
		}
		m := &template.Map{}
		for _, k := range slices.Sorted(maps.Keys(out.Attributes)) {
			v := out.Attributes[k]
			m.Set(k, v)
			if strings.HasPrefix(v, "{") {
				m.Set(k, document(&v))
			}
		}
		m.Set("QueueName", r.id[strings.LastIndexByte(r.id, '/')+1:])
		tags, err := call[awssqs.ListQueueTagsOutput](r, &awssqs.ListQueueTagsInput{QueueUrl: &r.id})
		if err != nil {
			return nil, err
		}
		m.Set("Tags", tagList(tags.Tags))
		return m, nil
	},
	"AWS::SSM::Parameter": func(r *request) (*template.Map, error) {
		out, err := call[awsssm.GetParameterOutput](r, &awsssm.GetParameterInput{Name: &r.id})
		if err != nil {
			return nil, err
		}
		return shown(out.Parameter), nil
	},
}

// TypesRead returns the types whose resources can be imported and checked for drift, sorted.
func TypesRead() []string { return slices.Sorted(maps.Keys(actual)) }

// actualGroup reads a security group, with its rules in the form that templates use.
func actualGroup(r *request) (*template.Map, error) {
	out, err := call[awsec2.DescribeSecurityGroupsOutput](r, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{r.id}})
	if err != nil {
		return nil, err
	}
	g, err := first(out.SecurityGroups)
	if err != nil {
		return nil, err
	}
	m := only(shown(g), "Description", "GroupDescription", "GroupName", "GroupName", "VpcId", "VpcId", "Tags", "Tags")
	rules, err := call[awsec2.DescribeSecurityGroupRulesOutput](r, &awsec2.DescribeSecurityGroupRulesInput{Filters: []ec2types.Filter{{Name: aws.String("group-id"), Values: []string{r.id}}}})
	if err != nil {
		return nil, err
	}
	// Rules that are separate resources of the stack are not properties of the group.
	separate := r.siblings()
	in, egress := []any{}, []any{}
	for _, rule := range rules.SecurityGroupRules {
		if separate[aws.ToString(rule.SecurityGroupRuleId)] {
			continue
		}
		peer := "SourceSecurityGroupId"
		if aws.ToBool(rule.IsEgress) {
			peer = "DestinationSecurityGroupId"
		}
		one := only(shown(rule), "CidrIpv4", "CidrIp", "CidrIpv6", "CidrIpv6", "Description", "Description", "IpProtocol", "IpProtocol", "FromPort", "FromPort", "ToPort", "ToPort")
		if text(one, "IpProtocol") == "-1" {
			dropped(one, "FromPort", "ToPort")
		}
		if rule.ReferencedGroupInfo != nil {
			one.Set(peer, aws.ToString(rule.ReferencedGroupInfo.GroupId))
		}
		if aws.ToBool(rule.IsEgress) {
			egress = append(egress, one)
		} else {
			in = append(in, one)
		}
	}
	m.Set("SecurityGroupIngress", in)
	m.Set("SecurityGroupEgress", egress)
	return m, nil
}

// attached returns the ARNs of attached policies, without those that other resources of the stack have attached.
// https://docs.aws.amazon.com/AWSCloudFormation/latest/UserGuide/using-cfn-stack-drift.html
func (r *request) attached(policies []iamtypes.AttachedPolicy) []any {
	separate := r.siblings()
	var out []string
	for _, p := range policies {
		if id := aws.ToString(p.PolicyArn); !separate[id] || slices.Contains(r.list("ManagedPolicyArns"), id) {
			out = append(out, id)
		}
	}
	return list(out)
}

// siblings returns the physical IDs of the stack's resources.
func (r *request) siblings() map[string]bool {
	out := map[string]bool{}
	for _, other := range r.o.s.resourcesOf(foundStack{r.o.key, r.o.rec}) {
		out[other.PhysicalID] = true
	}
	return out
}

func list(texts []string) []any {
	out := []any{}
	for _, t := range texts {
		out = append(out, t)
	}
	return out
}

func tagList(tags map[string]string) []any {
	out := []any{}
	for _, k := range slices.Sorted(maps.Keys(tags)) {
		m := &template.Map{}
		m.Set("Key", k)
		m.Set("Value", tags[k])
		out = append(out, m)
	}
	return out
}

func dropped(m *template.Map, names ...string) {
	for _, n := range names {
		m.Delete(n)
	}
}

// document parses a JSON document, which IAM returns URL-encoded. It returns other text unchanged.
func document(text *string) any {
	raw := aws.ToString(text)
	if strings.HasPrefix(raw, "%7B") {
		if decoded, err := url.QueryUnescape(raw); err == nil {
			raw = decoded
		}
	}
	if v, err := template.ReadJSON(raw); err == nil {
		return v
	}
	return raw
}

// shown returns the members of an SDK struct as properties. renamed has pairs of a member's name and the property's.
func shown(v any, renamed ...string) *template.Map {
	m, ok := valueFrom(reflect.ValueOf(v)).(*template.Map)
	if !ok {
		return &template.Map{}
	}
	return rename(m, renamed...)
}

// valueFrom converts an SDK value to a value of a template, or to nil if it is not set.
func valueFrom(v reflect.Value) any {
	switch v.Kind() {
	case reflect.Pointer:
		if !v.IsNil() {
			return valueFrom(v.Elem())
		}
	case reflect.String:
		if v.Len() > 0 {
			return v.String()
		}
	case reflect.Bool:
		return v.Bool()
	case reflect.Int32, reflect.Int64:
		return template.Number(strconv.FormatInt(v.Int(), 10))
	case reflect.Slice:
		out := []any{}
		for i := range v.Len() {
			if e := valueFrom(v.Index(i)); e != nil {
				out = append(out, e)
			}
		}
		return out
	case reflect.Map:
		out := &template.Map{}
		for _, k := range v.MapKeys() {
			if e := valueFrom(v.MapIndex(k)); e != nil {
				out.Set(k.String(), e)
			}
		}
		return out
	case reflect.Struct:
		out := &template.Map{}
		for i := range v.NumField() {
			if f := v.Type().Field(i); f.IsExported() && f.Name != "ResultMetadata" {
				if e := valueFrom(v.Field(i)); e != nil {
					out.Set(f.Name, e)
				}
			}
		}
		return out
	}
	return nil
}
