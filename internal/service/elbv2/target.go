package elbv2

import (
	"cmp"
	"context"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/awsapi/regional"
	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxTargets is the maximum number of targets per group.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
const maxTargets = 1000

func isPort(s string) bool {
	n, err := strconv.Atoi(s)
	return err == nil && n >= 1 && n <= 65535
}

// RegisterTargets adds targets to a group. Targets that are already registered stay.
func (s *Service) RegisterTargets(ctx context.Context, in *awselbv2.RegisterTargetsInput) (*awselbv2.RegisterTargetsOutput, error) {
	sc := scopeOf(ctx)
	g, err := targetGroup(s.Store, sc, in.TargetGroupArn)
	if err != nil {
		return nil, err
	}
	if len(in.Targets) == 0 {
		return nil, errMissing("target")
	}
	fresh, err := s.checkTargets(ctx, sc, &g, in.Targets)
	if err != nil {
		return nil, err
	}
	err = s.changeTargets(ctx, in.TargetGroupArn, func(set *targetSetRecord) error {
		for _, t := range fresh {
			if !slices.ContainsFunc(set.Targets, t.same) {
				set.Targets = append(set.Targets, t)
			}
		}
		if len(set.Targets) > maxTargets {
			return errTooManyTargets()
		}
		slices.SortFunc(set.Targets, func(a, b targetRecord) int {
			return cmp.Or(strings.Compare(a.ID, b.ID), cmp.Compare(a.Port, b.Port))
		})
		return nil
	})
	return &awselbv2.RegisterTargetsOutput{}, err
}

func (t targetRecord) same(o targetRecord) bool { return t.ID == o.ID && t.Port == o.Port }

// changeTargets changes the targets of the group with an ARN.
func (s *Service) changeTargets(ctx context.Context, a *string, fn func(*targetSetRecord) error) error {
	sc := scopeOf(ctx)
	return s.Store.Update(ctx, func(tx *store.Tx) error {
		g, err := targetGroup(tx, sc, a)
		if err != nil {
			return err
		}
		return targetSets.Update(tx, sc.Key(g.name()), fn)
	})
}

// checkTargets checks that targets can be registered with a group.
func (s *Service) checkTargets(ctx context.Context, sc scope, g *targetGroupRecord, in []elbv2types.TargetDescription) ([]targetRecord, error) {
	var out []targetRecord
	for _, t := range in {
		r := targetRecord{ID: text(t.Id), Port: or(t.Port, *g.Group.Port), Zone: text(t.AvailabilityZone)}
		if r.ID == "" {
			return nil, errMissing("target ID")
		}
		out = append(out, r)
	}
	switch g.Group.TargetType {
	case elbv2types.TargetTypeEnumInstance:
		return out, s.checkInstances(ctx, sc, g, out)
	case elbv2types.TargetTypeEnumAlb:
		for _, r := range out {
			lb, err := loadBalancer(s.Store, sc, &r.ID)
			if err != nil {
				return nil, err
			}
			if !lb.application() {
				return nil, errTarget("The target '%s' is not an Application Load Balancer", r.ID) // from memory
			}
		}
		return out, nil
	}
	return out, s.checkAddresses(ctx, sc, g, out)
}

func (s *Service) checkInstances(ctx context.Context, sc scope, g *targetGroupRecord, in []targetRecord) error {
	var stopped, strangers []string
	for _, t := range in {
		i, ok, err := s.Network.Instance(s.AsService(ctx, sc), t.ID)
		switch {
		case err != nil:
			return err
		case !ok:
			return errNoInstance(t.ID)
		case i.State.Name != ec2types.InstanceStateNameRunning:
			stopped = append(stopped, t.ID)
		case text(i.VpcId) != *g.Group.VpcId:
			strangers = append(strangers, t.ID)
		}
	}
	if len(stopped) > 0 {
		return errNotRunning(stopped)
	}
	if len(strangers) > 0 {
		return errOtherVPC(strangers, *g.Group.VpcId)
	}
	return nil
}

// checkAddresses checks that targets are addresses in the VPC's subnets and their zones, or private
// addresses elsewhere.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/APIReference/API_TargetDescription.html
func (s *Service) checkAddresses(ctx context.Context, sc scope, g *targetGroupRecord, in []targetRecord) error {
	subnets, err := s.Network.SubnetsOf(s.AsService(ctx, sc), *g.Group.VpcId)
	if err != nil {
		return err
	}
	for _, t := range in {
		ip, err := netip.ParseAddr(t.ID)
		if err != nil || !ip.Is4() {
			return errAddress(t.ID)
		}
		i := slices.IndexFunc(subnets, func(sn ec2types.Subnet) bool {
			b, err := netip.ParsePrefix(text(sn.CidrBlock))
			return err == nil && b.Contains(ip)
		})
		switch {
		case i >= 0 && t.Zone != "" && t.Zone != text(subnets[i].AvailabilityZone):
			return errAddressZoneOverridden(t.ID, t.Zone, text(subnets[i].AvailabilityZone))
		case i >= 0:
		case !ip.IsPrivate() && !netip.MustParsePrefix("100.64.0.0/10").Contains(ip):
			return errAddressPublic(t.ID)
		case t.Zone == "":
			return errAddressZone(t.ID)
		case t.Zone != "all" && isApplication(&g.Group):
			return errAddressZoneAll(t.ID)
		}
	}
	return nil
}

// DeregisterTargets removes targets from a group. A target given without a port is removed with all
// of its ports. Its connections go on for the deregistration delay.
func (s *Service) DeregisterTargets(ctx context.Context, in *awselbv2.DeregisterTargetsInput) (*awselbv2.DeregisterTargetsOutput, error) {
	err := s.changeTargets(ctx, in.TargetGroupArn, func(set *targetSetRecord) error {
		set.Targets = slices.DeleteFunc(set.Targets, func(t targetRecord) bool {
			return slices.ContainsFunc(in.Targets, func(d elbv2types.TargetDescription) bool {
				return text(d.Id) == t.ID && (d.Port == nil || *d.Port == t.Port)
			})
		})
		return nil
	})
	return &awselbv2.DeregisterTargetsOutput{}, err
}

// SourceExists reports whether a target group exists, for Auto Scaling.
func (s *Service) SourceExists(account, region, a string) bool {
	_, err := targetGroup(s.Store, regional.At(account, region), &a)
	return err == nil
}

// RegisterInstances registers instances with a target group on its port, for Auto Scaling.
func (s *Service) RegisterInstances(ctx context.Context, group string, ids []string) error {
	return elbnet.RegisterEach(ids, func(id string) error {
		_, err := s.RegisterTargets(ctx, &awselbv2.RegisterTargetsInput{TargetGroupArn: &group, Targets: []elbv2types.TargetDescription{{Id: &id}}})
		return err
	})
}

// DeregisterInstances removes instances from a target group, for Auto Scaling.
func (s *Service) DeregisterInstances(ctx context.Context, group string, ids []string) error {
	in := &awselbv2.DeregisterTargetsInput{TargetGroupArn: &group}
	for _, id := range ids {
		in.Targets = append(in.Targets, elbv2types.TargetDescription{Id: aws.String(id)})
	}
	_, err := s.DeregisterTargets(ctx, in)
	return err
}

// InstanceHealth returns the instances that pass and those that fail a target group's health
// checks, and after how long a failing instance is unhealthy, for Auto Scaling. An instance that
// exists but whose health is unknown is in neither list.
func (s *Service) InstanceHealth(ctx context.Context, group string, ids []string) (passing, failing []string, after time.Duration, err error) {
	sc := scopeOf(ctx)
	g, err := targetGroup(s.Store, sc, &group)
	if err != nil {
		return nil, nil, 0, err
	}
	ask, unclaimed := s.Network.Prober(ctx, sc.Account, sc.Region).Unclaimed()
	out, err := s.targetHealth(ctx, sc, &awselbv2.DescribeTargetHealthInput{TargetGroupArn: &group}, ask)
	if err != nil {
		return nil, nil, 0, err
	}
	for _, d := range out.TargetHealthDescriptions {
		id := text(d.Target.Id)
		switch state := d.TargetHealth.State; {
		case !slices.Contains(ids, id):
		case state == elbv2types.TargetHealthStateEnumHealthy:
			passing = append(passing, id)
		case state == elbv2types.TargetHealthStateEnumUnhealthy && !unclaimed[id]:
			failing = append(failing, id)
		}
	}
	after = time.Duration(aws.ToInt32(g.Group.HealthCheckIntervalSeconds)) * time.Duration(aws.ToInt32(g.Group.UnhealthyThresholdCount)) * time.Second
	return passing, failing, after, nil
}
