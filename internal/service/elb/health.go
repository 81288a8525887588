package elb

import (
	"context"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"
	elbtypes "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing/types"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/elbnet"
)

// A target is a parsed health check target: PROTOCOL:PORT[/PATH].
type target struct {
	protocol string
	port     uint16
	path     string
}

func parseTarget(s string) (target, error) {
	protocol, rest, ok := strings.Cut(s, ":")
	t := target{protocol: strings.ToUpper(protocol)}
	if !ok || layer(t.protocol) == 0 {
		return t, errHealthTarget(s)
	}
	port, path, slash := strings.Cut(rest, "/")
	n, err := strconv.ParseUint(port, 10, 16)
	if err != nil || n == 0 {
		return t, errHealthPort()
	}
	t.port = uint16(n)
	if layer(t.protocol) == 7 {
		if !slash {
			return t, errHealthPath()
		}
		t.path = "/" + path
	} else if slash {
		return t, errHealthPort()
	}
	return t, nil
}

// ConfigureHealthCheck sets the health check for instances.
// https://docs.aws.amazon.com/elasticloadbalancing/2012-06-01/APIReference/API_HealthCheck.html
func (s *Service) ConfigureHealthCheck(ctx context.Context, in *awselb.ConfigureHealthCheckInput) (*awselb.ConfigureHealthCheckOutput, error) {
	if in.HealthCheck == nil {
		return nil, errHealthTarget("")
	}
	h := *in.HealthCheck
	if _, err := parseTarget(text(h.Target)); err != nil {
		return nil, err
	}
	if *h.Timeout >= *h.Interval {
		return nil, errHealthTimeout()
	}
	_, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		r.HealthCheck = h
		return nil
	})
	return &awselb.ConfigureHealthCheckOutput{HealthCheck: &h}, err
}

func idsOf(in []elbtypes.Instance) []string {
	out := make([]string, 0, len(in))
	for _, i := range in {
		out = append(out, text(i.InstanceId))
	}
	return out
}

func sdkInstances(in []string) []elbtypes.Instance {
	out := []elbtypes.Instance{}
	for _, id := range in {
		out = append(out, elbtypes.Instance{InstanceId: aws.String(id)})
	}
	return out
}

// RegisterInstancesWithLoadBalancer adds instances. They may be stopped.
func (s *Service) RegisterInstancesWithLoadBalancer(ctx context.Context, in *awselb.RegisterInstancesWithLoadBalancerInput) (*awselb.RegisterInstancesWithLoadBalancerOutput, error) {
	sc := scopeOf(ctx)
	lb, err := loadBalancer(s.Store, sc, in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	fresh := idsOf(in.Instances)
	for _, id := range fresh {
		i, ok, err := s.Network.Instance(s.AsService(ctx, sc), id)
		switch {
		case err != nil:
			return nil, err
		case !ok:
			return nil, errNoInstance(id)
		case i.State.Name == ec2types.InstanceStateNameTerminated || i.State.Name == ec2types.InstanceStateNameShuttingDown:
			return nil, errInstanceState(id)
		case text(i.VpcId) != lb.VPC:
			return nil, errInstanceVPC(id)
		}
	}
	lb, err = s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		r.Instances = slices.Compact(slices.Sorted(slices.Values(append(r.Instances, fresh...))))
		return nil
	})
	return &awselb.RegisterInstancesWithLoadBalancerOutput{Instances: sdkInstances(lb.Instances)}, err
}

// DeregisterInstancesFromLoadBalancer removes instances. An instance that EC2 does not know is an
// error; one that is not registered is not.
func (s *Service) DeregisterInstancesFromLoadBalancer(ctx context.Context, in *awselb.DeregisterInstancesFromLoadBalancerInput) (*awselb.DeregisterInstancesFromLoadBalancerOutput, error) {
	gone := idsOf(in.Instances)
	lb, err := s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		for _, id := range gone {
			if slices.Contains(r.Instances, id) {
				continue
			}
			if _, ok, err := s.Network.Instance(s.AsService(ctx, scopeOf(ctx)), id); err != nil {
				return err
			} else if !ok {
				return errNoInstance(id)
			}
		}
		r.Instances = slices.DeleteFunc(r.Instances, func(id string) bool { return slices.Contains(gone, id) })
		return nil
	})
	return &awselb.DeregisterInstancesFromLoadBalancerOutput{Instances: sdkInstances(lb.Instances)}, err
}

