package ec2

import "time"

// States of NAT gateways.
const (
	natPending   = "pending"
	natAvailable = "available"
	natFailed    = "failed"
	natDeleting  = "deleting"
	natDeleted   = "deleted"
)

// A natGatewayRecord translates the addresses of a VPC's interfaces: to its
// elastic address if it is public, to its private one if it is private.
type natGatewayRecord struct {
	ID       string
	SubnetID string
	VPCID    string
	Private  bool `json:",omitempty"`
	State    string
	Since    time.Time
	Created  time.Time
	Deleted  time.Time `json:",omitzero"`
	// FailureCode and FailureMessage say why it failed, or will fail.
	FailureCode    string `json:",omitempty"`
	FailureMessage string `json:",omitempty"`
	// Addresses are those of its one interface; the first is the primary one.
	Addresses []natAddress
	Tags      Tags `json:",omitempty"`
}

type natAddress struct {
	AllocationID  string `json:",omitempty"`
	AssociationID string `json:",omitempty"`
	PublicIP      string `json:",omitempty"`
	PrivateIP     string `json:",omitempty"`
	InterfaceID   string `json:",omitempty"`
}
