package load

import (
	"cmp"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2/record"
)

func (l *loader) gateways() {
	each(l, "DescribeInternetGateways", func(out *awsec2.DescribeInternetGatewaysOutput) []ec2types.InternetGateway {
		return out.InternetGateways
	}, func(_ *awsec2.DescribeInternetGatewaysInput, in *ec2types.InternetGateway) error {
		return put(l, record.InternetGateways, record.InternetGateway{ID: aws.ToString(in.InternetGatewayId), VPCID: attachedTo(in.Attachments), Tags: tagsOf(in.Tags)})
	})
	each(l, "DescribeEgressOnlyInternetGateways", func(out *awsec2.DescribeEgressOnlyInternetGatewaysOutput) []ec2types.EgressOnlyInternetGateway {
		return out.EgressOnlyInternetGateways
	}, func(_ *awsec2.DescribeEgressOnlyInternetGatewaysInput, in *ec2types.EgressOnlyInternetGateway) error {
		return put(l, record.EgressGateways, record.EgressGateway{ID: aws.ToString(in.EgressOnlyInternetGatewayId), VPCID: attachedTo(in.Attachments), Tags: tagsOf(in.Tags)})
	})
	each(l, "DescribeNatGateways", func(out *awsec2.DescribeNatGatewaysOutput) []ec2types.NatGateway { return out.NatGateways }, func(_ *awsec2.DescribeNatGatewaysInput, in *ec2types.NatGateway) error {
		n := record.NATGateway{
			ID: aws.ToString(in.NatGatewayId), SubnetID: aws.ToString(in.SubnetId), VPCID: aws.ToString(in.VpcId), Private: in.ConnectivityType == ec2types.ConnectivityTypePrivate,
			State: string(in.State), Created: aws.ToTime(in.CreateTime), Since: aws.ToTime(in.CreateTime), Deleted: aws.ToTime(in.DeleteTime),
			FailureCode: aws.ToString(in.FailureCode), FailureMessage: aws.ToString(in.FailureMessage), Tags: tagsOf(in.Tags),
		}
		switch n.State {
		case record.NATDeleted, record.NATDeleting:
			return nil
		case record.NATPending:
			n.State = record.NATAvailable // which it becomes within minutes
		}
		for _, a := range in.NatGatewayAddresses {
			to := record.NATAddress{
				AllocationID: aws.ToString(a.AllocationId), AssociationID: aws.ToString(a.AssociationId), PublicIP: aws.ToString(a.PublicIp), PrivateIP: aws.ToString(a.PrivateIp),
				InterfaceID: aws.ToString(a.NetworkInterfaceId),
			}
			l.owners[to.InterfaceID] = n.ID
			if aws.ToBool(a.IsPrimary) {
				n.Addresses = append([]record.NATAddress{to}, n.Addresses...)
			} else {
				n.Addresses = append(n.Addresses, to)
			}
		}
		return put(l, record.NATGateways, n)
	})
}

func attachedTo(in []ec2types.InternetGatewayAttachment) string {
	for _, a := range in {
		if a.State == "available" || a.State == ec2types.AttachmentStatusAttached {
			return aws.ToString(a.VpcId)
		}
	}
	return ""
}

