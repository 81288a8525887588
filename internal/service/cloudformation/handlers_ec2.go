package cloudformation

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

// tagSpecs are the tags of an EC2 resource, with those by which it is found again.
func (r *request) tagSpecs(kind ec2types.ResourceType) []ec2types.TagSpecification {
	spec := ec2types.TagSpecification{ResourceType: kind}
	for _, t := range append(r.tags(), r.systemTags()...) {
		spec.Tags = append(spec.Tags, ec2types.Tag{Key: &t.Key, Value: &t.Value})
	}
	return []ec2types.TagSpecification{spec}
}

// byTags finds an EC2 resource of the stack by the tags that it was made with.
func byTags(kind string) func(*request) (string, error) {
	return func(r *request) (string, error) {
		var found [2][]string
		for i, t := range r.systemTags()[1:] {
			out, err := call[awsec2.DescribeTagsOutput](r, &awsec2.DescribeTagsInput{Filters: []ec2types.Filter{
				{Name: aws.String("key"), Values: []string{t.Key}}, {Name: aws.String("value"), Values: []string{t.Value}}, {Name: aws.String("resource-type"), Values: []string{kind}},
			}})
			if err != nil {
				return "", err
			}
			for _, t := range out.Tags {
				found[i] = append(found[i], aws.ToString(t.ResourceId))
			}
		}
		for _, id := range found[0] {
			if slices.Contains(found[1], id) {
				return id, nil
			}
		}
		return "", nil
	}
}

