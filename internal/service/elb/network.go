package elb

import (
	"cmp"
	"context"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awselb "github.com/aws/aws-sdk-go-v2/service/elasticloadbalancing"

	"github.com/drydock-dev/drydock/internal/elbnet"
)

// place sets the subnets of a load balancer: those in the request, or the default subnets of its
// zones.
func (s *Service) place(ctx context.Context, sc scope, r *loadBalancerRecord, subnets, zones []string) error {
	svc := s.AsService(ctx, sc)
	switch {
	case len(subnets) == 0 && len(zones) == 0:
		return errNoPlace()
	case len(subnets) > 0 && len(zones) > 0:
		return errTwoPlaces()
	case len(zones) > 0:
		var err error
		if subnets, err = s.defaultSubnets(svc, zones); err != nil {
			return err
		}
	}
	old := r.Subnets
	var found []ec2types.Subnet
	for _, id := range slices.Compact(slices.Sorted(slices.Values(subnets))) {
		sn, ok, err := s.Network.Subnet(svc, id)
		switch {
		case err != nil:
			return err
		case !ok:
			return errNoSubnet(id)
		case r.VPC != "" && r.VPC != *sn.VpcId:
			return errManyVPCs()
		case slices.ContainsFunc(found, func(o ec2types.Subnet) bool { return *o.AvailabilityZone == *sn.AvailabilityZone }):
			return errSameZone()
		case aws.ToInt32(sn.AvailableIpAddressCount) < elbnet.MinFree && !slices.Contains(old, id):
			return errNoSpace(id)
		}
		r.VPC = *sn.VpcId
		found = append(found, sn)
	}
	slices.SortFunc(found, func(a, b ec2types.Subnet) int { return cmp.Compare(*a.AvailabilityZone, *b.AvailabilityZone) })
	r.Subnets, r.Zones = nil, nil
	for _, sn := range found {
		r.Subnets, r.Zones = append(r.Subnets, *sn.SubnetId), append(r.Zones, *sn.AvailabilityZone)
	}
	if r.Internal {
		return nil
	}
	return s.Network.NeedInternetGateway(svc, r.VPC, errNoInternetGateway(r.VPC))
}

// defaultSubnets returns the default subnets of zones.
func (s *Service) defaultSubnets(svc context.Context, zones []string) ([]string, error) {
	out, err := s.Network.EC2.DescribeSubnets(svc, &awsec2.DescribeSubnetsInput{Filters: []ec2types.Filter{{Name: aws.String("default-for-az"), Values: []string{"true"}}}})
	switch {
	case err != nil:
		return nil, err
	case len(out.Subnets) == 0:
		return nil, errNoDefaultVPC()
	}
	var subnets []string
	for _, z := range zones {
		i := slices.IndexFunc(out.Subnets, func(sn ec2types.Subnet) bool { return *sn.AvailabilityZone == z })
		if i < 0 {
			return nil, errZone(z)
		}
		subnets = append(subnets, *out.Subnets[i].SubnetId)
	}
	return subnets, nil
}

// securityGroups checks the groups in a request. If there are none, it returns the VPC's default
// group.
func (s *Service) securityGroups(ctx context.Context, sc scope, r *loadBalancerRecord, wanted []string) ([]string, error) {
	svc := s.AsService(ctx, sc)
	if len(wanted) == 0 {
		g, _, err := s.Network.DefaultGroup(svc, r.VPC)
		return []string{text(g.GroupId)}, err
	}
	wanted = slices.Compact(slices.Sorted(slices.Values(wanted)))
	if len(wanted) > elbnet.MaxGroups {
		return nil, errManyGroups()
	}
	return wanted, s.Network.CheckGroups(svc, r.VPC, wanted, errNoGroup, func(id string) error { return errGroupOfOtherVPC(id, r.VPC) })
}

// groupName returns the name of the first security group, which instances' rules can refer to.
func (s *Service) groupName(ctx context.Context, sc scope, r *loadBalancerRecord) string {
	if len(r.Groups) == 0 {
		return ""
	}
	// A group in use cannot be deleted, but it may be gone because of a reset.
	g, _, _ := s.Network.SecurityGroup(s.AsService(ctx, sc), r.Groups[0]) //nolint:errcheck // it has no name then
	return text(g.GroupName)
}

