package insights

import (
	"cmp"
	"net/netip"
	"strconv"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
)

// componentARN returns the ARN of any component of a path.
func componentARN(sc resource.Scope, id string) string { return sc.ARN(reach.KindOf(id), id) }

// component returns nil if there is no ID.
func component(sc resource.Scope, id, name string) *ec2types.AnalysisComponent {
	if id == "" {
		return nil
	}
	return &ec2types.AnalysisComponent{Id: aws.String(id), Arn: aws.String(componentARN(sc, id)), Name: resource.Optional(name)}
}

// SDK renders the record for the SDK.
func (a Analysis) SDK(sc resource.Scope) ec2types.NetworkInsightsAnalysis {
	out := ec2types.NetworkInsightsAnalysis{
		NetworkInsightsAnalysisId:  aws.String(a.ID),
		NetworkInsightsAnalysisArn: aws.String(sc.ARN("network-insights-analysis", a.ID)),
		NetworkInsightsPathId:      aws.String(a.PathID), StartDate: aws.Time(a.Started),
		Status: ec2types.AnalysisStatusSucceeded, NetworkPathFound: aws.Bool(a.Verdict.Reachable),
		FilterInArns: a.FilterIn, FilterOutArns: a.FilterOut, Tags: a.Tags.SDK(),
		ForwardPathComponents: pathComponents(sc, a.Verdict.Forward), ReturnPathComponents: pathComponents(sc, a.Verdict.Return),
	}
	for _, x := range a.Verdict.Explanations {
		out.Explanations = append(out.Explanations, explanation(sc, x))
	}
	return out
}

// pathComponents converts the hops up to and including the first that blocks the packet. It leaves
// out hops that are not resources of the account, such as the internet.
func pathComponents(sc resource.Scope, hops []reach.Hop) []ec2types.PathComponent {
	var out []ec2types.PathComponent
	for i := range hops {
		h := &hops[i]
		if !h.OK {
			break
		}
		if h.Kind == reach.KindInternet || h.Kind == reach.KindLocalService {
			continue
		}
		c := ec2types.PathComponent{
			SequenceNumber: aws.Int32(int32(len(out) + 1)),
			Component:      component(sc, h.ID, h.Name), AttachedTo: component(sc, h.AttachedTo, ""),
			SourceVpc: component(sc, h.SourceVPC, ""), DestinationVpc: component(sc, h.TargetVPC, ""),
			InboundHeader: packetHeader(h.In), OutboundHeader: packetHeader(h.Out),
			AdditionalDetails: []ec2types.AdditionalDetail{}, Explanations: []ec2types.Explanation{},
		}
		switch h.Kind {
		case reach.KindInterface, reach.KindNATGateway:
			c.Subnet, c.Vpc = component(sc, h.Subnet, ""), component(sc, h.VPC, "")
		case reach.KindInternetGateway, reach.KindEgressOnly, reach.KindVPCEndpoint:
			c.Vpc = component(sc, h.VPC, "")
		}
		if h.Kind == reach.KindVPCEndpoint {
			c.ServiceName = resource.Optional(h.Note)
		}
		if h.Rule != nil {
			c.SecurityGroupRule = analysisRule(h.Rule)
		}
		if h.Entry != nil {
			c.AclRule = analysisEntry(h.Entry)
		}
		if h.Route != nil {
			c.RouteTableRoute = analysisRoute(h.Route, "active")
		}
		out = append(out, c)
	}
	return out
}

func analysisPorts(r reach.PortRange) *ec2types.PortRange {
	return &ec2types.PortRange{From: aws.Int32(int32(r.From)), To: aws.Int32(int32(r.To))}
}

func analysisPortRanges(ports reach.Ports) []ec2types.PortRange {
	var out []ec2types.PortRange
	for _, r := range ports {
		out = append(out, *analysisPorts(r))
	}
	return out
}

func analysisRule(r *reach.Rule) *ec2types.AnalysisSecurityGroupRule {
	out := &ec2types.AnalysisSecurityGroupRule{
		Direction: aws.String(reach.Ingress), Protocol: aws.String(r.Protocol.String()),
		PrefixListId: resource.Optional(r.PrefixList), SecurityGroupId: resource.Optional(r.Group),
	}
	if r.Egress {
		out.Direction = aws.String(reach.Egress)
	}
	if r.CIDR.IsValid() {
		out.Cidr = aws.String(r.CIDR.String())
	}
	if r.Protocol == reach.TCP || r.Protocol == reach.UDP {
		out.PortRange = analysisPorts(r.Ports)
	}
	return out
}