func ec2Handlers() map[string]handler {
	return map[string]handler{
		"AWS::EC2::VPC": {
			find: byTags("vpc"),
			create: func(r *request) (string, error) {
				in := &awsec2.CreateVpcInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeVpc)}
				if err := r.fill(in, "Tags EnableDnsSupport EnableDnsHostnames"); err != nil {
					return "", err
				}
				out, err := call[awsec2.CreateVpcOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.Vpc.VpcId, nil
			},
			settle: func(r *request) error {
				for name, in := range map[string]*awsec2.ModifyVpcAttributeInput{
					"EnableDnsSupport":   {VpcId: &r.id, EnableDnsSupport: r.attribute("EnableDnsSupport")},
					"EnableDnsHostnames": {VpcId: &r.id, EnableDnsHostnames: r.attribute("EnableDnsHostnames")},
				} {
					if r.props.Has(name) {
						if _, err := call[awsec2.ModifyVpcAttributeOutput](r, in); err != nil {
							return err
						}
					}
				}
				return nil
			},
			read: func(r *request) (map[string]any, error) {
				vpcs, err := call[awsec2.DescribeVpcsOutput](r, &awsec2.DescribeVpcsInput{VpcIds: []string{r.id}})
				if err != nil || len(vpcs.Vpcs) == 0 {
					return nil, err
				}
				inVPC := []ec2types.Filter{{Name: aws.String("vpc-id"), Values: []string{r.id}}}
				groups, err := call[awsec2.DescribeSecurityGroupsOutput](r, &awsec2.DescribeSecurityGroupsInput{Filters: append(inVPC, ec2types.Filter{Name: aws.String("group-name"), Values: []string{"default"}})})
				if err != nil {
					return nil, err
				}
				acls, err := call[awsec2.DescribeNetworkAclsOutput](r, &awsec2.DescribeNetworkAclsInput{Filters: append(inVPC, ec2types.Filter{Name: aws.String("default"), Values: []string{"true"}})})
				if err != nil {
					return nil, err
				}
				out := map[string]any{"VpcId": r.id, "CidrBlock": vpcs.Vpcs[0].CidrBlock}
				for _, g := range groups.SecurityGroups {
					out["DefaultSecurityGroup"] = g.GroupId
				}
				for _, a := range acls.NetworkAcls {
					out["DefaultNetworkAcl"] = a.NetworkAclId
				}
				blocks, six := []string{}, []string{}
				for _, a := range vpcs.Vpcs[0].CidrBlockAssociationSet {
					blocks = append(blocks, aws.ToString(a.AssociationId))
				}
				for _, a := range vpcs.Vpcs[0].Ipv6CidrBlockAssociationSet {
					six = append(six, aws.ToString(a.Ipv6CidrBlock))
				}
				out["CidrBlockAssociations"], out["Ipv6CidrBlocks"] = blocks, six
				return out, nil
			},
			remove: func(r *request) error {
				_, err := call[awsec2.DeleteVpcOutput](r, &awsec2.DeleteVpcInput{VpcId: &r.id})
				return err
			},
		},
		"AWS::EC2::Subnet": {
			find: byTags("subnet"),
			create: func(r *request) (string, error) {
				in := &awsec2.CreateSubnetInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeSubnet)}
				if err := r.fill(in, "Tags MapPublicIpOnLaunch AssignIpv6AddressOnCreation EnableDns64"); err != nil {
					return "", err
				}
				out, err := call[awsec2.CreateSubnetOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.Subnet.SubnetId, nil
			},
			settle: func(r *request) error {
				for name, in := range map[string]*awsec2.ModifySubnetAttributeInput{
					"MapPublicIpOnLaunch":         {SubnetId: &r.id, MapPublicIpOnLaunch: r.attribute("MapPublicIpOnLaunch")},
					"AssignIpv6AddressOnCreation": {SubnetId: &r.id, AssignIpv6AddressOnCreation: r.attribute("AssignIpv6AddressOnCreation")},
					"EnableDns64":                 {SubnetId: &r.id, EnableDns64: r.attribute("EnableDns64")},
				} {
					if r.props.Has(name) {
						if _, err := call[awsec2.ModifySubnetAttributeOutput](r, in); err != nil {
							return err
						}
					}
				}
				return nil
			},
			read: func(r *request) (map[string]any, error) {
				out, err := call[awsec2.DescribeSubnetsOutput](r, &awsec2.DescribeSubnetsInput{SubnetIds: []string{r.id}})
				if err != nil || len(out.Subnets) == 0 {
					return nil, err
				}
				s := out.Subnets[0]
				six := []string{}
				for _, a := range s.Ipv6CidrBlockAssociationSet {
					six = append(six, aws.ToString(a.Ipv6CidrBlock))
				}
				return map[string]any{"SubnetId": r.id, "AvailabilityZone": s.AvailabilityZone, "AvailabilityZoneId": s.AvailabilityZoneId, "CidrBlock": s.CidrBlock, "VpcId": s.VpcId, "Ipv6CidrBlocks": six}, nil
			},
			remove: func(r *request) error {
				_, err := call[awsec2.DeleteSubnetOutput](r, &awsec2.DeleteSubnetInput{SubnetId: &r.id})
				return err
			},
		},
		"AWS::EC2::InternetGateway": {
			find: byTags("internet-gateway"),
			create: func(r *request) (string, error) {
				in := &awsec2.CreateInternetGatewayInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeInternetGateway)}
				if err := r.fill(in, "Tags"); err != nil {
					return "", err
				}
				out, err := call[awsec2.CreateInternetGatewayOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.InternetGateway.InternetGatewayId, nil
			},
			read: func(r *request) (map[string]any, error) { return map[string]any{"InternetGatewayId": r.id}, nil },
			remove: func(r *request) error {
				_, err := call[awsec2.DeleteInternetGatewayOutput](r, &awsec2.DeleteInternetGatewayInput{InternetGatewayId: &r.id})
				return err
			},
		},
		"AWS::EC2::VPCGatewayAttachment": {
			find: func(r *request) (string, error) {
				out, err := call[awsec2.DescribeInternetGatewaysOutput](r, &awsec2.DescribeInternetGatewaysInput{InternetGatewayIds: []string{r.text("InternetGatewayId")}})
				if err != nil || len(out.InternetGateways) == 0 || len(out.InternetGateways[0].Attachments) == 0 {
					return "", err
				}
				return "IGW|" + aws.ToString(out.InternetGateways[0].Attachments[0].VpcId), nil
			},
			create: func(r *request) (string, error) {
				in := &awsec2.AttachInternetGatewayInput{}
				if err := r.fill(in, ""); err != nil {
					return "", err
				}
				_, err := call[awsec2.AttachInternetGatewayOutput](r, in)
				return "IGW|" + r.text("VpcId"), err
			},
			read: func(*request) (map[string]any, error) { return map[string]any{"AttachmentType": "IGW"}, nil },
			remove: func(r *request) error {
				_, err := call[awsec2.DetachInternetGatewayOutput](r, &awsec2.DetachInternetGatewayInput{InternetGatewayId: aws.String(r.text("InternetGatewayId")), VpcId: aws.String(r.text("VpcId"))})
				if codeOf(err) == "Gateway.NotAttached" {
					return nil
				}
				return err
			},
		},
		"AWS::EC2::RouteTable": {
			find: byTags("route-table"),
			create: func(r *request) (string, error) {
				in := &awsec2.CreateRouteTableInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeRouteTable), ClientToken: &r.token}
				if err := r.fill(in, "Tags"); err != nil {
					return "", err
				}
				out, err := call[awsec2.CreateRouteTableOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.RouteTable.RouteTableId, nil
			},
			read: func(r *request) (map[string]any, error) { return map[string]any{"RouteTableId": r.id}, nil },
			remove: func(r *request) error {
				_, err := call[awsec2.DeleteRouteTableOutput](r, &awsec2.DeleteRouteTableInput{RouteTableId: &r.id})
				return err
			},
		},
		"AWS::EC2::Route": {
			find: findRoute,
			create: func(r *request) (string, error) {
				in := &awsec2.CreateRouteInput{}
				if err := r.fill(in, ""); err != nil {
					return "", err
				}
				_, err := call[awsec2.CreateRouteOutput](r, in)
				return r.routeID(), err
			},
			read: func(r *request) (map[string]any, error) { return map[string]any{"CidrBlock": r.destination()}, nil },
			remove: func(r *request) error {
				in := &awsec2.DeleteRouteInput{RouteTableId: aws.String(r.text("RouteTableId")), DestinationCidrBlock: nonEmpty(r.text("DestinationCidrBlock")),
					DestinationIpv6CidrBlock: nonEmpty(r.text("DestinationIpv6CidrBlock")), DestinationPrefixListId: nonEmpty(r.text("DestinationPrefixListId"))}
				_, err := call[awsec2.DeleteRouteOutput](r, in)
				return err
			},
		},
		"AWS::EC2::SubnetRouteTableAssociation": {
			find: func(r *request) (string, error) {
				out, err := call[awsec2.DescribeRouteTablesOutput](r, &awsec2.DescribeRouteTablesInput{RouteTableIds: []string{r.text("RouteTableId")}})
				if err != nil || len(out.RouteTables) == 0 {
					return "", err
				}
				for _, a := range out.RouteTables[0].Associations {
					if aws.ToString(a.SubnetId) == r.text("SubnetId") {
						return aws.ToString(a.RouteTableAssociationId), nil
					}
				}
				return "", nil
			},
			create: func(r *request) (string, error) {
				in := &awsec2.AssociateRouteTableInput{}
				if err := r.fill(in, ""); err != nil {
					return "", err
				}
				out, err := call[awsec2.AssociateRouteTableOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.AssociationId, nil
			},
			read: func(r *request) (map[string]any, error) { return map[string]any{"Id": r.id}, nil },
			remove: func(r *request) error {
				_, err := call[awsec2.DisassociateRouteTableOutput](r, &awsec2.DisassociateRouteTableInput{AssociationId: &r.id})
				return err
			},
		},
		"AWS::EC2::EIP": {
			find: func(r *request) (string, error) {
				id, err := byTags("elastic-ip")(r)
				if err != nil || id == "" {
					return "", err
				}
				a, err := r.address(&awsec2.DescribeAddressesInput{AllocationIds: []string{id}})
				return aws.ToString(a.PublicIp), err
			},
			create: func(r *request) (string, error) {
				in := &awsec2.AllocateAddressInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeElasticIp)}
				if err := r.fill(in, "Tags InstanceId"); err != nil {
					return "", err
				}
				out, err := call[awsec2.AllocateAddressOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.PublicIp, nil
			},
			settle: func(r *request) error {
				if !r.props.Has("InstanceId") {
					return nil
				}
				a, err := r.address(&awsec2.DescribeAddressesInput{PublicIps: []string{r.id}})
				if err != nil {
					return err
				}
				_, err = call[awsec2.AssociateAddressOutput](r, &awsec2.AssociateAddressInput{AllocationId: a.AllocationId, InstanceId: aws.String(r.text("InstanceId"))})
				return err
			},
			read: func(r *request) (map[string]any, error) {
				a, err := r.address(&awsec2.DescribeAddressesInput{PublicIps: []string{r.id}})
				return map[string]any{"AllocationId": a.AllocationId, "PublicIp": a.PublicIp}, err
			},
			remove: func(r *request) error {
				a, err := r.address(&awsec2.DescribeAddressesInput{PublicIps: []string{r.id}})
				if err != nil {
					return err
				}
				if a.AssociationId != nil && r.props.Has("InstanceId") {
					if _, err := call[awsec2.DisassociateAddressOutput](r, &awsec2.DisassociateAddressInput{AssociationId: a.AssociationId}); err != nil {
						return err
					}
				}
				_, err = call[awsec2.ReleaseAddressOutput](r, &awsec2.ReleaseAddressInput{AllocationId: a.AllocationId})
				return err
			},
		},
		"AWS::EC2::NatGateway": {
			find: byTags("natgateway"),
			create: func(r *request) (string, error) {
				in := &awsec2.CreateNatGatewayInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeNatgateway), ClientToken: &r.token}
				if err := r.fill(in, "Tags"); err != nil {
					return "", err
				}
				out, err := call[awsec2.CreateNatGatewayOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.NatGateway.NatGatewayId, nil
			},
			settle: func(r *request) error {
				return r.wait(func() (bool, error) {
					n, err := r.nat()
					if err == nil && n.State == ec2types.NatGatewayStateFailed {
						err = fmt.Errorf("NatGateway %s is in state failed and hence failed to stabilize. Detailed failure message: %s", r.id, aws.ToString(n.FailureMessage))
					}
					return n.State == ec2types.NatGatewayStateAvailable, err
				})
			},
			read: func(r *request) (map[string]any, error) {
				n, err := r.nat()
				out := map[string]any{"NatGatewayId": r.id}
				for _, a := range n.NatGatewayAddresses {
					out["EniId"] = a.NetworkInterfaceId
				}
				return out, err
			},
			remove: func(r *request) error {
				if n, err := r.nat(); err != nil || n.State == ec2types.NatGatewayStateDeleted {
					return err
				}
				if _, err := call[awsec2.DeleteNatGatewayOutput](r, &awsec2.DeleteNatGatewayInput{NatGatewayId: &r.id}); err != nil {
					return err
				}
				return r.wait(func() (bool, error) {
					n, err := r.nat()
					return n.State == ec2types.NatGatewayStateDeleted || notFound(err), err
				})
			},
		},
		"AWS::EC2::SecurityGroup": {
			find: byTags("security-group"),
			create: func(r *request) (string, error) {
				in := &awsec2.CreateSecurityGroupInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeSecurityGroup)}
				if err := r.fill(in, "Tags GroupDescription GroupName SecurityGroupIngress SecurityGroupEgress"); err != nil {
					return "", err
				}
				in.Description, in.GroupName = nonEmpty(r.text("GroupDescription")), aws.String(r.name("GroupName", 255))
				out, err := call[awsec2.CreateSecurityGroupOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.GroupId, nil
			},
			settle: func(r *request) error {
				if r.props.Has("SecurityGroupEgress") { // it takes the place of the rule that lets everything out
					_, err := call[awsec2.RevokeSecurityGroupEgressOutput](r, &awsec2.RevokeSecurityGroupEgressInput{GroupId: &r.id, IpPermissions: []ec2types.IpPermission{
						{IpProtocol: aws.String("-1"), IpRanges: []ec2types.IpRange{{CidrIp: aws.String("0.0.0.0/0")}}},
					}})
					if err != nil && !notFound(err) {
						return err
					}
				}
				for _, property := range []string{"SecurityGroupIngress", "SecurityGroupEgress"} {
					rules, _ := r.props.Get(property).([]any)
					for _, e := range rules {
						m, ok := e.(*template.Map)
						if !ok {
							return r.notHonoured(property)
						}
						if _, err := r.authorize(property == "SecurityGroupIngress", r.id, m); err != nil && codeOf(err) != "InvalidPermission.Duplicate" {
							return err
						}
					}
				}
				return nil
			},
			read: func(r *request) (map[string]any, error) {
				out, err := call[awsec2.DescribeSecurityGroupsOutput](r, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{r.id}})
				if err != nil || len(out.SecurityGroups) == 0 {
					return nil, err
				}
				return map[string]any{"Id": r.id, "GroupId": r.id, "VpcId": out.SecurityGroups[0].VpcId, "GroupName": out.SecurityGroups[0].GroupName}, nil
			},
			remove: func(r *request) error {
				_, err := call[awsec2.DeleteSecurityGroupOutput](r, &awsec2.DeleteSecurityGroupInput{GroupId: &r.id})
				return err
			},
		},
		"AWS::EC2::SecurityGroupIngress": ruleHandler(true),
		"AWS::EC2::SecurityGroupEgress":  ruleHandler(false),
		"AWS::EC2::VPCEndpoint": {
			find: byTags("vpc-endpoint"),
			create: func(r *request) (string, error) {
				in := &awsec2.CreateVpcEndpointInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeVpcEndpoint), ClientToken: &r.token}
				if err := r.fill(in, "Tags"); err != nil {
					return "", err
				}
				out, err := call[awsec2.CreateVpcEndpointOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.VpcEndpoint.VpcEndpointId, nil
			},
			settle: func(r *request) error {
				return r.wait(func() (bool, error) {
					e, err := r.endpoint()
					return strings.EqualFold(string(e.State), "available"), err
				})
			},
			read: func(r *request) (map[string]any, error) {
				e, err := r.endpoint()
				entries := []string{}
				for _, d := range e.DnsEntries {
					entries = append(entries, aws.ToString(d.HostedZoneId)+":"+aws.ToString(d.DnsName))
				}
				return map[string]any{"Id": r.id, "DnsEntries": entries, "NetworkInterfaceIds": append([]string{}, e.NetworkInterfaceIds...), "CreationTimestamp": e.CreationTimestamp}, err
			},
			remove: func(r *request) error {
				out, err := call[awsec2.DeleteVpcEndpointsOutput](r, &awsec2.DeleteVpcEndpointsInput{VpcEndpointIds: []string{r.id}})
				if err != nil {
					return err
				}
				for _, u := range out.Unsuccessful {
					if code := aws.ToString(u.Error.Code); !strings.HasSuffix(code, ".NotFound") {
						return errors.New(aws.ToString(u.Error.Message))
					}
				}
				return r.wait(func() (bool, error) {
					e, err := r.endpoint()
					if notFound(err) {
						return true, nil
					}
					return strings.EqualFold(string(e.State), "deleted"), err
				})
			},
		},
		"AWS::EC2::LaunchTemplate": {
			find: byTags("launch-template"),
			create: func(r *request) (string, error) {
				in := &awsec2.CreateLaunchTemplateInput{ClientToken: &r.token, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{}, TagSpecifications: r.tagSpecs(ec2types.ResourceTypeLaunchTemplate)}
				if err := r.fill(in, "LaunchTemplateName TagSpecifications"); err != nil {
					return "", err
				}
				var given struct{ TagSpecifications []ec2types.TagSpecification }
				if v := r.props.Get("TagSpecifications"); v != nil {
					m := &template.Map{}
					m.Set("TagSpecifications", v)
					if err := r.fillWith(&given, m, nil, ""); err != nil {
						return "", err
					}
				}
				for _, spec := range given.TagSpecifications {
					for _, t := range spec.Tags {
						mine := &in.TagSpecifications[0].Tags
						*mine = append(slices.DeleteFunc(*mine, func(o ec2types.Tag) bool { return *o.Key == aws.ToString(t.Key) }), t)
					}
				}
				in.LaunchTemplateName = aws.String(r.name("LaunchTemplateName", 128))
				out, err := call[awsec2.CreateLaunchTemplateOutput](r, in)
				if err != nil {
					return "", err
				}
				return *out.LaunchTemplate.LaunchTemplateId, nil
			},
			read: func(r *request) (map[string]any, error) {
				out, err := call[awsec2.DescribeLaunchTemplatesOutput](r, &awsec2.DescribeLaunchTemplatesInput{LaunchTemplateIds: []string{r.id}})
				if err != nil || len(out.LaunchTemplates) == 0 {
					return nil, err
				}
				t := out.LaunchTemplates[0]
				return map[string]any{"LaunchTemplateId": r.id, "LaunchTemplateName": t.LaunchTemplateName, "LatestVersionNumber": fmt.Sprint(aws.ToInt64(t.LatestVersionNumber)), "DefaultVersionNumber": fmt.Sprint(aws.ToInt64(t.DefaultVersionNumber))}, nil
			},
			remove: func(r *request) error {
				_, err := call[awsec2.DeleteLaunchTemplateOutput](r, &awsec2.DeleteLaunchTemplateInput{LaunchTemplateId: &r.id})
				return err
			},
		},
	}
}

