package instance

import (
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/firewall"
	"github.com/drydock-dev/drydock/internal/service/ec2/instancetype"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// planNetwork determines the subnet and the interfaces.
func (s *Service) planNetwork(sc resource.Scope, l *launch) error {
	in := l.in
	groups := slices.Clone(in.SecurityGroupIds)
	if len(in.NetworkInterfaces) > 0 {
		switch {
		case len(groups)+len(in.SecurityGroups) > 0:
			return ec2err.Combination("Network interfaces and an instance-level security groups may not be specified on the same request")
		case in.SubnetId != nil:
			return ec2err.Combination("Network interfaces and an instance-level subnet ID may not be specified on the same request")
		case in.PrivateIpAddress != nil:
			return ec2err.Combination("Network interfaces and an instance-level private address may not be specified on the same request")
		case in.Ipv6AddressCount != nil || len(in.Ipv6Addresses) > 0:
			return ec2err.Combination("Network interfaces and an instance-level IPv6 addresses may not be specified on the same request") // worded like the errors for subnet IDs, private IP addresses and security groups
		}
	}
	for _, name := range in.SecurityGroups {
		g, err := firewall.FindGroup(s.Store, sc, nil, &name)
		if err != nil {
			return err
		}
		groups = append(groups, g.ID)
	}
	specs := in.NetworkInterfaces
	if len(specs) == 0 {
		specs = []ec2types.InstanceNetworkInterfaceSpecification{{
			DeviceIndex: aws.Int32(0), SubnetId: in.SubnetId, Groups: groups, PrivateIpAddress: in.PrivateIpAddress, DeleteOnTermination: aws.Bool(true),
			Ipv6AddressCount: in.Ipv6AddressCount, Ipv6Addresses: in.Ipv6Addresses,
		}}
	}
	seen := map[[2]int32]bool{}
	for _, spec := range specs {
		nic, err := s.planInterface(sc, l, spec)
		if err != nil {
			return err
		}
		at := [2]int32{nic.card, nic.device}
		if seen[at] {
			return ec2err.InvalidParameterValue("Each network interface requires a unique device index.")
		}
		seen[at] = true
		l.nics = append(l.nics, nic)
	}
	slices.SortStableFunc(l.nics, func(a, b launchInterface) int { return int(a.device - b.device) })
	first := l.nics[0]
	if first.device != 0 {
		return ec2err.InvalidParameterValue("A primary network interface must be specified: device index 0.")
	}
	if len(l.nics) > l.typ.ENIs {
		return ec2err.TooManyInterfaces(len(l.nics), l.typ.Name)
	}
	l.subnet = first.spec.Subnet
	for _, nic := range l.nics {
		if err := checkIPv6Only(l, nic); err != nil {
			return err
		}
		if nic.spec.Subnet.Zone != l.subnet.Zone {
			return ec2err.InvalidParameterValue("All network interfaces of an instance must be in the same Availability Zone.")
		}
		// A prefix counts as one address.
		if n := 1 + len(nic.spec.Secondary) + nic.spec.Extra + len(nic.spec.Prefixes) + nic.spec.ExtraPrefix; n > l.typ.IPv4PerENI {
			return ec2err.TooManyAddresses("eni", l.typ.Name, l.typ.IPv4PerENI)
		}
		// The limit for IPv6 addresses is the same as for IPv4 addresses.
		if len(nic.spec.IPv6)+nic.spec.Extra6+len(nic.spec.Prefixes6)+nic.spec.ExtraBlock6 > l.typ.IPv4PerENI {
			return ec2err.TooManyAddresses("eni", l.typ.Name, l.typ.IPv4PerENI)
		}
		if l.max > 1 && (nic.existing != "" || nic.spec.Primary != "" || len(nic.spec.Secondary)+len(nic.spec.Prefixes)+len(nic.spec.IPv6)+len(nic.spec.Prefixes6) > 0) {
			return ec2err.Combination("Network interfaces and private addresses can be specified only when launching a single instance.")
		}
	}
	if !instancetype.Offered(l.typ.Name, l.subnet.ZoneID) {
		return ec2err.UnsupportedZone(l.typ.Name, l.subnet.Zone, instancetype.OfferingZones(sc.Region, l.typ.Name))
	}
	return nil
}

// checkIPv6Only checks that an instance can have an interface in an IPv6-only subnet. The rules are in
// https://docs.aws.amazon.com/vpc/latest/userguide/configure-subnets.html and
// https://docs.aws.amazon.com/AWSEC2/latest/UserGuide/instance-naming.html. Which texts EC2 uses for them is not known: these are of its
// other refusals of IPv6.
func checkIPv6Only(l *launch, nic launchInterface) error {
	if !nic.spec.Subnet.IPv6Only() {
		return nil
	}
	if info, ok := instancetypes.Info(l.typ.Name); ok && info.Hypervisor == ec2types.InstanceTypeHypervisorXen {
		return ec2err.IPv6OnlyType(l.typ.Name, nic.spec.Subnet.ID)
	}
	if p := l.in.PrivateDnsNameOptions; nic.device == 0 && p != nil && p.HostnameType == ec2types.HostnameTypeIpName {
		return ec2err.IPv6OnlyHostname(nic.spec.Subnet.ID, "HostnameType")
	}
	if aws.ToBool(nic.public) {
		return ec2err.IPv6OnlyPublic(nic.spec.Subnet.ID)
	}
	return nil
}

func (s *Service) planInterface(sc resource.Scope, l *launch, in ec2types.InstanceNetworkInterfaceSpecification) (launchInterface, error) {
	extra, err := eni.SecondaryCount(in.SecondaryPrivateIpAddressCount)
	if err != nil {
		return launchInterface{}, err
	}
	nic := launchInterface{
		existing: aws.ToString(in.NetworkInterfaceId), device: aws.ToInt32(in.DeviceIndex), card: aws.ToInt32(in.NetworkCardIndex),
		public: in.AssociatePublicIpAddress, deleteOnTermination: in.DeleteOnTermination == nil || *in.DeleteOnTermination,
	}
	if nic.existing != "" {
		e, err := resource.Get(s.Store, record.NetworkInterfaces, sc, nic.existing)
		if err != nil {
			return nic, err
		}
		nic.deleteOnTermination = aws.ToBool(in.DeleteOnTermination)
		nic.spec.Subnet, err = resource.Get(s.Store, record.Subnets, sc, e.SubnetID)
		return nic, err
	}
	sn, err := s.SubnetOf(sc, l.in, in.SubnetId)
	if err != nil {
		return nic, err
	}
	nic.spec = eni.Spec{
		Subnet: sn, Description: aws.ToString(in.Description), Primary: aws.ToString(in.PrivateIpAddress),
		Extra: extra, Groups: in.Groups, Kind: aws.ToString(in.InterfaceType), Tags: l.eniTags,
	}
	for _, a := range in.PrivateIpAddresses {
		if aws.ToBool(a.Primary) {
			nic.spec.Primary = aws.ToString(a.PrivateIpAddress)
		} else {
			nic.spec.Secondary = append(nic.spec.Secondary, aws.ToString(a.PrivateIpAddress))
		}
	}
	if nic.spec.Extra6, err = eni.AddressCount(in.Ipv6AddressCount, "ipv6AddressCount"); err != nil {
		return nic, err
	}
	if nic.spec.ExtraPrefix, err = eni.AddressCount(in.Ipv4PrefixCount, "ipv4PrefixCount"); err != nil {
		return nic, err
	}
	if nic.spec.ExtraBlock6, err = eni.AddressCount(in.Ipv6PrefixCount, "ipv6PrefixCount"); err != nil {
		return nic, err
	}
	for _, p := range in.Ipv6Prefixes {
		nic.spec.Prefixes6 = append(nic.spec.Prefixes6, aws.ToString(p.Ipv6Prefix))
	}
	for _, a := range in.Ipv6Addresses {
		nic.spec.IPv6 = append(nic.spec.IPv6, aws.ToString(a.Ipv6Address))
	}
	for _, p := range in.Ipv4Prefixes {
		nic.spec.Prefixes = append(nic.spec.Prefixes, aws.ToString(p.Ipv4Prefix))
	}
	_, err = eni.ResolveGroups(s.Store, sc, sn.VPCID, in.Groups)
	return nic, err
}

// SubnetOf returns the given subnet, or a default subnet in the requested zone.
func (s *Service) SubnetOf(sc resource.Scope, in *awsec2.RunInstancesInput, id *string) (record.Subnet, error) {
	placement, zone := in.Placement, ""
	if placement != nil {
		if zone = aws.ToString(placement.AvailabilityZone) + aws.ToString(placement.AvailabilityZoneId); zone != "" {
			z, err := resource.ChooseZone(sc, aws.ToString(placement.AvailabilityZone), aws.ToString(placement.AvailabilityZoneId))
			if err != nil {
				return record.Subnet{}, ec2err.InvalidParameterValue("Invalid availability zone: [%s]", zone)
			}
			zone = z.Name
		}
	}
	if id != nil {
		sn, err := resource.Get(s.Store, record.Subnets, sc, *id)
		if err == nil && zone != "" && sn.Zone != zone {
			err = ec2err.Combination(fmt.Sprintf("The subnet %s is in the availability zone %s, not in %s.", sn.ID, sn.Zone, zone))
		}
		return sn, err
	}
	if _, ok := record.DefaultVPC(s.Store, sc); !ok {
		return record.Subnet{}, ec2err.NoDefaultVPC()
	}
	found := resource.List(s.Store, record.Subnets, sc, func(sn record.Subnet) bool { return sn.DefaultForZone && (zone == "" || sn.Zone == zone) })
	if len(found) == 0 {
		return record.Subnet{}, ec2err.New("MissingInput", "No subnets found for the default VPC '%s'. Please specify a subnet.", zone)
	}
	record.SortByZone(found)
	name := resource.Or(string(in.InstanceType), defaultType)
	isSpot := in.InstanceMarketOptions != nil && in.InstanceMarketOptions.MarketType == ec2types.MarketTypeSpot
	for _, sn := range found { // EC2 chooses a zone that can serve the request
		if instancetype.Offered(name, sn.ZoneID) {
			if s.capacity.Short(sc, name, sn.Zone, isSpot) == nil {
				return sn, nil
			}
		}
	}
	return found[0], nil
}
