package vpc

import (
	"context"
	"encoding/binary"
	"net/netip"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/store"
)

// CreateDefaultVpc creates a default VPC if the user has deleted it.
func (s *Service) CreateDefaultVpc(ctx context.Context, in *awsec2.CreateDefaultVpcInput) (*awsec2.CreateDefaultVpcOutput, error) {
	sc := resource.ScopeOf(ctx)
	var v record.VPC
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		if _, ok := record.DefaultVPC(tx, sc); ok {
			return ec2err.New("DefaultVpcAlreadyExists", "A Default VPC already exists for this account in this region.")
		}
		if err := checkVPCQuota(tx, sc); err != nil {
			return err
		}
		def, err := record.Defaults.Get(tx, sc.Key(record.DefaultsID))
		if err != nil {
			return err
		}
		v, err = s.makeDefaultVPC(tx, sc, def.DHCPOptionsID)
		return err
	})
	if err != nil {
		return nil, err
	}
	out := v.SDK(sc)
	out.State = ec2types.VpcStatePending
	return &awsec2.CreateDefaultVpcOutput{Vpc: &out}, nil
}

// defaultSubnetBits is the prefix length of default subnets.
const defaultSubnetBits = 20

// CreateDefaultSubnet creates the default subnet of a zone that has none.
func (s *Service) CreateDefaultSubnet(ctx context.Context, in *awsec2.CreateDefaultSubnetInput) (*awsec2.CreateDefaultSubnetOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.AvailabilityZone == nil && in.AvailabilityZoneId == nil {
		return nil, ec2err.Missing("availabilityZone")
	}
	zone, err := resource.ChooseZone(sc, aws.ToString(in.AvailabilityZone), aws.ToString(in.AvailabilityZoneId))
	if err != nil {
		return nil, err
	}
	var view subnetView
	err = s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		v, ok := record.DefaultVPC(tx, sc)
		if !ok {
			return ec2err.New("DefaultVpcDoesNotExist", "No default VPC exists for this account in this region.")
		}
		have := resource.List(tx, record.Subnets, sc, func(sn record.Subnet) bool { return sn.VPCID == v.ID })
		var taken []netip.Prefix
		for _, sn := range have {
			if sn.DefaultForZone && sn.Zone == zone.Name {
				return ec2err.New("DefaultSubnetAlreadyExistsInAvailabilityZone", "'%s' is already the default subnet in %s.", sn.ID, zone.Name)
			}
			taken = append(taken, sn.Prefixes()...)
		}
		p, ok := freeBlock(v.Prefixes()[0], defaultSubnetBits, taken)
		if !ok {
			return ec2err.New("InsufficientCidrBlocks", "There are not enough free CIDR blocks in the default VPC.") // from memory
		}
		sn := record.Subnet{
			ID: ids.Resource("subnet"), VPCID: v.ID, CIDR: p.String(), Zone: zone.Name, ZoneID: zone.ID,
			DefaultForZone: true, MapPublicIP: true, HostnameType: "ip-name",
		}
		if err := s.makeSubnet(tx, sc, sn); err != nil {
			return err
		}
		view, err = viewSubnet(tx, sc, sn)
		return err
	})
	return &awsec2.CreateDefaultSubnetOutput{Subnet: new(view.SDK(sc))}, err
}

// freeBlock returns the first block of a size within an IPv4 range that does not overlap any of
// taken.
func freeBlock(in netip.Prefix, bits int, taken []netip.Prefix) (netip.Prefix, bool) {
	if in.Bits() > bits {
		return netip.Prefix{}, false
	}
	base := in.Masked().Addr().As4()
next:
	for i := range uint32(1) << (bits - in.Bits()) {
		var b [4]byte
		binary.BigEndian.PutUint32(b[:], binary.BigEndian.Uint32(base[:])+i<<(32-bits))
		p := netip.PrefixFrom(netip.AddrFrom4(b), bits)
		for _, t := range taken {
			if t.Overlaps(p) {
				continue next
			}
		}
		return p, true
	}
	return netip.Prefix{}, false
}

// ModifyVpcTenancy changes a dedicated VPC so that instances can be launched on shared hardware.
func (s *Service) ModifyVpcTenancy(ctx context.Context, in *awsec2.ModifyVpcTenancyInput) (*awsec2.ModifyVpcTenancyOutput, error) {
	if in.InstanceTenancy != ec2types.VpcTenancyDefault {
		return nil, ec2err.New("UnsupportedTenancy", "The tenancy value %s is not supported.", in.InstanceTenancy)
	}
	_, err := resource.Change(ctx, s.Core, record.VPCs, in.DryRun, in.VpcId, func(tx *store.Tx, v *record.VPC) error {
		v.Tenancy = string(ec2types.TenancyDefault)
		return nil
	})
	return &awsec2.ModifyVpcTenancyOutput{ReturnValue: aws.Bool(true)}, err
}
