package elbv2

import (
	"context"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awselbv2 "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2"
	elbv2types "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancingv2/types"

	"github.com/drydock-dev/drydock/internal/elbnet"
	"github.com/drydock-dev/drydock/internal/store"
)

// wantedSubnets returns the subnets in a request, which can give them in two ways.
func wantedSubnets(subnets []string, mappings []elbv2types.SubnetMapping) ([]elbv2types.SubnetMapping, error) {
	if len(subnets) > 0 && len(mappings) > 0 {
		return nil, errSubnetsOrMappings()
	}
	for _, id := range subnets {
		mappings = append(mappings, elbv2types.SubnetMapping{SubnetId: &id})
	}
	seen := map[string]bool{}
	return slices.DeleteFunc(slices.Clone(mappings), func(m elbv2types.SubnetMapping) bool {
		was := seen[text(m.SubnetId)]
		seen[text(m.SubnetId)] = true
		return was
	}), nil
}

// place sets a load balancer's subnets, and its zones and VPC accordingly.
func (s *Service) place(ctx context.Context, sc scope, r *loadBalancerRecord, wanted []elbv2types.SubnetMapping) error {
	if len(wanted) == 0 {
		if r.application() {
			return errTwoSubnets()
		}
		return errNoSubnets()
	}
	svc := s.AsService(ctx, sc)
	old, had := r.subnets(), r.Allocations
	r.LB.AvailabilityZones, r.Addresses, r.Allocations = nil, nil, nil
	for _, m := range wanted {
		sn, ok, err := s.Network.Subnet(svc, text(m.SubnetId))
		switch {
		case err != nil:
			return err
		case !ok:
			return errNoSubnet()
		case r.LB.VpcId == nil:
			r.LB.VpcId = sn.VpcId
		case *r.LB.VpcId != *sn.VpcId:
			return errManyVPCs(*r.LB.VpcId)
		}
		if slices.ContainsFunc(r.LB.AvailabilityZones, func(z elbv2types.AvailabilityZone) bool { return *z.ZoneName == *sn.AvailabilityZone }) {
			return errSameZone()
		}
		if aws.ToInt32(sn.AvailableIpAddressCount) < elbnet.MinFree && !slices.Contains(old, *sn.SubnetId) {
			return errNoSpace(*sn.SubnetId)
		}
		z := elbv2types.AvailabilityZone{SubnetId: sn.SubnetId, ZoneName: sn.AvailabilityZone}
		if err := s.address(svc, r, had, &z, m, sn); err != nil {
			return err
		}
		r.LB.AvailabilityZones = append(r.LB.AvailabilityZones, z)
	}
	if r.application() && len(r.LB.AvailabilityZones) < 2 {
		return errTwoSubnets()
	}
	slices.SortFunc(r.LB.AvailabilityZones, func(a, b elbv2types.AvailabilityZone) int { return strings.Compare(*a.ZoneName, *b.ZoneName) })
	if r.LB.Scheme != elbv2types.LoadBalancerSchemeEnumInternetFacing {
		return nil
	}
	return s.Network.NeedInternetGateway(svc, *r.LB.VpcId, errNoInternetGateway(*r.LB.VpcId))
}

// address records the address requested in a subnet mapping. The load balancer had allocations, by subnet.
func (s *Service) address(svc context.Context, r *loadBalancerRecord, had map[string]string, z *elbv2types.AvailabilityZone, m elbv2types.SubnetMapping, sn ec2types.Subnet) error {
	if (m.AllocationId != nil || m.PrivateIPv4Address != nil) && !r.network() {
		return errAddressesForApplication()
	}
	public := r.LB.Scheme == elbv2types.LoadBalancerSchemeEnumInternetFacing
	if id := text(m.AllocationId); id != "" {
		if !public {
			return errAllocationsInternal()
		}
		a, ok, err := s.Network.Address(svc, id)
		switch {
		case err != nil:
			return err
		case !ok:
			return errNoAllocation(id)
		case a.AssociationId != nil && had[*sn.SubnetId] != id:
			return errAllocationInUse(id)
		}
		r.Allocations = put(r.Allocations, *sn.SubnetId, id)
		z.LoadBalancerAddresses = []elbv2types.LoadBalancerAddress{{AllocationId: &id, IpAddress: a.PublicIp}}
	}
	if a := text(m.PrivateIPv4Address); a != "" {
		if public {
			return errPrivateAddressPublic()
		}
		block, err := netip.ParsePrefix(text(sn.CidrBlock))
		if err != nil {
			return err
		}
		if ip, err := netip.ParseAddr(a); err != nil || !block.Contains(ip) {
			return errAddressOutside(a, *sn.SubnetId)
		}
		r.Addresses = put(r.Addresses, *sn.SubnetId, a)
		z.LoadBalancerAddresses = []elbv2types.LoadBalancerAddress{{PrivateIPv4Address: &a}}
	}
	return nil
}

