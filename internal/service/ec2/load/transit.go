package load

import (
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/record"
)

// transitGateways loads the transit gateways of the account with their attachments of its VPCs. A gateway that another
// account shares is left out, because its route tables cannot be read. Routes to other attachments (VPNs, peerings, VPCs
// of other accounts) lead nowhere, with a gap.
func (l *loader) transitGateways() {
	each(l, "DescribeTransitGateways", func(out *awsec2.DescribeTransitGatewaysOutput) []ec2types.TransitGateway {
		return out.TransitGateways
	}, func(_ *awsec2.DescribeTransitGatewaysInput, in *ec2types.TransitGateway) error {
		g := record.TransitGateway{
			ID: aws.ToString(in.TransitGatewayId), Description: aws.ToString(in.Description), TransitLife: l.life(string(in.State)), Tags: tagsOf(in.Tags),
		}
		g.Created = aws.ToTime(in.CreationTime)
		if aws.ToString(in.OwnerId) != l.sc.Account || !g.Live() {
			return nil
		}
		if o := in.Options; o != nil {
			g.ASN, g.AutoAccept, g.CIDRs = aws.ToInt64(o.AmazonSideAsn), o.AutoAcceptSharedAttachments == "enable", o.TransitGatewayCidrBlocks
			g.NoDNS, g.NoECMP = o.DnsSupport == "disable", o.VpnEcmpSupport == "disable"
			if o.DefaultRouteTableAssociation == "enable" {
				g.AssociationTable = aws.ToString(o.AssociationDefaultRouteTableId)
			}
			if o.DefaultRouteTablePropagation == "enable" {
				g.PropagationTable = aws.ToString(o.PropagationDefaultRouteTableId)
			}
			if o.SecurityGroupReferencingSupport == "enable" {
				l.unmodelled("DescribeTransitGateways", g.ID, "%s lets rules refer to security groups of other VPCs, which Drydock does not evaluate", g.ID)
			}
		}
		l.transits[g.ID] = true
		return put(l, record.TransitGateways, g)
	})
	l.transitAttachments()
	l.transitTables()
}

// life is the state of a part of a transit gateway.
func (l *loader) life(state string) record.TransitLife {
	return record.TransitLife{State: state, Since: l.r.Source.Started}
}

func (l *loader) transitAttachments() {
	tables, kinds := map[string]string{}, l.attachments
	each(l, "DescribeTransitGatewayAttachments", func(out *awsec2.DescribeTransitGatewayAttachmentsOutput) []ec2types.TransitGatewayAttachment {
		return out.TransitGatewayAttachments
	}, func(_ *awsec2.DescribeTransitGatewayAttachmentsInput, in *ec2types.TransitGatewayAttachment) error {
		id := aws.ToString(in.TransitGatewayAttachmentId)
		kinds[id] = string(in.ResourceType)
		if as := in.Association; as != nil && (as.State == ec2types.TransitGatewayAssociationStateAssociated || as.State == ec2types.TransitGatewayAssociationStateAssociating) {
			tables[id] = aws.ToString(as.TransitGatewayRouteTableId)
		}
		return nil
	})
	propagates := map[string][]string{}
	each(l, "GetTransitGatewayRouteTablePropagations", func(out *awsec2.GetTransitGatewayRouteTablePropagationsOutput) []ec2types.TransitGatewayRouteTablePropagation {
		return out.TransitGatewayRouteTablePropagations
	}, func(in *awsec2.GetTransitGatewayRouteTablePropagationsInput, p *ec2types.TransitGatewayRouteTablePropagation) error {
		if p.State == ec2types.TransitGatewayPropagationStateEnabled || p.State == ec2types.TransitGatewayPropagationStateEnabling {
			id := aws.ToString(p.TransitGatewayAttachmentId)
			propagates[id] = append(propagates[id], aws.ToString(in.TransitGatewayRouteTableId))
		}
		return nil
	})
	zones := map[string]string{} // of subnets
	each(l, "DescribeSubnets", func(out *awsec2.DescribeSubnetsOutput) []ec2types.Subnet { return out.Subnets }, func(_ *awsec2.DescribeSubnetsInput, in *ec2types.Subnet) error {
		zones[aws.ToString(in.SubnetId)] = aws.ToString(in.AvailabilityZone)
		return nil
	})
	interfaces := map[string]string{} // by attachment and subnet
	each(l, "DescribeNetworkInterfaces", func(out *awsec2.DescribeNetworkInterfacesOutput) []ec2types.NetworkInterface {
		return out.NetworkInterfaces
	}, func(_ *awsec2.DescribeNetworkInterfacesInput, in *ec2types.NetworkInterface) error {
		if attachment, ok := strings.CutPrefix(aws.ToString(in.Description), "Network Interface for Transit Gateway Attachment "); ok {
			interfaces[attachment+" "+aws.ToString(in.SubnetId)] = aws.ToString(in.NetworkInterfaceId)
		}
		return nil
	})
	each(l, "DescribeTransitGatewayVpcAttachments", func(out *awsec2.DescribeTransitGatewayVpcAttachmentsOutput) []ec2types.TransitGatewayVpcAttachment {
		return out.TransitGatewayVpcAttachments
	}, func(_ *awsec2.DescribeTransitGatewayVpcAttachmentsInput, in *ec2types.TransitGatewayVpcAttachment) error {
		a := record.TransitAttachment{
			ID: aws.ToString(in.TransitGatewayAttachmentId), GatewayID: aws.ToString(in.TransitGatewayId), VPCID: aws.ToString(in.VpcId), TransitLife: l.life(string(in.State)), Tags: tagsOf(in.Tags),
		}
		a.Created, a.Table, a.Propagates = aws.ToTime(in.CreationTime), tables[a.ID], propagates[a.ID]
		if !l.transits[a.GatewayID] || aws.ToString(in.VpcOwnerId) != l.sc.Account || !a.Live() {
			return nil
		}
		if o := in.Options; o != nil {
			a.NoDNS, a.IPv6, a.Appliance = o.DnsSupport == "disable", o.Ipv6Support == "enable", o.ApplianceModeSupport == "enable"
		}
		for _, id := range in.SubnetIds {
			sn := record.TransitSubnet{SubnetID: id, Zone: zones[id], InterfaceID: interfaces[a.ID+" "+id]}
			l.owners[sn.InterfaceID] = a.ID
			a.Subnets = append(a.Subnets, sn)
		}
		kinds[a.ID] = "" // it has a record
		return put(l, record.TransitAttachments, a)
	})
}

