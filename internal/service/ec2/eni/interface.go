package eni

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/filter"
	"github.com/drydock-dev/drydock/internal/service/ec2/ipam"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// newMAC derives a stable MAC address from an interface's ID.
func newMAC(id string) string {
	h := id[len(id)-10:]
	return "0a:" + h[0:2] + ":" + h[2:4] + ":" + h[4:6] + ":" + h[6:8] + ":" + h[8:10]
}

// GroupIdentifiers returns the groups with their names.
func GroupIdentifiers(r store.Reader, sc resource.Scope, groups []string) []ec2types.GroupIdentifier {
	out := make([]ec2types.GroupIdentifier, 0, len(groups))
	for _, id := range groups {
		g, err := record.SecurityGroups.Get(r, sc.Key(id))
		if err != nil {
			g.Name = "" // deleted between two reads
		}
		out = append(out, ec2types.GroupIdentifier{GroupId: aws.String(id), GroupName: aws.String(g.Name)})
	}
	return out
}

// association returns the public address associated with a private one, or nil. It has no DNS name in a VPC without DNS
// hostnames.
func (s *Service) association(sc resource.Scope, e record.NetworkInterface, private string) *ec2types.NetworkInterfaceAssociation {
	a := e.Association(sc, private)
	if a != nil && !record.DNSHostnames(s.Store, sc, e.VPCID) {
		a.PublicDnsName = aws.String("")
	}
	return a
}

func (s *Service) sdkInterface(sc resource.Scope, e record.NetworkInterface) ec2types.NetworkInterface {
	out := ec2types.NetworkInterface{
		NetworkInterfaceId: aws.String(e.ID),
		SubnetId:           aws.String(e.SubnetID),
		VpcId:              aws.String(e.VPCID),
		AvailabilityZone:   aws.String(e.Zone),
		AvailabilityZoneId: aws.String(e.ZoneID),
		Description:        aws.String(e.Description),
		OwnerId:            aws.String(sc.Account),
		Status:             e.Status(),
		MacAddress:         aws.String(e.MAC),
		PrivateIpAddress:   resource.Optional(e.PrivateIP()),
		PrivateDnsName:     resource.Optional(record.PrivateDNSName(sc.Region, e.PrivateIP())),
		SourceDestCheck:    aws.Bool(!e.NoSourceDestCheck),
		InterfaceType:      ec2types.NetworkInterfaceType(e.Type),
		RequesterManaged:   aws.Bool(e.RequesterID != ""),
		RequesterId:        resource.Optional(e.RequesterID),
		Groups:             GroupIdentifiers(s.Store, sc, e.Groups),
		Ipv6Addresses:      []ec2types.NetworkInterfaceIpv6Address{},
		Association:        s.association(sc, e, e.PrivateIP()),
		TagSet:             e.Tags.SDK(),
	}
	for i, a := range e.IPv6 {
		out.Ipv6Addresses = append(out.Ipv6Addresses, ec2types.NetworkInterfaceIpv6Address{Ipv6Address: aws.String(a), IsPrimaryIpv6: aws.Bool(false)})
		if i == 0 {
			out.Ipv6Address = aws.String(a)
		}
	}
	for _, p := range e.Prefixes6 {
		out.Ipv6Prefixes = append(out.Ipv6Prefixes, ec2types.Ipv6PrefixSpecification{Ipv6Prefix: aws.String(p)})
	}
	for _, p := range e.Prefixes {
		out.Ipv4Prefixes = append(out.Ipv4Prefixes, ec2types.Ipv4PrefixSpecification{Ipv4Prefix: aws.String(p)})
	}
	for i, a := range e.Addresses {
		addr := ec2types.NetworkInterfacePrivateIpAddress{
			Primary: aws.Bool(i == 0), PrivateIpAddress: aws.String(a), PrivateDnsName: aws.String(record.PrivateDNSName(sc.Region, a)),
			Association: s.association(sc, e, a),
		}
		out.PrivateIpAddresses = append(out.PrivateIpAddresses, addr)
	}
	if at := e.Attachment; at.ID != "" {
		owner := sc.Account
		if at.InstanceID == "" {
			owner = "amazon-aws"
		}
		out.Attachment = &ec2types.NetworkInterfaceAttachment{
			AttachmentId: aws.String(at.ID), InstanceId: resource.Optional(at.InstanceID), InstanceOwnerId: aws.String(owner),
			DeviceIndex: aws.Int32(at.DeviceIndex), NetworkCardIndex: aws.Int32(at.CardIndex),
			DeleteOnTermination: aws.Bool(at.DeleteOnTermination), Status: ec2types.AttachmentStatusAttached,
			AttachTime: aws.Time(at.Time),
		}
	}
	return out
}

