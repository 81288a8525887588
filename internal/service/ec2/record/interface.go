package record

import (
	"encoding/binary"
	"math/bits"
	"net/netip"
	"slices"
	"strings"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// An Address is an elastic IP address. It is associated with at most one private address of an
// interface.
type Address struct {
	ID            string // eipalloc-…
	PublicIP      string
	AssociationID string  `json:",omitempty"` // eipassoc-…, or empty if not associated
	InterfaceID   string  `json:",omitempty"`
	InstanceID    string  `json:",omitempty"`
	PrivateIP     string  `json:",omitempty"`
	Tags          tag.Set `json:",omitempty"`
}

// SDK renders the record for the SDK.
func (a Address) SDK(sc resource.Scope) ec2types.Address {
	out := ec2types.Address{
		AllocationId: aws.String(a.ID), PublicIp: aws.String(a.PublicIP), Domain: ec2types.DomainTypeVpc,
		PublicIpv4Pool: aws.String("amazon"), NetworkBorderGroup: aws.String(sc.Region),
		AssociationId: resource.Optional(a.AssociationID), NetworkInterfaceId: resource.Optional(a.InterfaceID), PrivateIpAddress: resource.Optional(a.PrivateIP),
		InstanceId: resource.Optional(a.InstanceID), Tags: a.Tags.SDK(),
	}
	if a.AssociationID != "" {
		out.NetworkInterfaceOwnerId = aws.String(sc.Account)
	}
	return out
}

// Allocated addresses are recorded in pages of up to 1,024. A page is one small record with a
// bitmap, so an allocation reads and writes only a record or two, and parallel launches into a
// large subnet rarely conflict. Pages are created on first write.

const AddressesPerPage = 1024

// An AddressPage is the allocation state of consecutive addresses.
type AddressPage struct {
	Used []byte // bitmap with little-endian bits
	// Next is where the search for a free address starts. Every allocation moves it on, so that a
	// freed address is not reused soon: node names contain addresses.
	Next int
}

// Count returns how many of the page's addresses are allocated.
func (a AddressPage) Count() int {
	n := 0
	for _, b := range a.Used {
		n += bits.OnesCount8(b)
	}
	return n
}

// A NetworkInterface is a network interface with its addresses.
type NetworkInterface struct {
	ID           string
	SubnetID     string
	VPCID        string
	Zone, ZoneID string
	Description  string `json:",omitempty"`
	MAC          string
	// Addresses are the private IPv4 addresses, the primary one first. Interfaces in IPv6-only subnets have none.
	Addresses []string
	// PublicIP is the public address of the primary address. It is elastic if it is in Elastic;
	// otherwise it lasts as long as the instance runs.
	PublicIP string `json:",omitempty"`
	// Elastic are the elastic addresses associated with any of the private addresses.
	Elastic  []ElasticAssociation `json:",omitempty"`
	IPv6     []string             `json:",omitempty"`
	Prefixes []string             `json:",omitempty"` // delegated IPv4 blocks (/28)
	// Prefixes6 are delegated IPv6 blocks (/80).
	Prefixes6 []string `json:",omitempty"`
	// Groups is empty for interfaces of NAT gateways, which have no groups.
	Groups []string
	Type   string // interface type: interface, …
	// RequesterID is the AWS service that created and manages the interface.
	RequesterID string `json:",omitempty"`
	// OwnerID is the owner of a requester-managed interface: nat-…, vpce-…, eice-….
	OwnerID           string `json:",omitempty"`
	NoSourceDestCheck bool   `json:",omitempty"`
	Attachment        InterfaceAttachment
	Tags              tag.Set `json:",omitempty"`
}

// Writes returns the maximum number of writes for deleting e: the record, its public address, the
// pages of its addresses, and a record for each IPv6 address or block and each elastic address.
func (e *NetworkInterface) Writes() int {
	pages := map[uint32]bool{}
	for _, text := range slices.Concat(e.Addresses, e.Prefixes) {
		text, _, _ = strings.Cut(text, "/")
		if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() {
			b := ip.As4()
			pages[binary.BigEndian.Uint32(b[:])/AddressesPerPage] = true
		}
	}
	return 2 + len(pages) + len(e.IPv6) + len(e.Prefixes6) + len(e.Elastic)
}

// NoteInstance records in e's elastic addresses which instance e is attached to.
func (e NetworkInterface) NoteInstance(tx *store.Tx, sc resource.Scope) error {
	for _, el := range e.Elastic {
		err := Addresses.Update(tx, sc.Key(el.AllocationID), func(a *Address) error {
			a.InstanceID = e.Attachment.InstanceID
			return nil
		})
		if err != nil {
			return err
		}
	}
	return nil
}

// InstanceAssociation is Association as DescribeInstances returns it. dns is the public DNS name,
// which is empty in a VPC without DNS hostnames.
func (e NetworkInterface) InstanceAssociation(sc resource.Scope, private, dns string) *ec2types.InstanceNetworkInterfaceAssociation {
	a := e.Association(sc, private)
	if a == nil {
		return nil
	}
	if dns != "" {
		dns = *a.PublicDnsName
	}
	return &ec2types.InstanceNetworkInterfaceAssociation{IpOwnerId: a.IpOwnerId, PublicIp: a.PublicIp, PublicDnsName: aws.String(dns)}
}

// Association returns the public address associated with a private one, or nil if there is none.
func (e NetworkInterface) Association(sc resource.Scope, private string) *ec2types.NetworkInterfaceAssociation {
	if a, ok := e.ElasticOf(private); ok {
		return &ec2types.NetworkInterfaceAssociation{
			AllocationId: aws.String(a.AllocationID), AssociationId: aws.String(a.AssociationID), IpOwnerId: aws.String(sc.Account),
			PublicIp: aws.String(a.PublicIP), PublicDnsName: aws.String(PublicDNSName(sc.Region, a.PublicIP)),
		}
	}
	if e.PublicIP == "" || private != e.PrivateIP() {
		return nil
	}
	return &ec2types.NetworkInterfaceAssociation{
		IpOwnerId: aws.String("amazon"), PublicIp: aws.String(e.PublicIP), PublicDnsName: aws.String(PublicDNSName(sc.Region, e.PublicIP)),
	}
}

// ElasticOf returns the elastic address of a private address.
func (e NetworkInterface) ElasticOf(private string) (ElasticAssociation, bool) {
	i := slices.IndexFunc(e.Elastic, func(a ElasticAssociation) bool { return a.PrivateIP == private })
	if i < 0 {
		return ElasticAssociation{}, false
	}
	return e.Elastic[i], true
}

// An InterfaceAttachment attaches an interface to an instance. The zero value means that the
// interface is not attached.
type InterfaceAttachment struct {
	ID string `json:",omitempty"` // eni-attach-…, or empty while detached
	// InstanceID is empty for an attachment to an AWS-managed resource.
	InstanceID          string    `json:",omitempty"`
	DeviceIndex         int32     `json:",omitempty"`
	CardIndex           int32     `json:",omitempty"`
	DeleteOnTermination bool      `json:",omitempty"`
	Time                time.Time `json:",omitzero"`
}

// PrivateIP returns the primary private IPv4 address, or "" if there is none.
func (e NetworkInterface) PrivateIP() string {
	if len(e.Addresses) == 0 {
		return ""
	}
	return e.Addresses[0]
}

// Secondary returns the private IPv4 addresses except the primary one.
func (e NetworkInterface) Secondary() []string { return e.Addresses[min(1, len(e.Addresses)):] }

// Status returns whether the interface is attached.
func (e NetworkInterface) Status() ec2types.NetworkInterfaceStatus {
	if e.Attachment.ID != "" {
		return ec2types.NetworkInterfaceStatusInUse
	}
	return ec2types.NetworkInterfaceStatusAvailable
}

// PrivateDNSName returns the DNS name derived from a private address, or "" if there is none.
func PrivateDNSName(region, address string) string {
	if address == "" {
		return ""
	}
	return "ip-" + strings.ReplaceAll(address, ".", "-") + "." + internalDomain(region)
}

// PublicDNSName returns the DNS name of a public address.
func PublicDNSName(region, address string) string {
	domain := region + ".compute.amazonaws.com"
	if region == "us-east-1" {
		domain = "compute-1.amazonaws.com"
	}
	return "ec2-" + strings.ReplaceAll(address, ".", "-") + "." + domain
}

// An ElasticAssociation is an elastic address, as stored with its interface.
type ElasticAssociation struct {
	AllocationID  string
	AssociationID string
	PublicIP      string
	PrivateIP     string
}