func (l *loader) transitTables() {
	const search = "SearchTransitGatewayRoutes"
	routes, lists := map[string][]record.TransitRoute{}, map[string][]record.TransitRoute{}
	each(l, search, func(out *awsec2.SearchTransitGatewayRoutesOutput) []awsec2.SearchTransitGatewayRoutesOutput {
		return []awsec2.SearchTransitGatewayRoutesOutput{*out}
	}, func(in *awsec2.SearchTransitGatewayRoutesInput, out *awsec2.SearchTransitGatewayRoutesOutput) error {
		table := aws.ToString(in.TransitGatewayRouteTableId)
		if aws.ToBool(out.AdditionalRoutesAvailable) && out.NextToken == nil {
			l.unmodelled(search, table, "%s has more routes than AWS returns", table)
		}
		var said []string
		for _, r := range out.Routes {
			if r.PrefixListId != nil {
				continue // follows from the references
			}
			to := record.TransitRoute{Destination: aws.ToString(r.DestinationCidrBlock)}
			if len(r.TransitGatewayAttachments) > 0 {
				to.AttachmentID = aws.ToString(r.TransitGatewayAttachments[0].TransitGatewayAttachmentId)
			}
			kind, known := l.attachments[to.AttachmentID]
			ours := known && kind == ""
			if ours && r.Type == ec2types.TransitGatewayRouteTypePropagated {
				continue // follows from the attachment
			}
			if to.AttachmentID != "" && !ours && !slices.Contains(said, to.AttachmentID) {
				said = append(said, to.AttachmentID)
				l.unmodelled(search, table, "%s leads to %s, which Drydock cannot follow", table, strings.TrimSuffix(to.AttachmentID+" ("+kind+")", " ()"))
			}
			routes[table] = append(routes[table], to)
		}
		return nil
	})
	each(l, "GetTransitGatewayPrefixListReferences", func(out *awsec2.GetTransitGatewayPrefixListReferencesOutput) []ec2types.TransitGatewayPrefixListReference {
		return out.TransitGatewayPrefixListReferences
	}, func(in *awsec2.GetTransitGatewayPrefixListReferencesInput, r *ec2types.TransitGatewayPrefixListReference) error {
		to := record.TransitRoute{Destination: aws.ToString(r.PrefixListId)}
		if r.TransitGatewayAttachment != nil && !aws.ToBool(r.Blackhole) {
			to.AttachmentID = aws.ToString(r.TransitGatewayAttachment.TransitGatewayAttachmentId)
		}
		table := aws.ToString(in.TransitGatewayRouteTableId)
		lists[table] = append(lists[table], to)
		return nil
	})
	each(l, "DescribeTransitGatewayRouteTables", func(out *awsec2.DescribeTransitGatewayRouteTablesOutput) []ec2types.TransitGatewayRouteTable {
		return out.TransitGatewayRouteTables
	}, func(_ *awsec2.DescribeTransitGatewayRouteTablesInput, in *ec2types.TransitGatewayRouteTable) error {
		t := record.TransitRouteTable{ID: aws.ToString(in.TransitGatewayRouteTableId), GatewayID: aws.ToString(in.TransitGatewayId), TransitLife: l.life(string(in.State)), Tags: tagsOf(in.Tags)}
		t.Created, t.Routes, t.Lists = aws.ToTime(in.CreationTime), routes[t.ID], lists[t.ID]
		if !l.transits[t.GatewayID] || !t.Live() {
			return nil
		}
		return put(l, record.TransitRouteTables, t)
	})
}
