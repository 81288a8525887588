package record

import (
	"slices"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/catalog/instancetypes"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// States of an instance.
const (
	Pending      = "pending"
	Running      = "running"
	ShuttingDown = "shutting-down"
	Terminated   = "terminated"
	Stopping     = "stopping"
	Stopped      = "stopped"
)

// An Instance is one instance. It has the IDs of its interfaces, which have their own records.
type Instance struct {
	ID            string
	ReservationID string
	Requester     string `json:",omitempty"` // the AWS service that launched it
	LaunchIndex   int32  `json:",omitempty"`
	ImageID       string
	// RootTask is the root volume replacement task that the machine has not completed yet.
	RootTask     string `json:",omitempty"`
	BaseImage    string `json:",omitempty"` // the name of the catalogue image whose operating system it runs
	Type         string
	Architecture string
	RootDevice   string
	KeyName      string `json:",omitempty"`
	ClientToken  string `json:",omitempty"`
	LaunchTime   time.Time

	State            string
	Since            time.Time // when it entered the state
	ReasonCode       string    `json:",omitempty"`
	ReasonMessage    string    `json:",omitempty"`
	TransitionReason string    `json:",omitempty"`
	// Boot counts the boots. A reboot increments it.
	Boot int `json:",omitempty"`

	VPCID, SubnetID string `json:",omitempty"`
	Zone, ZoneID    string
	PrivateIP       string   `json:",omitempty"`
	PublicIP        string   `json:",omitempty"`
	AutoPublic      bool     `json:",omitempty"` // gets a public address at every start
	Interfaces      []string `json:",omitempty"`

	Profile  *InstanceProfile `json:",omitempty"`
	UserData string           `json:",omitempty"` // base64
	Devices  []BlockDevice    `json:",omitempty"`

	Tokens           string `json:",omitempty"` // for metadata: optional or required
	HopLimit         int32  `json:",omitempty"`
	MetadataEndpoint string `json:",omitempty"`
	MetadataTags     string `json:",omitempty"`
	MetadataIPv6     string `json:",omitempty"`

	Monitoring         bool    `json:",omitempty"`
	EbsOptimized       bool    `json:",omitempty"`
	DisableTermination bool    `json:",omitempty"`
	DisableStop        bool    `json:",omitempty"`
	ShutdownBehavior   string  `json:",omitempty"`
	SpotRequestID      string  `json:",omitempty"` // ID of its Spot request; empty for On-Demand
	SpotPersistent     bool    `json:",omitempty"` // the Spot request is persistent
	FleetID            string  `json:",omitempty"` // the EC2 Fleet that launched it
	FleetWeight        float64 `json:",omitempty"` // units of the fleet's capacity
	Cores              int32   `json:",omitempty"`
	ThreadsPerCore     int32   `json:",omitempty"`
	AutoRecovery       string  `json:",omitempty"`
	CapacityPreference string  `json:",omitempty"` // for Capacity Reservations: open, none or capacity-reservations-only
	CapacityTarget     string  `json:",omitempty"` // ID of the only Capacity Reservation that it may run in
	ReservedIn         string  `json:",omitempty"` // ID of the Capacity Reservation that it runs in
	Operator           string  `json:",omitempty"` // the service that manages it, such as eks.amazonaws.com
	Tenancy            string  `json:",omitempty"`
	PlacementGroup     string  `json:",omitempty"` // name
	PlacementGroupID   string  `json:",omitempty"`
	Partition          int32   `json:",omitempty"` // of a partition placement group
	CPUCredits         string  `json:",omitempty"`
	HostnameType       string  `json:",omitempty"`
	ResourceNameA      bool    `json:",omitempty"`
	ResourceNameAAAA   bool    `json:",omitempty"`
	Tags               tag.Set `json:",omitempty"`
}

// VCPUs returns the number of vCPUs.
func (i Instance) VCPUs() int {
	if i.Cores > 0 {
		return int(i.Cores * i.ThreadsPerCore)
	}
	t, _ := instancetypes.Lookup(i.Type)
	return t.VCPU
}

// An InstanceProfile is an instance's profile and role.
type InstanceProfile struct {
	ARN, ID, RoleARN string
	AssociationID    string
}

// A BlockDevice attaches a volume, which has its own record.
type BlockDevice struct {
	Name                string
	VolumeID            string
	DeleteOnTermination bool `json:",omitempty"`
	Attached            time.Time
}

// RootVolume returns the ID of the root volume, or "" if there is none.
func (i Instance) RootVolume() string {
	for _, d := range i.Devices {
		if d.Name == i.RootDevice {
			return d.VolumeID
		}
	}
	return ""
}

// PrivateDNSName returns the instance's DNS name inside its VPC, or "" if it no longer has an
// address.
func (i Instance) PrivateDNSName(region string) string {
	switch {
	case len(i.Interfaces) == 0: // terminated
		return ""
	case i.HostnameType == "resource-name":
		return i.ID + "." + internalDomain(region)
	}
	return PrivateDNSName(region, i.PrivateIP)
}

// PublicDNSName returns "" unless the instance has a public address in a VPC with DNS hostnames.
func (i Instance) PublicDNSName(r store.Reader, sc resource.Scope) string {
	if i.PublicIP == "" {
		return ""
	}
	if !DNSHostnames(r, sc, i.VPCID) {
		return ""
	}
	return PublicDNSName(sc.Region, i.PublicIP)
}

// DNSHostnames reports whether public addresses in a VPC have DNS names.
func DNSHostnames(r store.Reader, sc resource.Scope, vpc string) bool {
	v, err := VPCs.Get(r, sc.Key(vpc))
	return err == nil && v.DNSHostnames && !v.NoDNSSupport
}

// AttachedInterfaces returns the instance's interfaces by device index.
func (i Instance) AttachedInterfaces(r store.Reader, sc resource.Scope) []NetworkInterface {
	out := make([]NetworkInterface, 0, len(i.Interfaces))
	for _, id := range i.Interfaces {
		if e, err := NetworkInterfaces.Get(r, sc.Key(id)); err == nil {
			out = append(out, e)
		}
	}
	slices.SortFunc(out, func(a, b NetworkInterface) int {
		return int(a.Attachment.DeviceIndex - b.Attachment.DeviceIndex)
	})
	return out
}

// MetadataOptions returns the options of the metadata service.
func (i Instance) MetadataOptions() *ec2types.InstanceMetadataOptionsResponse {
	return &ec2types.InstanceMetadataOptionsResponse{
		State: ec2types.InstanceMetadataOptionsStateApplied, HttpTokens: ec2types.HttpTokensState(i.Tokens),
		HttpPutResponseHopLimit: aws.Int32(i.HopLimit), HttpEndpoint: ec2types.InstanceMetadataEndpointState(i.MetadataEndpoint),
		HttpProtocolIpv6: ec2types.InstanceMetadataProtocolState(i.MetadataIPv6), InstanceMetadataTags: ec2types.InstanceMetadataTagsState(i.MetadataTags),
	}
}

// Association returns the instance's profile association, which is part of its record, in a state.

func (i Instance) Association(state ec2types.IamInstanceProfileAssociationState) *ec2types.IamInstanceProfileAssociation {
	return &ec2types.IamInstanceProfileAssociation{
		AssociationId: aws.String(i.Profile.AssociationID), InstanceId: aws.String(i.ID), State: state,
		IamInstanceProfile: &ec2types.IamInstanceProfile{Arn: aws.String(i.Profile.ARN), Id: aws.String(i.Profile.ID)},
	}
}