// DescribeInstanceHealth returns the current health of instances.
func (s *Service) DescribeInstanceHealth(ctx context.Context, in *awselb.DescribeInstanceHealthInput) (*awselb.DescribeInstanceHealthOutput, error) {
	sc := scopeOf(ctx)
	r, err := loadBalancer(s.Store, sc, in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	chosen := r.Instances
	if len(in.Instances) > 0 {
		chosen = idsOf(in.Instances)
	}
	out := &awselb.DescribeInstanceHealthOutput{InstanceStates: []elbtypes.InstanceState{}}
	ask := s.Network.Prober(ctx, sc.Account, sc.Region)
	for _, id := range chosen {
		if !slices.Contains(r.Instances, id) {
			return nil, errNotRegistered(id, r.Name)
		}
		state, err := s.health(ctx, sc, &r, id, ask)
		if err != nil {
			return nil, err
		}
		out.InstanceStates = append(out.InstanceStates, state)
	}
	return out, nil
}

// settledHealth reports whether no instance is still being registered. Until then, responses to
// waiters are delayed.
func settledHealth(out *awselb.DescribeInstanceHealthOutput) bool {
	return !slices.ContainsFunc(out.InstanceStates, func(st elbtypes.InstanceState) bool { return *st.State == outOfService && *st.ReasonCode == "ELB" })
}

const (
	inService    = "InService"
	outOfService = "OutOfService"
)

// health determines the health of one instance. Reasons and descriptions are from
// https://docs.aws.amazon.com/elasticloadbalancing/2012-06-01/APIReference/API_InstanceState.html
func (s *Service) health(ctx context.Context, sc scope, r *loadBalancerRecord, id string, ask elbnet.Prober) (elbtypes.InstanceState, error) {
	state := func(state, reason, description string) (elbtypes.InstanceState, error) {
		return elbtypes.InstanceState{InstanceId: aws.String(id), State: aws.String(state), ReasonCode: aws.String(reason), Description: aws.String(description)}, nil
	}
	i, ok, err := s.Network.Instance(s.AsService(ctx, sc), id)
	if err != nil {
		return elbtypes.InstanceState{}, err
	}
	if !ok || i.State.Name == ec2types.InstanceStateNameTerminated {
		return state(outOfService, "Instance", "Instance is in terminated state.")
	}
	if i.State.Name != ec2types.InstanceStateNameRunning && i.State.Name != ec2types.InstanceStateNamePending {
		return state(outOfService, "Instance", "Instance is in stopped state.")
	}
	zone := text(i.Placement.AvailabilityZone)
	if !slices.Contains(r.Zones, zone) {
		return state(outOfService, "ELB", "Instance is in the EC2 Availability Zone for which LoadBalancer is not configured to route traffic to.")
	}
	eni := r.Interfaces[zone]
	if eni == "" {
		return state(outOfService, "ELB", "Instance registration is still in progress.")
	}
	if h := s.live(sc, r, id); h != nil {
		switch h.State {
		case elbv2types.TargetHealthStateEnumHealthy:
			return state(inService, "N/A", "N/A")
		case elbv2types.TargetHealthStateEnumInitial:
			return state(outOfService, "ELB", "Instance registration is still in progress.")
		}
		return state(outOfService, "Instance", "Instance has failed at least the UnhealthyThreshold number of health checks consecutively.")
	}
	t, err := parseTarget(text(r.HealthCheck.Target))
	if err != nil {
		return elbtypes.InstanceState{}, err
	}
	switch ask(ctx, elbnet.Probe{Interface: eni, Instance: id, Protocol: t.protocol, Port: t.port, Path: t.path}) {
	case elbnet.Answers:
		return state(inService, "N/A", "N/A")
	case elbnet.Unknown:
		return state("Unknown", "ELB", "A transient error occurred. Please try again later.")
	}
	return state(outOfService, "Instance", "Instance has failed at least the UnhealthyThreshold number of health checks consecutively.")
}

// SourceExists reports whether a load balancer exists, for Auto Scaling.
func (s *Service) SourceExists(account, region, name string) bool {
	_, err := loadBalancer(s.Store, regional.At(account, region), &name)
	return err == nil
}

// RegisterInstances registers instances, for Auto Scaling.
func (s *Service) RegisterInstances(ctx context.Context, name string, ids []string) error {
	return elbnet.RegisterEach(ids, func(id string) error {
		_, err := s.RegisterInstancesWithLoadBalancer(ctx, &awselb.RegisterInstancesWithLoadBalancerInput{LoadBalancerName: &name, Instances: sdkInstances([]string{id})})
		return err
	})
}

// DeregisterInstances removes instances, even those that no longer exist, for Auto Scaling.
func (s *Service) DeregisterInstances(ctx context.Context, name string, ids []string) error {
	_, err := s.change(ctx, &name, func(r *loadBalancerRecord) error {
		r.Instances = slices.DeleteFunc(slices.Clone(r.Instances), func(id string) bool { return slices.Contains(ids, id) })
		return nil
	})
	return err
}

// InstanceHealth returns the instances that pass and those that fail the health checks, and after
// how long a failing instance is unhealthy, for Auto Scaling. An instance that exists but whose
// health is unknown is in neither list.
func (s *Service) InstanceHealth(ctx context.Context, name string, ids []string) (passing, failing []string, after time.Duration, err error) {
	sc := scopeOf(ctx)
	r, err := loadBalancer(s.Store, sc, &name)
	if err != nil {
		return nil, nil, 0, err
	}
	ask, unclaimed := s.Network.Prober(ctx, sc.Account, sc.Region).Unclaimed()
	for _, id := range ids {
		if !slices.Contains(r.Instances, id) {
			continue
		}
		h, err := s.health(ctx, sc, &r, id, ask)
		switch {
		case err != nil:
			return nil, nil, 0, err
		case *h.State == inService:
			passing = append(passing, id)
		case *h.State == outOfService && *h.ReasonCode == "Instance" && !unclaimed[id]:
			failing = append(failing, id)
		}
	}
	after = time.Duration(aws.ToInt32(r.HealthCheck.Interval)) * time.Duration(aws.ToInt32(r.HealthCheck.UnhealthyThreshold)) * time.Second
	return passing, failing, after, nil
}
