package cloudformation

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// transitHandlers are transit gateways, their attachments and route tables.
func transitHandlers() map[string]handler {
	const options = "AmazonSideAsn AutoAcceptSharedAttachments DefaultRouteTableAssociation DefaultRouteTablePropagation DnsSupport MulticastSupport SecurityGroupReferencingSupport TransitGatewayCidrBlocks VpnEcmpSupport"
	attachment := transitAttachment()
	return map[string]handler{
		"AWS::EC2::TransitGateway": madeWith(handler{
			find: byTags("transit-gateway"), inPlace: "Tags", update: retagged,
			settle: func(r *request) error { return r.until(r.transitGatewayState, "available", "failed") },
			read: func(r *request) (map[string]any, error) {
				g, err := r.transitGateway()
				if err != nil {
					return nil, err
				}
				return map[string]any{
					"Id": r.id, "TransitGatewayArn": *g.TransitGatewayArn, "AssociationDefaultRouteTableId": aws.ToString(g.Options.AssociationDefaultRouteTableId),
					"PropagationDefaultRouteTableId": aws.ToString(g.Options.PropagationDefaultRouteTableId),
				}, nil
			},
			remove: func(r *request) error {
				return r.endTransit(r.transitGatewayState, func() error {
					_, err := call[awsec2.DeleteTransitGatewayOutput](r, &awsec2.DeleteTransitGatewayInput{TransitGatewayId: &r.id})
					return err
				})
			},
		}, "Tags "+options, func(r *request, in *awsec2.CreateTransitGatewayInput) error {
			in.TagSpecifications = r.tagSpecs(ec2types.ResourceTypeTransitGateway)
			in.Options = &ec2types.TransitGatewayRequestOptions{}
			return r.fillWith(in.Options, r.props, []string{"Description", "Tags"}, "")
		}, func(_ *request, out *awsec2.CreateTransitGatewayOutput) *string {
			return out.TransitGateway.TransitGatewayId
		}),
		"AWS::EC2::TransitGatewayAttachment":    attachment,
		"AWS::EC2::TransitGatewayVpcAttachment": attachment,
		"AWS::EC2::TransitGatewayRouteTable": made(handler{
			find: byTags("transit-gateway-route-table"), inPlace: "Tags", update: retagged,
			settle: func(r *request) error { return r.until(r.transitTableState, "available", "failed") },
			read:   idAs("TransitGatewayRouteTableId"),
			remove: func(r *request) error {
				return r.endTransit(r.transitTableState, func() error {
					_, err := call[awsec2.DeleteTransitGatewayRouteTableOutput](r, &awsec2.DeleteTransitGatewayRouteTableInput{TransitGatewayRouteTableId: &r.id})
					return err
				})
			},
		}, "Tags", func(r *request, in *awsec2.CreateTransitGatewayRouteTableInput) {
			in.TagSpecifications = r.tagSpecs(ec2types.ResourceTypeTransitGatewayRouteTable)
		}, func(_ *request, out *awsec2.CreateTransitGatewayRouteTableOutput) *string {
			return out.TransitGatewayRouteTable.TransitGatewayRouteTableId
		}),
		"AWS::EC2::TransitGatewayRouteTableAssociation": made(handler{
			find: func(r *request) (string, error) {
				out, err := call[awsec2.GetTransitGatewayRouteTableAssociationsOutput](r, &awsec2.GetTransitGatewayRouteTableAssociationsInput{
					TransitGatewayRouteTableId: aws.String(r.text("TransitGatewayRouteTableId")), Filters: r.ofAttachment(),
				})
				if err != nil || len(out.Associations) == 0 {
					return "", err
				}
				return r.transitPair(), nil
			},
			remove: one[awsec2.DisassociateTransitGatewayRouteTableOutput](func(r *request) any {
				return &awsec2.DisassociateTransitGatewayRouteTableInput{
					TransitGatewayRouteTableId: aws.String(r.text("TransitGatewayRouteTableId")), TransitGatewayAttachmentId: aws.String(r.text("TransitGatewayAttachmentId")),
				}
			}),
		}, "", func(*request, *awsec2.AssociateTransitGatewayRouteTableInput) {}, func(r *request, _ *awsec2.AssociateTransitGatewayRouteTableOutput) *string {
			return aws.String(r.transitPair())
		}),
		"AWS::EC2::TransitGatewayRouteTablePropagation": made(handler{
			find: func(r *request) (string, error) {
				out, err := call[awsec2.GetTransitGatewayRouteTablePropagationsOutput](r, &awsec2.GetTransitGatewayRouteTablePropagationsInput{
					TransitGatewayRouteTableId: aws.String(r.text("TransitGatewayRouteTableId")), Filters: r.ofAttachment(),
				})
				if err != nil || len(out.TransitGatewayRouteTablePropagations) == 0 {
					return "", err
				}
				return r.transitPair(), nil
			},
			remove: one[awsec2.DisableTransitGatewayRouteTablePropagationOutput](func(r *request) any {
				return &awsec2.DisableTransitGatewayRouteTablePropagationInput{
					TransitGatewayRouteTableId: aws.String(r.text("TransitGatewayRouteTableId")), TransitGatewayAttachmentId: aws.String(r.text("TransitGatewayAttachmentId")),
				}
			}),
		}, "", func(*request, *awsec2.EnableTransitGatewayRouteTablePropagationInput) {}, func(r *request, _ *awsec2.EnableTransitGatewayRouteTablePropagationOutput) *string {
			return aws.String(r.transitPair())
		}),
		"AWS::EC2::TransitGatewayRoute": made(handler{
			find: func(r *request) (string, error) {
				out, err := call[awsec2.SearchTransitGatewayRoutesOutput](r, &awsec2.SearchTransitGatewayRoutesInput{
					TransitGatewayRouteTableId: aws.String(r.text("TransitGatewayRouteTableId")), Filters: []ec2types.Filter{
						{Name: aws.String("route-search.exact-match"), Values: []string{r.text("DestinationCidrBlock")}}, {Name: aws.String("type"), Values: []string{"static"}},
					},
				})
				if err != nil || len(out.Routes) == 0 {
					return "", err
				}
				return r.transitRoute(), nil
			},
			remove: one[awsec2.DeleteTransitGatewayRouteOutput](func(r *request) any {
				return &awsec2.DeleteTransitGatewayRouteInput{
					TransitGatewayRouteTableId: aws.String(r.text("TransitGatewayRouteTableId")), DestinationCidrBlock: aws.String(r.text("DestinationCidrBlock")),
				}
			}),
		}, "", func(*request, *awsec2.CreateTransitGatewayRouteInput) {}, func(r *request, _ *awsec2.CreateTransitGatewayRouteOutput) *string {
			return aws.String(r.transitRoute())
		}),
	}
}

