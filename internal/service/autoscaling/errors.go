package autoscaling

import (
	"fmt"
	"strings"
	"time"

	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/ids"
)

// Auto Scaling has few error codes. Whatever is wrong with a request is a ValidationError, and
// clients (Terraform, eksctl, cluster-autoscaler) check its text. Unless marked otherwise, the
// texts are quoted in public issues by users of AWS.

func errValidation(format string, args ...any) error {
	return awserr.Newf("ValidationError", format, args...)
}

// errNoServiceRole is of a user who may not create the service-linked role, as users of
// Terraform see it. Other errors stay as they are.
func errNoServiceRole(err error) error {
	if awserr.CodeOf(err) != "AccessDenied" {
		return fmt.Errorf("creating the service-linked role: %w", err)
	}
	return awserr.Newf("AccessDenied", "The default Service-Linked Role for Auto Scaling could not be created.  "+
		"com.amazonaws.services.identitymanagement.model.AmazonIdentityManagementException: %s "+
		"(Service: AmazonIdentityManagement; Status Code: 403; Error Code: AccessDenied; Request ID: %s)", awserr.TextOf(err), ids.UUID()).WithStatus(403)
}

func errNoGroup(name string) error {
	return errValidation("AutoScalingGroup name not found - AutoScalingGroup %s not found", name)
}

func errNoGroupNull() error { return errValidation("AutoScalingGroup name not found - null") }

func errGroupExists(name string) error {
	return alreadyExists("AutoScalingGroup by this name already exists - A group with the name %s already exists", name)
}

// UpdateAutoScalingGroup's error: https://github.com/kubernetes/kops/issues/844
var errGroupPendingDelete = errValidation("The AutoScaling group may not be modified while it is pending delete")

// https://github.com/cloud-custodian/cloud-custodian/issues/497
func errSuspendPendingDelete() error {
	return errValidation("Processes may not be suspended while the AutoScaling group is pending delete")
}

func errRecreateDuringDelete() error {
	return alreadyExists("AutoScalingGroup by this name already exists and is pending delete")
}

func errConfigExists(name string) error {
	return alreadyExists("Launch Configuration by this name already exists - A launch configuration already exists with the name %s", name)
}

func alreadyExists(format string, args ...any) error {
	return &autoscalingtypes.AlreadyExistsFault{Message: new(fmt.Sprintf(format, args...))}
}

func errNoConfig(name string) error {
	return errValidation("Launch configuration name not found - A launch configuration with the name: %s does not exist", name)
}

func errNoConfigToDelete(name string) error {
	return errValidation("Launch configuration name not found - Launch configuration %s not found", name)
}

func errConfigInUse(name, group string) error {
	return &autoscalingtypes.ResourceInUseFault{Message: new(fmt.Sprintf("Cannot delete launch configuration %s because it is attached to AutoScalingGroup %s", name, group))}
}

func errGroupNotEmpty() error {
	return &autoscalingtypes.ResourceInUseFault{Message: new("You cannot delete an AutoScalingGroup while there are instances or pending Spot instance request(s) still in the group.")}
}

func errActivitiesInProgress() error {
	return &autoscalingtypes.ScalingActivityInProgressFault{Message: new("You cannot delete an AutoScalingGroup while there are scaling activities in progress for that group.")}
}

func errCooldown(activity string) error {
	return &autoscalingtypes.ScalingActivityInProgressFault{Message: new(fmt.Sprintf("Scaling activity %s is in progress and blocks this action", activity))}
}

func errDeletionProtected(name string) error { // from memory
	return errValidation("You cannot delete AutoScalingGroup %s because its deletion protection prevents it.", name)
}

// errNoSource: both texts are quoted in public issues, the first in logs of kops.
func errNoSource(kind string) error {
	if kind == classicSource {
		return errValidation("Provided Load Balancers may not be valid. Please ensure they exist and try again.")
	}
	return errValidation("Provided Target Groups may not be valid. Please ensure they exist and try again.")
}

// errSourceNotAttached: Spinnaker, Harness and others check for both texts.
func errSourceNotAttached(kind string) error {
	if kind == classicSource {
		return errValidation("Trying to remove Load Balancers that are not part of the group")
	}
	return errValidation("Trying to remove Target Groups that are not part of the group")
}

func errSourceType(kind string) error {
	return errValidation("Invalid traffic source type %s. Valid values are elb, elbv2 and vpc-lattice", kind) // from memory
}

func errSource() error {
	return errValidation("Valid requests must contain either LaunchTemplate, LaunchConfigurationName, InstanceId or MixedInstancesPolicy parameter.")
}

func errTemplateSpec() error {
	return errValidation("Valid requests must contain either launchTemplateId or LaunchTemplateName")
}