func (l *loader) routeTables() {
	const operation = "DescribeRouteTables"
	each(l, operation, func(out *awsec2.DescribeRouteTablesOutput) []ec2types.RouteTable { return out.RouteTables }, func(_ *awsec2.DescribeRouteTablesInput, in *ec2types.RouteTable) error {
		t := record.RouteTable{ID: aws.ToString(in.RouteTableId), VPCID: aws.ToString(in.VpcId), Tags: tagsOf(in.Tags)}
		for _, a := range in.Associations {
			if a.AssociationState != nil && a.AssociationState.State != ec2types.RouteTableAssociationStateCodeAssociated {
				continue
			}
			if a.GatewayId != nil {
				l.unmodelled(operation, t.ID, "%s is associated with %s: Drydock has no route tables of gateways", t.ID, *a.GatewayId)
				continue
			}
			if aws.ToBool(a.Main) {
				l.tables[t.VPCID] = t.ID
			}
			t.Associations = append(t.Associations, record.RouteTableAssociation{ID: aws.ToString(a.RouteTableAssociationId), SubnetID: aws.ToString(a.SubnetId), Main: aws.ToBool(a.Main)})
		}
		for _, r := range in.Routes {
			to := record.Route{
				Destination: cmp.Or(aws.ToString(r.DestinationCidrBlock), aws.ToString(r.DestinationIpv6CidrBlock), aws.ToString(r.DestinationPrefixListId)),
				GatewayID:   aws.ToString(r.GatewayId), InterfaceID: aws.ToString(r.NetworkInterfaceId), InstanceID: aws.ToString(r.InstanceId), NATGatewayID: aws.ToString(r.NatGatewayId),
				PeeringID: aws.ToString(r.VpcPeeringConnectionId), EgressOnlyGatewayID: aws.ToString(r.EgressOnlyInternetGatewayId), Origin: string(r.Origin),
			}
			if l.transits[aws.ToString(r.TransitGatewayId)] {
				to.TransitGatewayID, r.TransitGatewayId = *r.TransitGatewayId, nil
			}
			other := cmp.Or(aws.ToString(r.TransitGatewayId), aws.ToString(r.LocalGatewayId), aws.ToString(r.CarrierGatewayId), aws.ToString(r.CoreNetworkArn), aws.ToString(r.OdbNetworkArn))
			if other == "" && to.GatewayID != "" && to.GatewayID != "local" && !hasPrefix(to.GatewayID, "igw", "vpce") {
				other = to.GatewayID // a virtual private gateway, for one
			}
			if other != "" {
				l.unmodelled(operation, t.ID, "%s sends %s to %s, which Drydock cannot follow", t.ID, to.Destination, other)
				to.GatewayID = other
			}
			t.Routes = append(t.Routes, to)
		}
		if len(in.PropagatingVgws) > 0 {
			l.unmodelled(operation, t.ID, "a virtual private gateway may add routes to %s at any time", t.ID)
		}
		return put(l, record.RouteTables, t)
	})
}

func (l *loader) peerings() {
	each(l, "DescribeVpcPeeringConnections", func(out *awsec2.DescribeVpcPeeringConnectionsOutput) []ec2types.VpcPeeringConnection {
		return out.VpcPeeringConnections
	}, func(_ *awsec2.DescribeVpcPeeringConnectionsInput, in *ec2types.VpcPeeringConnection) error {
		side := func(v *ec2types.VpcPeeringConnectionVpcInfo) record.PeeringSide {
			if v == nil {
				return record.PeeringSide{}
			}
			s := record.PeeringSide{Account: aws.ToString(v.OwnerId), Region: cmp.Or(aws.ToString(v.Region), l.sc.Region), VPCID: aws.ToString(v.VpcId), CIDR: aws.ToString(v.CidrBlock)}
			if v.PeeringOptions != nil {
				s.AllowDNS = aws.ToBool(v.PeeringOptions.AllowDnsResolutionFromRemoteVpc)
			}
			return s
		}
		p := record.Peering{ID: aws.ToString(in.VpcPeeringConnectionId), Requester: side(in.RequesterVpcInfo), Accepter: side(in.AccepterVpcInfo), Expires: aws.ToTime(in.ExpirationTime), Since: l.r.Source.Started, Tags: tagsOf(in.Tags)}
		if in.Status != nil {
			p.State, p.Message = in.Status.Code, aws.ToString(in.Status.Message)
		}
		for _, s := range []record.PeeringSide{p.Requester, p.Accepter} {
			if p.Active() && s.Scope() != l.sc {
				l.unmodelled("DescribeVpcPeeringConnections", p.ID, "%s leads to %s of account %s in %s, which was not read", p.ID, s.VPCID, s.Account, s.Region)
			}
		}
		return put(l, record.Peerings, p)
	})
}

