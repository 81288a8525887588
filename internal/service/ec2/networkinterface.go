package ec2

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
	"github.com/drydock-dev/drydock/internal/store"
)

type networkInterfaceRecord struct {
	ID           string
	SubnetID     string
	VPCID        string
	Zone, ZoneID string
	Description  string `json:",omitempty"`
	MAC          string
	Addresses    []string // private IPv4; the first is the primary one
	// PublicIP is the public address of the primary address: an elastic one if
	// Elastic has it, otherwise one that lasts as long as the instance runs.
	PublicIP string `json:",omitempty"`
	// Elastic are the elastic addresses of all private addresses.
	Elastic  []elasticAssociation `json:",omitempty"`
	IPv6     []string             `json:",omitempty"`
	Prefixes []string             `json:",omitempty"` // delegated IPv4 blocks (/28)
	// Groups is empty for the interfaces of NAT gateways, which have none.
	Groups []string
	Type   string // interface, …
	// RequesterID is the AWS service that made and manages the interface.
	RequesterID string `json:",omitempty"`
	// OwnerID is what a requester-managed interface belongs to: nat-…, vpce-…, eice-….
	OwnerID           string `json:",omitempty"`
	NoSourceDestCheck bool   `json:",omitempty"`
	Attachment        interfaceAttachment
	Tags              Tags `json:",omitempty"`
}

type interfaceAttachment struct {
	ID string `json:",omitempty"` // eni-attach-…; empty while detached
	// InstanceID is empty for an attachment to something of AWS's.
	InstanceID          string    `json:",omitempty"`
	DeviceIndex         int32     `json:",omitempty"`
	CardIndex           int32     `json:",omitempty"`
	DeleteOnTermination bool      `json:",omitempty"`
	Time                time.Time `json:",omitzero"`
}

func (e networkInterfaceRecord) status() ec2types.NetworkInterfaceStatus {
	if e.Attachment.ID != "" {
		return ec2types.NetworkInterfaceStatusInUse
	}
	return ec2types.NetworkInterfaceStatusAvailable
}

// privateDNSName is the ip-name of an address.
func privateDNSName(region, address string) string {
	return "ip-" + strings.ReplaceAll(address, ".", "-") + "." + internalDomain(region)
}

// publicDNSName is the name of a public address.
func publicDNSName(region, address string) string {
	domain := region + ".compute.amazonaws.com"
	if region == "us-east-1" {
		domain = "compute-1.amazonaws.com"
	}
	return "ec2-" + strings.ReplaceAll(address, ".", "-") + "." + domain
}

// newMAC derives a stable hardware address from an interface's ID.
func newMAC(id string) string {
	h := id[len(id)-10:]
	return "0a:" + h[0:2] + ":" + h[2:4] + ":" + h[4:6] + ":" + h[6:8] + ":" + h[8:10]
}

// groupIdentifiers returns the groups with their names.
func groupIdentifiers(r store.Reader, sc scope, groups []string) []ec2types.GroupIdentifier {
	out := make([]ec2types.GroupIdentifier, 0, len(groups))
	for _, id := range groups {
		g, err := securityGroups.Get(r, sc.key(id))
		if err != nil {
			g.Name = "" // deleted between two reads
		}
		out = append(out, ec2types.GroupIdentifier{GroupId: aws.String(id), GroupName: aws.String(g.Name)})
	}
	return out
}

