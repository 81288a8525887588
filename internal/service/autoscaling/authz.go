package autoscaling

import (
	"context"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"

	"github.com/drydock-dev/drydock/internal/authz"
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/store"
)

// Authz provides package authz with the stored attributes of groups and launch configurations.
func (s *Service) Authz() authz.Resolver { return resolver{s} }

type resolver struct{ s *Service }

// Resource implements authz.Resolver. Both kinds are identified by name.
func (r resolver) Resource(_ context.Context, account, region, kind, id string) (authz.Resource, bool) {
	key := scope{regional.At(account, region)}.group(strings.TrimPrefix(id, anyGroup))
	switch kind {
	case "autoScalingGroup":
		g, err := groups.Get(r.s.store, key)
		if err != nil {
			return authz.Resource{}, false
		}
		out := authz.Resource{ARN: aws.ToString(g.Group.AutoScalingGroupARN), Tags: map[string]string{}}
		for _, t := range g.Group.Tags {
			out.Tags[aws.ToString(t.Key)] = aws.ToString(t.Value)
		}
		return out, true
	case "launchConfiguration":
		c, err := configs.Get(r.s.store, key)
		return authz.Resource{ARN: aws.ToString(c.LaunchConfigurationARN)}, err == nil
	}
	return authz.Resource{}, false
}

// Targets implements authz.Targeter for requests that identify a group indirectly, by an instance
// or a policy's ARN.
func (r resolver) Targets(_ context.Context, call *awsapi.Call, in any) ([]authz.Target, bool) {
	group := func(name string) ([]authz.Target, bool) {
		return []authz.Target{{Type: "autoScalingGroup", ID: anyGroup + name}}, true
	}
	ofInstance := func(id *string) ([]authz.Target, bool) {
		o, err := owners.Get(r.s.store, store.Key{Account: call.Account, Region: call.Region, ID: aws.ToString(id)})
		if err != nil {
			return group("*") // the handler reports that it is in no group
		}
		return group(o.Group)
	}
	switch in := in.(type) {
	case *awsautoscaling.TerminateInstanceInAutoScalingGroupInput:
		return ofInstance(in.InstanceId)
	case *awsautoscaling.SetInstanceHealthInput:
		return ofInstance(in.InstanceId)
	case *awsautoscaling.DeletePolicyInput:
		name, _ := policyNamed(in)
		return group(name)
	}
	return nil, false
}

// anyGroup precedes the name in a group's resource ID and matches any UUID in its ARN.
const anyGroup = "*/"

const sourcePassRole = "https://docs.aws.amazon.com/IAM/latest/UserGuide/id_roles_use_passrole.html"

// authorization corrects the service authorization reference.
var authorization = awsapi.Authorization{
	Targets: map[string]awsapi.Targets{
		// Auto Scaling's tags name their group themselves.
		"CreateOrUpdateTags": {Resources: "autoScalingGroup='*+Tags.ResourceId", Source: "SAR"},
		"DeleteTags":         {Resources: "autoScalingGroup='*+Tags.ResourceId", Source: "SAR"},
	},
	Members: map[string]string{
		"GroupFriendlyName": "AutoScalingGroupName",
	},
	PassedRoles: map[string][]awsapi.PassedRole{
		// Using the configuration in a group needs no further EC2 permissions than creating it did:
		// https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-launch-template-permissions.html
		"CreateLaunchConfiguration": {{Member: "IamInstanceProfile", Profile: true, Source: sourcePassRole}},
		"CreateAutoScalingGroup": {
			{Member: "ServiceLinkedRoleARN", Service: "autoscaling.amazonaws.com", Source: "SAR: dependent action"},
			{Member: "LifecycleHookSpecificationList.RoleARN", Service: "autoscaling.amazonaws.com", Source: sourcePassRole},
		},
		"UpdateAutoScalingGroup": {{Member: "ServiceLinkedRoleARN", Service: "autoscaling.amazonaws.com", Source: "SAR: dependent action"}},
		"PutLifecycleHook":       {{Member: "RoleARN", Service: "autoscaling.amazonaws.com", Source: sourcePassRole}},
	},
	Launches: map[string]awsapi.Launch{
		"CreateAutoScalingGroup": {
			Templates: []string{"LaunchTemplate", "MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification"}, Subnets: "VPCZoneIdentifier",
			Source: "https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-launch-template-permissions.html",
		},
		"UpdateAutoScalingGroup": {
			Templates: []string{"LaunchTemplate", "MixedInstancesPolicy.LaunchTemplate.LaunchTemplateSpecification"}, Subnets: "VPCZoneIdentifier",
			Source: "as above",
		},
	},
	Tagging: awsapi.Tagging{Action: "CreateOrUpdateTags", Source: "https://docs.aws.amazon.com/autoscaling/ec2/userguide/ec2-auto-scaling-tagging.html"},
	KeyMembers: map[string]string{
		"vpczoneidentifiers":              "VPCZoneIdentifier",
		"instancetype":                    "InstanceType",
		"instancetypes":                   "MixedInstancesPolicy.LaunchTemplate.Overrides.InstanceType",
		"metadatahttptokens":              "MetadataOptions.HttpTokens",
		"metadatahttpendpoint":            "MetadataOptions.HttpEndpoint",
		"metadatahttpputresponsehoplimit": "MetadataOptions.HttpPutResponseHopLimit",
		"trafficsourceidentifiers":        "TrafficSources.Identifier",
		"loadbalancernames":               "LoadBalancerNames",
	},
	StoredKeys: "launchtemplateversionspecified",
	AbsentKeys: "capacityreservationids capacityreservationresourcegrouparns",
}