// attribute is a property as EC2's attributes have it.
func (r *request) attribute(property string) *ec2types.AttributeBooleanValue {
	return &ec2types.AttributeBooleanValue{Value: aws.Bool(r.text(property) == "true")}
}

func (r *request) destination() string {
	for _, p := range []string{"DestinationCidrBlock", "DestinationIpv6CidrBlock", "DestinationPrefixListId"} {
		if text := r.text(p); text != "" {
			return text
		}
	}
	return ""
}

func (r *request) routeID() string { return r.text("RouteTableId") + "|" + r.destination() }

func findRoute(r *request) (string, error) {
	out, err := call[awsec2.DescribeRouteTablesOutput](r, &awsec2.DescribeRouteTablesInput{RouteTableIds: []string{r.text("RouteTableId")}})
	if err != nil || len(out.RouteTables) == 0 {
		return "", err
	}
	for _, route := range out.RouteTables[0].Routes {
		if d := r.destination(); d != "" && slices.Contains([]string{aws.ToString(route.DestinationCidrBlock), aws.ToString(route.DestinationIpv6CidrBlock), aws.ToString(route.DestinationPrefixListId)}, d) {
			return r.routeID(), nil
		}
	}
	return "", nil
}

func (r *request) address(in *awsec2.DescribeAddressesInput) (ec2types.Address, error) {
	out, err := call[awsec2.DescribeAddressesOutput](r, in)
	if err != nil || len(out.Addresses) == 0 {
		return ec2types.Address{}, err
	}
	return out.Addresses[0], nil
}