func put(m map[string]string, k, v string) map[string]string {
	if m == nil {
		m = map[string]string{}
	}
	m[k] = v
	return m
}

// securityGroups checks the groups in a request. If an Application Load Balancer has none, it gets
// its VPC's default group.
func (s *Service) securityGroups(ctx context.Context, sc scope, r *loadBalancerRecord, wanted []string) ([]string, error) {
	svc := s.AsService(ctx, sc)
	if len(wanted) == 0 {
		if r.network() {
			return nil, nil
		}
		g, _, err := s.Network.DefaultGroup(svc, *r.LB.VpcId)
		return []string{text(g.GroupId)}, err
	}
	wanted = slices.Compact(slices.Sorted(slices.Values(wanted)))
	return wanted, s.Network.CheckGroups(svc, *r.LB.VpcId, wanted, errNoSecurityGroup, func(string) error { return errGroupOfOtherVPC() })
}

// SetSecurityGroups replaces the security groups of a load balancer.
func (s *Service) SetSecurityGroups(ctx context.Context, in *awselbv2.SetSecurityGroupsInput) (*awselbv2.SetSecurityGroupsOutput, error) {
	sc := scopeOf(ctx)
	lb, err := loadBalancer(s.Store, sc, in.LoadBalancerArn)
	if err != nil {
		return nil, err
	}
	switch {
	case lb.network() && len(lb.LB.SecurityGroups) == 0 && len(in.SecurityGroups) > 0:
		return nil, errNoGroupsAfterwards()
	case len(in.SecurityGroups) == 0 && len(lb.LB.SecurityGroups) > 0:
		return nil, errNoGroupsLeft()
	}
	groups, err := s.securityGroups(ctx, sc, &lb, in.SecurityGroups)
	if err != nil {
		return nil, err
	}
	lb, err = loadBalancerKind.change(ctx, s, in.LoadBalancerArn, func(_ *store.Tx, r *loadBalancerRecord) error {
		r.LB.SecurityGroups = groups
		if e := string(in.EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic); e != "" {
			r.LB.EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic = &e
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &awselbv2.SetSecurityGroupsOutput{
		SecurityGroupIds: deref(lb.LB.SecurityGroups),
		EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic: elbv2types.EnforceSecurityGroupInboundRulesOnPrivateLinkTrafficEnum(text(lb.LB.EnforceSecurityGroupInboundRulesOnPrivateLinkTraffic)),
	}, nil
}

// SetSubnets changes a load balancer's subnets within its VPC. A Network Load Balancer must leave a subnet before it
// can have another in the same zone.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/network/availability-zones.html
func (s *Service) SetSubnets(ctx context.Context, in *awselbv2.SetSubnetsInput) (*awselbv2.SetSubnetsOutput, error) {
	sc := scopeOf(ctx)
	lb, err := loadBalancer(s.Store, sc, in.LoadBalancerArn)
	if err != nil {
		return nil, err
	}
	if in.IpAddressType != "" {
		if err := checkAddressType(in.IpAddressType); err != nil {
			return nil, err
		}
	}
	wanted, err := wantedSubnets(in.Subnets, in.SubnetMappings)
	if err != nil {
		return nil, err
	}
	before := lb.LB.AvailabilityZones
	if err := s.place(ctx, sc, &lb, wanted); err != nil {
		return nil, err
	}
	for _, z := range lb.LB.AvailabilityZones {
		if lb.network() && slices.ContainsFunc(before, func(o elbv2types.AvailabilityZone) bool {
			return *o.ZoneName == *z.ZoneName && *o.SubnetId != *z.SubnetId
		}) {
			return nil, errZoneTaken(*z.ZoneName, *z.SubnetId)
		}
	}
	lb, err = loadBalancerKind.change(ctx, s, in.LoadBalancerArn, func(_ *store.Tx, r *loadBalancerRecord) error {
		r.LB.AvailabilityZones, r.Addresses, r.Allocations = lb.LB.AvailabilityZones, lb.Addresses, lb.Allocations
		return nil
	})
	return &awselbv2.SetSubnetsOutput{AvailabilityZones: lb.sdk().AvailabilityZones, IpAddressType: lb.LB.IpAddressType}, err
}

// SetIpAddressType sets the address type. Drydock supports only IPv4.
func (s *Service) SetIpAddressType(ctx context.Context, in *awselbv2.SetIpAddressTypeInput) (*awselbv2.SetIpAddressTypeOutput, error) {
	if err := checkAddressType(in.IpAddressType); err != nil {
		return nil, err
	}
	lb, err := loadBalancer(s.Store, scopeOf(ctx), in.LoadBalancerArn)
	return &awselbv2.SetIpAddressTypeOutput{IpAddressType: lb.LB.IpAddressType}, err
}
