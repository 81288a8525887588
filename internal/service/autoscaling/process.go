package autoscaling

import (
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/store"
)

// processes are the things that a group does by itself and that can be suspended.
// https://docs.aws.amazon.com/autoscaling/ec2/userguide/as-suspend-resume-processes.html
func processes() []string {
	return []string{
		"AZRebalance", processAddToLoadBalancer, "AlarmNotification", "HealthCheck", "InstanceRefresh",
		"Launch", "ReplaceUnhealthy", "ScheduledActions", "Terminate",
	}
}

// SuspendProcesses suspends the given processes, or all.
func (s *Service) SuspendProcesses(ctx context.Context, in *awsautoscaling.SuspendProcessesInput) (*awsautoscaling.SuspendProcessesOutput, error) {
	return &awsautoscaling.SuspendProcessesOutput{}, s.suspend(ctx, in.AutoScalingGroupName, in.ScalingProcesses, true)
}

// ResumeProcesses resumes the given processes, or all.
func (s *Service) ResumeProcesses(ctx context.Context, in *awsautoscaling.ResumeProcessesInput) (*awsautoscaling.ResumeProcessesOutput, error) {
	return &awsautoscaling.ResumeProcessesOutput{}, s.suspend(ctx, in.AutoScalingGroupName, in.ScalingProcesses, false)
}

func (s *Service) suspend(ctx context.Context, group *string, names []string, suspended bool) error {
	if len(names) == 0 {
		names = processes()
	}
	for _, n := range names {
		if !slices.Contains(processes(), n) {
			return errProcess(n)
		}
	}
	err := s.changeNamed(ctx, group, func(_ *store.Tx, g *groupRecord) error {
		left := slices.DeleteFunc(slices.Clone(g.Group.SuspendedProcesses), func(p autoscalingtypes.SuspendedProcess) bool {
			return slices.Contains(names, *p.ProcessName)
		})
		if suspended {
			for _, n := range names {
				left = append(left, autoscalingtypes.SuspendedProcess{ProcessName: &n, SuspensionReason: aws.String(fmt.Sprintf("User suspended at %s", stamp(s.now())))})
			}
		}
		g.Group.SuspendedProcesses = left
		g.fresh()
		return nil
	})
	if suspended && errors.Is(err, errGroupPendingDelete) {
		return errSuspendPendingDelete()
	}
	return err
}

// DescribeScalingProcessTypes lists the processes.
func (s *Service) DescribeScalingProcessTypes(context.Context, *awsautoscaling.DescribeScalingProcessTypesInput) (*awsautoscaling.DescribeScalingProcessTypesOutput, error) {
	out := &awsautoscaling.DescribeScalingProcessTypesOutput{}
	for _, n := range processes() {
		out.Processes = append(out.Processes, autoscalingtypes.ProcessType{ProcessName: &n})
	}
	return out, nil
}

// DescribeTerminationPolicyTypes lists the termination policies.
func (s *Service) DescribeTerminationPolicyTypes(context.Context, *awsautoscaling.DescribeTerminationPolicyTypesInput) (*awsautoscaling.DescribeTerminationPolicyTypesOutput, error) {
	return &awsautoscaling.DescribeTerminationPolicyTypesOutput{TerminationPolicyTypes: terminationPolicies()}, nil
}

// DescribeAdjustmentTypes lists the ways in which scaling policies adjust capacity.
func (s *Service) DescribeAdjustmentTypes(context.Context, *awsautoscaling.DescribeAdjustmentTypesInput) (*awsautoscaling.DescribeAdjustmentTypesOutput, error) {
	out := &awsautoscaling.DescribeAdjustmentTypesOutput{}
	for _, t := range []string{"ChangeInCapacity", "ExactCapacity", "PercentChangeInCapacity"} {
		out.AdjustmentTypes = append(out.AdjustmentTypes, autoscalingtypes.AdjustmentType{AdjustmentType: &t})
	}
	return out, nil
}

// DescribeLifecycleHookTypes lists the transitions that hooks can be for.
func (s *Service) DescribeLifecycleHookTypes(context.Context, *awsautoscaling.DescribeLifecycleHookTypesInput) (*awsautoscaling.DescribeLifecycleHookTypesOutput, error) {
	return &awsautoscaling.DescribeLifecycleHookTypesOutput{LifecycleHookTypes: []string{hookLaunching, hookTerminating}}, nil
}

// DescribeAccountLimits returns the quotas and how much of them is used.
func (s *Service) DescribeAccountLimits(ctx context.Context, _ *awsautoscaling.DescribeAccountLimitsInput) (*awsautoscaling.DescribeAccountLimitsOutput, error) {
	sc := scopeOf(ctx)
	all, lcs := groups.All(s.store, sc.All()), configs.All(s.store, sc.All())
	return &awsautoscaling.DescribeAccountLimitsOutput{
		MaxNumberOfAutoScalingGroups: aws.Int32(maxGroups), MaxNumberOfLaunchConfigurations: aws.Int32(maxConfigs),
		NumberOfAutoScalingGroups: aws.Int32(int32(len(all))), NumberOfLaunchConfigurations: aws.Int32(int32(len(lcs))), //nolint:gosec // bounded by the quotas
	}, nil
}
