package ec2

import (
	"fmt"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// planNetwork finds the subnet and the interfaces.
func (s *Service) planNetwork(sc scope, l *launch) error {
	in := l.in
	groups := slices.Clone(in.SecurityGroupIds)
	if len(in.NetworkInterfaces) > 0 {
		switch {
		case len(groups)+len(in.SecurityGroups) > 0:
			return errCombination("Network interfaces and an instance-level security groups may not be specified on the same request")
		case in.SubnetId != nil:
			return errCombination("Network interfaces and an instance-level subnet ID may not be specified on the same request")
		case in.PrivateIpAddress != nil:
			return errCombination("Network interfaces and an instance-level private address may not be specified on the same request")
		case in.Ipv6AddressCount != nil || len(in.Ipv6Addresses) > 0:
			return errCombination("Network interfaces and an instance-level IPv6 addresses may not be specified on the same request") // in the form of subnet IDs, private IP addresses and security groups
		}
	}
	for _, name := range in.SecurityGroups {
		g, err := findGroup(s.store, sc, nil, &name)
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
			return errInvalidParameter("Each network interface requires a unique device index.")
		}
		seen[at] = true
		l.nics = append(l.nics, nic)
	}
	slices.SortStableFunc(l.nics, func(a, b launchInterface) int { return int(a.device - b.device) })
	first := l.nics[0]
	if first.device != 0 {
		return errInvalidParameter("A primary network interface must be specified: device index 0.")
	}
	if len(l.nics) > l.typ.ENIs {
		return errTooManyInterfaces(len(l.nics), l.typ.Name)
	}
	l.subnet = first.spec.subnet
	for _, nic := range l.nics {
		if nic.spec.subnet.Zone != l.subnet.Zone {
			return errInvalidParameter("All network interfaces of an instance must be in the same Availability Zone.")
		}
		// A prefix takes the place of an address.
		if n := 1 + len(nic.spec.secondary) + nic.spec.extra + len(nic.spec.prefixes) + nic.spec.extraPrefix; n > l.typ.IPv4PerENI {
			return errTooManyAddresses("eni", l.typ.Name, l.typ.IPv4PerENI)
		}
		// It takes as many IPv6 addresses as IPv4 ones.
		if len(nic.spec.ipv6)+nic.spec.extra6 > l.typ.IPv4PerENI {
			return errTooManyAddresses("eni", l.typ.Name, l.typ.IPv4PerENI)
		}
		if l.max > 1 && (nic.existing != "" || nic.spec.primary != "" || len(nic.spec.secondary)+len(nic.spec.prefixes)+len(nic.spec.ipv6) > 0) {
			return errCombination("Network interfaces and private addresses can be specified only when launching a single instance.")
		}
	}
	if !offered(l.typ.Name, l.subnet.ZoneID) {
		return errUnsupportedZone(l.typ.Name, l.subnet.Zone, offeringZones(sc.region, l.typ.Name))
	}
	return nil
}

func (s *Service) planInterface(sc scope, l *launch, in ec2types.InstanceNetworkInterfaceSpecification) (launchInterface, error) {
	extra, err := secondaryCount(in.SecondaryPrivateIpAddressCount)
	if err != nil {
		return launchInterface{}, err
	}
	nic := launchInterface{
		existing: aws.ToString(in.NetworkInterfaceId), device: aws.ToInt32(in.DeviceIndex), card: aws.ToInt32(in.NetworkCardIndex),
		public: in.AssociatePublicIpAddress, deleteOnTermination: in.DeleteOnTermination == nil || *in.DeleteOnTermination,
	}
	if nic.existing != "" {
		e, err := get(s.store, networkInterfaces, sc, networkInterfaceID, nic.existing)
		if err != nil {
			return nic, err
		}
		nic.deleteOnTermination = aws.ToBool(in.DeleteOnTermination)
		nic.spec.subnet, err = get(s.store, subnets, sc, subnetID, e.SubnetID)
		return nic, err
	}
	sn, err := s.launchSubnet(sc, l.in, in.SubnetId)
	if err != nil {
		return nic, err
	}
	nic.spec = interfaceSpec{
		subnet: sn, description: aws.ToString(in.Description), primary: aws.ToString(in.PrivateIpAddress),
		extra: extra, groups: in.Groups, kind: aws.ToString(in.InterfaceType), tags: l.eniTags,
	}
	for _, a := range in.PrivateIpAddresses {
		if aws.ToBool(a.Primary) {
			nic.spec.primary = aws.ToString(a.PrivateIpAddress)
		} else {
			nic.spec.secondary = append(nic.spec.secondary, aws.ToString(a.PrivateIpAddress))
		}
	}
	if nic.spec.extra6, err = addressCount(in.Ipv6AddressCount, "ipv6AddressCount"); err != nil {
		return nic, err
	}
	if nic.spec.extraPrefix, err = addressCount(in.Ipv4PrefixCount, "ipv4PrefixCount"); err != nil {
		return nic, err
	}
	for _, a := range in.Ipv6Addresses {
		nic.spec.ipv6 = append(nic.spec.ipv6, aws.ToString(a.Ipv6Address))
	}
	for _, p := range in.Ipv4Prefixes {
		nic.spec.prefixes = append(nic.spec.prefixes, aws.ToString(p.Ipv4Prefix))
	}
	_, err = resolveGroups(s.store, sc, sn.VPCID, in.Groups)
	return nic, err
}

// launchSubnet returns the given subnet, or a default one in the wanted zone.
func (s *Service) launchSubnet(sc scope, in *awsec2.RunInstancesInput, id *string) (subnetRecord, error) {
	placement, zone := in.Placement, ""
	if placement != nil {
		if zone = aws.ToString(placement.AvailabilityZone) + aws.ToString(placement.AvailabilityZoneId); zone != "" {
			z, err := chooseZone(sc, aws.ToString(placement.AvailabilityZone), aws.ToString(placement.AvailabilityZoneId))
			if err != nil {
				return subnetRecord{}, errInvalidParameter("Invalid availability zone: [%s]", zone)
			}
			zone = z.Name
		}
	}
	if id != nil {
		sn, err := get(s.store, subnets, sc, subnetID, *id)
		if err == nil && zone != "" && sn.Zone != zone {
			err = errCombination(fmt.Sprintf("The subnet %s is in the availability zone %s, not in %s.", sn.ID, sn.Zone, zone))
		}
		return sn, err
	}
	if _, ok, err := defaultVPC(s.store, sc); err != nil {
		return subnetRecord{}, err
	} else if !ok {
		return subnetRecord{}, errNoDefaultVPC()
	}
	found, err := list(s.store, subnets, sc, func(sn subnetRecord) bool { return sn.DefaultForZone && (zone == "" || sn.Zone == zone) })
	if err != nil {
		return subnetRecord{}, err
	}
	if len(found) == 0 {
		return subnetRecord{}, errf("MissingInput", "No subnets found for the default VPC '%s'. Please specify a subnet.", zone)
	}
	sortByZone(found)
	name := or(string(in.InstanceType), defaultType)
	isSpot := in.InstanceMarketOptions != nil && in.InstanceMarketOptions.MarketType == ec2types.MarketTypeSpot
	for _, sn := range found { // EC2 chooses a zone that can serve the request
		if offered(name, sn.ZoneID) {
			if s.short(sc, name, sn.Zone, isSpot) == nil {
				return sn, nil
			}
		}
	}
	return found[0], nil
}
