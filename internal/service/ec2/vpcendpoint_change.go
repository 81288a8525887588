package ec2

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
	"github.com/drydock-dev/drydock/internal/store"
)

// maxPolicy is the most characters of an endpoint policy.
// https://docs.aws.amazon.com/vpc/latest/privatelink/vpc-limits-endpoints.html
const maxPolicy = 20480

func checkPolicy(document string) error {
	var parsed struct{ Statement any }
	if len(document) > maxPolicy {
		return errf("InvalidPolicyDocument", "The Policy Document is too long.") // from memory
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
	return errf("InvalidPolicyDocument", "The Policy Document is not valid. Syntax error at position (%d,%d)", line, column)
}

func errInvalid(format string, args ...any) error { return errf("InvalidParameter", format, args...) }

// CreateVpcEndpoint makes an endpoint: of a gateway at once, of interfaces shortly.
func (s *Service) CreateVpcEndpoint(ctx context.Context, in *awsec2.CreateVpcEndpointInput) (*awsec2.CreateVpcEndpointOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.ServiceName == nil {
		return nil, errMissing("serviceName")
	}
	gateway := in.VpcEndpointType == "" || in.VpcEndpointType == ec2types.VpcEndpointTypeGateway
	if !gateway && in.VpcEndpointType != ec2types.VpcEndpointTypeInterface {
		return nil, errInvalidValue(in.VpcEndpointType, "vpcEndpointType", "")
	}
	service, err := findEndpointService(sc.region, *in.ServiceName, gateway)
	if err != nil {
		return nil, err
	}
	switch {
	case gateway && len(in.SubnetIds) > 0:
		return nil, errGatewaySubnets()
	case gateway && len(in.SecurityGroupIds) > 0:
		return nil, errGatewayGroups()
	case gateway && aws.ToBool(in.PrivateDnsEnabled):
		return nil, errGatewayDNS()
	case !gateway && len(in.RouteTableIds) > 0:
		return nil, errInvalid("Route table IDs are only supported for Gateway type VPC Endpoint.")
	case in.IpAddressType != "" && in.IpAddressType != ec2types.IpAddressTypeIpv4:
		return nil, errInvalid("The service %s does not support the IP address type %s.", service.fullName(), in.IpAddressType) // from memory
	}
	if in.PolicyDocument != nil {
		if err := checkPolicy(*in.PolicyDocument); err != nil {
			return nil, err
		}
	}
	tags, err := specifiedTags(ctx, in.TagSpecifications, ec2types.ResourceTypeVpcEndpoint)
	if err != nil {
		return nil, err
	}
	var e vpcEndpointRecord
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		if done, err := recallOne(tx, s, sc, "CreateVpcEndpoint", in.ClientToken, in, vpcEndpoints, vpcEndpointID, &e); done || err != nil {
			return err
		}
		if id := aws.ToString(in.VpcId); !strings.HasPrefix(id, "vpc-") { // the end-to-end tests of aws-controllers-k8s/ec2-controller quote it
			return errf("InvalidVpcId.Malformed", "Invalid Id: '%s'", id)
		}
		v, err := get(tx, vpcs, sc, vpcID, aws.ToString(in.VpcId))
		if err != nil {
			return err
		}
		e = vpcEndpointRecord{
			ID: ids.Resource("vpce"), VPCID: v.ID, ServiceName: service.fullName(), Gateway: gateway, State: endpointPending,
			Since: s.now(), Created: s.now(), Policy: aws.ToString(in.PolicyDocument), Tags: tags,
		}
		if call := awsapi.CallFrom(ctx); call.Principal.Type == awsapi.AWSService {
			e.RequesterID = serviceRequester
		}
		all, err := list(tx, vpcEndpoints, sc, func(o vpcEndpointRecord) bool { return o.Gateway == gateway && (gateway || o.VPCID == v.ID) })
		if err != nil {
			return err
		}
		code := quotaEndpoints
		if gateway {
			code = quotaGatewayEndpoints
		}
		if err := checkQuota(tx, sc, code, len(all)+1, errLimit("VpcEndpointLimitExceeded", "VPC endpoints")); err != nil {
			return err
		}
		if gateway {
			e.State = endpointAvailable
			err = e.addTables(tx, sc, in.RouteTableIds)
		} else {
			err = s.buildEndpoint(tx, sc, &e, v, in)
		}
		if err != nil {
			return err
		}
		if err := vpcEndpoints.Create(tx, sc.key(e.ID), e); err != nil {
			return err
		}
		return s.remember(tx, sc, "CreateVpcEndpoint", in.ClientToken, in, false, e.ID)
	})
	if err != nil {
		return nil, err
	}
	out := s.sdkEndpoint(sc, e)
	return &awsec2.CreateVpcEndpointOutput{VpcEndpoint: &out, ClientToken: in.ClientToken}, nil
}

