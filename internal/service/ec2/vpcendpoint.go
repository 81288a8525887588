package ec2

import "time"

// States of VPC endpoints.
const (
	endpointPending   = "pending"
	endpointAvailable = "available"
	endpointDeleting  = "deleting"
)

// A vpcEndpointRecord is a private way to a service: by interfaces in subnets,
// or by routes of a gateway.
type vpcEndpointRecord struct {
	ID          string // vpce-…
	VPCID       string
	ServiceName string // com.amazonaws.us-east-1.ecr.api
	Gateway     bool   `json:",omitempty"` // otherwise an interface endpoint
	State       string
	Since       time.Time
	Created     time.Time
	// Policy is the endpoint policy as it was given; empty allows everything.
	Policy string `json:",omitempty"`
	// RouteTableIDs are those with the route of a gateway endpoint.
	RouteTableIDs []string `json:",omitempty"`
	// SubnetIDs, GroupIDs, InterfaceIDs, PrivateDNS are those of interface
	// endpoints; the interface at an index is in the subnet at that index.
	SubnetIDs    []string `json:",omitempty"`
	GroupIDs     []string `json:",omitempty"`
	InterfaceIDs []string `json:",omitempty"`
	PrivateDNS   bool     `json:",omitempty"`
	// IPAddressType and DNSRecordIPType are ipv4, ipv6 or dualstack.
	IPAddressType   string `json:",omitempty"`
	DNSRecordIPType string `json:",omitempty"`
	// RequesterID is the AWS service that made and manages the endpoint.
	RequesterID string `json:",omitempty"`
	// DNSSuffix makes the endpoint's names unique: vpce-…-SUFFIX.ec2.….
	DNSSuffix string `json:",omitempty"`
	Tags      Tags   `json:",omitempty"`
}