// A Spec describes an interface to be created.
type Spec struct {
	ID          string
	Subnet      record.Subnet
	Description string
	Primary     string   // empty for any free address
	Secondary   []string // specific secondary addresses
	Extra       int      // number of further secondary addresses
	Groups      []string // empty for the VPC's default group
	NoGroups    bool     // no groups at all
	IPv6        []string // specific IPv6 addresses
	Extra6      int      // number of further IPv6 addresses
	Prefixes6   []string // specific IPv6 prefixes
	ExtraBlock6 int      // number of further IPv6 prefixes
	Prefixes    []string // specific IPv4 prefixes
	ExtraPrefix int      // number of further IPv4 prefixes
	Kind        string
	Requester   string
	Owner       string // the owner of a requester-managed interface
	Tags        tag.Set
	Hint        string // the search for free addresses starts at the same place for equal hints
}

// maxPerInterface is the highest number of addresses per interface of any instance type
// (TestMaxPerInterface).
const maxPerInterface = 64

// SecondaryCount checks the number of secondary addresses in a request. The instance type's own
// limit is checked when the interface is attached.
func SecondaryCount(n *int32) (int, error) {
	if n == nil {
		return 0, nil
	}
	if *n < 0 || *n >= maxPerInterface {
		return 0, ec2err.InvalidValue(*n, "secondaryPrivateIpAddressCount", fmt.Sprintf("Expecting a value between 0 and %d.", maxPerInterface-1))
	}
	return int(*n), nil
}

// AddressCount is SecondaryCount for the other kinds of addresses.
func AddressCount(n *int32, param string) (int, error) {
	if n == nil {
		return 0, nil
	}
	if *n < 0 || *n >= maxPerInterface {
		return 0, ec2err.InvalidValue(*n, param, fmt.Sprintf("Expecting a value between 0 and %d.", maxPerInterface-1))
	}
	return int(*n), nil
}