// buildEndpoint makes the interfaces of an interface endpoint.
func (s *Service) buildEndpoint(tx *store.Tx, sc scope, e *vpcEndpointRecord, v vpcRecord, in *awsec2.CreateVpcEndpointInput) error {
	e.DNSSuffix = ids.Hex(8)
	var err error
	if e.GroupIDs, err = resolveGroups(tx, sc, v.ID, in.SecurityGroupIds); err != nil {
		return err
	}
	// On is the default: https://docs.aws.amazon.com/AWSEC2/latest/APIReference/API_CreateVpcEndpoint.html
	if e.PrivateDNS = in.PrivateDnsEnabled == nil || *in.PrivateDnsEnabled; e.PrivateDNS {
		if err := checkPrivateDNS(tx, sc, *e, v); err != nil {
			return err
		}
	}
	return s.addSubnets(tx, sc, e, in.SubnetIds)
}

// checkPrivateDNS refuses names that the VPC cannot resolve, or resolves already.
func checkPrivateDNS(tx *store.Tx, sc scope, e vpcEndpointRecord, v vpcRecord) error {
	if v.NoDNSSupport || !v.DNSHostnames {
		return errInvalid("Enabling private DNS requires both enableDnsSupport and enableDnsHostnames VPC attributes set to true for %s", v.ID)
	}
	names := e.service(sc.region).privateDNSNames()
	others, err := list(tx, vpcEndpoints, sc, func(o vpcEndpointRecord) bool {
		return o.ID != e.ID && o.VPCID == v.ID && o.PrivateDNS && o.State != endpointDeleting
	})
	if err != nil {
		return err
	}
	for _, o := range others {
		for _, n := range o.service(sc.region).privateDNSNames() {
			if slices.Contains(names, n) {
				return errInvalid("private-dns-enabled cannot be set because there is already a conflicting DNS domain for %s in the VPC %s", n, v.ID)
			}
		}
	}
	return nil
}

// addSubnets makes the endpoint's interface in each subnet, one for a zone.
func (s *Service) addSubnets(tx *store.Tx, sc scope, e *vpcEndpointRecord, wanted []string) error {
	zones := map[string]bool{}
	for _, id := range e.SubnetIDs {
		sn, err := get(tx, subnets, sc, subnetID, id)
		if err != nil {
			return err
		}
		zones[sn.Zone] = true
	}
	for _, id := range wanted {
		if slices.Contains(e.SubnetIDs, id) {
			continue
		}
		sn, err := get(tx, subnets, sc, subnetID, id)
		if err != nil {
			return err
		}
		switch {
		case sn.VPCID != e.VPCID:
			return errInvalid("The subnet ID '%s' does not belong to the VPC '%s'.", id, e.VPCID) // from memory
		case zones[sn.Zone]:
			return errf("DuplicateSubnetsInSameZone", "Found another VPC endpoint subnet in the availability zone of %s. VPC endpoint subnets should be in different availability zones supported by the VPC endpoint service.", id)
		}
		zones[sn.Zone] = true
		eni := ids.Resource("eni")
		ifc, err := s.makeInterface(tx, sc, interfaceSpec{
			id: eni, subnet: sn, description: "VPC Endpoint Interface " + e.ID, groups: e.GroupIDs,
			kind: "vpc_endpoint", requester: serviceRequester, owner: e.ID, hint: eni,
		})
		if err != nil {
			return err
		}
		ifc.Attachment = interfaceAttachment{ID: ids.Resource("ela-attach"), DeviceIndex: 1, Time: s.now()}
		if err := networkInterfaces.Create(tx, sc.key(ifc.ID), ifc); err != nil {
			return err
		}
		e.SubnetIDs = append(slices.Clone(e.SubnetIDs), id)
		e.InterfaceIDs = append(slices.Clone(e.InterfaceIDs), ifc.ID)
	}
	return nil
}

