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

// An Address is an elastic IP address. It is associated with one private
// address of an interface, or with none.
type Address struct {
	ID            string // eipalloc-…
	PublicIP      string
	AssociationID string  `json:",omitempty"` // eipassoc-…; empty while free
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

// Addresses are accounted for in pages of up to 1,024: one small record holds
// the bitmap of a page, so an allocation reads and writes a record or two, and
// parallel launches into a big subnet seldom meet. Pages appear when first
// written to.

const AddressesPerPage = 1024

// An AddressPage is the allocation state of consecutive addresses.
type AddressPage struct {
	Used []byte // bitmap, little-endian bits
	// Next is where the search for a free address starts. It moves on with every
	// allocation, so that a freed address rests before it is handed out again: node
	// names are made of addresses.
	Next int
}

// Count returns how many addresses of the page are taken.
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
	Addresses    []string // private IPv4; the first is the primary one
	// PublicIP is the public address of the primary address: an elastic one if
	// Elastic has it, otherwise one that lasts as long as the instance runs.
	PublicIP string `json:",omitempty"`
	// Elastic are the elastic addresses of all private addresses.
	Elastic  []ElasticAssociation `json:",omitempty"`
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
	Attachment        InterfaceAttachment
	Tags              tag.Set `json:",omitempty"`
}

// Writes is how much deleting e writes at most: itself and its public address, the
// pages of its addresses, a record for each of IPv6 and each elastic one.
func (e *NetworkInterface) Writes() int {
	pages := map[uint32]bool{}
	for _, text := range slices.Concat(e.Addresses, e.Prefixes) {
		text, _, _ = strings.Cut(text, "/")
		if ip, err := netip.ParseAddr(text); err == nil && ip.Is4() {
			b := ip.As4()
			pages[binary.BigEndian.Uint32(b[:])/AddressesPerPage] = true
		}
	}
	return 2 + len(pages) + len(e.IPv6) + len(e.Elastic)
}

// NoteInstance tells the elastic addresses of e which instance it is attached to.
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

// InstanceAssociation is association as DescribeInstances has it. dns is the
// public name, which is empty in a VPC without host names.
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

// Association renders the public address of a private one, or nil if there is
// none.
func (e NetworkInterface) Association(sc resource.Scope, private string) *ec2types.NetworkInterfaceAssociation {
	if a, ok := e.ElasticOf(private); ok {
		return &ec2types.NetworkInterfaceAssociation{
			AllocationId: aws.String(a.AllocationID), AssociationId: aws.String(a.AssociationID), IpOwnerId: aws.String(sc.Account),
			PublicIp: aws.String(a.PublicIP), PublicDnsName: aws.String(PublicDNSName(sc.Region, a.PublicIP)),
		}
	}
	if e.PublicIP == "" || private != e.Addresses[0] {
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

// An InterfaceAttachment attaches an interface to an instance; the zero value is
// a free interface.
type InterfaceAttachment struct {
	ID string `json:",omitempty"` // eni-attach-…; empty while detached
	// InstanceID is empty for an attachment to something of AWS's.
	InstanceID          string    `json:",omitempty"`
	DeviceIndex         int32     `json:",omitempty"`
	CardIndex           int32     `json:",omitempty"`
	DeleteOnTermination bool      `json:",omitempty"`
	Time                time.Time `json:",omitzero"`
}

// Status returns whether the interface is attached.
func (e NetworkInterface) Status() ec2types.NetworkInterfaceStatus {
	if e.Attachment.ID != "" {
		return ec2types.NetworkInterfaceStatusInUse
	}
	return ec2types.NetworkInterfaceStatusAvailable
}

// PrivateDNSName is the ip-name of an address.
func PrivateDNSName(region, address string) string {
	return "ip-" + strings.ReplaceAll(address, ".", "-") + "." + internalDomain(region)
}

// PublicDNSName is the name of a public address.
func PublicDNSName(region, address string) string {
	domain := region + ".compute.amazonaws.com"
	if region == "us-east-1" {
		domain = "compute-1.amazonaws.com"
	}
	return "ec2-" + strings.ReplaceAll(address, ".", "-") + "." + domain
}

// An ElasticAssociation is an elastic address as its interface sees it.
type ElasticAssociation struct {
	AllocationID  string
	AssociationID string
	PublicIP      string
	PrivateIP     string
}