func analysisEntry(e *reach.Entry) *ec2types.AnalysisAclRule {
	out := &ec2types.AnalysisAclRule{
		Egress: aws.Bool(e.Egress), RuleNumber: aws.Int32(int32(e.Number)), Protocol: aws.String(e.Protocol.String()), RuleAction: aws.String("deny"),
	}
	if e.Allow {
		out.RuleAction = aws.String("allow")
	}
	if e.CIDR.IsValid() {
		out.Cidr = aws.String(e.CIDR.String())
	}
	if e.Protocol == reach.TCP || e.Protocol == reach.UDP {
		out.PortRange = analysisPorts(e.Ports)
	}
	return out
}

func analysisRoute(r *reach.Route, state string) *ec2types.AnalysisRouteTableRoute {
	out := &ec2types.AnalysisRouteTableRoute{
		DestinationPrefixListId: resource.Optional(r.PrefixList), Origin: resource.Optional(strings.ToLower(r.Origin)), State: aws.String(state),
	}
	if r.Destination.IsValid() {
		out.DestinationCidr = aws.String(r.Destination.String())
	}
	switch reach.KindOf(r.Target) {
	case reach.KindNATGateway:
		out.NatGatewayId = aws.String(r.Target)
	case reach.KindPeering:
		out.VpcPeeringConnectionId = aws.String(r.Target)
	case reach.KindTransitGateway:
		out.TransitGatewayId = aws.String(r.Target)
	case reach.KindInterface:
		out.NetworkInterfaceId = aws.String(r.Target)
	case reach.KindEgressOnly:
		out.EgressOnlyInternetGatewayId = aws.String(r.Target)
	default:
		out.GatewayId = aws.String(r.Target)
	}
	return out
}

func packetHeader(h *reach.Header) *ec2types.AnalysisPacketHeader {
	if h == nil {
		return nil
	}
	return &ec2types.AnalysisPacketHeader{
		SourceAddresses: []string{block(h.Source)}, DestinationAddresses: []string{block(h.Destination)},
		SourcePortRanges: analysisPortRanges(h.SourcePorts), DestinationPortRanges: analysisPortRanges(h.DestinationPorts),
		Protocol: aws.String(strconv.Itoa(int(h.Protocol))),
	}
}

// block formats an address as a CIDR block.
func block(a netip.Addr) string { return netip.PrefixFrom(a, a.BitLen()).String() }

// explanation fills in the members for the kind of component.
func explanation(sc resource.Scope, x reach.Explanation) ec2types.Explanation {
	out := ec2types.Explanation{
		ExplanationCode: aws.String(x.Code), Direction: resource.Optional(x.Direction), State: resource.Optional(x.State),
		PacketField: resource.Optional(x.PacketField), MissingComponent: resource.Optional(x.Missing), PortRanges: analysisPortRanges(x.Ports),
		Vpc: component(sc, x.VPC, ""), Subnet: component(sc, x.Subnet, ""), NetworkInterface: component(sc, x.Interface, ""),
		DestinationVpc: component(sc, x.TargetVPC, ""),
	}
	if x.Address.IsValid() && x.Address.Is4() {
		out.Address = aws.String(x.Address.String())
	}
	if x.Protocol != 0 {
		out.Protocols = []string{x.Protocol.String()}
	}
	for _, g := range x.Groups {
		out.SecurityGroups = append(out.SecurityGroups, *component(sc, g, ""))
	}
	if x.Entry != nil {
		out.AclRule = analysisEntry(x.Entry)
	}
	if x.Route != nil {
		out.RouteTableRoute = analysisRoute(x.Route, cmp.Or(x.State, "active"))
	}
	c := component(sc, x.Component, "")
	switch x.Kind {
	case reach.KindACL:
		out.Acl = c
	case reach.KindSecurityGroup:
		if len(x.Groups) == 1 {
			out.SecurityGroup = c
		}
	case reach.KindRouteTable:
		out.RouteTable = c
	case reach.KindInternetGateway:
		out.InternetGateway = c
	case reach.KindNATGateway:
		out.NatGateway = c
	case reach.KindPeering:
		out.VpcPeeringConnection = c
	case reach.KindTransitGateway:
		out.TransitGateway = c
	case reach.KindTransitAttachment:
		out.TransitGatewayAttachment = c
	case reach.KindTransitTable:
		out.TransitGatewayRouteTable = c
	case reach.KindVPCEndpoint:
		out.VpcEndpoint = c
	case reach.KindInterface:
		out.NetworkInterface = c
	case reach.KindVPC:
		out.Vpc = c
	default:
		if strings.Contains(x.Component, "-") {
			out.Component = c
		}
	}
	return out
}