func errTemplate(cause string) error {
	return errValidation("You must use a valid fully-formed launch template. %s", cause)
}

// https://github.com/7Factor/terraform-aws-concourse/issues/28
func errTemplateVersion() error {
	return errValidation("Invalid launch template version: either '$Default', '$Latest', or a numeric version are allowed.")
}

// https://github.com/hashicorp/terraform-provider-aws/issues/4570
func errTemplateGroups() error {
	return awserr.Newf("InvalidQueryParameter", "Invalid launch template: When a network interface is provided, the security groups must be a part of it.")
}

// https://github.com/kubernetes-sigs/cluster-api-provider-aws/pull/4656
func errTemplateSpot() error {
	return awserr.Newf("InvalidQueryParameter", "Incompatible launch template: You cannot use a launch template that is set to request Spot Instances (InstanceMarketOptions) when you configure an Auto Scaling group with a mixed instances policy. Add a different launch template to the group and try again.")
}

// [seen] in Terraform output published by users
func errSpotStrategy(all []string) error {
	return errValidation("SpotAllocationStrategy is not valid. Valid options are: [%s].", strings.Join(all, ", "))
}

// [seen] in a decision record about a group of workers
func errOnDemandStrategy() error {
	return errValidation("OnDemandAllocationStrategy is not valid. Valid options are: [prioritized, lowest-price].")
}

func errNoPlace() error {
	return errValidation("At least one Availability Zone or VPC Subnet is required.")
}

func errZonesOfSubnets() error {
	return errValidation("The availability zones of the specified subnets and the Auto Scaling group do not match")
}

func errZone(zone string) error { // from memory
	return errValidation("Invalid Availability Zones: [%s]. Make sure you have a default subnet in each of the requested zones.", zone)
}

func errBounds(minimum, maximum int32) error {
	return errValidation("Max bound, %d, must be greater than or equal to min bound, %d", maximum, minimum)
}

func errDesired(desired, minimum, maximum int32) error {
	return errValidation("Desired capacity:%d must be between the specified min size:%d and max size:%d", desired, minimum, maximum)
}

func errDesiredAbove(value, maximum int32) error {
	return errValidation("New SetDesiredCapacity value %d is above max value %d for the AutoScalingGroup.", value, maximum)
}

func errDesiredBelow(value, minimum int32) error {
	return errValidation("New SetDesiredCapacity value %d is below min value %d for the AutoScalingGroup.", value, minimum)
}

func errNoInstance(id string) error {
	return errValidation("Instance Id not found - No managed instance found for instance ID: %s", id)
}

func errNotInGroup(id, group string) error {
	return errValidation("The instance %s is not part of Auto Scaling group %s.", id, group)
}

func errNotInService(id, states string) error {
	return errValidation("The instance %s is not in %s.", id, states)
}

func errAlreadyAttached(id, group string) error {
	return errValidation("The Instance: %s is already part of AutoScalingGroup:%s", id, group)
}

func errNotRunning(id, state string) error {
	return errValidation("Instance %s [%s] is not in correct state. Instance(s) must be in 'running' state.", id, state)
}

func errInvalidInstance(id string) error {
	return errValidation("Invalid Instance ID: %s", id) // from memory
}

// https://github.com/LeanerCloud/AutoSpotting/issues/407; the plural form is our own.
func errAttachAboveMax(g *groupRecord, attached int) error {
	what := "1 instance"
	if attached != 1 {
		what = fmt.Sprintf("%d instances", attached)
	}
	return errValidation("AutoScalingGroup %s has min-size=%d, max-size=%d, and desired-size=%d. To attach %s, please update the AutoScalingGroup sizes appropriately.",
		g.name(), *g.Group.MinSize, *g.Group.MaxSize, *g.Group.DesiredCapacity, what)
}

func errStandbyAboveMax(desired, maximum int32) error {
	return errValidation("AutoScalingGroup can not be updated: the new desired capacity %d is above the max size %d", desired, maximum) // from memory
}

// errTooManyInstances: DetachInstances' error is quoted in
// https://github.com/reproio/ecs_deploy/pull/39; AttachInstances' is assumed to be similar.
func errTooManyInstances(verb string) error {
	return errValidation("List exceeds the maximum number of instances to %s. Please retry your request with fewer instances.", verb)
}

// https://github.com/terraform-aws-modules/terraform-aws-eks/issues/368
func errDuplicateOverrides(types []string) error {
	return errValidation("Cannot add same instance type override more than once. Remove these duplicates from the request and try again: [%s]", strings.Join(types, ", "))
}

// The next ten are from memory; the API reference has the rules.

