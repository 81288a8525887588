package cluster

import (
	"context"
	"crypto/rand"
	"errors"
	"net/netip"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/awsapi/awserr"
	"github.com/drydock-dev/drydock/internal/service/eks/base"
	"github.com/drydock-dev/drydock/internal/service/eks/ekserr"
)

// checkRole checks that the role exists and lets EKS assume it.
func (s *Service) checkRole(ctx context.Context, call *awsapi.Call, cluster string, role *string) error {
	id, err := s.Role(ctx, call.Account, "roleArn", role, func(role string) error { return errRoleARN(cluster, role) })
	if errors.Is(err, base.ErrNoIdentity) || err == nil && !slices.Contains(id.TrustedServices, "eks.amazonaws.com") {
		return errRoleNotAssumable(cluster, *role)
	}
	return err
}

// checkVPC checks subnets, security groups and endpoint access, and returns the VPC configuration
// and the VPC's address ranges.
// https://docs.aws.amazon.com/eks/latest/userguide/network-reqs.html
func (s *Service) checkVPC(ctx context.Context, call *awsapi.Call, cluster string, family ekstypes.IpFamily, in *ekstypes.VpcConfigRequest) (*ekstypes.VpcConfigResponse, []netip.Prefix, error) {
	out := &ekstypes.VpcConfigResponse{
		SubnetIds:            in.SubnetIds,
		SecurityGroupIds:     in.SecurityGroupIds,
		EndpointPublicAccess: in.EndpointPublicAccess == nil || *in.EndpointPublicAccess, EndpointPrivateAccess: aws.ToBool(in.EndpointPrivateAccess),
	}
	var err error
	if out.ControlPlaneEgressMode, err = egressMode("CreateCluster", in); err != nil {
		return nil, nil, err
	}
	if out.SecurityGroupIds == nil {
		out.SecurityGroupIds = []string{}
	}
	if err := checkEndpointAccess(cluster, family, out.EndpointPublicAccess, out.EndpointPrivateAccess, in.PublicAccessCidrs); err != nil {
		return nil, nil, err
	}
	out.PublicAccessCidrs = in.PublicAccessCidrs
	if len(out.PublicAccessCidrs) == 0 {
		out.PublicAccessCidrs = []string{}
		if out.EndpointPublicAccess {
			out.PublicAccessCidrs = everyone(family)
		}
	}
	if len(in.SubnetIds) == 0 {
		return nil, nil, ekserr.Missing("subnetIds")
	}
	svc := s.AsService(ctx, call.Account, call.Region)
	vpc, zones, err := s.subnets(svc, cluster, family, in.SubnetIds)
	if err != nil {
		return nil, nil, err
	}
	if len(zones) < 2 {
		return nil, nil, errOneZone(cluster)
	}
	out.VpcId = &vpc
	if err := s.checkSecurityGroups(svc, cluster, vpc, in.SecurityGroupIds); err != nil {
		return nil, nil, err
	}
	cidrs, err := s.vpcCIDRs(svc, vpc)
	return out, cidrs, err
}

// egressMode returns how the control plane's connections leave, which only AWS can decide here: control planes run on the
// same machine as everything that they connect to.
func egressMode(operation string, in *ekstypes.VpcConfigRequest) (ekstypes.ControlPlaneEgressModeType, error) {
	switch in.ControlPlaneEgressMode {
	case "", ekstypes.ControlPlaneEgressModeTypeAwsManaged:
		return ekstypes.ControlPlaneEgressModeTypeAwsManaged, nil
	}
	return "", awserr.NotImplemented("resourcesVpcConfig.controlPlaneEgressMode " + string(in.ControlPlaneEgressMode) + " of EKS " + operation)
}

// everyone returns the default of publicAccessCidrs. Only the endpoints of IPv6 clusters have IPv6 addresses.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
func everyone(family ekstypes.IpFamily) []string {
	if family == ekstypes.IpFamilyIpv6 {
		return []string{"0.0.0.0/0", "::/0"}
	}
	return []string{"0.0.0.0/0"}
}

