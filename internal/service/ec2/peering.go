package ec2

import (
	"time"

	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// A peeringRecord joins two VPCs. Each side's account and region holds a copy,
// equal but for its tags; one in a VPC's own account and region is one record.
type peeringRecord struct {
	ID        string // pcx-…
	Requester peeringSide
	Accepter  peeringSide
	State     ec2types.VpcPeeringConnectionStateReasonCode // only active ones carry traffic
	Message   string
	Since     time.Time
	// Expires is when a request that nobody accepted ends.
	Expires time.Time `json:",omitzero"`
	Tags    Tags      `json:",omitempty"`
}

type peeringSide struct {
	Account, Region string
	VPCID           string
	CIDR            string // primary block when the connection was requested
	// AllowDNS lets the other side's VPC resolve this side's public host names to
	// private addresses: AllowDnsResolutionFromRemoteVpc.
	AllowDNS bool `json:",omitempty"`
}
