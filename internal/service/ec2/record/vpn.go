package record

import (
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
)

// A VPNGateway is a virtual private gateway: the end of VPN connections at a VPC.
type VPNGateway struct {
	ID      string // vgw-…
	VPCID   string `json:",omitempty"` // empty while detached
	Zone    string `json:",omitempty"`
	ASN     int64
	Deleted time.Time `json:",omitzero"`
	Tags    tag.Set   `json:",omitempty"`
}

// SDK renders the record for the SDK. EC2 does not tell the zone.
// [recorded] test_describe_vpn_gateways_filter_by_vpc, LocalStack's tests/aws/services/ec2/test_ec2.py
func (g VPNGateway) SDK(resource.Scope) ec2types.VpnGateway {
	out := ec2types.VpnGateway{
		VpnGatewayId: aws.String(g.ID), AmazonSideAsn: aws.Int64(g.ASN), Type: ec2types.GatewayTypeIpsec1,
		State: ec2types.VpnStateAvailable, VpcAttachments: []ec2types.VpcAttachment{}, Tags: g.Tags.Listed(),
	}
	if !g.Deleted.IsZero() {
		out.State = ec2types.VpnStateDeleted
	}
	if g.VPCID != "" {
		out.VpcAttachments = append(out.VpcAttachments, ec2types.VpcAttachment{State: ec2types.AttachmentStatusAttached, VpcId: aws.String(g.VPCID)})
	}
	return out
}

// A CustomerGateway is the end of VPN connections in another network.
type CustomerGateway struct {
	ID             string // cgw-…
	IP             string
	ASN            int64
	DeviceName     string    `json:",omitempty"`
	CertificateARN string    `json:",omitempty"`
	Deleted        time.Time `json:",omitzero"`
	Tags           tag.Set   `json:",omitempty"`
}

// SDK renders the record for the SDK.
func (g CustomerGateway) SDK(resource.Scope) ec2types.CustomerGateway {
	out := ec2types.CustomerGateway{
		CustomerGatewayId: aws.String(g.ID), IpAddress: resource.Optional(g.IP), Type: aws.String("ipsec.1"), State: aws.String("available"),
		DeviceName: resource.Optional(g.DeviceName), CertificateArn: resource.Optional(g.CertificateARN), Tags: g.Tags.SDK(),
	}
	asn := aws.String(resource.Text64(g.ASN))
	if g.ASN > 1<<31-1 {
		out.BgpAsnExtended = asn
	} else {
		out.BgpAsn = asn
	}
	if !g.Deleted.IsZero() {
		out.State = aws.String("deleted")
	}
	return out
}

// A VPNConnection connects a virtual private gateway with a customer gateway. Its tunnels are always down, because
// there is no other network.
type VPNConnection struct {
	ID                string // vpn-…
	GatewayID         string
	CustomerGatewayID string
	Static            bool `json:",omitempty"`
	LocalCIDR         string
	RemoteCIDR        string
	Tunnels           []VPNTunnel
	Routes            []string `json:",omitempty"`
	Created           time.Time
	Deleted           time.Time `json:",omitzero"`
	Tags              tag.Set   `json:",omitempty"`
}

// A VPNTunnel is one of a connection's two tunnels.
type VPNTunnel struct {
	Outside    string // AWS's address
	InsideCIDR string // /30
	Key        string // pre-shared
}
