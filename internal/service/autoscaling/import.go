package autoscaling

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/module"
	"github.com/drydock-dev/drydock/internal/twin/recording"
)

// importRecords returns the writes for what another account's Auto Scaling answered: groups with their instances, hooks,
// scaling policies, scheduled actions and last activities.
func importRecords(r *recording.Recording) ([]module.Write, []recording.Gap, error) {
	sc := scope{regional.At(r.Source.Account, r.Source.Region)}
	hooks := map[string][]autoscalingtypes.LifecycleHook{}
	hookPages, err := recording.Pages[awsautoscaling.DescribeLifecycleHooksInput, awsautoscaling.DescribeLifecycleHooksOutput](r, "autoscaling", "DescribeLifecycleHooks")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range hookPages {
		name := aws.ToString(p.Input.AutoScalingGroupName)
		hooks[name] = append(hooks[name], p.Output.LifecycleHooks...)
	}
	subnets := map[string]subnet{}
	subnetPages, err := recording.Pages[awsec2.DescribeSubnetsInput, awsec2.DescribeSubnetsOutput](r, "ec2", "DescribeSubnets")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range subnetPages {
		for _, sn := range p.Output.Subnets {
			subnets[aws.ToString(sn.SubnetId)] = subnet{aws.ToString(sn.SubnetId), aws.ToString(sn.AvailabilityZone), aws.ToString(sn.AvailabilityZoneId)}
		}
	}
	pages, err := recording.Pages[awsautoscaling.DescribeAutoScalingGroupsInput, awsautoscaling.DescribeAutoScalingGroupsOutput](r, "autoscaling", "DescribeAutoScalingGroups")
	if err != nil {
		return nil, nil, err
	}
	var writes []module.Write
	configurations, err := recording.Pages[awsautoscaling.DescribeLaunchConfigurationsInput, awsautoscaling.DescribeLaunchConfigurationsOutput](r, "autoscaling", "DescribeLaunchConfigurations")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range configurations {
		for _, c := range p.Output.LaunchConfigurations {
			name := aws.ToString(c.LaunchConfigurationName)
			if name == "" || c.ImageId == nil || !strings.HasSuffix(aws.ToString(c.LaunchConfigurationARN), ":launchConfigurationName/"+name) {
				return nil, nil, fmt.Errorf("the source's answer to autoscaling:DescribeLaunchConfigurations: configuration %q has no image, or an ARN of another one", name)
			}
			writes = append(writes, module.Put(configs, sc.group(name), c))
		}
	}
	known := map[string]bool{}
	for _, p := range pages {
		for _, g := range p.Output.AutoScalingGroups {
			name := aws.ToString(g.AutoScalingGroupName)
			if name == "" || g.MinSize == nil || g.MaxSize == nil || g.DesiredCapacity == nil || !strings.HasSuffix(aws.ToString(g.AutoScalingGroupARN), ":autoScalingGroupName/"+name) {
				return nil, nil, fmt.Errorf("the source's answer to autoscaling:DescribeAutoScalingGroups: group %q has no size, or an ARN of another one", name)
			}
			known[name] = true
			rec := groupRecord{Group: g, Hooks: hooks[name]}
			rec.Group.Instances = nil
			if g.CreatedTime != nil {
				rec.LastActivity = *g.CreatedTime
			}
			for id := range strings.SplitSeq(aws.ToString(g.VPCZoneIdentifier), ",") {
				if sn, ok := subnets[strings.TrimSpace(id)]; ok {
					rec.Subnets = append(rec.Subnets, sn)
				}
			}
			key := sc.group(name)
			writes = append(writes, module.Put(groups, key, rec))
			for _, i := range g.Instances {
				id := aws.ToString(i.InstanceId)
				m := memberRecord{
					ID: id, Group: name, Zone: aws.ToString(i.AvailabilityZone), Type: aws.ToString(i.InstanceType), Template: i.LaunchTemplate, Config: aws.ToString(i.LaunchConfigurationName),
					State: i.LifecycleState, Unhealthy: aws.ToString(i.HealthStatus) == "Unhealthy", Protected: aws.ToBool(i.ProtectedFromScaleIn),
				}
				m.Weight, _ = strconv.Atoi(aws.ToString(i.WeightedCapacity)) // absent if it counts as 1
				if n := slices.IndexFunc(rec.Subnets, func(sn subnet) bool { return sn.Zone == m.Zone }); n >= 0 {
					m.Subnet, m.ZoneID = rec.Subnets[n].ID, rec.Subnets[n].ZoneID
				}
				if m.State == autoscalingtypes.LifecycleStateInService {
					m.InService = r.Source.Started
				}
				writes = append(writes, module.Put(members, key.Below(id), m), module.Put(owners, sc.Key(id), ownerRecord{name}))
			}
		}
	}
	var odd []recording.Gap
	gap := func(operation, what, group, name, why string) {
		odd = append(odd, recording.Gap{
			Service: "autoscaling", Operation: operation, Subject: name, Code: recording.NotModelled,
			Message: fmt.Sprintf("%s %q of group %q was not copied: %s", what, name, group, why),
		})
	}
	policyPages, err := recording.Pages[awsautoscaling.DescribePoliciesInput, awsautoscaling.DescribePoliciesOutput](r, "autoscaling", "DescribePolicies")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range policyPages {
		for _, pol := range p.Output.ScalingPolicies {
			group, name := aws.ToString(pol.AutoScalingGroupName), aws.ToString(pol.PolicyName)
			switch {
			case name == "" || pol.PolicyType == nil || !strings.HasSuffix(aws.ToString(pol.PolicyARN), ":autoScalingGroupName/"+group+":policyName/"+name):
				gap("DescribePolicies", "scaling policy", group, name, "it has no type, or an ARN of another one")
			case known[group]:
				writes = append(writes, module.Put(policies, sc.group(group).Below(name), pol))
			}
		}
	}
	scheduledPages, err := recording.Pages[awsautoscaling.DescribeScheduledActionsInput, awsautoscaling.DescribeScheduledActionsOutput](r, "autoscaling", "DescribeScheduledActions")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range scheduledPages {
		for _, a := range p.Output.ScheduledUpdateGroupActions {
			group, name := aws.ToString(a.AutoScalingGroupName), aws.ToString(a.ScheduledActionName)
			switch {
			case name == "" || a.StartTime == nil || !strings.HasSuffix(aws.ToString(a.ScheduledActionARN), ":autoScalingGroupName/"+group+":scheduledActionName/"+name):
				gap("DescribeScheduledActions", "scheduled action", group, name, "it has no time, or an ARN of another one")
			case known[group]:
				writes = append(writes, module.Put(scheduled, sc.group(group).Below(name), scheduledRecord{a}))
			}
		}
	}
	activities, err := recording.Pages[awsautoscaling.DescribeScalingActivitiesInput, awsautoscaling.DescribeScalingActivitiesOutput](r, "autoscaling", "DescribeScalingActivities")
	if err != nil {
		return nil, nil, err
	}
	for _, p := range activities {
		for _, a := range p.Output.Activities {
			if name := aws.ToString(a.AutoScalingGroupName); known[name] && a.ActivityId != nil && a.StartTime != nil {
				writes = append(writes, module.Put(actions, sc.group(name).Below(*a.ActivityId), activityRecord{a}))
			}
		}
	}
	return writes, odd, nil
}