func (s *Service) sdkInterface(sc scope, e networkInterfaceRecord) ec2types.NetworkInterface {
	out := ec2types.NetworkInterface{
		NetworkInterfaceId: aws.String(e.ID),
		SubnetId:           aws.String(e.SubnetID),
		VpcId:              aws.String(e.VPCID),
		AvailabilityZone:   aws.String(e.Zone),
		AvailabilityZoneId: aws.String(e.ZoneID),
		Description:        aws.String(e.Description),
		OwnerId:            aws.String(sc.account),
		Status:             e.status(),
		MacAddress:         aws.String(e.MAC),
		PrivateIpAddress:   aws.String(e.Addresses[0]),
		PrivateDnsName:     aws.String(privateDNSName(sc.region, e.Addresses[0])),
		SourceDestCheck:    aws.Bool(!e.NoSourceDestCheck),
		InterfaceType:      ec2types.NetworkInterfaceType(e.Type),
		RequesterManaged:   aws.Bool(e.RequesterID != ""),
		RequesterId:        optional(e.RequesterID),
		Groups:             groupIdentifiers(s.store, sc, e.Groups),
		Ipv6Addresses:      []ec2types.NetworkInterfaceIpv6Address{},
		Association:        e.association(sc, e.Addresses[0]),
		TagSet:             e.Tags.sdk(),
	}
	for i, a := range e.IPv6 {
		out.Ipv6Addresses = append(out.Ipv6Addresses, ec2types.NetworkInterfaceIpv6Address{Ipv6Address: aws.String(a), IsPrimaryIpv6: aws.Bool(false)})
		if i == 0 {
			out.Ipv6Address = aws.String(a)
		}
	}
	for _, p := range e.Prefixes {
		out.Ipv4Prefixes = append(out.Ipv4Prefixes, ec2types.Ipv4PrefixSpecification{Ipv4Prefix: aws.String(p)})
	}
	for i, a := range e.Addresses {
		addr := ec2types.NetworkInterfacePrivateIpAddress{
			Primary: aws.Bool(i == 0), PrivateIpAddress: aws.String(a), PrivateDnsName: aws.String(privateDNSName(sc.region, a)),
			Association: e.association(sc, a),
		}
		out.PrivateIpAddresses = append(out.PrivateIpAddresses, addr)
	}
	if at := e.Attachment; at.ID != "" {
		owner := sc.account
		if at.InstanceID == "" {
			owner = "amazon-aws"
		}
		out.Attachment = &ec2types.NetworkInterfaceAttachment{
			AttachmentId: aws.String(at.ID), InstanceId: optional(at.InstanceID), InstanceOwnerId: aws.String(owner),
			DeviceIndex: aws.Int32(at.DeviceIndex), NetworkCardIndex: aws.Int32(at.CardIndex),
			DeleteOnTermination: aws.Bool(at.DeleteOnTermination), Status: ec2types.AttachmentStatusAttached,
			AttachTime: aws.Time(at.Time),
		}
	}
	return out
}

// An interfaceSpec says what interface to make.
type interfaceSpec struct {
	id          string
	subnet      subnetRecord
	description string
	primary     string   // empty: any free address
	secondary   []string // given secondary addresses
	extra       int      // number of further secondary addresses
	groups      []string // empty: the VPC's default group
	noGroups    bool     // none at all
	ipv6        []string // given IPv6 addresses
	extra6      int      // number of further IPv6 addresses
	prefixes    []string // given IPv4 prefixes
	extraPrefix int      // number of further IPv4 prefixes
	kind        string
	requester   string
	owner       string // what a requester-managed interface belongs to
	tags        Tags
	hint        string // addresses are looked for in one place for equal hints
}

// maxPerInterface is the most addresses an interface of any instance type has
// (TestMaxPerInterface).
const maxPerInterface = 64

// secondaryCount checks the number of secondary addresses a request wants. The
// instance type's own limit holds once the interface is attached.
func secondaryCount(n *int32) (int, error) {
	if n == nil {
		return 0, nil
	}
	if *n < 0 || *n >= maxPerInterface {
		return 0, errInvalidValue(*n, "secondaryPrivateIpAddressCount", fmt.Sprintf("Expecting a value between 0 and %d.", maxPerInterface-1))
	}
	return int(*n), nil
}

// addressCount is secondaryCount for other kinds of addresses.
func addressCount(n *int32, param string) (int, error) {
	if n == nil {
		return 0, nil
	}
	if *n < 0 || *n >= maxPerInterface {
		return 0, errInvalidValue(*n, param, fmt.Sprintf("Expecting a value between 0 and %d.", maxPerInterface-1))
	}
	return int(*n), nil
}

