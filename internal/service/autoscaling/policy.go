package autoscaling

import (
	"cmp"
	"context"
	"reflect"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsautoscaling "github.com/aws/aws-sdk-go-v2/service/autoscaling"
	autoscalingtypes "github.com/aws/aws-sdk-go-v2/service/autoscaling/types"

	"github.com/drydock-dev/drydock/internal/arn"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

// PutScalingPolicy stores a policy. No metric ever triggers it, because Drydock has no CloudWatch
// metrics.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_PutScalingPolicy.html
func (s *Service) PutScalingPolicy(ctx context.Context, in *awsautoscaling.PutScalingPolicyInput) (*awsautoscaling.PutScalingPolicyOutput, error) {
	sc := scopeOf(ctx)
	name := aws.ToString(in.PolicyName)
	typ := aws.ToString(in.PolicyType)
	if typ == "" {
		typ = "SimpleScaling"
	}
	if err := checkPolicy(typ, in); err != nil {
		return nil, err
	}
	p := autoscalingtypes.ScalingPolicy{
		AutoScalingGroupName: in.AutoScalingGroupName, PolicyName: &name, PolicyType: &typ, AdjustmentType: in.AdjustmentType, Cooldown: in.Cooldown,
		Enabled: aws.Bool(in.Enabled == nil || *in.Enabled), EstimatedInstanceWarmup: in.EstimatedInstanceWarmup, MetricAggregationType: in.MetricAggregationType,
		MinAdjustmentMagnitude: in.MinAdjustmentMagnitude, ScalingAdjustment: in.ScalingAdjustment, StepAdjustments: in.StepAdjustments,
		TargetTrackingConfiguration: in.TargetTrackingConfiguration, Alarms: []autoscalingtypes.Alarm{},
		PredictiveScalingConfiguration: predictive(in.PredictiveScalingConfiguration),
	}
	if typ == "StepScaling" && p.MetricAggregationType == nil {
		p.MetricAggregationType = aws.String("Average")
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := s.group(tx, sc, in.AutoScalingGroupName); err != nil {
			return err
		}
		key := sc.group(*in.AutoScalingGroupName).Below(name)
		old, err := policies.Get(tx, key)
		switch {
		case store.IsNotFound(err):
			p.PolicyARN = aws.String(arn.New("autoscaling", sc.Region, sc.Account, "scalingPolicy:"+ids.UUID()+":autoScalingGroupName/"+*in.AutoScalingGroupName+":policyName/"+name))
		case err != nil:
			return err
		case *old.PolicyType != typ:
			return errPolicy("Cannot change the PolicyType of policy %s from %s to %s.", name, *old.PolicyType, typ) // from memory
		default:
			p.PolicyARN = old.PolicyARN
		}
		for _, o := range policies.All(tx, sc.group(*in.AutoScalingGroupName).AllBelow()) {
			if *o.Value.PolicyName != name && *o.Value.PolicyType == typ && typ == "TargetTrackingScaling" && sameMetric(o.Value.TargetTrackingConfiguration, p.TargetTrackingConfiguration) {
				return errSameMetric()
			}
		}
		return policies.Put(tx, key, p)
	})
	if err != nil {
		return nil, err
	}
	return &awsautoscaling.PutScalingPolicyOutput{PolicyARN: p.PolicyARN, Alarms: p.Alarms}, nil
}

// predictive returns a configuration with the defaults of its reference.
// https://docs.aws.amazon.com/autoscaling/ec2/APIReference/API_PredictiveScalingConfiguration.html
func predictive(in *autoscalingtypes.PredictiveScalingConfiguration) *autoscalingtypes.PredictiveScalingConfiguration {
	if in == nil {
		return nil
	}
	out := *in
	out.Mode = cmp.Or(in.Mode, autoscalingtypes.PredictiveScalingModeForecastOnly)
	out.MaxCapacityBreachBehavior = cmp.Or(in.MaxCapacityBreachBehavior, autoscalingtypes.PredictiveScalingMaxCapacityBreachBehaviorHonorMaxCapacity)
	return &out
}

// sameMetric reports whether two policies track the same metric.
func sameMetric(a, b *autoscalingtypes.TargetTrackingConfiguration) bool {
	return a != nil && b != nil && reflect.DeepEqual(a.PredefinedMetricSpecification, b.PredefinedMetricSpecification) &&
		reflect.DeepEqual(a.CustomizedMetricSpecification, b.CustomizedMetricSpecification)
}

