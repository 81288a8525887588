package record

import (
	"maps"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// A RegionDefaults records that an account has been given the initial resources of a region. It
// stays if the user deletes the default VPC, because AWS does not recreate that by itself either.
type RegionDefaults struct{ DHCPOptionsID string }

// DefaultsID is the ID under which an account and region keep their RegionDefaults.
const DefaultsID = "region"

// A DHCPOptions is a set of DHCP options.
type DHCPOptions struct {
	ID string
	// Options is nil for the initial set of every region: Amazon's DNS and the region's internal
	// domain.
	Options map[string][]string `json:",omitempty"`
	Tags    tag.Set             `json:",omitempty"`
}

// internalDomain is the domain of private DNS names.
// https://docs.aws.amazon.com/vpc/latest/userguide/AmazonDNS-concepts.html
func internalDomain(region string) string {
	if region == "us-east-1" {
		return "ec2.internal"
	}
	return region + ".compute.internal"
}

// In returns the options that apply in a region.
func (d DHCPOptions) In(sc resource.Scope) map[string][]string {
	if d.Options != nil {
		return d.Options
	}
	return map[string][]string{"domain-name": {internalDomain(sc.Region)}, "domain-name-servers": {"AmazonProvidedDNS"}}
}

// SDK renders the record for the SDK.
func (d DHCPOptions) SDK(sc resource.Scope) ec2types.DhcpOptions {
	out := ec2types.DhcpOptions{DhcpOptionsId: aws.String(d.ID), OwnerId: aws.String(sc.Account), Tags: d.Tags.SDK()}
	opts := d.In(sc)
	for _, k := range slices.Sorted(maps.Keys(opts)) {
		c := ec2types.DhcpConfiguration{Key: aws.String(k)}
		for _, v := range opts[k] {
			c.Values = append(c.Values, ec2types.AttributeValue{Value: aws.String(v)})
		}
		out.DhcpConfigurations = append(out.DhcpConfigurations, c)
	}
	return out
}

// IsIPv6 reports whether a CIDR block is an IPv6 block.
func IsIPv6(cidr string) bool { return strings.Contains(cidr, ":") }

// A VPC is a VPC with its CIDR blocks.
type VPC struct {
	ID            string
	CIDR          string
	AssociationID string // association ID of CIDR
	// Secondary are the additional IPv4 blocks. IPv6 are all IPv6 blocks (/56).
	Secondary []CIDRAssociation `json:",omitempty"`
	IPv6      []CIDRAssociation `json:",omitempty"`
	// DHCPOptionsID is "default" for a VPC without options.
	DHCPOptionsID string
	Tenancy       string
	Default       bool `json:",omitempty"`
	// NoDNSSupport means that enableDnsSupport is off. It is on by default.
	NoDNSSupport     bool `json:",omitempty"`
	DNSHostnames     bool `json:",omitempty"`
	UsageMetrics     bool `json:",omitempty"`
	MainRouteTableID string
	DefaultGroupID   string
	DefaultACLID     string
	Tags             tag.Set `json:",omitempty"`
}

// A CIDRAssociation is a block of a VPC or subnet.
type CIDRAssociation struct{ ID, CIDR string }

// Blocks returns all IPv4 blocks, the primary one first.
func (v VPC) Blocks() []CIDRAssociation {
	return append([]CIDRAssociation{{v.AssociationID, v.CIDR}}, v.Secondary...)
}

// Prefixes returns the VPC's IPv4 blocks.
func (v VPC) Prefixes() []netip.Prefix { return PrefixesOf(v.Blocks()) }

// Prefixes6 returns the VPC's IPv6 blocks.
func (v VPC) Prefixes6() []netip.Prefix { return PrefixesOf(v.IPv6) }

// ParsePrefixes returns stored blocks as prefixes.
func ParsePrefixes(blocks []string) []netip.Prefix {
	var out []netip.Prefix
	for _, b := range blocks {
		if p, err := netip.ParsePrefix(b); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// PrefixesOf returns the associated blocks as prefixes.
func PrefixesOf(blocks []CIDRAssociation) []netip.Prefix {
	out := make([]netip.Prefix, 0, len(blocks))
	for _, b := range blocks {
		if p, err := netip.ParsePrefix(b.CIDR); err == nil {
			out = append(out, p)
		}
	}
	return out
}

// SDK renders the record for the SDK.
func (v VPC) SDK(sc resource.Scope) ec2types.Vpc {
	out := ec2types.Vpc{
		VpcId:           aws.String(v.ID),
		OwnerId:         aws.String(sc.Account),
		State:           ec2types.VpcStateAvailable,
		CidrBlock:       aws.String(v.CIDR),
		DhcpOptionsId:   aws.String(v.DHCPOptionsID),
		InstanceTenancy: ec2types.Tenancy(v.Tenancy),
		IsDefault:       aws.Bool(v.Default),
		Tags:            v.Tags.SDK(),
	}
	for _, b := range v.Blocks() {
		out.CidrBlockAssociationSet = append(out.CidrBlockAssociationSet, SDKBlock(b, ec2types.VpcCidrBlockStateCodeAssociated))
	}
	for _, b := range v.IPv6 {
		out.Ipv6CidrBlockAssociationSet = append(out.Ipv6CidrBlockAssociationSet, SDKBlock6(sc.Region, b, ec2types.VpcCidrBlockStateCodeAssociated))
	}
	return out
}

// DefaultVPC returns the scope's default VPC, or false if it has been deleted.
func DefaultVPC(r store.Reader, sc resource.Scope) (VPC, bool) {
	found := resource.List(r, VPCs, sc, func(v VPC) bool { return v.Default })
	if len(found) == 0 {
		return VPC{}, false
	}
	return found[0], true
}

// SDKBlock converts an IPv4 block of a VPC for the SDK.
func SDKBlock(b CIDRAssociation, state ec2types.VpcCidrBlockStateCode) ec2types.VpcCidrBlockAssociation {
	return ec2types.VpcCidrBlockAssociation{
		AssociationId: aws.String(b.ID), CidrBlock: aws.String(b.CIDR), CidrBlockState: &ec2types.VpcCidrBlockState{State: state},
	}
}

// SDKBlock6 converts an IPv6 block of a VPC for the SDK.
func SDKBlock6(region string, b CIDRAssociation, state ec2types.VpcCidrBlockStateCode) ec2types.VpcIpv6CidrBlockAssociation {
	return ec2types.VpcIpv6CidrBlockAssociation{
		AssociationId: aws.String(b.ID), Ipv6CidrBlock: aws.String(b.CIDR), Ipv6Pool: aws.String("Amazon"),
		NetworkBorderGroup: aws.String(region), IpSource: ec2types.IpSourceAmazon, Ipv6AddressAttribute: ec2types.Ipv6AddressAttributePublic,
		Ipv6CidrBlockState: &ec2types.VpcCidrBlockState{State: state},
	}
}
