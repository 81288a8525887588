package endpoint

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/ids"
	"github.com/drydock-dev/drydock/internal/service/ec2/ec2err"
	"github.com/drydock-dev/drydock/internal/service/ec2/eni"
	"github.com/drydock-dev/drydock/internal/service/ec2/firewall"
	"github.com/drydock-dev/drydock/internal/service/ec2/quota"
	"github.com/drydock-dev/drydock/internal/service/ec2/record"
	"github.com/drydock-dev/drydock/internal/service/ec2/resource"
	"github.com/drydock-dev/drydock/internal/service/ec2/routing"
	"github.com/drydock-dev/drydock/internal/service/ec2/tag"
	"github.com/drydock-dev/drydock/internal/store"
)

// maxPolicy is the maximum length of an endpoint policy in characters.
// https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-limits-endpoints.html
const maxPolicy = 20480

func checkPolicy(document string) error {
	var parsed struct{ Statement any }
	if len(document) > maxPolicy {
		return ec2err.New("InvalidPolicyDocument", "The Policy Document is too long.") // from memory
	}
	err := json.Unmarshal([]byte(document), &parsed)
	if err == nil && parsed.Statement != nil {
		return nil
	}
	read := document
	var syntax *json.SyntaxError
	if errors.As(err, &syntax) {
		read = document[:syntax.Offset]
	}
	line, column := 1+strings.Count(read, "\n"), len(read)-(strings.LastIndex(read, "\n")+1)
	// https://github.com/hashicorp/terraform-provider-aws/issues/42291
	return ec2err.New("InvalidPolicyDocument", "The Policy Document is not valid. Syntax error at position (%d,%d)", line, column)
}