// checkPolicy checks that a policy has the members that its type requires. The texts in this
// function are from memory.
func checkPolicy(typ string, in *awsautoscaling.PutScalingPolicyInput) error {
	switch typ {
	case "SimpleScaling", "StepScaling":
		if a := aws.ToString(in.AdjustmentType); !slices.Contains([]string{"ChangeInCapacity", "ExactCapacity", "PercentChangeInCapacity"}, a) {
			return errPolicy("Policies of type %s must have an AdjustmentType of ChangeInCapacity, ExactCapacity or PercentChangeInCapacity.", typ)
		}
		if typ == "SimpleScaling" && in.ScalingAdjustment == nil {
			return errNoAdjustment()
		}
		if typ == "StepScaling" && len(in.StepAdjustments) == 0 {
			return errPolicy("StepScaling policies must have at least one StepAdjustment.")
		}
		positive := func(a autoscalingtypes.StepAdjustment) bool { return aws.ToFloat64(a.MetricIntervalUpperBound) > 0 }
		open := func(a autoscalingtypes.StepAdjustment) bool { return a.MetricIntervalUpperBound == nil }
		if steps := in.StepAdjustments; slices.ContainsFunc(steps, positive) && !slices.ContainsFunc(steps, open) {
			return errNoUpperBound()
		}
	case "TargetTrackingScaling":
		c := in.TargetTrackingConfiguration
		if c == nil || c.TargetValue == nil || c.PredefinedMetricSpecification == nil && c.CustomizedMetricSpecification == nil {
			return errPolicy("TargetTrackingScaling policies must have a TargetTrackingConfiguration with a metric and a target value.")
		}
	case "PredictiveScaling":
		c := in.PredictiveScalingConfiguration
		if c == nil || len(c.MetricSpecifications) != 1 || c.MetricSpecifications[0].TargetValue == nil {
			return errPolicy("PredictiveScaling policies must have a PredictiveScalingConfiguration with one metric specification and a target value.")
		}
		if m := c.MetricSpecifications[0]; m.PredefinedMetricPairSpecification == nil &&
			(m.PredefinedScalingMetricSpecification == nil && m.CustomizedScalingMetricSpecification == nil || m.PredefinedLoadMetricSpecification == nil && m.CustomizedLoadMetricSpecification == nil) {
			return errPolicy("The metric specification of a PredictiveScaling policy must have a metric pair, or a scaling metric and a load metric.")
		}
		if increase := c.MaxCapacityBreachBehavior == autoscalingtypes.PredictiveScalingMaxCapacityBreachBehaviorIncreaseMaxCapacity; increase != (c.MaxCapacityBuffer != nil) {
			return errPolicy("MaxCapacityBuffer is required if MaxCapacityBreachBehavior is IncreaseMaxCapacity, and cannot be used otherwise.")
		}
	default:
		return errPolicy("Unsupported policy type: %s", typ)
	}
	return nil
}

// DescribePolicies lists policies by group, name, ARN and type.
func (s *Service) DescribePolicies(ctx context.Context, in *awsautoscaling.DescribePoliciesInput) (*awsautoscaling.DescribePoliciesOutput, error) {
	sc := scopeOf(ctx)
	where := sc.All()
	if name := aws.ToString(in.AutoScalingGroupName); name != "" {
		if _, err := s.group(s.store, sc, &name); err != nil {
			return nil, err
		}
		where = sc.group(name).AllBelow()
	}
	found, next, err := describe(s.store, policies, where, func(p autoscalingtypes.ScalingPolicy) bool {
		return (len(in.PolicyNames) == 0 || slices.Contains(in.PolicyNames, *p.PolicyName) || slices.Contains(in.PolicyNames, *p.PolicyARN)) &&
			(len(in.PolicyTypes) == 0 || slices.Contains(in.PolicyTypes, *p.PolicyType))
	}, in.MaxRecords, in.NextToken)
	if err != nil {
		return nil, err
	}
	return &awsautoscaling.DescribePoliciesOutput{ScalingPolicies: values(found), NextToken: next}, nil
}

// DeletePolicy deletes a policy by its name or ARN.
func (s *Service) DeletePolicy(ctx context.Context, in *awsautoscaling.DeletePolicyInput) (*awsautoscaling.DeletePolicyOutput, error) {
	sc := scopeOf(ctx)
	group, name := policyNamed(in)
	if group == "" || name == "" {
		return nil, errNoPolicy()
	}
	err := s.store.Update(ctx, func(tx *store.Tx) error {
		if _, err := s.group(tx, sc, &group); err != nil {
			return err
		}
		key := sc.group(group).Below(name)
		if _, err := policies.Get(tx, key); store.IsNotFound(err) {
			return errNoPolicy()
		} else if err != nil {
			return err
		}
		policies.Delete(tx, key)
		return nil
	})
	return &awsautoscaling.DeletePolicyOutput{}, err
}

// policyNamed returns the policy in a request, given by its ARN or by its name and group.
func policyNamed(in *awsautoscaling.DeletePolicyInput) (group, name string) {
	group, name = aws.ToString(in.AutoScalingGroupName), aws.ToString(in.PolicyName)
	if strings.HasPrefix(name, "arn:") {
		_, rest, _ := strings.Cut(name, ":autoScalingGroupName/")
		group, name, _ = strings.Cut(rest, ":policyName/")
	}
	return group, name
}