// makeInterface checks and writes a new interface; the caller attaches it.
func (s *Service) makeInterface(tx *store.Tx, sc scope, spec interfaceSpec) (networkInterfaceRecord, error) {
	var none networkInterfaceRecord
	var groups []string
	var err error
	if !spec.noGroups {
		if groups, err = resolveGroups(tx, sc, spec.subnet.VPCID, spec.groups); err != nil {
			return none, err
		}
	}
	pool, err := sc.subnetPool(spec.subnet)
	if err != nil {
		return none, err
	}
	free := spec.extra
	var addresses []string
	if spec.primary == "" {
		free++
	} else {
		addresses = append(addresses, spec.primary)
	}
	for _, a := range append(addresses, spec.secondary...) {
		ip, err := netip.ParseAddr(a)
		if err != nil || !ip.Is4() {
			return none, errInvalidParameter("invalid value for parameter address: %s", a)
		}
		if err := pool.claim(tx, ip); err != nil {
			return none, err
		}
	}
	taken, err := pool.take(tx, free, spec.hint)
	if err != nil {
		return none, err
	}
	for _, a := range taken {
		addresses = append(addresses, a.String())
	}
	if spec.primary == "" && len(spec.secondary) > 0 {
		addresses = slices.Concat(addresses[:1], spec.secondary, addresses[1:])
	} else {
		addresses = append(addresses, spec.secondary...)
	}
	prefixes, err := pool.takePrefixes(tx, spec.prefixes, spec.extraPrefix)
	if err != nil {
		return none, err
	}
	if spec.subnet.AssignIPv6 && len(spec.ipv6) == 0 && spec.extra6 == 0 && spec.requester == "" {
		spec.extra6 = 1
	}
	addresses6, err := takeAddresses6(tx, sc, spec.subnet, spec.id, spec.ipv6, spec.extra6)
	if err != nil {
		return none, err
	}
	kind := spec.kind
	if kind == "" {
		kind = "interface"
	}
	return networkInterfaceRecord{
		ID: spec.id, SubnetID: spec.subnet.ID, VPCID: spec.subnet.VPCID, Zone: spec.subnet.Zone, ZoneID: spec.subnet.ZoneID,
		Description: spec.description, MAC: newMAC(spec.id), Addresses: addresses, Groups: groups, Type: kind,
		IPv6: addresses6, Prefixes: prefixes, RequesterID: spec.requester, OwnerID: spec.owner, Tags: spec.tags,
	}, nil
}

// resolveGroups checks that groups exist in a VPC; none means its default one.
func resolveGroups(r store.Reader, sc scope, vpc string, groups []string) ([]string, error) {
	if len(groups) == 0 {
		v, err := get(r, vpcs, sc, vpcID, vpc)
		return []string{v.DefaultGroupID}, err
	}
	groups = sortedUnique(groups)
	if err := checkQuota(r, sc, quotaGroupsPerENI, len(groups), errLimit("SecurityGroupsPerInterfaceLimitExceeded", "security groups per interface")); err != nil {
		return nil, err
	}
	for _, id := range groups {
		g, err := get(r, securityGroups, sc, securityGroupID, id)
		if err != nil {
			return nil, err
		}
		if g.VPCID != vpc {
			return nil, errInvalidParameter("Security group %s and subnet belong to different networks.", id)
		}
	}
	return groups, nil
}

// removeInterface deletes an interface and frees its addresses.
func removeInterface(tx *store.Tx, sc scope, e networkInterfaceRecord) error {
	sn, err := subnets.Get(tx, sc.key(e.SubnetID))
	if err != nil && !notFound(err) {
		return err
	}
	if err == nil {
		pool, err := sc.subnetPool(sn)
		if err != nil {
			return err
		}
		addrs := make([]netip.Addr, 0, len(e.Addresses))
		for _, a := range e.Addresses {
			if ip, err := netip.ParseAddr(a); err == nil {
				addrs = append(addrs, ip)
			}
		}
		if err := pool.release(tx, addrs...); err != nil {
			return err
		}
		if err := pool.releasePrefixes(tx, e.Prefixes); err != nil {
			return err
		}
		releaseAddresses6(tx, sc, sn.ID, e.IPv6)
	}
	if err := dropElastic(tx, sc, &e); err != nil {
		return err
	}
	if err := releasePublic(tx, sc, e.PublicIP); err != nil {
		return err
	}
	networkInterfaces.Delete(tx, sc.key(e.ID))
	return nil
}

func releasePublic(tx *store.Tx, sc scope, address string) error {
	ip, err := netip.ParseAddr(address)
	if err != nil {
		return nil // there is none
	}
	return publicPool(sc.region).release(tx, ip)
}

