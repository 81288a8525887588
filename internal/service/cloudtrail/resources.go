package cloudtrail

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	cloudtrailtypes "github.com/aws/aws-sdk-go-v2/service/cloudtrail/types"
)

// resourceMembers maps the members that contain resource names to CloudTrail's resource types, for
// each service.
// https://docs.aws.amazon.com/awscloudtrail/latest/userguide/view-cloudtrail-events-supported-resource-types.html
var resourceMembers = map[string]map[string]string{
	"ec2.amazonaws.com": {
		"instanceId": "AWS::EC2::Instance", "imageId": "AWS::EC2::Ami", "keyName": "AWS::EC2::KeyPair",
		"vpcId": "AWS::EC2::VPC", "subnetId": "AWS::EC2::Subnet", "groupId": "AWS::EC2::SecurityGroup", "securityGroupId": "AWS::EC2::SecurityGroup",
		"networkInterfaceId": "AWS::EC2::NetworkInterface", "routeTableId": "AWS::EC2::RouteTable", "internetGatewayId": "AWS::EC2::InternetGateway",
		"launchTemplateId": "AWS::EC2::LaunchTemplate", "launchTemplateName": "AWS::EC2::LaunchTemplate", "volumeId": "AWS::EC2::Volume",
		"natGatewayId": "AWS::EC2::NatGateway", "allocationId": "AWS::EC2::EIP", "vpcEndpointId": "AWS::EC2::VPCEndpoint",
		"vpcPeeringConnectionId": "AWS::EC2::VPCPeeringConnection", "fleetId": "AWS::EC2::EC2Fleet",
	},
	"eks.amazonaws.com": {"clusterName": "AWS::EKS::Cluster", "name": "AWS::EKS::Cluster", "nodegroupName": "AWS::EKS::Nodegroup"},
	"iam.amazonaws.com": {
		"userName": "AWS::IAM::User", "roleName": "AWS::IAM::Role", "groupName": "AWS::IAM::Group", "policyArn": "AWS::IAM::Policy",
		"policyName": "AWS::IAM::Policy", "instanceProfileName": "AWS::IAM::InstanceProfile", "accessKeyId": "AWS::IAM::AccessKey",
		"openIDConnectProviderArn": "AWS::IAM::OIDCProvider",
	},
	"sts.amazonaws.com":         {"roleArn": "AWS::IAM::Role", "accessKeyId": "AWS::IAM::AccessKey"},
	"kms.amazonaws.com":         {"keyId": "AWS::KMS::Key", "targetKeyId": "AWS::KMS::Key", "aliasName": "AWS::KMS::Alias"},
	"ssm.amazonaws.com":         {"name": "AWS::SSM::Parameter"},
	"autoscaling.amazonaws.com": {"autoScalingGroupName": "AWS::AutoScaling::AutoScalingGroup", "launchConfigurationName": "AWS::AutoScaling::LaunchConfiguration"},
	"sqs.amazonaws.com":         {"queueName": "AWS::SQS::Queue", "queueUrl": "AWS::SQS::Queue"},
}

// resources returns the resources in an event's request and response, at any depth.
func (e *event) resources() []cloudtrailtypes.Resource {
	types := resourceMembers[e.EventSource]
	out := []cloudtrailtypes.Resource{}
	add := func(kind, name string) {
		same := func(r cloudtrailtypes.Resource) bool { return *r.ResourceType == kind && *r.ResourceName == name }
		if name != "" && !slices.ContainsFunc(out, same) {
			out = append(out, cloudtrailtypes.Resource{ResourceType: aws.String(kind), ResourceName: aws.String(name)})
		}
	}
	// walk visits v, the value of a member that names resources of type kind. If kind is empty, the
	// member does not name resources.
	var walk func(v any, kind string, depth int)
	walk = func(v any, kind string, depth int) {
		switch v := v.(type) {
		case string:
			if kind != "" {
				add(kind, v)
			}
		case []any:
			for _, x := range v {
				walk(x, kind, depth)
			}
		case map[string]any:
			for name, x := range v {
				of := types[firstLower(name)] // members of EC2's newer operations are capitalized
				switch {
				case name == "content": // EC2's newer lists are like {"tag": 1, "content": "sg-1"}
					of = kind
				case name == "name" && depth > 0: // the name of something else
					of = ""
				}
				walk(x, of, depth+1)
			}
		}
	}
	walk(e.RequestParameters, "", 0)
	walk(e.ResponseElements, "", 0)
	slices.SortFunc(out, func(a, b cloudtrailtypes.Resource) int {
		return strings.Compare(*a.ResourceType+" "+*a.ResourceName, *b.ResourceType+" "+*b.ResourceName)
	})
	return out
}

func firstLower(s string) string {
	if s == "" {
		return s
	}
	return strings.ToLower(s[:1]) + s[1:]
}