func transitAttachment() handler {
	return made(handler{
		find: byTags("transit-gateway-attachment"), inPlace: "SubnetIds Tags",
		settle: func(r *request) error { return r.until(r.transitAttachmentState, "available", "failed") },
		update: func(r *request) error {
			now, err := r.transitAttachment()
			if err != nil {
				return err
			}
			want, have := r.list("SubnetIds"), now.SubnetIds
			more := slices.DeleteFunc(slices.Clone(want), func(id string) bool { return slices.Contains(have, id) })
			less := slices.DeleteFunc(slices.Clone(have), func(id string) bool { return slices.Contains(want, id) })
			if len(more)+len(less) > 0 {
				in := &awsec2.ModifyTransitGatewayVpcAttachmentInput{TransitGatewayAttachmentId: &r.id, AddSubnetIds: more, RemoveSubnetIds: less}
				if _, err := call[awsec2.ModifyTransitGatewayVpcAttachmentOutput](r, in); err != nil {
					return err
				}
			}
			return r.retag(r.id)
		},
		read: idAs("Id"),
		remove: func(r *request) error {
			return r.endTransit(r.transitAttachmentState, func() error {
				_, err := call[awsec2.DeleteTransitGatewayVpcAttachmentOutput](r, &awsec2.DeleteTransitGatewayVpcAttachmentInput{TransitGatewayAttachmentId: &r.id})
				return err
			})
		},
	}, "Tags", func(r *request, in *awsec2.CreateTransitGatewayVpcAttachmentInput) {
		in.TagSpecifications = r.tagSpecs(ec2types.ResourceTypeTransitGatewayAttachment)
	}, func(_ *request, out *awsec2.CreateTransitGatewayVpcAttachmentOutput) *string {
		return out.TransitGatewayVpcAttachment.TransitGatewayAttachmentId
	})
}