// CreateVpcEndpoint creates an endpoint. Gateway endpoints are available at once, interface
// endpoints after a while.
func (s *Service) CreateVpcEndpoint(ctx context.Context, in *awsec2.CreateVpcEndpointInput) (*awsec2.CreateVpcEndpointOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.ServiceName == nil {
		return nil, ec2err.Missing("serviceName")
	}
	gateway := in.VpcEndpointType == "" || in.VpcEndpointType == ec2types.VpcEndpointTypeGateway
	if !gateway && in.VpcEndpointType != ec2types.VpcEndpointTypeInterface {
		return nil, ec2err.InvalidValue(in.VpcEndpointType, "vpcEndpointType", "")
	}
	service, err := findService(sc.Region, *in.ServiceName, gateway)
	if err != nil {
		return nil, err
	}
	switch {
	case gateway && len(in.SubnetIds)+len(in.SubnetConfigurations) > 0:
		return nil, ec2err.GatewaySubnets()
	case gateway && len(in.SecurityGroupIds) > 0:
		return nil, ec2err.GatewayGroups()
	case gateway && aws.ToBool(in.PrivateDnsEnabled):
		return nil, ec2err.GatewayDNS()
	case !gateway && len(in.RouteTableIds) > 0:
		return nil, ec2err.InvalidParameter("Route table IDs are only supported for Gateway type VPC Endpoint.")
	case in.IpAddressType != "" && in.IpAddressType != ec2types.IpAddressTypeIpv4:
		return nil, ec2err.InvalidParameter("The service %s does not support the IP address type %s.", service.fullName(), in.IpAddressType) // from memory
	}
	if in.PolicyDocument != nil {
		if err := checkPolicy(*in.PolicyDocument); err != nil {
			return nil, err
		}
	}
	tags, err := tag.Specified(ctx, in.TagSpecifications, ec2types.ResourceTypeVpcEndpoint)
	if err != nil {
		return nil, err
	}
	e, err := resource.Create(ctx, s.Core, record.VPCEndpoints, in.DryRun, in.ClientToken, in, func(tx *store.Tx, e *record.VPCEndpoint) error {
		if id := aws.ToString(in.VpcId); !strings.HasPrefix(id, "vpc-") { // the end-to-end tests of aws-controllers-k8s/ec2-controller quote it
			return ec2err.New("InvalidVpcId.Malformed", "Invalid Id: '%s'", id)
		}
		v, err := resource.Get(tx, record.VPCs, sc, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		*e = record.VPCEndpoint{
			ID: ids.Resource("vpce"), VPCID: v.ID, ServiceName: service.fullName(), Gateway: gateway, State: endpointPending,
			Since: s.Now(), Created: s.Now(), Policy: aws.ToString(in.PolicyDocument), Tags: tags,
		}
		if call := awsapi.CallFrom(ctx); call.Principal.Type == awsapi.AWSService {
			e.RequesterID = routing.ServiceRequester
		}
		all := resource.List(tx, record.VPCEndpoints, sc, func(o record.VPCEndpoint) bool { return o.Gateway == gateway && (gateway || o.VPCID == v.ID) })
		code := quota.Endpoints
		if gateway {
			code = quota.GatewayEndpoints
		}
		if err := quota.Check(tx, sc, code, len(all)+1, ec2err.Limit("VpcEndpointLimitExceeded", "VPC endpoints")); err != nil {
			return err
		}
		if gateway {
			e.State = endpointAvailable
			err = addTables(e, tx, sc, in.RouteTableIds)
		} else {
			err = s.buildEndpoint(tx, sc, e, v, in)
		}
		return err
	})
	if err != nil {
		return nil, err
	}
	out := s.sdkEndpoint(sc, e)
	return &awsec2.CreateVpcEndpointOutput{VpcEndpoint: &out, ClientToken: in.ClientToken}, nil
}

// buildEndpoint creates the network interfaces of an interface endpoint.
func (s *Service) buildEndpoint(tx *store.Tx, sc resource.Scope, e *record.VPCEndpoint, v record.VPC, in *awsec2.CreateVpcEndpointInput) error {
	e.DNSSuffix = ids.Hex(8)
	var err error
	if e.GroupIDs, err = eni.ResolveGroups(tx, sc, v.ID, in.SecurityGroupIds); err != nil {
		return err
	}
	// On is the default: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVpcEndpoint.html
	if e.PrivateDNS = in.PrivateDnsEnabled == nil || *in.PrivateDnsEnabled; e.PrivateDNS {
		if err := checkPrivateDNS(tx, sc, *e, v); err != nil {
			return err
		}
	}
	wanted, err := placements(in.SubnetIds, in.SubnetConfigurations)
	if err != nil {
		return err
	}
	return s.addSubnets(tx, sc, e, wanted)
}

// A placement is a subnet in which an endpoint has an interface. The interface's address is any free one if it is empty.
type placement struct{ subnet, address string }

// placements returns subnets with the addresses that configurations give them. A configuration adds its subnet.
func placements(subnets []string, configs []ec2types.SubnetConfiguration) ([]placement, error) {
	var out []placement
	for _, id := range subnets {
		out = append(out, placement{subnet: id})
	}
	for _, c := range configs {
		id := aws.ToString(c.SubnetId)
		if id == "" {
			return nil, ec2err.Missing("subnetId")
		}
		i := slices.IndexFunc(out, func(p placement) bool { return p.subnet == id })
		if i < 0 {
			i = len(out)
			out = append(out, placement{subnet: id})
		}
		out[i].address = aws.ToString(c.Ipv4)
	}
	return out, nil
}

// checkPrivateDNS returns an error if the VPC cannot resolve private names, or if another endpoint
// already has the names.
func checkPrivateDNS(tx *store.Tx, sc resource.Scope, e record.VPCEndpoint, v record.VPC) error {
	if v.NoDNSSupport || !v.DNSHostnames {
		return ec2err.InvalidParameter("Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC attributes set to true for %s", v.ID)
	}
	names := ServiceOf(e, sc.Region).PrivateDNSNames()
	others := resource.List(tx, record.VPCEndpoints, sc, func(o record.VPCEndpoint) bool {
		return o.ID != e.ID && o.VPCID == v.ID && o.PrivateDNS && o.State != endpointDeleting
	})
	for _, o := range others {
		for _, n := range ServiceOf(o, sc.Region).PrivateDNSNames() {
			if slices.Contains(names, n) {
				return ec2err.InvalidParameter("private-dns-enabled cannot be set because there is already a conflicting DNS domain for %s in the VPC %s", n, v.ID)
			}
		}
	}
	return nil
}

// addSubnets creates the endpoint's interface in each subnet, at most one per zone.
func (s *Service) addSubnets(tx *store.Tx, sc resource.Scope, e *record.VPCEndpoint, wanted []placement) error {
	zones := map[string]bool{}
	for _, id := range e.SubnetIDs {
		sn, err := resource.Get(tx, record.Subnets, sc, id)
		if err != nil {
			return err
		}
		zones[sn.Zone] = true
	}
	for _, p := range wanted {
		id := p.subnet
		if slices.Contains(e.SubnetIDs, id) {
			continue
		}
		sn, err := resource.Get(tx, record.Subnets, sc, id)
		if err != nil {
			return err
		}
		switch {
		case sn.VPCID != e.VPCID:
			return ec2err.InvalidParameter("The subnet ID '%s' does not belong to the VPC '%s'.", id, e.VPCID) // from memory
		case zones[sn.Zone]:
			return ec2err.New("DuplicateSubnetsInSameZone", "Found another VPC endpoint subnet in the availability zone of %s. VPC endpoint subnets should be in different availability zones supported by the VPC endpoint service.", id)
		}
		zones[sn.Zone] = true
		eniID := ids.Resource("eni")
		ifc, err := s.interfaces.Make(tx, sc, eni.Spec{
			ID: eniID, Subnet: sn, Description: "VPC Endpoint Interface " + e.ID, Primary: p.address, Groups: e.GroupIDs,
			Kind: "vpc_endpoint", Requester: routing.ServiceRequester, Owner: e.ID, Hint: eniID,
		})
		if err != nil {
			return err
		}
		ifc.Attachment = record.InterfaceAttachment{ID: ids.Resource("ela-attach"), DeviceIndex: 1, Time: s.Now()}
		if err := record.NetworkInterfaces.Create(tx, sc.Key(ifc.ID), ifc); err != nil {
			return err
		}
		e.SubnetIDs = append(slices.Clone(e.SubnetIDs), id)
		e.InterfaceIDs = append(slices.Clone(e.InterfaceIDs), ifc.ID)
	}
	return nil
}

// PrefixListOf returns the ID of the prefix list for a gateway endpoint's routes.
func PrefixListOf(e record.VPCEndpoint, region string) string {
	for _, p := range firewall.ManagedPrefixLists(region) {
		if p.Name == e.ServiceName {
			return p.ID
		}
	}
	return ""
}

// addTables adds the endpoint's route to route tables.
func addTables(e *record.VPCEndpoint, tx *store.Tx, sc resource.Scope, wanted []string) error {
	list := PrefixListOf(*e, sc.Region)
	for _, id := range resource.SortedUnique(wanted) {
		if slices.Contains(e.RouteTableIDs, id) {
			continue
		}
		t, err := resource.Get(tx, record.RouteTables, sc, id)
		if err != nil {
			return err
		}
		if t.VPCID != e.VPCID {
			return ec2err.InvalidParameter("Route table %s does not belong to the VPC %s.", id, e.VPCID) // from memory
		}
		if t.Find(list) >= 0 {
			return ec2err.New("RouteAlreadyExists", "route table %s already has a route with destination-prefix-list-id %s", id, list)
		}
		t.Routes = append(slices.Clone(t.Routes), record.Route{Destination: list, GatewayID: e.ID, Origin: routing.OriginCreateRoute})
		if err := record.RouteTables.Put(tx, sc.Key(id), t); err != nil {
			return err
		}
		e.RouteTableIDs = append(slices.Clone(e.RouteTableIDs), id)
	}
	return nil
}

// removeTables removes the endpoint's route from route tables.
func removeTables(e *record.VPCEndpoint, tx *store.Tx, sc resource.Scope, gone []string) error {
	for _, id := range resource.SortedUnique(gone) {
		t, err := resource.Get(tx, record.RouteTables, sc, id)
		if err != nil {
			return err
		}
		t.Routes = slices.DeleteFunc(slices.Clone(t.Routes), func(r record.Route) bool { return r.GatewayID == e.ID })
		if err := record.RouteTables.Put(tx, sc.Key(id), t); err != nil {
			return err
		}
		e.RouteTableIDs = routing.Without(e.RouteTableIDs, id)
	}
	return nil
}

// ModifyVpcEndpoint changes an endpoint.
func (s *Service) ModifyVpcEndpoint(ctx context.Context, in *awsec2.ModifyVpcEndpointInput) (*awsec2.ModifyVpcEndpointOutput, error) {
	sc := resource.ScopeOf(ctx)
	if in.PolicyDocument != nil {
		if err := checkPolicy(*in.PolicyDocument); err != nil {
			return nil, err
		}
	}
	_, err := resource.Change(ctx, s.Core, record.VPCEndpoints, in.DryRun, in.VpcEndpointId, func(tx *store.Tx, e *record.VPCEndpoint) error {
		tables := len(in.AddRouteTableIds)+len(in.RemoveRouteTableIds) > 0
		groups := len(in.AddSecurityGroupIds)+len(in.RemoveSecurityGroupIds) > 0
		placed := len(in.AddSubnetIds)+len(in.RemoveSubnetIds)+len(in.SubnetConfigurations) > 0
		switch {
		case e.State == endpointDeleting:
			return resource.VPCEndpointID.NotFound(e.ID)
		case e.RequesterID != "" && !tag.MayReserve(ctx):
			return ec2err.NotPermitted("The VPC endpoint %s is managed by a service.", e.ID) // from memory
		case !e.Gateway && tables:
			return ec2err.InvalidParameter("Route table IDs are only supported for Gateway type VPC Endpoint.")
		case e.Gateway && placed:
			return ec2err.GatewaySubnets()
		case e.Gateway && groups:
			return ec2err.GatewayGroups()
		case e.Gateway && in.PrivateDnsEnabled != nil:
			return ec2err.GatewayDNS()
		}
		if aws.ToBool(in.ResetPolicy) {
			e.Policy = ""
		}
		if in.PolicyDocument != nil {
			e.Policy = *in.PolicyDocument
		}
		if err := removeTables(e, tx, sc, in.RemoveRouteTableIds); err != nil {
			return err
		}
		if err := addTables(e, tx, sc, in.AddRouteTableIds); err != nil {
			return err
		}
		if placed || groups || in.PrivateDnsEnabled != nil {
			if err := s.modifyInterfaces(tx, sc, e, in); err != nil {
				return err
			}
		}
		return nil
	})
	return &awsec2.ModifyVpcEndpointOutput{Return: aws.Bool(true)}, err
}

func (s *Service) modifyInterfaces(tx *store.Tx, sc resource.Scope, e *record.VPCEndpoint, in *awsec2.ModifyVpcEndpointInput) error {
	if in.PrivateDnsEnabled != nil {
		if e.PrivateDNS = *in.PrivateDnsEnabled; e.PrivateDNS {
			v, err := resource.Get(tx, record.VPCs, sc, e.VPCID)
			if err != nil {
				return err
			}
			if err := checkPrivateDNS(tx, sc, *e, v); err != nil {
				return err
			}
		}
	}
	groups := append(slices.Clone(e.GroupIDs), in.AddSecurityGroupIds...)
	for _, g := range in.RemoveSecurityGroupIds {
		groups = routing.Without(groups, g)
	}
	if len(groups) == 0 {
		return ec2err.InvalidParameter("At least one security group must be associated with the VPC endpoint %s.", e.ID) // from memory
	}
	resolved, err := eni.ResolveGroups(tx, sc, e.VPCID, groups)
	if err != nil {
		return err
	}
	e.GroupIDs = resolved
	for _, id := range in.RemoveSubnetIds {
		i := slices.Index(e.SubnetIDs, id)
		if i < 0 {
			return ec2err.InvalidParameter("The subnet %s is not associated with the VPC endpoint %s.", id, e.ID) // from memory
		}
		if err := removeSubnet(tx, sc, e, i); err != nil {
			return err
		}
	}
	wanted, err := placements(in.AddSubnetIds, in.SubnetConfigurations)
	if err != nil {
		return err
	}
	// An interface with another address replaces the present one: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_SubnetConfiguration.html
	for _, p := range wanted {
		i := slices.Index(e.SubnetIDs, p.subnet)
		if i < 0 || p.address == "" {
			continue
		}
		ifc, err := resource.Get(tx, record.NetworkInterfaces, sc, e.InterfaceIDs[i])
		if err != nil {
			return err
		}
		if ifc.PrivateIP() == p.address {
			continue
		}
		if err := removeSubnet(tx, sc, e, i); err != nil {
			return err
		}
	}
	for _, id := range e.InterfaceIDs {
		err := record.NetworkInterfaces.Update(tx, sc.Key(id), func(ifc *record.NetworkInterface) error {
			ifc.Groups = e.GroupIDs
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.addSubnets(tx, sc, e, wanted)
}

// removeSubnet removes the endpoint's interface in one of its subnets.
func removeSubnet(tx *store.Tx, sc resource.Scope, e *record.VPCEndpoint, i int) error {
	if err := routing.RemoveInterfaceByID(tx, sc, e.InterfaceIDs[i]); err != nil {
		return err
	}
	e.SubnetIDs = slices.Delete(slices.Clone(e.SubnetIDs), i, i+1)
	e.InterfaceIDs = slices.Delete(slices.Clone(e.InterfaceIDs), i, i+1)
	return nil
}

// DeleteVpcEndpoints deletes endpoints. Each one that fails is reported separately.
func (s *Service) DeleteVpcEndpoints(ctx context.Context, in *awsec2.DeleteVpcEndpointsInput) (*awsec2.DeleteVpcEndpointsOutput, error) {
	sc := resource.ScopeOf(ctx)
	if len(in.VpcEndpointIds) == 0 {
		return nil, ec2err.Missing("vpcEndpointIds")
	}
	out := &awsec2.DeleteVpcEndpointsOutput{Unsuccessful: []ec2types.UnsuccessfulItem{}}
	for _, id := range in.VpcEndpointIds {
		err := s.Update(ctx, in.DryRun, func(tx *store.Tx) error {
			e, err := resource.Get(tx, record.VPCEndpoints, sc, id)
			if err != nil {
				return err
			}
			if e.RequesterID != "" && !tag.MayReserve(ctx) {
				return ec2err.NotPermitted("The VPC endpoint %s is managed by a service.", e.ID) // from memory
			}
			if e.Gateway {
				if err := removeTables(&e, tx, sc, e.RouteTableIDs); err != nil {
					return err
				}
				record.VPCEndpoints.Delete(tx, sc.Key(id))
				return nil
			}
			if e.State != endpointDeleting {
				e.State, e.Since = endpointDeleting, s.Now()
			}
			return record.VPCEndpoints.Put(tx, sc.Key(id), e)
		})
		if ec2err.HasCode(err, "DryRunOperation") {
			return nil, err
		}
		item, err := resource.Unsuccessful(id, err)
		if err != nil {
			return nil, err
		}
		if item != nil {
			out.Unsuccessful = append(out.Unsuccessful, *item)
		}
	}
	return out, nil
}
