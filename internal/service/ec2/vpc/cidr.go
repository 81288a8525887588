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
	"github.com/drydock-dev/drydock/internal/service/ec2/firewall"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/routing"
	"github.com/drydock-dev/drydock/internal/store"
)

// addBlock6 adds an Amazon-provided block to a VPC.
func addBlock6(tx *store.Tx, sc resource.Scope, v *record.VPC) (record.CIDRAssociation, error) {
	most, err := quota.Value(tx, sc, quota.CIDRs6)
	if err != nil {
		return record.CIDRAssociation{}, err
	}
	if float64(len(v.IPv6)+1) > most {
		return record.CIDRAssociation{}, ec2err.CIDRLimit(v.ID, most)
	}
	p, err := ipam.TakeBlock6(tx, sc.Region, v.ID)
	if err != nil {
		return record.CIDRAssociation{}, err
	}
	b := record.CIDRAssociation{ID: ids.Resource("vpc-cidr-assoc"), CIDR: p.String()}
	if len(v.IPv6) == 0 {
		if err := firewall.OpenDefaultACL6(tx, sc, *v); err != nil {
			return b, err
		}
		if err := firewall.OpenDefaultGroup6(tx, sc, *v); err != nil {
			return b, err
		}
	}
	v.IPv6 = append(slices.Clone(v.IPv6), b)
	return b, nil
}

// private are the private ranges. A VPC's blocks must not be spread over several of them.
// https://docs.aws.amazon.com/vpc/latest/userguide/vpc-cidr-blocks.html#add-cidr-block-restrictions
func private() []netip.Prefix {
	return []netip.Prefix{
		netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("172.16.0.0/12"),
		netip.MustParsePrefix("192.168.0.0/16"), netip.MustParsePrefix("198.19.0.0/16"),
	}
}

// addBlock adds a secondary IPv4 block to a VPC.
func addBlock(tx *store.Tx, sc resource.Scope, v *record.VPC, p netip.Prefix) (record.CIDRAssociation, error) {
	var none record.CIDRAssociation
	most, err := quota.Value(tx, sc, quota.CIDRs)
	if err != nil {
		return none, err
	}
	have := v.Prefixes()
	if float64(len(have)+1) > most {
		return none, ec2err.CIDRLimit(v.ID, most)
	}
	for _, q := range have {
		if q.Overlaps(p) {
			return none, ec2err.CIDRConflict(p.String())
		}
	}
	for _, r := range private() {
		if r.Overlaps(p) && !r.Overlaps(have[0]) {
			return none, ec2err.RestrictedCIDR(p.String())
		}
	}
	tables := resource.List(tx, record.RouteTables, sc, func(t record.RouteTable) bool { return t.VPCID == v.ID })
	for _, t := range tables {
		for _, r := range t.Routes {
			// The block must not be equal to or larger than a route's destination.
			if q, ok := resource.ParseCIDR(r.Destination); ok && resource.Within(p, q) {
				return none, ec2err.CIDRConflict(p.String())
			}
		}
	}
	peers, err := routing.PeeredBlocks(tx, sc, v.ID)
	if err != nil {
		return none, err
	}
	for _, q := range peers {
		if q.Overlaps(p) {
			return none, ec2err.CIDRConflict(p.String())
		}
	}
	b := record.CIDRAssociation{ID: ids.Resource("vpc-cidr-assoc"), CIDR: p.String()}
	v.Secondary = append(slices.Clone(v.Secondary), b)
	return b, nil
}

// setLocalRoute adds or removes a block's local route in all route tables of a VPC.
func setLocalRoute(tx *store.Tx, sc resource.Scope, vpc, cidr string, present bool) error {
	tables := resource.List(tx, record.RouteTables, sc, func(t record.RouteTable) bool { return t.VPCID == vpc })
	for _, t := range tables {
		t.Routes = slices.DeleteFunc(slices.Clone(t.Routes), func(r record.Route) bool { return r.Destination == cidr })
		if present {
			local := 0
			for local < len(t.Routes) && t.Routes[local].Origin == routing.OriginCreateRouteTable {
				local++
			}
			t.Routes = slices.Insert(t.Routes, local, routing.LocalRoute(cidr))
		}
		if err := record.RouteTables.Put(tx, sc.Key(t.ID), t); err != nil {
			return err
		}
	}
	return nil
}