// transitPair is the ID of an association or a propagation, and transitRoute that of a route.
func (r *request) transitPair() string {
	return r.text("TransitGatewayRouteTableId") + "|" + r.text("TransitGatewayAttachmentId")
}

func (r *request) transitRoute() string {
	return r.text("TransitGatewayRouteTableId") + "|" + r.text("DestinationCidrBlock")
}

func (r *request) ofAttachment() []ec2types.Filter {
	return []ec2types.Filter{{Name: aws.String("transit-gateway-attachment-id"), Values: []string{r.text("TransitGatewayAttachmentId")}}}
}

// The resource as it is now, and its state.

func (r *request) transitGateway() (g ec2types.TransitGateway, err error) {
	out, err := call[awsec2.DescribeTransitGatewaysOutput](r, &awsec2.DescribeTransitGatewaysInput{TransitGatewayIds: []string{r.id}})
	if err != nil {
		return g, err
	}
	return out.TransitGateways[0], nil
}

func (r *request) transitGatewayState() (string, error) {
	g, err := r.transitGateway()
	return string(g.State), err
}

func (r *request) transitAttachment() (a ec2types.TransitGatewayVpcAttachment, err error) {
	out, err := call[awsec2.DescribeTransitGatewayVpcAttachmentsOutput](r, &awsec2.DescribeTransitGatewayVpcAttachmentsInput{TransitGatewayAttachmentIds: []string{r.id}})
	if err != nil {
		return a, err
	}
	return out.TransitGatewayVpcAttachments[0], nil
}

func (r *request) transitAttachmentState() (string, error) {
	a, err := r.transitAttachment()
	return string(a.State), err
}

func (r *request) transitTableState() (string, error) {
	out, err := call[awsec2.DescribeTransitGatewayRouteTablesOutput](r, &awsec2.DescribeTransitGatewayRouteTablesInput{TransitGatewayRouteTableIds: []string{r.id}})
	if err != nil {
		return "", err
	}
	return string(out.TransitGatewayRouteTables[0].State), nil
}

// endTransit deletes a resource unless that has begun, and waits until it is deleted.
func (r *request) endTransit(state func() (string, error), remove func() error) error {
	is, err := state()
	if err != nil {
		return err
	}
	if !strings.HasPrefix(is, "delet") {
		if err := remove(); err != nil {
			return err
		}
	}
	return r.until(state, "deleted")
}

