package ec2

import (
	"context"
	"net/netip"
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/store"
)

func sdkBlock(b cidrAssociation, state ec2types.VpcCidrBlockStateCode) ec2types.VpcCidrBlockAssociation {
	return ec2types.VpcCidrBlockAssociation{
		AssociationId: aws.String(b.ID), CidrBlock: aws.String(b.CIDR), CidrBlockState: &ec2types.VpcCidrBlockState{State: state},
	}
}

func sdkBlock6(region string, b cidrAssociation, state ec2types.VpcCidrBlockStateCode) ec2types.VpcIpv6CidrBlockAssociation {
	return ec2types.VpcIpv6CidrBlockAssociation{
		AssociationId: aws.String(b.ID), Ipv6CidrBlock: aws.String(b.CIDR), Ipv6Pool: aws.String("Amazon"),
		NetworkBorderGroup: aws.String(region), IpSource: ec2types.IpSourceAmazon, Ipv6AddressAttribute: ec2types.Ipv6AddressAttributePublic,
		Ipv6CidrBlockState: &ec2types.VpcCidrBlockState{State: state},
	}
}

// checkBorderGroup refuses border groups other than the region's own.
func checkBorderGroup(sc scope, group *string) error {
	if g := aws.ToString(group); g != "" && g != sc.region {
		return errInvalidValue(g, "networkBorderGroup", "The network border group is not available in this Region.") // from memory
	}
	return nil
}

// addBlock6 gives a VPC a block of Amazon's.
func addBlock6(tx *store.Tx, sc scope, v *vpcRecord) (cidrAssociation, error) {
	most, err := quota(tx, sc, quotaCIDRs6)
	if err != nil {
		return cidrAssociation{}, err
	}
	if float64(len(v.IPv6)+1) > most {
		return cidrAssociation{}, errCIDRLimit(v.ID, most)
	}
	p, err := takeBlock6(tx, sc.region, v.ID)
	if err != nil {
		return cidrAssociation{}, err
	}
	b := cidrAssociation{ids.Resource("vpc-cidr-assoc"), p.String()}
	if len(v.IPv6) == 0 {
		if err := openDefaultACL6(tx, sc, *v); err != nil {
			return b, err
		}
		if err := openDefaultGroup6(tx, sc, *v); err != nil {
			return b, err
		}
	}
	v.IPv6 = append(slices.Clone(v.IPv6), b)
	return b, nil
}

// private are the ranges within which a VPC's blocks must stay together.
// https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html#add-cidr-block-restrictions
func private() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("198.19.0.0/16"),
	}
}

// addBlock gives a VPC a secondary IPv4 block.
func addBlock(tx *store.Tx, sc scope, v *vpcRecord, p netip.Prefix) (cidrAssociation, error) {
	var none cidrAssociation
	most, err := quota(tx, sc, quotaCIDRs)
	if err != nil {
		return none, err
	}
	have := v.prefixes()
	if float64(len(have)+1) > most {
		return none, errCIDRLimit(v.ID, most)
	}
	for _, q := range have {
		if q.Overlaps(p) {
			return none, errCIDRConflict(p.String())
		}
	}
	for _, r := range private() {
		if r.Overlaps(p) && !r.Overlaps(have[0]) {
			return none, errRestrictedCIDR(p.String())
		}
	}
	tables, err := list(tx, routeTables, sc, func(t routeTableRecord) bool { return t.VPCID == v.ID })
	if err != nil {
		return none, err
	}
	for _, t := range tables {
		for _, r := range t.Routes {
			// The block must not be the same as or larger than a route's destination.
			if q, ok := parseCIDR(r.Destination); ok && within(p, q) {
				return none, errCIDRConflict(p.String())
			}
		}
	}
	peers, err := peeredBlocks(tx, sc, v.ID)
	if err != nil {
		return none, err
	}
	for _, q := range peers {
		if q.Overlaps(p) {
			return none, errCIDRConflict(p.String())
		}
	}
	b := cidrAssociation{ids.Resource("vpc-cidr-assoc"), p.String()}
	v.Secondary = append(slices.Clone(v.Secondary), b)
	return b, nil
}

// setLocalRoute adds or removes the local route of a block in all route tables of a VPC.
func setLocalRoute(tx *store.Tx, sc scope, vpc, cidr string, present bool) error {
	tables, err := list(tx, routeTables, sc, func(t routeTableRecord) bool { return t.VPCID == vpc })
	if err != nil {
		return err
	}
	for _, t := range tables {
		t.Routes = slices.DeleteFunc(slices.Clone(t.Routes), func(r route) bool { return r.Destination == cidr })
		if present {
			local := 0
			for local < len(t.Routes) && t.Routes[local].Origin == originCreateRouteTable {
				local++
			}
			t.Routes = slices.Insert(t.Routes, local, localRoute(cidr))
		}
		if err := routeTables.Put(tx, sc.key(t.ID), t); err != nil {
			return err
		}
	}
	return nil
}