func (r *request) nat() (ec2types.NatGateway, error) {
	out, err := call[awsec2.DescribeNatGatewaysOutput](r, &awsec2.DescribeNatGatewaysInput{NatGatewayIds: []string{r.id}})
	if err != nil || len(out.NatGateways) == 0 {
		return ec2types.NatGateway{}, err
	}
	return out.NatGateways[0], nil
}

func (r *request) endpoint() (ec2types.VpcEndpoint, error) {
	out, err := call[awsec2.DescribeVpcEndpointsOutput](r, &awsec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{r.id}})
	if err != nil || len(out.VpcEndpoints) == 0 {
		return ec2types.VpcEndpoint{}, err
	}
	return out.VpcEndpoints[0], nil
}

// permission is a rule of a security group.
func (r *request) permission(m *template.Map) ([]ec2types.IpPermission, error) {
	get := func(k string) *string {
		text, _ := template.Text(m.Get(k))
		return nonEmpty(text)
	}
	out := ec2types.IpPermission{IpProtocol: get("IpProtocol")}
	if err := r.fillWith(&out, m, strings.Fields("CidrIp CidrIpv6 Description SourcePrefixListId DestinationPrefixListId SourceSecurityGroupId DestinationSecurityGroupId SourceSecurityGroupOwnerId GroupId"), ""); err != nil {
		return nil, err
	}
	if v := get("CidrIp"); v != nil {
		out.IpRanges = []ec2types.IpRange{{CidrIp: v, Description: get("Description")}}
	}
	if v := get("CidrIpv6"); v != nil {
		out.Ipv6Ranges = []ec2types.Ipv6Range{{CidrIpv6: v, Description: get("Description")}}
	}
	for _, k := range []string{"SourcePrefixListId", "DestinationPrefixListId"} {
		if v := get(k); v != nil {
			out.PrefixListIds = []ec2types.PrefixListId{{PrefixListId: v, Description: get("Description")}}
		}
	}
	for _, k := range []string{"SourceSecurityGroupId", "DestinationSecurityGroupId"} {
		if v := get(k); v != nil {
			out.UserIdGroupPairs = []ec2types.UserIdGroupPair{{GroupId: v, UserId: get("SourceSecurityGroupOwnerId"), Description: get("Description")}}
		}
	}
	return []ec2types.IpPermission{out}, nil
}