// prefixList is the list that a gateway endpoint's routes lead to.
func (e vpcEndpointRecord) prefixList(region string) string {
	for _, p := range managedPrefixLists(region) {
		if p.Name == e.ServiceName {
			return p.ID
		}
	}
	return ""
}

// addTables puts the endpoint's route into route tables.
func (e *vpcEndpointRecord) addTables(tx *store.Tx, sc scope, wanted []string) error {
	list := e.prefixList(sc.region)
	for _, id := range sortedUnique(wanted) {
		if slices.Contains(e.RouteTableIDs, id) {
			continue
		}
		t, err := get(tx, routeTables, sc, routeTableID, id)
		if err != nil {
			return err
		}
		if t.VPCID != e.VPCID {
			return errInvalid("Route table %s does not belong to the VPC %s.", id, e.VPCID) // from memory
		}
		if t.find(list) >= 0 {
			return errf("RouteAlreadyExists", "route table %s already has a route with destination-prefix-list-id %s", id, list)
		}
		t.Routes = append(slices.Clone(t.Routes), route{Destination: list, GatewayID: e.ID, Origin: originCreateRoute})
		if err := routeTables.Put(tx, sc.key(id), t); err != nil {
			return err
		}
		e.RouteTableIDs = append(slices.Clone(e.RouteTableIDs), id)
	}
	return nil
}

// removeTables takes the endpoint's route out of route tables.
func (e *vpcEndpointRecord) removeTables(tx *store.Tx, sc scope, gone []string) error {
	for _, id := range sortedUnique(gone) {
		t, err := get(tx, routeTables, sc, routeTableID, id)
		if err != nil {
			return err
		}
		t.Routes = slices.DeleteFunc(slices.Clone(t.Routes), func(r route) bool { return r.GatewayID == e.ID })
		if err := routeTables.Put(tx, sc.key(id), t); err != nil {
			return err
		}
		e.RouteTableIDs = without(e.RouteTableIDs, id)
	}
	return nil
}

// ModifyVpcEndpoint changes an endpoint.
func (s *Service) ModifyVpcEndpoint(ctx context.Context, in *awsec2.ModifyVpcEndpointInput) (*awsec2.ModifyVpcEndpointOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if in.PolicyDocument != nil {
		if err := checkPolicy(*in.PolicyDocument); err != nil {
			return nil, err
		}
	}
	err = s.update(ctx, in.DryRun, func(tx *store.Tx) error {
		e, err := get(tx, vpcEndpoints, sc, vpcEndpointID, aws.ToString(in.VpcEndpointId))
		if err != nil {
			return err
		}
		tables := len(in.AddRouteTableIds)+len(in.RemoveRouteTableIds) > 0
		groups := len(in.AddSecurityGroupIds)+len(in.RemoveSecurityGroupIds) > 0
		placed := len(in.AddSubnetIds)+len(in.RemoveSubnetIds) > 0
		switch {
		case e.State == endpointDeleting:
			return vpcEndpointID.notFound(e.ID)
		case e.RequesterID != "" && !mayReserve(ctx):
			return errNotPermitted("The VPC endpoint %s is managed by a service.", e.ID) // from memory
		case !e.Gateway && tables:
			return errInvalid("Route table IDs are only supported for Gateway type VPC Endpoint.")
		case e.Gateway && placed:
			return errGatewaySubnets()
		case e.Gateway && groups:
			return errGatewayGroups()
		case e.Gateway && in.PrivateDnsEnabled != nil:
			return errGatewayDNS()
		}
		if aws.ToBool(in.ResetPolicy) {
			e.Policy = ""
		}
		if in.PolicyDocument != nil {
			e.Policy = *in.PolicyDocument
		}
		if err := e.removeTables(tx, sc, in.RemoveRouteTableIds); err != nil {
			return err
		}
		if err := e.addTables(tx, sc, in.AddRouteTableIds); err != nil {
			return err
		}
		if placed || groups || in.PrivateDnsEnabled != nil {
			if err := s.modifyInterfaces(tx, sc, &e, in); err != nil {
				return err
			}
		}
		return vpcEndpoints.Put(tx, sc.key(e.ID), e)
	})
	if err != nil {
		return nil, err
	}
	return &awsec2.ModifyVpcEndpointOutput{Return: aws.Bool(true)}, nil
}