func errOverrideType() error {
	return errValidation("Each override must have an instance type or instance requirements.")
}

func errOverrideBoth() error {
	return errValidation("You can specify either InstanceType or InstanceRequirements in the overrides, but not both.")
}

func errWeight(w string) error {
	return errValidation("Invalid WeightedCapacity: %s. It must be a whole number between 1 and 999.", w)
}

func errSomeWeights() error {
	return errValidation("If you specify WeightedCapacity for one instance type, you must specify it for all of them.")
}

func errCapacityType(kind string) error {
	return errValidation("DesiredCapacityType %s is only supported for attribute-based instance type selection.", kind)
}

var errNoMatchingTypes = errValidation("No instance types match the instance requirements.")

func errLifetime() error {
	return errValidation("MaxInstanceLifetime must be equal to 0 or between 86400 and 31536000 seconds.")
}

func errMaintenancePair() error {
	return errValidation("InstanceMaintenancePolicy must have both MinHealthyPercentage and MaxHealthyPercentage. To clear it, set both to -1.")
}

func errMaintenanceRange() error {
	return errValidation("MinHealthyPercentage must be between 0 and 100, MaxHealthyPercentage between 100 and 200, and they may differ by 100 at most.")
}

func errImpairment() error {
	return errValidation("AvailabilityZoneImpairmentPolicy with ZonalShiftEnabled must have an ImpairedZoneHealthCheckBehavior.")
}

// https://github.com/app-sre/qontract-schemas/pull/400
func errSpotPools() error {
	return errValidation("SpotInstancePools option is only available with the lowest-price allocation strategy.")
}

func errBelowMin(minimum int32) error {
	return errValidation("Currently, desiredSize equals minSize (%d). Terminating instance without replacement will violate group's min size constraint. Either set shouldDecrementDesiredCapacity flag to false or lower group's min size.", minimum)
}

func errNoInstanceIDs() error {
	return errValidation("You must specify at least one instance ID.") // from memory
}

// Quoted by the mocks of fog/fog-aws, and by moto.
func errHealthStatus() error {
	return errValidation("Valid instance health states are: [Healthy, Unhealthy].")
}

// https://github.com/aws/aws-cli/issues/171
func errGracePeriod(age, grace time.Duration) error {
	return errValidation("The age of the instance (%d seconds) is less than the configured grace period of %d seconds", age/time.Second, grace/time.Second)
}

func errHealthCheckType(s string) error {
	return errValidation("Invalid HealthCheckType: %s. Valid values are EC2 and ELB", s) // from memory
}

func errProcess(name string) error {
	return errValidation("Invalid scaling process: %s", name) // from memory
}

func errTerminationPolicy(name string) error {
	return errValidation("Invalid termination policy: %s", name) // from memory
}

func errHookTransition(s string) error {
	return errValidation("Invalid lifecycle transition: %s. Valid values are autoscaling:EC2_INSTANCE_LAUNCHING and autoscaling:EC2_INSTANCE_TERMINATING", s) // from memory
}

func errHookResult(s string) error {
	return errValidation("Lifecycle Action Result %s is not valid. Valid values are CONTINUE and ABANDON", s) // from memory
}

func errHookTimeout(n int32) error {
	return errValidation("Heartbeat timeout %d is not valid: it must be between 30 and 7200 seconds", n) // from memory
}

func errNoHook(name, group string) error {
	return errValidation("No Lifecycle Hook found with name %s for Auto Scaling group %s", name, group) // [seen] its beginning; the rest is from memory
}

func errNoAction(instance, token string) error {
	if token != "" {
		return errValidation("No active Lifecycle Action found with token %s", token)
	}
	return errValidation("No active Lifecycle Action found with instance ID %s", instance)
}

func errPolicy(format string, args ...any) error { return errValidation(format, args...) }

// https://github.com/Netflix/asgard/issues/704
func errNoAdjustment() error {
	return errValidation("Scaling increment must be specified for a SimpleScaling policy")
}

// https://github.com/hashicorp/terraform-provider-aws/issues/9077
func errNoUpperBound() error {
	return errValidation("There must be a StepAdjustment with an unspecified upper bound (i.e., upper bound is null) when one StepAdjustment has a positive upper bound")
}

// [seen] in notes by users of put-scaling-policy, and for Application Auto Scaling in
// https://github.com/hashicorp/terraform-provider-aws/issues/41179
func errSameMetric() error {
	return errValidation("Only one TargetTrackingScaling policy for a given metric specification is allowed.")
}

func errNoPolicy() error { return errValidation("Policy name not found") } // from memory

func errFilter(name string) error {
	return errValidation("Filter type %s is not correct. Allowed Filter types are: auto-scaling-group key value propagate-at-launch", name) // [seen] eucalyptus/eucalyptus
}

