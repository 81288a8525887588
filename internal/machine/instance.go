package machine

import (
	"net/netip"
	"time"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
)

// Instance describes a machine: what EC2 knows about an instance when it switches it on. It is a value;
// implementations do not change what it refers to.
type Instance struct {
	Account string // 12 digits
	Region  string // us-east-1
	ID      string // i-0123456789abcdef0
	// BootID changes with each boot of the instance. If it is the same as before, the machine never stopped. The
	// empty string is a value like any other.
	BootID        string
	ReservationID string
	LaunchTime    time.Time

	Type  instancetypes.Type // name, vCPUs, memory, limits of interfaces and addresses
	Image images.Image       // family, architecture, and kubelet version if it has one
	// RootSnapshot is the snapshot that the root volume was created from. Its contents are on the disk at the first
	// boot.
	RootSnapshot string
	// DiskGiB is the size of the volume on which the operating system keeps its data: the root volume or, on
	// Bottlerocket, the data volume. 0 means 20.
	DiskGiB int32

	// Volumes are the attached volumes other than those of the operating system.
	Volumes []Volume

	AvailabilityZone string // us-east-1a
	ZoneID           string // use1-az1
	VPCID, SubnetID  string
	// Interfaces are all network interfaces, the primary one first. MAC and PrivateIP are the primary interface's.
	Interfaces     []Interface
	MAC            string
	PrivateIP      netip.Addr
	IPv6           netip.Addr // the primary interface's first one; the zero Addr if it has none
	PrivateDNSName string     // ip-10-0-0-1.ec2.internal
	PublicIP       netip.Addr // the zero Addr if it has none
	PublicDNSName  string

	// UserData is what the instance metadata service returns: decoded from base64, at most 16 KiB, possibly gzipped,
	// or nil if there is none.
	UserData   []byte
	ProfileARN string // of the instance profile
	RoleARN    string // the instance profile's role; empty means no credentials
	KeyName    string
	Spot       bool
	Operator   string // the AWS service that manages the instance, such as eks.amazonaws.com, or empty
	Tags       map[string]string

	// Fargate marks a machine that AWS runs for a single pod. It is not an EC2 instance: its ID is that of its
	// network interface.
	Fargate bool
	// MilliCPU and MemoryMiB are what a machine of Fargate may use. Its type, which its node reports, is larger.
	MilliCPU, MemoryMiB int64
}

// Address returns the instance's address: its private IPv4 address, or its IPv6 address if it is in a subnet for IPv6 only.
func (i *Instance) Address() netip.Addr {
	if i.PrivateIP.IsValid() {
		return i.PrivateIP
	}
	return i.IPv6
}

// Interface is a network interface of a machine.
type Interface struct {
	ID               string // eni-…
	Device           int    // the device index; 0 is the primary one
	MAC              string
	SubnetID         string
	SecurityGroupIDs []string
	Addresses        []netip.Addr   // the primary one first, IPv6 addresses last
	Prefixes         []netip.Prefix // delegated
}

// Volume is an EBS volume. A machine shows its file system, not its blocks.
type Volume struct {
	ID         string // vol-…
	SizeGiB    int32
	SnapshotID string // what it was created from, or empty
}
