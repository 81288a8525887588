package vpc

import (
	"context"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

func overlapsAny(others []record.Subnet, p netip.Prefix) bool {
	return slices.ContainsFunc(others, func(o record.Subnet) bool {
		return slices.ContainsFunc(o.Prefixes(), p.Overlaps)
	})
}

func sdkSubnetBlock(b record.CIDRAssociation, state ec2types.SubnetCidrBlockStateCode) ec2types.SubnetIpv6CidrBlockAssociation {
	return ec2types.SubnetIpv6CidrBlockAssociation{
		AssociationId: aws.String(b.ID), Ipv6CidrBlock: aws.String(b.CIDR), IpSource: ec2types.IpSourceAmazon,
		Ipv6AddressAttribute: ec2types.Ipv6AddressAttributePublic,
		Ipv6CidrBlockState:   &ec2types.SubnetCidrBlockState{State: state},
	}
}

func parseSubnetBlock6(cidr string) (netip.Prefix, error) {
	p, ok := resource.ParseCIDR6(cidr)
	if !ok {
		return p, ec2err.CIDR(cidr, "ipv6CidrBlock")
	}
	// https://docs.aws.amazon.com/vpc/latest/userguide/subnet-sizing.html
	if p.Bits() < ipam.MaxSubnetBits6 || p.Bits() > ipam.MinSubnetBits6 || p.Bits()%4 != 0 {
		// https://github.com/hashicorp/terraform-provider-aws/issues/28775
		return p, ec2err.InvalidParameterValue("invalid value for parameter ipv6-cidr-block: %s", cidr)
	}
	return p, nil
}

// checkSubnetBlock6 returns an error if a block is outside the VPC or overlaps another subnet.
func checkSubnetBlock6(v record.VPC, others []record.Subnet, p netip.Prefix) error {
	if !slices.ContainsFunc(v.Prefixes6(), func(q netip.Prefix) bool { return resource.Within(q, p) }) {
		// https://github.com/hashicorp/terraform-provider-aws/issues/31913
		return ec2err.New("InvalidSubnet.Range", "The IPv6 CIDR '%s' is invalid.", p)
	}
	if overlapsAny(others, p) {
		// Recorded from AWS: ansible-collections/amazon.aws tests/integration/targets/ec2_vpc_subnet
		return ec2err.New("InvalidSubnet.Conflict", "The IPv6 CIDR '%s' conflicts with another subnet", p)
	}
	return nil
}

// AssociateSubnetCidrBlock adds an IPv6 block to a subnet, which can have only one.
func (s *Service) AssociateSubnetCidrBlock(ctx context.Context, in *awsec2.AssociateSubnetCidrBlockInput) (*awsec2.AssociateSubnetCidrBlockOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.Ipv6CidrBlock == nil {
		return nil, ec2err.Missing("ipv6CidrBlock")
	}
	p, err := parseSubnetBlock6(*in.Ipv6CidrBlock)
	if err != nil {
		return nil, err
	}
	b := record.CIDRAssociation{ID: ids.Resource("subnet-cidr-assoc"), CIDR: p.String()}
	_, err = resource.Change(ctx, s.Core, record.Subnets, nil, in.SubnetId, func(tx *store.Tx, sn *record.Subnet) error {
		if len(sn.IPv6) > 0 {
			return ec2err.InvalidParameterValue("The subnet '%s' already has an IPv6 CIDR block associated with it.", sn.ID) // from memory
		}
		v, err := resource.Get(tx, record.VPCs, sc, sn.VPCID)
		if err != nil {
			return err
		}
		others := resource.List(tx, record.Subnets, sc, func(o record.Subnet) bool { return o.VPCID == v.ID })
		if err := checkSubnetBlock6(v, others, p); err != nil {
			return err
		}
		sn.IPv6 = []record.CIDRAssociation{b}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := sdkSubnetBlock(b, ec2types.SubnetCidrBlockStateCodeAssociating)
	return &awsec2.AssociateSubnetCidrBlockOutput{SubnetId: in.SubnetId, Ipv6CidrBlockAssociation: &out}, nil
}

// DisassociateSubnetCidrBlock removes a subnet's IPv6 block, unless an IPv6 address in it is in
// use.
func (s *Service) DisassociateSubnetCidrBlock(ctx context.Context, in *awsec2.DisassociateSubnetCidrBlockInput) (*awsec2.DisassociateSubnetCidrBlockOutput, error) {
	sc := resource.ScopeOf(ctx)
	id := aws.ToString(in.AssociationId)
	out := &awsec2.DisassociateSubnetCidrBlockOutput{}
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		found := resource.List(tx, record.Subnets, sc, func(sn record.Subnet) bool {
			return slices.ContainsFunc(sn.IPv6, func(b record.CIDRAssociation) bool { return b.ID == id })
		})
		if len(found) == 0 {
			return ec2err.SubnetCIDRAssociationNotFound(id)
		}
		sn := found[0]
		used := record.IPv6Addresses.All(tx, store.Scope{Account: sc.Account, Region: sc.Region, Prefix: sn.ID + "/"})
		if sn.AssignIPv6 {
			// https://github.com/hashicorp/terraform-provider-aws/issues/1519
			return ec2err.New("InvalidCidrBlock.InUse", "The subnet IPv6 CIDR block with association ID %s may not be disassociated, because its subnet has assign-ipv6-address-on-creation set to true.", id)
		}
		if sn.IPv6Only() || len(used) > 0 {
			// from memory
			return ec2err.New("InvalidCidrBlock.InUse", "The subnet CIDR block with association ID %s is currently in use", id)
		}
		a := sdkSubnetBlock(sn.IPv6[0], ec2types.SubnetCidrBlockStateCodeDisassociating)
		out.SubnetId, out.Ipv6CidrBlockAssociation = aws.String(sn.ID), &a
		sn.IPv6, sn.DNS64 = nil, false
		return record.Subnets.Put(tx, sc.Key(sn.ID), sn)
	})
	return out, err
}