// ApplySecurityGroupsToLoadBalancer replaces the security groups.
func (s *Service) ApplySecurityGroupsToLoadBalancer(ctx context.Context, in *awselb.ApplySecurityGroupsToLoadBalancerInput) (*awselb.ApplySecurityGroupsToLoadBalancerOutput, error) {
	sc := scopeOf(ctx)
	lb, err := loadBalancer(s.Store, sc, in.LoadBalancerName)
	if err != nil {
		return nil, err
	}
	groups, err := s.securityGroups(ctx, sc, &lb, in.SecurityGroups)
	if err != nil {
		return nil, err
	}
	_, err = s.change(ctx, in.LoadBalancerName, func(r *loadBalancerRecord) error {
		r.Groups = groups
		return nil
	})
	return &awselb.ApplySecurityGroupsToLoadBalancerOutput{SecurityGroups: groups}, err
}

// move changes a load balancer's subnets. It returns them and their zones.
func (s *Service) move(ctx context.Context, name *string, to func(lb loadBalancerRecord) ([]string, error)) ([]string, []string, error) {
	sc := scopeOf(ctx)
	lb, err := loadBalancer(s.Store, sc, name)
	if err != nil {
		return nil, nil, err
	}
	wanted, err := to(lb)
	switch {
	case err != nil:
		return nil, nil, err
	case len(wanted) == 0:
		return nil, nil, errLastSubnet()
	}
	if err := s.place(ctx, sc, &lb, wanted, nil); err != nil {
		return nil, nil, err
	}
	_, err = s.change(ctx, name, func(r *loadBalancerRecord) error {
		r.Subnets, r.Zones = lb.Subnets, lb.Zones
		return nil
	})
	return lb.Subnets, lb.Zones, err
}

// AttachLoadBalancerToSubnets adds subnets.
func (s *Service) AttachLoadBalancerToSubnets(ctx context.Context, in *awselb.AttachLoadBalancerToSubnetsInput) (*awselb.AttachLoadBalancerToSubnetsOutput, error) {
	subnets, _, err := s.move(ctx, in.LoadBalancerName, func(lb loadBalancerRecord) ([]string, error) {
		return slices.Concat(lb.Subnets, in.Subnets), nil
	})
	return &awselb.AttachLoadBalancerToSubnetsOutput{Subnets: subnets}, err
}

// DetachLoadBalancerFromSubnets removes subnets. At least one must remain.
func (s *Service) DetachLoadBalancerFromSubnets(ctx context.Context, in *awselb.DetachLoadBalancerFromSubnetsInput) (*awselb.DetachLoadBalancerFromSubnetsOutput, error) {
	subnets, _, err := s.move(ctx, in.LoadBalancerName, func(lb loadBalancerRecord) ([]string, error) {
		return slices.DeleteFunc(slices.Clone(lb.Subnets), func(id string) bool { return slices.Contains(in.Subnets, id) }), nil
	})
	return &awselb.DetachLoadBalancerFromSubnetsOutput{Subnets: subnets}, err
}

// EnableAvailabilityZonesForLoadBalancer adds the default subnets of zones in which the load balancer is not yet.
func (s *Service) EnableAvailabilityZonesForLoadBalancer(ctx context.Context, in *awselb.EnableAvailabilityZonesForLoadBalancerInput) (*awselb.EnableAvailabilityZonesForLoadBalancerOutput, error) {
	_, zones, err := s.move(ctx, in.LoadBalancerName, func(lb loadBalancerRecord) ([]string, error) {
		more := slices.DeleteFunc(slices.Clone(in.AvailabilityZones), func(z string) bool { return slices.Contains(lb.Zones, z) })
		if len(more) == 0 {
			return lb.Subnets, nil
		}
		subnets, err := s.defaultSubnets(s.AsService(ctx, scopeOf(ctx)), more)
		return slices.Concat(lb.Subnets, subnets), err
	})
	return &awselb.EnableAvailabilityZonesForLoadBalancerOutput{AvailabilityZones: zones}, err
}

// DisableAvailabilityZonesForLoadBalancer removes the subnets in zones. At least one must remain.
func (s *Service) DisableAvailabilityZonesForLoadBalancer(ctx context.Context, in *awselb.DisableAvailabilityZonesForLoadBalancerInput) (*awselb.DisableAvailabilityZonesForLoadBalancerOutput, error) {
	_, zones, err := s.move(ctx, in.LoadBalancerName, func(lb loadBalancerRecord) (left []string, _ error) {
		for i, z := range lb.Zones { // the zones of the subnets, in their order
			if !slices.Contains(in.AvailabilityZones, z) {
				left = append(left, lb.Subnets[i])
			}
		}
		return left, nil
	})
	return &awselb.DisableAvailabilityZonesForLoadBalancerOutput{AvailabilityZones: zones}, err
}