// allowAll is the policy of endpoints that have none of their own, as EC2 shows it.
const allowAll = `{"Version":"2008-10-17","Statement":[{"Effect":"Allow","Principal":"*","Action":"*","Resource":"*"}]}`

func (l *loader) endpoints() {
	each(l, "DescribeVpcEndpoints", func(out *awsec2.DescribeVpcEndpointsOutput) []ec2types.VpcEndpoint { return out.VpcEndpoints }, func(_ *awsec2.DescribeVpcEndpointsInput, in *ec2types.VpcEndpoint) error {
		e := record.VPCEndpoint{
			ID: aws.ToString(in.VpcEndpointId), VPCID: aws.ToString(in.VpcId), ServiceName: aws.ToString(in.ServiceName), State: strings.ToLower(string(in.State)), Created: aws.ToTime(in.CreationTimestamp),
			Since: aws.ToTime(in.CreationTimestamp), Policy: aws.ToString(in.PolicyDocument), RouteTableIDs: in.RouteTableIds, SubnetIDs: in.SubnetIds, PrivateDNS: aws.ToBool(in.PrivateDnsEnabled), Tags: tagsOf(in.Tags),
		}
		if strings.Join(strings.Fields(e.Policy), "") == allowAll {
			e.Policy = ""
		}
		switch in.VpcEndpointType {
		case ec2types.VpcEndpointTypeGateway:
			e.Gateway = true
		case ec2types.VpcEndpointTypeInterface:
		default:
			l.unmodelled("DescribeVpcEndpoints", e.ID, "%s is an endpoint of type %s, which Drydock does not have", e.ID, in.VpcEndpointType)
			return nil
		}
		if region := aws.ToString(in.ServiceRegion); region != "" && region != l.sc.Region {
			l.unmodelled("DescribeVpcEndpoints", e.ID, "%s is an endpoint of a service in %s, which Drydock does not have", e.ID, region)
			return nil
		}
		if e.State == "deleted" || e.State == "deleting" || e.State == "failed" || e.State == "rejected" || e.State == "expired" {
			return nil
		}
		for _, g := range in.Groups {
			e.GroupIDs = append(e.GroupIDs, aws.ToString(g.GroupId))
		}
		e.InterfaceIDs = l.inOrderOfSubnets(in.NetworkInterfaceIds, e.SubnetIDs)
		for _, id := range e.InterfaceIDs {
			l.owners[id] = e.ID
		}
		if aws.ToBool(in.RequesterManaged) {
			e.RequesterID = "amazon-vpc"
		}
		// The first name is ID-SUFFIX.SERVICE.REGION.vpce.amazonaws.com.
		if len(in.DnsEntries) > 0 {
			name, _, _ := strings.Cut(aws.ToString(in.DnsEntries[0].DnsName), ".")
			e.DNSSuffix, _, _ = strings.Cut(strings.TrimPrefix(name, e.ID+"-"), "-")
		}
		return put(l, record.VPCEndpoints, e)
	})
}

// inOrderOfSubnets sorts the interfaces of an endpoint: the record pairs them with its subnets.
func (l *loader) inOrderOfSubnets(interfaces, subnets []string) []string {
	in := map[string]string{} // interface by subnet
	each(l, "DescribeNetworkInterfaces", func(out *awsec2.DescribeNetworkInterfacesOutput) []ec2types.NetworkInterface {
		return out.NetworkInterfaces
	}, func(_ *awsec2.DescribeNetworkInterfacesInput, e *ec2types.NetworkInterface) error {
		for _, id := range interfaces {
			if id == aws.ToString(e.NetworkInterfaceId) {
				in[aws.ToString(e.SubnetId)] = id
			}
		}
		return nil
	})
	var out []string
	for _, sn := range subnets {
		if in[sn] != "" {
			out = append(out, in[sn])
		}
	}
	if len(out) != len(interfaces) {
		return interfaces
	}
	return out
}