// Make checks and stores a new interface. The caller attaches it.
func (s *Service) Make(tx *store.Tx, sc resource.Scope, spec Spec) (record.NetworkInterface, error) {
	var none record.NetworkInterface
	var groups []string
	var err error
	if !spec.NoGroups {
		if groups, err = ResolveGroups(tx, sc, spec.Subnet.VPCID, spec.Groups); err != nil {
			return none, err
		}
	}
	pool, err := ipam.OfSubnet(sc, spec.Subnet)
	if err != nil {
		return none, err
	}
	// Instances in IPv6-only subnets need no IPv4 addresses; what AWS services create there does, so that it finds no free address.
	only6 := spec.Subnet.IPv6Only() && spec.Requester == ""
	free := spec.Extra
	var addresses []string
	if spec.Primary == "" && !only6 {
		free++
	} else if spec.Primary != "" {
		addresses = append(addresses, spec.Primary)
	}
	for _, a := range append(addresses, spec.Secondary...) {
		ip, err := netip.ParseAddr(a)
		if err != nil || !ip.Is4() {
			return none, ec2err.InvalidParameterValue("invalid value for parameter address: %s", a)
		}
		if err := pool.Claim(tx, ip); err != nil {
			return none, err
		}
	}
	taken, err := pool.Take(tx, free, spec.Hint)
	if err != nil {
		return none, err
	}
	for _, a := range taken {
		addresses = append(addresses, a.String())
	}
	if len(addresses) > 0 && spec.Primary == "" && len(spec.Secondary) > 0 {
		addresses = slices.Concat(addresses[:1], spec.Secondary, addresses[1:])
	} else {
		addresses = append(addresses, spec.Secondary...)
	}
	prefixes, err := pool.TakePrefixes(tx, spec.Prefixes, spec.ExtraPrefix)
	if err != nil {
		return none, err
	}
	switch n := ways(spec.Extra6, spec.ExtraBlock6, spec.IPv6, spec.Prefixes6); {
	case n > 1:
		return none, ec2err.OneWayOfIPv6()
	case n == 0 && (spec.Subnet.AssignIPv6 || only6) && spec.Requester == "":
		spec.Extra6 = 1
	}
	addresses6, err := ipam.Take6(tx, sc, spec.Subnet, spec.ID, spec.IPv6, spec.Extra6)
	if err != nil {
		return none, err
	}
	blocks6, err := ipam.TakePrefixes6(tx, sc, spec.Subnet, spec.ID, spec.Prefixes6, spec.ExtraBlock6)
	if err != nil {
		return none, err
	}
	kind := spec.Kind
	if kind == "" {
		kind = "interface"
	}
	return record.NetworkInterface{
		ID: spec.ID, SubnetID: spec.Subnet.ID, VPCID: spec.Subnet.VPCID, Zone: spec.Subnet.Zone, ZoneID: spec.Subnet.ZoneID,
		Description: spec.Description, MAC: newMAC(spec.ID), Addresses: addresses, Groups: groups, Type: kind,
		IPv6: addresses6, Prefixes: prefixes, Prefixes6: blocks6, RequesterID: spec.Requester, OwnerID: spec.Owner, Tags: spec.Tags,
	}, nil
}

// ResolveGroups checks that groups exist in a VPC. If groups is empty, it returns the VPC's default
// group.
func ResolveGroups(r store.Reader, sc resource.Scope, vpc string, groups []string) ([]string, error) {
	if len(groups) == 0 {
		v, err := resource.Get(r, record.VPCs, sc, vpc)
		return []string{v.DefaultGroupID}, err
	}
	groups = resource.SortedUnique(groups)
	if err := quota.Check(r, sc, quota.GroupsPerENI, len(groups), ec2err.Limit("SecurityGroupsPerInterfaceLimitExceeded", "security groups per interface")); err != nil {
		return nil, err
	}
	for _, id := range groups {
		g, err := resource.Get(r, record.SecurityGroups, sc, id)
		if err != nil {
			return nil, err
		}
		if g.VPCID != vpc {
			return nil, ec2err.InvalidParameterValue("Security group %s and subnet belong to different networks.", id)
		}
	}
	return groups, nil
}

// Remove deletes an interface and frees its addresses.
func Remove(tx *store.Tx, sc resource.Scope, e record.NetworkInterface) error {
	sn, err := record.Subnets.Get(tx, sc.Key(e.SubnetID))
	if err != nil && !resource.NotFound(err) {
		return err
	}
	if err == nil {
		pool, err := ipam.OfSubnet(sc, sn)
		if err != nil {
			return err
		}
		addrs := make([]netip.Addr, 0, len(e.Addresses))
		for _, a := range e.Addresses {
			if ip, err := netip.ParseAddr(a); err == nil {
				addrs = append(addrs, ip)
			}
		}
		if err := pool.Release(tx, addrs...); err != nil {
			return err
		}
		if err := pool.ReleasePrefixes(tx, e.Prefixes); err != nil {
			return err
		}
		ipam.Release6(tx, sc, sn.ID, slices.Concat(e.IPv6, e.Prefixes6))
	}
	if err := dropElastic(tx, sc, &e); err != nil {
		return err
	}
	if err := releasePublic(tx, sc, e.PublicIP); err != nil {
		return err
	}
	record.NetworkInterfaces.Delete(tx, sc.Key(e.ID))
	return nil
}