func (s *Service) modifyInterfaces(tx *store.Tx, sc scope, e *vpcEndpointRecord, in *awsec2.ModifyVpcEndpointInput) error {
	if in.PrivateDnsEnabled != nil {
		if e.PrivateDNS = *in.PrivateDnsEnabled; e.PrivateDNS {
			v, err := get(tx, vpcs, sc, vpcID, e.VPCID)
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
		groups = without(groups, g)
	}
	if len(groups) == 0 {
		return errInvalid("At least one security group must be associated with the VPC endpoint %s.", e.ID) // from memory
	}
	resolved, err := resolveGroups(tx, sc, e.VPCID, groups)
	if err != nil {
		return err
	}
	e.GroupIDs = resolved
	for _, id := range in.RemoveSubnetIds {
		i := slices.Index(e.SubnetIDs, id)
		if i < 0 {
			return errInvalid("The subnet %s is not associated with the VPC endpoint %s.", id, e.ID) // from memory
		}
		if err := removeInterfaceByID(tx, sc, e.InterfaceIDs[i]); err != nil {
			return err
		}
		e.SubnetIDs = slices.Delete(slices.Clone(e.SubnetIDs), i, i+1)
		e.InterfaceIDs = slices.Delete(slices.Clone(e.InterfaceIDs), i, i+1)
	}
	for _, id := range e.InterfaceIDs {
		err := networkInterfaces.Update(tx, sc.key(id), func(ifc *networkInterfaceRecord) error {
			ifc.Groups = e.GroupIDs
			return nil
		})
		if err != nil {
			return err
		}
	}
	return s.addSubnets(tx, sc, e, in.AddSubnetIds)
}

// DeleteVpcEndpoints deletes endpoints, each by itself: what fails is listed.
func (s *Service) DeleteVpcEndpoints(ctx context.Context, in *awsec2.DeleteVpcEndpointsInput) (*awsec2.DeleteVpcEndpointsOutput, error) {
	sc, err := s.scope(ctx)
	if err != nil {
		return nil, err
	}
	if len(in.VpcEndpointIds) == 0 {
		return nil, errMissing("vpcEndpointIds")
	}
	out := &awsec2.DeleteVpcEndpointsOutput{Unsuccessful: []ec2types.UnsuccessfulItem{}}
	for _, id := range in.VpcEndpointIds {
		err := s.update(ctx, in.DryRun, func(tx *store.Tx) error {
			e, err := get(tx, vpcEndpoints, sc, vpcEndpointID, id)
			if err != nil {
				return err
			}
			if e.RequesterID != "" && !mayReserve(ctx) {
				return errNotPermitted("The VPC endpoint %s is managed by a service.", e.ID) // from memory
			}
			if e.Gateway {
				if err := e.removeTables(tx, sc, e.RouteTableIDs); err != nil {
					return err
				}
				vpcEndpoints.Delete(tx, sc.key(id))
				return nil
			}
			if e.State != endpointDeleting {
				e.State, e.Since = endpointDeleting, s.now()
			}
			return vpcEndpoints.Put(tx, sc.key(id), e)
		})
		if isCode(err, "DryRunOperation") {
			return nil, err
		}
		item, err := unsuccessful(id, err)
		if err != nil {
			return nil, err
		}
		if item != nil {
			out.Unsuccessful = append(out.Unsuccessful, *item)
		}
	}
	return out, nil
}
