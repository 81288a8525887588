package ec2

import "time"

// States of Instance Connect endpoints.
const (
	connectCreating = "create-in-progress"
	connectComplete = "create-complete"
	connectFailed   = "create-failed"
	connectDeleting = "delete-in-progress"
)

// A connectEndpointRecord is an EC2 Instance Connect endpoint: a way from the
// EC2 API to instances without a public address.
type connectEndpointRecord struct {
	ID               string // eice-…
	SubnetID         string
	VPCID            string
	Zone             string
	ZoneID           string
	GroupIDs         []string
	InterfaceIDs     []string
	PreserveClientIP bool `json:",omitempty"`
	State            string
	StateMessage     string `json:",omitempty"`
	Since            time.Time
	Created          time.Time
	DNSSuffix        string
	Tags             Tags `json:",omitempty"`
}