// AssociateVpcCidrBlock adds an IPv4 block, or an IPv6 block of Amazon's, to a VPC.
func (s *Service) AssociateVpcCidrBlock(ctx context.Context, in *awsec2.AssociateVpcCidrBlockInput) (*awsec2.AssociateVpcCidrBlockOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	six := aws.ToBool(in.AmazonProvidedIpv6CidrBlock)
	if six == (in.CidrBlock != nil) {
		return nil, errCombination("Exactly one of cidrBlock and amazonProvidedIpv6CidrBlock must be specified") // from memory
	}
	if err := checkBorderGroup(sc, in.Ipv6CidrBlockNetworkBorderGroup); err != nil {
		return nil, err
	}
	var p netip.Prefix
	if !six {
		var ok bool
		if p, ok = parseCIDR(*in.CidrBlock); !ok {
			return nil, errCIDR(*in.CidrBlock, "cidrBlock")
		}
		if p.Bits() < 16 || p.Bits() > 28 {
			return nil, errVPCRange(*in.CidrBlock)
		}
	}
	out := &awsec2.AssociateVpcCidrBlockOutput{VpcId: in.VpcId}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		v, err := get(tx, vpcs, sc, vpcID, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		var b cidrAssociation
		if six {
			if b, err = addBlock6(tx, sc, &v); err != nil {
				return err
			}
			a := sdkBlock6(sc.region, b, ec2types.VpcCidrBlockStateCodeAssociating)
			out.Ipv6CidrBlockAssociation = &a
		} else {
			if b, err = addBlock(tx, sc, &v, p); err != nil {
				return err
			}
			a := sdkBlock(b, ec2types.VpcCidrBlockStateCodeAssociating)
			out.CidrBlockAssociation = &a
		}
		if err := setLocalRoute(tx, sc, v.ID, b.CIDR, true); err != nil {
			return err
		}
		return vpcs.Put(tx, sc.key(v.ID), v)
	})
	return out, err
}

// DisassociateVpcCidrBlock takes a block that no subnet uses off its VPC.
func (s *Service) DisassociateVpcCidrBlock(ctx context.Context, in *awsec2.DisassociateVpcCidrBlockInput) (*awsec2.DisassociateVpcCidrBlockOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	id := aws.ToString(in.AssociationId)
	is := func(b cidrAssociation) bool { return b.ID == id }
	out := &awsec2.DisassociateVpcCidrBlockOutput{}
	err = s.store.Update(ctx, func(tx *store.Tx) error {
		found, err := list(tx, vpcs, sc, func(v vpcRecord) bool {
			return slices.ContainsFunc(v.blocks(), is) || slices.ContainsFunc(v.IPv6, is)
		})
		if err != nil {
			return err
		}
		if len(found) == 0 {
			return errCIDRAssociationNotFound(id)
		}
		v := found[0]
		if v.AssociationID == id {
			return errNotPermitted("The vpc CIDR block with association ID %s may not be disassociated. It is the primary IPv4 CIDR block of the VPC", id)
		}
		out.VpcId = aws.String(v.ID)
		var b cidrAssociation
		if i := slices.IndexFunc(v.Secondary, is); i >= 0 {
			b = v.Secondary[i]
			v.Secondary = slices.Delete(slices.Clone(v.Secondary), i, i+1)
			a := sdkBlock(b, ec2types.VpcCidrBlockStateCodeDisassociating)
			out.CidrBlockAssociation = &a
		} else {
			i := slices.IndexFunc(v.IPv6, is)
			b = v.IPv6[i]
			v.IPv6 = slices.Delete(slices.Clone(v.IPv6), i, i+1)
			a := sdkBlock6(sc.region, b, ec2types.VpcCidrBlockStateCodeDisassociating)
			out.Ipv6CidrBlockAssociation = &a
			releaseBlocks6(tx, sc.region, []cidrAssociation{b})
		}
		block, err := netip.ParsePrefix(b.CIDR)
		if err != nil {
			return err
		}
		used, err := exists(tx, subnets, sc, func(sn subnetRecord) bool {
			return sn.VPCID == v.ID && slices.ContainsFunc(sn.prefixes(), func(p netip.Prefix) bool { return within(block, p) })
		})
		if err != nil {
			return err
		}
		if used {
			return errCIDRInUse(v.ID, b.CIDR)
		}
		if err := setLocalRoute(tx, sc, v.ID, b.CIDR, false); err != nil {
			return err
		}
		return vpcs.Put(tx, sc.key(v.ID), v)
	})
	return out, err
}
