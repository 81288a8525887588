package ec2

// An egressGatewayRecord lets IPv6 connections out of a VPC and none in.
type egressGatewayRecord struct {
	ID    string // eigw-…
	VPCID string
	Tags  Tags `json:",omitempty"`
}