func errGroupFilter(name string) error {
	return errValidation("Invalid filter name: %s. Allowed filter names are: tag-key, tag-value, tag:<key>", name) // from memory
}

func errTagResource(typ string) error {
	return errValidation("Invalid ResourceType: %s. The only supported value is auto-scaling-group", typ) // from memory
}

func errTagKey(key string) error {
	return errValidation("Invalid tag key: '%s'. Keys do not begin with aws:", key) // from memory
}

// https://github.com/boto/boto3/issues/3098
func errIncompleteTags(tags []autoscalingtypes.Tag) error {
	var text strings.Builder
	text.WriteString("Incomplete tags information for these tags. ")
	for _, t := range tags {
		fmt.Fprintf(&text, "Tag - 'Key:%s,PropagateAtLaunch:%s,ResourceId:%s,ResourceType:%s' , ", orNull(t.Key), orNull(t.PropagateAtLaunch), orNull(t.ResourceId), orNull(t.ResourceType))
	}
	return errValidation("%s", text.String())
}

func orNull[T any](v *T) string {
	if v == nil {
		return "null"
	}
	return fmt.Sprint(*v)
}

// https://github.com/kubernetes/autoscaler/issues/1228
func errGroupNames(most int) error {
	return errValidation("The number of group names that may be passed in is limited to %d", most)
}

func errNextToken() error { return &autoscalingtypes.InvalidNextToken{Message: new("Invalid token")} }

func errRefreshInProgress() error {
	return &autoscalingtypes.InstanceRefreshInProgressFault{Message: new("An Instance Refresh is already in progress and blocks the execution of this Instance Refresh.")}
}

// Recorded from AWS: ansible-collections/amazon.aws tests/integration/targets/autoscaling_instance_refresh
func errNoRefresh(group string) error {
	return &autoscalingtypes.ActiveInstanceRefreshNotFoundFault{Message: new("No in progress, baking, pending, or cancelling Instance Refresh found for Auto Scaling group " + group)}
}

// https://docs.aws.amazon.com/autoscaling/ec2/userguide/instance-refresh-overview.html#instance-refresh-limitations
func errRefreshedSource() error {
	return errValidation("An active instance refresh with a desired configuration exists. All configuration options derived from the desired configuration are not available for update while the instance refresh is active.")
}

// https://github.com/hashicorp/terraform-provider-aws/issues/29830
func errRollbackWithoutDesired() error {
	return errValidation("The request isn't valid. The AutoRollback parameter cannot be set to true when the DesiredConfiguration parameter is empty. Set AutoRollback to false or specify a desired configuration and try again.")
}

// The text is from memory.
func errIrreversible() error {
	return &autoscalingtypes.IrreversibleInstanceRefreshFault{Message: new("The instance refresh cannot be rolled back: it has no desired configuration, or the Auto Scaling group's launch template has a version that is not a number or an image that a parameter names.")}
}

// The text is from memory.
func errCheckpoints() error {
	return errValidation("CheckpointPercentages must be unique numbers from 1 to 100 in ascending order.")
}

// The text is from memory.
func errCheckpointDelay() error {
	return errValidation("CheckpointDelay requires CheckpointPercentages.")
}

func errLimit(format string, args ...any) error {
	return &autoscalingtypes.LimitExceededFault{Message: new(fmt.Sprintf(format, args...))}
}

// Scheduled actions. https://github.com/hashicorp/terraform-provider-aws/pull/3033
func errStartPast() error { return errValidation("Given start time is in the past") }

func errEndBeforeStart() error { return errValidation("Given end time is before start time") } // from memory

func errRecurrence(text string) error {
	return errValidation("Given recurrence string:%s is invalid", text) // from memory
}

func errTimeZone(zone string) error {
	return errValidation("Given time zone:%s is invalid", zone) // worded like the error above
}

func errScheduledSizes() error {
	return errValidation("At least one of MinSize, MaxSize, and DesiredCapacity must be specified for a scheduled action") // our own text
}

func errScheduledTime() error {
	return errValidation("Either a start time or a recurrence must be specified for a scheduled action") // our own text
}

// Terraform looks for the last two words.
func errNoScheduled(name string) error {
	return errValidation("Scheduled action name not found - scheduled action %s not found", name)
}

func errScheduledLimit() error {
	return errLimit("Only %d scheduled actions are allowed for an Auto Scaling group", maxScheduled) // from memory
}

// scheduledChange is a part of an activity's cause.
func scheduledChange(what string, from, to int32) string {
	return fmt.Sprintf(" Setting %s from %d to %d.", what, from, to)
}