// CreateNetworkInterface creates an interface. AWS's services make
// requester-managed ones, which count as attached: to something of theirs.
func (s *Service) CreateNetworkInterface(ctx context.Context, in *awsec2.CreateNetworkInterfaceInput) (*awsec2.CreateNetworkInterfaceOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.SubnetId == nil {
		return nil, errMissing("subnetId")
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeNetworkInterface)
	if err != nil {
		return nil, err
	}
	extra, err := secondaryCount(in.SecondaryPrivateIpAddressCount)
	if err != nil {
		return nil, err
	}
	extra6, err := addressCount(in.Ipv6AddressCount, "ipv6AddressCount")
	if err != nil {
		return nil, err
	}
	extraPrefix, err := addressCount(in.Ipv4PrefixCount, "ipv4PrefixCount")
	if err != nil {
		return nil, err
	}
	spec := interfaceSpec{
		id: ids.Resource("eni"), description: aws.ToString(in.Description), primary: aws.ToString(in.PrivateIpAddress),
		extra: extra, extra6: extra6, extraPrefix: extraPrefix, groups: in.Groups, tags: tags,
	}
	for _, a := range in.Ipv6Addresses {
		spec.ipv6 = append(spec.ipv6, aws.ToString(a.Ipv6Address))
	}
	for _, p := range in.Ipv4Prefixes {
		spec.prefixes = append(spec.prefixes, aws.ToString(p.Ipv4Prefix))
	}
	switch in.InterfaceType {
	case "", ec2types.NetworkInterfaceCreationType("interface"), ec2types.NetworkInterfaceCreationTypeEfa, ec2types.NetworkInterfaceCreationTypeBranch, ec2types.NetworkInterfaceCreationTypeTrunk:
		spec.kind = string(in.InterfaceType)
	default:
		return nil, errInvalidValue(in.InterfaceType, "interfaceType", "")
	}
	for _, a := range in.PrivateIpAddresses {
		if aws.ToBool(a.Primary) {
			if spec.primary != "" {
				return nil, errInvalidParameter("Only one primary private IP address can be specified.")
			}
			spec.primary = aws.ToString(a.PrivateIpAddress)
		} else {
			spec.secondary = append(spec.secondary, aws.ToString(a.PrivateIpAddress))
		}
	}
	call := awsapi.CallFrom(ctx)
	if call.Principal.Type == awsapi.AWSService {
		spec.requester = call.Principal.Name
		if spec.requester == "" {
			spec.requester = "amazon-aws"
		}
	}
	spec.hint = spec.id
	var e networkInterfaceRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if done, err := recallOne(tx, s, sc, "CreateNetworkInterface", in.ClientToken, in, networkInterfaces, networkInterfaceID, &e); done || err != nil {
			return err
		}
		spec.subnet, err = get(tx, subnets, sc, subnetID, *in.SubnetId)
		if err != nil {
			return err
		}
		if e, err = s.makeInterface(tx, sc, spec); err != nil {
			return err
		}
		if spec.requester != "" {
			e.Attachment = interfaceAttachment{ID: ids.Resource("ela-attach"), DeviceIndex: 1, Time: s.now()}
		}
		if err := networkInterfaces.Create(tx, sc.key(e.ID), e); err != nil {
			return err
		}
		return s.remember(tx, sc, "CreateNetworkInterface", in.ClientToken, in, false, e.ID)
	})
	if err != nil {
		return nil, err
	}
	out := s.sdkInterface(sc, e)
	if out.Attachment == nil {
		out.Status = ec2types.NetworkInterfaceStatus("pending") // as AWS answers; the SDK lacks the value
	}
	return &awsec2.CreateNetworkInterfaceOutput{NetworkInterface: &out, ClientToken: in.ClientToken}, nil
}

// DeleteNetworkInterface deletes a detached interface. Requester-managed ones are
// deleted by the service that made them.
func (s *Service) DeleteNetworkInterface(ctx context.Context, in *awsec2.DeleteNetworkInterfaceInput) (*awsec2.DeleteNetworkInterfaceOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	service := awsapi.CallFrom(ctx).Principal.Type == awsapi.AWSService
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		e, err := get(tx, networkInterfaces, sc, networkInterfaceID, aws.ToString(in.NetworkInterfaceId))
		if err != nil {
			return err
		}
		if e.Attachment.InstanceID != "" || e.RequesterID != "" && !service {
			return errInvalidParameter("Network interface '%s' is currently in use.", e.ID)
		}
		return removeInterface(tx, sc, e)
	})
	return &awsec2.DeleteNetworkInterfaceOutput{}, err
}