// subnets returns the VPC and the zones of subnets, which must all be in one VPC.
func (s *Service) subnets(ctx context.Context, cluster string, family ekstypes.IpFamily, subnetIDs []string) (vpc string, zones map[string]bool, err error) {
	got, err := s.Network.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: subnetIDs})
	if err != nil {
		if awserr.CodeOf(err) == "InvalidSubnetID.NotFound" || awserr.CodeOf(err) == "InvalidSubnetId.Malformed" {
			return "", nil, errSubnetNotFound(cluster, ekserr.QuotedID(err, subnetIDs))
		}
		return "", nil, err
	}
	zones = map[string]bool{}
	for _, sn := range got.Subnets {
		if vpc != "" && *sn.VpcId != vpc {
			return "", nil, errSubnetVPCs(cluster)
		}
		vpc = *sn.VpcId
		zones[*sn.AvailabilityZone] = true
	}
	if err := checkAddresses(cluster, got.Subnets); err != nil {
		return "", nil, err
	}
	if err := checkFamily(cluster, family, got.Subnets); err != nil {
		return "", nil, err
	}
	for _, id := range subnetIDs {
		if !slices.ContainsFunc(got.Subnets, func(sn ec2types.Subnet) bool { return *sn.SubnetId == id }) {
			return "", nil, errSubnetNotFound(cluster, id)
		}
	}
	return vpc, zones, nil
}

func (s *Service) checkSecurityGroups(ctx context.Context, cluster, vpc string, groups []string) error {
	if len(groups) > 5 {
		return errTooManySecurityGroups(cluster)
	}
	if len(groups) == 0 {
		return nil
	}
	got, err := s.Network.DescribeSecurityGroups(ctx, &awsec2.DescribeSecurityGroupsInput{GroupIds: groups})
	if err != nil {
		if strings.HasPrefix(awserr.CodeOf(err), "InvalidGroup") {
			return errSecurityGroupNotFound(cluster, ekserr.QuotedID(err, groups))
		}
		return err
	}
	var foreign []string
	for _, g := range got.SecurityGroups {
		if *g.VpcId != vpc {
			foreign = append(foreign, *g.GroupId)
		}
	}
	if len(foreign) > 0 {
		return errSecurityGroupVPC(cluster, foreign, vpc)
	}
	return nil
}

func (s *Service) vpcCIDRs(ctx context.Context, vpc string) ([]netip.Prefix, error) {
	got, err := s.Network.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{vpc}})
	if err != nil {
		return nil, err
	}
	var out []netip.Prefix
	for _, v := range got.Vpcs {
		for _, a := range v.CidrBlockAssociationSet {
			if p, err := netip.ParsePrefix(*a.CidrBlock); err == nil {
				out = append(out, p)
			}
		}
		if len(v.CidrBlockAssociationSet) == 0 && v.CidrBlock != nil {
			if p, err := netip.ParsePrefix(*v.CidrBlock); err == nil {
				out = append(out, p)
			}
		}
	}
	return out, nil
}

// checkEndpointAccess returns an error if a cluster has no endpoint access at all. CIDRs without
// public access are stored but have no effect: the Terraform module terraform-aws-eks sends them
// with every cluster.
func checkEndpointAccess(cluster string, family ekstypes.IpFamily, public, private bool, cidrs []string) error {
	if !public && !private {
		return errNoEndpointAccess(cluster)
	}
	var bad []string
	for _, c := range cidrs {
		if p, err := netip.ParsePrefix(c); err != nil || p.Masked() != p || reserved(p) || p.Addr().Is6() && family != ekstypes.IpFamilyIpv6 {
			bad = append(bad, c)
		}
	}
	if len(bad) > 0 {
		return errBadPublicCIDR(cluster, bad)
	}
	return nil
}

// reserved reports whether public clients cannot have addresses in p.
// https://docs.aws.amazon.com/eks/latest/userguide/cluster-endpoint.html
func reserved(p netip.Prefix) bool {
	a := p.Addr()
	return p.Bits() > 0 && (a.IsPrivate() || a.IsLoopback() || a.IsLinkLocalUnicast() || a.IsMulticast())
}

// ipFamily returns the family of a new cluster's pods and services.
// https://docs.aws.amazon.com/eks/latest/userguide/cni-ipv6.html
func ipFamily(region, cluster string, in *awseks.CreateClusterInput) (ekstypes.IpFamily, error) {
	n := in.KubernetesNetworkConfig
	switch {
	case n == nil || n.IpFamily == "":
		return ekstypes.IpFamilyIpv4, nil
	case !slices.Contains(n.IpFamily.Values(), n.IpFamily):
		return "", ekserr.InvalidParameter(cluster, "Invalid ipFamily: %s", n.IpFamily)
	case n.IpFamily == ekstypes.IpFamilyIpv4:
	case strings.HasPrefix(region, "cn-"):
		return "", errIPv6Region(cluster, region)
	case n.ServiceIpv4Cidr != nil:
		return "", errServiceCIDRWithIPv6(cluster)
	case in.RemoteNetworkConfig != nil && len(in.RemoteNetworkConfig.RemoteNodeNetworks)+len(in.RemoteNetworkConfig.RemotePodNetworks) > 0:
		return "", errRemoteNetworkIPv6(cluster)
	}
	return n.IpFamily, nil
}