// authorize adds a rule to a security group and returns the rule's ID.
func (r *request) authorize(ingress bool, group string, m *template.Map) (string, error) {
	permissions, err := r.permission(m)
	if err != nil {
		return "", err
	}
	var rules []ec2types.SecurityGroupRule
	if ingress {
		out, err := call[awsec2.AuthorizeSecurityGroupIngressOutput](r, &awsec2.AuthorizeSecurityGroupIngressInput{GroupId: &group, IpPermissions: permissions})
		if err != nil {
			return "", err
		}
		rules = out.SecurityGroupRules
	} else {
		out, err := call[awsec2.AuthorizeSecurityGroupEgressOutput](r, &awsec2.AuthorizeSecurityGroupEgressInput{GroupId: &group, IpPermissions: permissions})
		if err != nil {
			return "", err
		}
		rules = out.SecurityGroupRules
	}
	if len(rules) == 0 {
		return "", nil
	}
	return aws.ToString(rules[0].SecurityGroupRuleId), nil
}

// ruleHandler is a rule of a security group as a resource of its own.
func ruleHandler(ingress bool) handler {
	return handler{
		find: func(r *request) (string, error) {
			out, err := call[awsec2.DescribeSecurityGroupRulesOutput](r, &awsec2.DescribeSecurityGroupRulesInput{Filters: []ec2types.Filter{{Name: aws.String("group-id"), Values: []string{r.text("GroupId")}}}})
			if err != nil {
				return "", err
			}
			peer := r.text("SourceSecurityGroupId") + r.text("DestinationSecurityGroupId")
			list := r.text("SourcePrefixListId") + r.text("DestinationPrefixListId")
			for _, rule := range out.SecurityGroupRules {
				theirs := ""
				if rule.ReferencedGroupInfo != nil {
					theirs = aws.ToString(rule.ReferencedGroupInfo.GroupId)
				}
				if aws.ToBool(rule.IsEgress) != ingress && aws.ToString(rule.IpProtocol) == r.text("IpProtocol") && r.port("FromPort") == aws.ToInt32(rule.FromPort) && r.port("ToPort") == aws.ToInt32(rule.ToPort) &&
					aws.ToString(rule.CidrIpv4) == r.text("CidrIp") && aws.ToString(rule.CidrIpv6) == r.text("CidrIpv6") && aws.ToString(rule.PrefixListId) == list && theirs == peer {
					return aws.ToString(rule.SecurityGroupRuleId), nil
				}
			}
			return "", nil
		},
		create: func(r *request) (string, error) { return r.authorize(ingress, r.text("GroupId"), r.props) },
		read:   func(r *request) (map[string]any, error) { return map[string]any{"Id": r.id}, nil },
		remove: func(r *request) error {
			var err error
			if ingress {
				_, err = call[awsec2.RevokeSecurityGroupIngressOutput](r, &awsec2.RevokeSecurityGroupIngressInput{GroupId: aws.String(r.text("GroupId")), SecurityGroupRuleIds: []string{r.id}})
			} else {
				_, err = call[awsec2.RevokeSecurityGroupEgressOutput](r, &awsec2.RevokeSecurityGroupEgressInput{GroupId: aws.String(r.text("GroupId")), SecurityGroupRuleIds: []string{r.id}})
			}
			return err
		},
	}
}

// port is a rule's port as EC2 keeps it: rules for all protocols have -1.
func (r *request) port(property string) int32 {
	var n int32
	_, err := fmt.Sscan(r.text(property), &n)
	if err != nil || r.text("IpProtocol") == "-1" {
		return -1
	}
	return n
}