// vpnHandlers are virtual private gateways, customer gateways and VPN connections.
func vpnHandlers() map[string]handler {
	const connectionOptions = "EnableAcceleration LocalIpv4NetworkCidr LocalIpv6NetworkCidr OutsideIpAddressType RemoteIpv4NetworkCidr RemoteIpv6NetworkCidr StaticRoutesOnly TransportTransitGatewayAttachmentId TunnelInsideIpVersion"
	return map[string]handler{
		"AWS::EC2::VPNGateway": made(handler{
			find: byTags("vpn-gateway"), inPlace: "Tags", update: retagged, read: idAs("VPNGatewayId"),
			remove: one[awsec2.DeleteVpnGatewayOutput](func(r *request) any { return &awsec2.DeleteVpnGatewayInput{VpnGatewayId: &r.id} }),
		}, "Tags", func(r *request, in *awsec2.CreateVpnGatewayInput) {
			in.TagSpecifications = r.tagSpecs(ec2types.ResourceTypeVpnGateway)
		}, func(_ *request, out *awsec2.CreateVpnGatewayOutput) *string { return out.VpnGateway.VpnGatewayId }),
		"AWS::EC2::CustomerGateway": made(handler{
			find: byTags("customer-gateway"), inPlace: "Tags", update: retagged, read: idAs("CustomerGatewayId"),
			remove: one[awsec2.DeleteCustomerGatewayOutput](func(r *request) any { return &awsec2.DeleteCustomerGatewayInput{CustomerGatewayId: &r.id} }),
		}, "Tags", func(r *request, in *awsec2.CreateCustomerGatewayInput) {
			in.TagSpecifications = r.tagSpecs(ec2types.ResourceTypeCustomerGateway)
		}, func(_ *request, out *awsec2.CreateCustomerGatewayOutput) *string {
			return out.CustomerGateway.CustomerGatewayId
		}),
		"AWS::EC2::VPNConnection": madeWith(handler{
			find: byTags("vpn-connection"), inPlace: "Tags", update: retagged, read: idAs("VpnConnectionId"),
			remove: one[awsec2.DeleteVpnConnectionOutput](func(r *request) any { return &awsec2.DeleteVpnConnectionInput{VpnConnectionId: &r.id} }),
		}, "Tags VpnTunnelOptionsSpecifications "+connectionOptions, func(r *request, in *awsec2.CreateVpnConnectionInput) error {
			in.TagSpecifications = r.tagSpecs(ec2types.ResourceTypeVpnConnection)
			in.Options = &ec2types.VpnConnectionOptionsSpecification{}
			if err := r.fillWith(in.Options, r.props, []string{"CustomerGatewayId", "Tags", "TransitGatewayId", "Type", "VpnGatewayId", "VpnTunnelOptionsSpecifications"}, ""); err != nil {
				return err
			}
			if !r.props.Has("VpnTunnelOptionsSpecifications") {
				return nil
			}
			var tunnels struct {
				VpnTunnelOptionsSpecifications []ec2types.VpnTunnelOptionsSpecification
			}
			only := &template.Map{}
			only.Set("VpnTunnelOptionsSpecifications", r.props.Get("VpnTunnelOptionsSpecifications"))
			err := r.fillWith(&tunnels, only, nil, "")
			in.Options.TunnelOptions = tunnels.VpnTunnelOptionsSpecifications
			return err
		}, func(_ *request, out *awsec2.CreateVpnConnectionOutput) *string {
			return out.VpnConnection.VpnConnectionId
		}),
		"AWS::EC2::VPNConnectionRoute": made(handler{
			adopts: true,
			remove: one[awsec2.DeleteVpnConnectionRouteOutput](func(r *request) any {
				return &awsec2.DeleteVpnConnectionRouteInput{VpnConnectionId: aws.String(r.text("VpnConnectionId")), DestinationCidrBlock: aws.String(r.text("DestinationCidrBlock"))}
			}),
		}, "", func(*request, *awsec2.CreateVpnConnectionRouteInput) {}, func(r *request, _ *awsec2.CreateVpnConnectionRouteOutput) *string {
			return aws.String(r.text("DestinationCidrBlock") + "|" + r.text("VpnConnectionId"))
		}),
		"AWS::EC2::VPNGatewayRoutePropagation": {
			own: "RouteTableIds VpnGatewayId", adopts: true, read: idAs("Id"),
			create: func(r *request) (string, error) {
				for _, table := range r.list("RouteTableIds") {
					in := &awsec2.EnableVgwRoutePropagationInput{GatewayId: aws.String(r.text("VpnGatewayId")), RouteTableId: &table}
					if _, err := call[awsec2.EnableVgwRoutePropagationOutput](r, in); err != nil {
						return "", err
					}
				}
				return r.generated(r.o.rec.Name, 255), nil
			},
			remove: func(r *request) error {
				for _, table := range r.list("RouteTableIds") {
					in := &awsec2.DisableVgwRoutePropagationInput{GatewayId: aws.String(r.text("VpnGatewayId")), RouteTableId: &table}
					if _, err := call[awsec2.DisableVgwRoutePropagationOutput](r, in); err != nil && !notFound(err) {
						return err
					}
				}
				return nil
			},
		},
	}
}