func (s *Service) networkInterfaceFields(sc scope) fields[networkInterfaceRecord] {
	type v = networkInterfaceRecord
	attached := func(get func(interfaceAttachment) string) func(v) []string {
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
				if as := e.association(sc, a); as != nil && get(as) != nil {
					out = append(out, *get(as))
				}
			}
			return out
		}
	}
	return fields[v]{
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
		"attachment.attach-time":               attached(func(a interfaceAttachment) string { return a.Time.Format(time.RFC3339) }),
		"attachment.attachment-id":             attached(func(a interfaceAttachment) string { return a.ID }),
		"attachment.delete-on-termination":     attached(func(a interfaceAttachment) string { return strconv.FormatBool(a.DeleteOnTermination) }),
		"attachment.device-index":              attached(func(a interfaceAttachment) string { return strconv.Itoa(int(a.DeviceIndex)) }),
		"attachment.instance-id":               attached(func(a interfaceAttachment) string { return a.InstanceID }),
		"attachment.instance-owner-id": attached(func(a interfaceAttachment) string {
			if a.InstanceID == "" {
				return "amazon-aws"
			}
			return sc.account
		}),
		"attachment.nat-gateway-id": one(func(e v) string {
			if strings.HasPrefix(e.OwnerID, "nat-") {
				return e.OwnerID
			}
			return ""
		}),
		"attachment.status":    attached(func(interfaceAttachment) string { return "attached" }),
		"availability-zone":    one(func(e v) string { return e.Zone }),
		"availability-zone-id": one(func(e v) string { return e.ZoneID }),
		"description":          one(func(e v) string { return e.Description }),
		"group-id":             func(e v) []string { return e.Groups },
		"group-name": func(e v) []string {
			var out []string
			for _, g := range groupIdentifiers(s.store, sc, e.Groups) {
				out = append(out, *g.GroupName)
			}
			return out
		},
		"interface-type":              one(func(e v) string { return e.Type }),
		"ipv6-addresses.ipv6-address": func(e v) []string { return e.IPv6 },
		"mac-address":                 one(func(e v) string { return e.MAC }),
		"network-interface-id":        one(func(e v) string { return e.ID }),
		"operator.managed":            flag(func(v) bool { return false }),
		"operator.principal":          never[v],
		"owner-id":                    one(func(v) string { return sc.account }),
		"private-dns-name":            one(func(e v) string { return privateDNSName(sc.region, e.Addresses[0]) }),
		"private-ip-address":          func(e v) []string { return e.Addresses[:1] },
		"requester-id":                one(func(e v) string { return e.RequesterID }),
		"requester-managed":           flag(func(e v) bool { return e.RequesterID != "" }),
		"source-dest-check":           flag(func(e v) bool { return !e.NoSourceDestCheck }),
		"status":                      one(func(e v) string { return string(e.status()) }),
		"subnet-id":                   one(func(e v) string { return e.SubnetID }),
		"vpc-id":                      one(func(e v) string { return e.VPCID }),
	}
}

// DescribeNetworkInterfaces lists interfaces.
func (s *Service) DescribeNetworkInterfaces(ctx context.Context, in *awsec2.DescribeNetworkInterfacesInput) (*awsec2.DescribeNetworkInterfacesOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	match, err := compileFilters(in.Filters, s.networkInterfaceFields(sc), func(e networkInterfaceRecord) Tags { return e.Tags })
	if err != nil {
		return nil, err
	}
	if err := checkDryRun(in.DryRun); err != nil {
		return nil, err
	}
	if err := checkPageOfIDs(in.NetworkInterfaceIds, "networkInterfaceIds", in.MaxResults); err != nil {
		return nil, err
	}
	found, err := choose(s.store, networkInterfaces, sc, networkInterfaceID, in.NetworkInterfaceIds, match)
	if err != nil {
		return nil, err
	}
	found, next, err := paginate(found, func(e networkInterfaceRecord) string { return e.ID }, in.MaxResults, in.NextToken, limits{5, 1000})
	if err != nil {
		return nil, err
	}
	out := &awsec2.DescribeNetworkInterfacesOutput{NextToken: next, NetworkInterfaces: make([]ec2types.NetworkInterface, len(found))}
	for i, e := range found {
		out.NetworkInterfaces[i] = s.sdkInterface(sc, e)
	}
	return out, nil
}

// An elasticAssociation is an elastic address as its interface sees it.
type elasticAssociation struct {
	AllocationID  string
	AssociationID string
	PublicIP      string
	PrivateIP     string
}