func releasePublic(tx *store.Tx, sc resource.Scope, address string) error {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil // there is no public address
	}
	return ipam.Public(sc.Region).Release(tx, ip)
}

// CreateNetworkInterface creates an interface. AWS services create requester-managed ones, which
// count as attached to a resource of the service.
func (s *Service) CreateNetworkInterface(ctx context.Context, in *awsec2.CreateNetworkInterfaceInput) (*awsec2.CreateNetworkInterfaceOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.SubnetId == nil {
		return nil, ec2err.Missing("subnetId")
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeNetworkInterface)
	if err != nil {
		return nil, err
	}
	extra, err := SecondaryCount(in.SecondaryPrivateIpAddressCount)
	if err != nil {
		return nil, err
	}
	extra6, err := AddressCount(in.Ipv6AddressCount, "ipv6AddressCount")
	if err != nil {
		return nil, err
	}
	extraBlock6, err := AddressCount(in.Ipv6PrefixCount, "ipv6PrefixCount")
	if err != nil {
		return nil, err
	}
	extraPrefix, err := AddressCount(in.Ipv4PrefixCount, "ipv4PrefixCount")
	if err != nil {
		return nil, err
	}
	spec := Spec{
		ID: ids.Resource("eni"), Description: aws.ToString(in.Description), Primary: aws.ToString(in.PrivateIpAddress),
		Extra: extra, Extra6: extra6, ExtraBlock6: extraBlock6, ExtraPrefix: extraPrefix, Groups: in.Groups, Tags: tags,
	}
	for _, a := range in.Ipv6Addresses {
		spec.IPv6 = append(spec.IPv6, aws.ToString(a.Ipv6Address))
	}
	for _, p := range in.Ipv6Prefixes {
		spec.Prefixes6 = append(spec.Prefixes6, aws.ToString(p.Ipv6Prefix))
	}
	for _, p := range in.Ipv4Prefixes {
		spec.Prefixes = append(spec.Prefixes, aws.ToString(p.Ipv4Prefix))
	}
	switch in.InterfaceType {
	case "", ec2types.NetworkInterfaceCreationType("interface"), ec2types.NetworkInterfaceCreationTypeEfa, ec2types.NetworkInterfaceCreationTypeBranch, ec2types.NetworkInterfaceCreationTypeTrunk:
		spec.Kind = string(in.InterfaceType)
	default:
		return nil, ec2err.InvalidValue(in.InterfaceType, "interfaceType", "")
	}
	for _, a := range in.PrivateIpAddresses {
		if aws.ToBool(a.Primary) {
			if spec.Primary != "" {
				return nil, ec2err.InvalidParameterValue("Only one primary private IP address can be specified.")
			}
			spec.Primary = aws.ToString(a.PrivateIpAddress)
		} else {
			spec.Secondary = append(spec.Secondary, aws.ToString(a.PrivateIpAddress))
		}
	}
	call := awsapi.CallFrom(ctx)
	if call.Principal.Type == awsapi.AWSService {
		spec.Requester = call.Principal.Name
		if spec.Requester == "" {
			spec.Requester = "amazon-aws"
		}
	}
	spec.Hint = spec.ID
	e, err := resource.Create(ctx, s.Core, record.NetworkInterfaces, in.DryRun, in.ClientToken, in, func(tx *store.Tx, e *record.NetworkInterface) (err error) {
		spec.Subnet, err = resource.Get(tx, record.Subnets, sc, *in.SubnetId)
		if err != nil {
			return err
		}
		if *e, err = s.Make(tx, sc, spec); err != nil {
			return err
		}
		if spec.Requester != "" {
			e.Attachment = record.InterfaceAttachment{ID: ids.Resource("ela-attach"), DeviceIndex: 1, Time: s.Now()}
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	out := s.sdkInterface(sc, e)
	if out.Attachment == nil {
		out.Status = ec2types.NetworkInterfaceStatus("pending") // AWS's answer, for which the SDK has no constant
	}
	return &awsec2.CreateNetworkInterfaceOutput{NetworkInterface: &out, ClientToken: in.ClientToken}, nil
}

// DeleteNetworkInterface deletes a detached interface. Requester-managed interfaces are deleted by
// the service that created them.
func (s *Service) DeleteNetworkInterface(ctx context.Context, in *awsec2.DeleteNetworkInterfaceInput) (*awsec2.DeleteNetworkInterfaceOutput, error) {
	sc := resource.ScopeOf(ctx)
	service := awsapi.CallFrom(ctx).Principal.Type == awsapi.AWSService
	err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
		e, err := resource.Get(tx, record.NetworkInterfaces, sc, aws.ToString(in.NetworkInterfaceId))
		if err != nil {
			return err
		}
		if e.Attachment.InstanceID != "" || e.RequesterID != "" && !service {
			return ec2err.InvalidParameterValue("Network interface '%s' is currently in use.", e.ID)
		}
		return Remove(tx, sc, e)
	})
	return &awsec2.DeleteNetworkInterfaceOutput{}, err
}

// InterfaceFields are the filters of DescribeNetworkInterfaces.
func (s *Service) InterfaceFields(sc resource.Scope) filter.Fields[record.NetworkInterface] {
	type v = record.NetworkInterface
	attached := func(get func(record.InterfaceAttachment) string) func(v) []string {
		return func(e v) []string {
			if e.Attachment.ID == "" {
				return nil
			}
			if s := get(e.Attachment); s != "" {
				return []string{s}
			}
			return nil
		}
	}
	associations := func(get func(*ec2types.NetworkInterfaceAssociation) *string) func(v) []string {
		return func(e v) []string {
			var out []string
			for _, a := range e.Addresses {
				if as := s.association(sc, e, a); as != nil && get(as) != nil {
					out = append(out, *get(as))
				}
			}
			return out
		}
	}
	return filter.Fields[v]{
		"addresses.association.owner-id":       associations(func(a *ec2types.NetworkInterfaceAssociation) *string { return a.IpOwnerId }),
		"addresses.association.public-ip":      associations(func(a *ec2types.NetworkInterfaceAssociation) *string { return a.PublicIp }),
		"addresses.primary":                    func(e v) []string { return []string{"true", "false"}[:min(2, len(e.Addresses))] },
		"addresses.private-ip-address":         func(e v) []string { return e.Addresses },
		"association.allocation-id":            associations(func(a *ec2types.NetworkInterfaceAssociation) *string { return a.AllocationId }),
		"association.association-id":           associations(func(a *ec2types.NetworkInterfaceAssociation) *string { return a.AssociationId }),
		"addresses.association.allocation-id":  associations(func(a *ec2types.NetworkInterfaceAssociation) *string { return a.AllocationId }),
		"addresses.association.association-id": associations(func(a *ec2types.NetworkInterfaceAssociation) *string { return a.AssociationId }),
		"association.ip-owner-id":              associations(func(a *ec2types.NetworkInterfaceAssociation) *string { return a.IpOwnerId }),
		"association.public-dns-name":          associations(func(a *ec2types.NetworkInterfaceAssociation) *string { return a.PublicDnsName }),
		"association.public-ip":                associations(func(a *ec2types.NetworkInterfaceAssociation) *string { return a.PublicIp }),
		"attachment.attach-time":               attached(func(a record.InterfaceAttachment) string { return a.Time.Format(time.RFC3339) }),
		"attachment.attachment-id":             attached(func(a record.InterfaceAttachment) string { return a.ID }),
		"attachment.delete-on-termination":     attached(func(a record.InterfaceAttachment) string { return strconv.FormatBool(a.DeleteOnTermination) }),
		"attachment.device-index":              attached(func(a record.InterfaceAttachment) string { return strconv.Itoa(int(a.DeviceIndex)) }),
		"attachment.instance-id":               attached(func(a record.InterfaceAttachment) string { return a.InstanceID }),
		"attachment.instance-owner-id": attached(func(a record.InterfaceAttachment) string {
			if a.InstanceID == "" {
				return "amazon-aws"
			}
			return sc.Account
		}),
		"attachment.nat-gateway-id": filter.One(func(e v) string {
			if strings.HasPrefix(e.OwnerID, "nat-") {
				return e.OwnerID
			}
			return ""
		}),
		"attachment.status":    attached(func(record.InterfaceAttachment) string { return "attached" }),
		"availability-zone":    filter.One(func(e v) string { return e.Zone }),
		"availability-zone-id": filter.One(func(e v) string { return e.ZoneID }),
		"description":          filter.One(func(e v) string { return e.Description }),
		"group-id":             func(e v) []string { return e.Groups },
		"group-name": func(e v) []string {
			var out []string
			for _, g := range GroupIdentifiers(s.Store, sc, e.Groups) {
				out = append(out, *g.GroupName)
			}
			return out
		},
		"interface-type":              filter.One(func(e v) string { return e.Type }),
		"ipv6-addresses.ipv6-address": func(e v) []string { return e.IPv6 },
		"mac-address":                 filter.One(func(e v) string { return e.MAC }),
		"network-interface-id":        filter.One(func(e v) string { return e.ID }),
		"operator.managed":            filter.Flag(func(v) bool { return false }),
		"operator.principal":          filter.Never[v],
		"owner-id":                    filter.One(func(v) string { return sc.Account }),
		"private-dns-name":            filter.One(func(e v) string { return record.PrivateDNSName(sc.Region, e.PrivateIP()) }),
		"private-ip-address":          func(e v) []string { return e.Addresses[:min(1, len(e.Addresses))] },
		"requester-id":                filter.One(func(e v) string { return e.RequesterID }),
		"requester-managed":           filter.Flag(func(e v) bool { return e.RequesterID != "" }),
		"source-dest-check":           filter.Flag(func(e v) bool { return !e.NoSourceDestCheck }),
		"status":                      filter.One(func(e v) string { return string(e.Status()) }),
		"subnet-id":                   filter.One(func(e v) string { return e.SubnetID }),
		"vpc-id":                      filter.One(func(e v) string { return e.VPCID }),
	}
}

// DescribeNetworkInterfaces lists interfaces.
func (s *Service) DescribeNetworkInterfaces(ctx context.Context, in *awsec2.DescribeNetworkInterfacesInput) (*awsec2.DescribeNetworkInterfacesOutput, error) {
	sc := resource.ScopeOf(ctx)
	found, next, err := resource.Describe(s.Store, sc, record.NetworkInterfaces, resource.Query{
		IDs: in.NetworkInterfaceIds, Exclusive: "networkInterfaceIds", Filters: in.Filters, DryRun: in.DryRun, MaxResults: in.MaxResults, NextToken: in.NextToken, Limits: resource.Limits{Min: 5, Max: 1000},
	}, s.InterfaceFields(sc))
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeNetworkInterfacesOutput{NextToken: next, NetworkInterfaces: make([]ec2types.NetworkInterface, len(found))}
	for i, e := range found {
		out.NetworkInterfaces[i] = s.sdkInterface(sc, e)
	}
	if e, ok := s.describeDetached(sc, in.Filters); ok && len(found) == 0 && len(in.NetworkInterfaceIds) == 0 {
		out.NetworkInterfaces = append(out.NetworkInterfaces, e)
	}
	return out, nil
}