// checkAddresses checks that the control plane's network interfaces can have IPv4 addresses in the subnets, also those of an IPv6
// cluster: https://github.com/aws/containers-roadmap/issues/1805
func checkAddresses(cluster string, subnets []ec2types.Subnet) error {
	var full []string
	for _, sn := range subnets {
		if aws.ToBool(sn.Ipv6Native) {
			full = append(full, *sn.SubnetId)
		}
	}
	if len(full) > 0 {
		return errNoFreeIPs(cluster, full)
	}
	return nil
}

// checkFamily checks that the subnets of an IPv6 cluster have IPv6 blocks. They need not assign addresses from
// these: only those of node groups do.
func checkFamily(cluster string, family ekstypes.IpFamily, subnets []ec2types.Subnet) error {
	if family != ekstypes.IpFamilyIpv6 {
		return nil
	}
	var bare []string
	for _, sn := range subnets {
		if len(sn.Ipv6CidrBlockAssociationSet) == 0 {
			bare = append(bare, *sn.SubnetId)
		}
	}
	if len(bare) > 0 {
		return errSubnetsWithoutIPv6(cluster, bare)
	}
	return nil
}

// networkConfig returns a new cluster's network configuration. The service range of an IPv6 cluster is always EKS's
// own choice, such as fd30:3087:b6c2::/108.
func networkConfig(cluster string, family ekstypes.IpFamily, in *ekstypes.KubernetesNetworkConfigRequest, vpc []netip.Prefix) (*ekstypes.KubernetesNetworkConfigResponse, error) {
	out := &ekstypes.KubernetesNetworkConfigResponse{IpFamily: family, ElasticLoadBalancing: &ekstypes.ElasticLoadBalancing{Enabled: new(false)}}
	if family == ekstypes.IpFamilyIpv6 {
		b := [16]byte{0: 0xfd}
		rand.Read(b[1:6]) // never fails, see crypto/rand
		out.ServiceIpv6Cidr = new(netip.PrefixFrom(netip.AddrFrom16(b), serviceBits6).String())
		return out, nil
	}
	cidr, err := serviceCIDR(cluster, in, vpc)
	out.ServiceIpv4Cidr = &cidr
	return out, err
}

// serviceBits6 is the prefix length of IPv6 service ranges, the shortest that Kubernetes accepts.
const serviceBits6 = 108

// serviceCIDR returns an IPv4 cluster's service range. The default is 10.100.0.0/16, or 172.20.0.0/16
// if the VPC is in 10.0.0.0/8.
// https://docs.aws.amazon.com/eks/latest/APIReference/API_KubernetesNetworkConfigRequest.html
func serviceCIDR(cluster string, in *ekstypes.KubernetesNetworkConfigRequest, vpc []netip.Prefix) (string, error) {
	if in != nil && in.ServiceIpv4Cidr != nil {
		return *in.ServiceIpv4Cidr, checkServiceCIDR(cluster, *in.ServiceIpv4Cidr, vpc)
	}
	ten := netip.MustParsePrefix("10.0.0.0/8")
	choices := []string{"10.100.0.0/16", "172.20.0.0/16"}
	if slices.ContainsFunc(vpc, ten.Overlaps) {
		slices.Reverse(choices)
	}
	for _, c := range choices {
		if !slices.ContainsFunc(vpc, netip.MustParsePrefix(c).Overlaps) {
			return c, nil
		}
	}
	return "", checkServiceCIDR(cluster, choices[0], vpc)
}

func checkServiceCIDR(cluster, cidr string, vpc []netip.Prefix) error {
	p, err := netip.ParsePrefix(cidr)
	if err != nil || !p.Addr().Is4() || p.Masked() != p {
		return ekserr.InvalidParameter(cluster, "The service CIDR %s is not a valid CIDR block.", cidr)
	}
	inside := func(block string) bool {
		b := netip.MustParsePrefix(block)
		return b.Contains(p.Addr()) && p.Bits() >= b.Bits()
	}
	if !inside("10.0.0.0/8") && !inside("172.16.0.0/12") && !inside("192.168.0.0/16") {
		return errServiceCIDRRange(cluster, cidr)
	}
	if p.Bits() > 24 || p.Bits() < 12 {
		return errServiceCIDRSize(cluster, cidr)
	}
	for _, v := range vpc {
		if v.Overlaps(p) {
			return errServiceCIDROverlap(cluster, cidr, v.String())
		}
	}
	return nil
}