// AssociateVpcCidrBlock adds an IPv4 block or an Amazon-provided IPv6 block to a VPC.
func (s *Service) AssociateVpcCidrBlock(ctx context.Context, in *awsec2.AssociateVpcCidrBlockInput) (*awsec2.AssociateVpcCidrBlockOutput, error) {
	sc := resource.ScopeOf(ctx)
	six := aws.ToBool(in.AmazonProvidedIpv6CidrBlock)
	if six == (in.CidrBlock != nil) {
		return nil, ec2err.Combination("Exactly one of cidrBlock and amazonProvidedIpv6CidrBlock must be specified") // from memory
	}
	if err := resource.CheckBorderGroup(sc, in.Ipv6CidrBlockNetworkBorderGroup); err != nil {
		return nil, err
	}
	var p netip.Prefix
	if !six {
		var ok bool
		if p, ok = resource.ParseCIDR(*in.CidrBlock); !ok {
			return nil, ec2err.CIDR(*in.CidrBlock, "cidrBlock")
		}
		if p.Bits() < 16 || p.Bits() > 28 {
			return nil, ec2err.VPCRange(*in.CidrBlock)
		}
	}
	out := &awsec2.AssociateVpcCidrBlockOutput{VpcId: in.VpcId}
	_, err := resource.Change(ctx, s.Core, record.VPCs, nil, in.VpcId, func(tx *store.Tx, v *record.VPC) (err error) {
		var b record.CIDRAssociation
		if six {
			if b, err = addBlock6(tx, sc, v); err != nil {
				return err
			}
			a := record.SDKBlock6(sc.Region, b, ec2types.VpcCidrBlockStateCodeAssociating)
			out.Ipv6CidrBlockAssociation = &a
		} else {
			if b, err = addBlock(tx, sc, v, p); err != nil {
				return err
			}
			a := record.SDKBlock(b, ec2types.VpcCidrBlockStateCodeAssociating)
			out.CidrBlockAssociation = &a
		}
		return setLocalRoute(tx, sc, v.ID, b.CIDR, true)
	})
	return out, err
}

// DisassociateVpcCidrBlock removes a block from its VPC, unless a subnet uses it.
func (s *Service) DisassociateVpcCidrBlock(ctx context.Context, in *awsec2.DisassociateVpcCidrBlockInput) (*awsec2.DisassociateVpcCidrBlockOutput, error) {
	sc := resource.ScopeOf(ctx)
	id := aws.ToString(in.AssociationId)
	is := func(b record.CIDRAssociation) bool { return b.ID == id }
	out := &awsec2.DisassociateVpcCidrBlockOutput{}
	err := s.Store.Update(ctx, func(tx *store.Tx) error {
		found := resource.List(tx, record.VPCs, sc, func(v record.VPC) bool {
			return slices.ContainsFunc(v.Blocks(), is) || slices.ContainsFunc(v.IPv6, is)
		})
		if len(found) == 0 {
			return ec2err.CIDRAssociationNotFound(id)
		}
		v := found[0]
		if v.AssociationID == id {
			return ec2err.NotPermitted("The vpc CIDR block with association ID %s may not be disassociated. It is the primary IPv4 CIDR block of the VPC", id)
		}
		out.VpcId = aws.String(v.ID)
		var b record.CIDRAssociation
		if i := slices.IndexFunc(v.Secondary, is); i >= 0 {
			b = v.Secondary[i]
			v.Secondary = slices.Delete(slices.Clone(v.Secondary), i, i+1)
			a := record.SDKBlock(b, ec2types.VpcCidrBlockStateCodeDisassociating)
			out.CidrBlockAssociation = &a
		} else {
			i := slices.IndexFunc(v.IPv6, is)
			b = v.IPv6[i]
			v.IPv6 = slices.Delete(slices.Clone(v.IPv6), i, i+1)
			a := record.SDKBlock6(sc.Region, b, ec2types.VpcCidrBlockStateCodeDisassociating)
			out.Ipv6CidrBlockAssociation = &a
			ipam.ReleaseBlocks6(tx, sc.Region, []record.CIDRAssociation{b})
		}
		block, err := netip.ParsePrefix(b.CIDR)
		if err != nil {
			return err
		}
		used := resource.Exists(tx, record.Subnets, sc, func(sn record.Subnet) bool {
			return sn.VPCID == v.ID && slices.ContainsFunc(sn.Prefixes(), func(p netip.Prefix) bool { return resource.Within(block, p) })
		})
		if used {
			return ec2err.CIDRInUse(v.ID, b.CIDR)
		}
		if err := setLocalRoute(tx, sc, v.ID, b.CIDR, false); err != nil {
			return err
		}
		return record.VPCs.Put(tx, sc.Key(v.ID), v)
	})
	return out, err
}
