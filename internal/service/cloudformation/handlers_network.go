package cloudformation

import (
	"errors"
	"fmt"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/cloudformation/template"
)

func networkHandlers() map[string]handler {
	return map[string]handler{
		"AWS::EC2::VPCPeeringConnection": made(handler{
			inPlace: "Tags", update: retagged,
			find:   byTags("vpc-peering-connection"),
			settle: settlePeering,
			read:   idAs("Id"),
			remove: one[awsec2.DeleteVpcPeeringConnectionOutput](func(r *request) any {
				return &awsec2.DeleteVpcPeeringConnectionInput{VpcPeeringConnectionId: &r.id}
			}),
		}, "Tags PeerRoleArn", func(r *request, in *awsec2.CreateVpcPeeringConnectionInput) {
			in.TagSpecifications = r.tagSpecs(ec2types.ResourceTypeVpcPeeringConnection)
		}, func(_ *request, out *awsec2.CreateVpcPeeringConnectionOutput) *string {
			return out.VpcPeeringConnection.VpcPeeringConnectionId
		}),
		"AWS::EC2::EgressOnlyInternetGateway": made(handler{
			inPlace: "Tags", update: retagged,
			find: byTags("egress-only-internet-gateway"),
			read: idAs("Id"),
			remove: one[awsec2.DeleteEgressOnlyInternetGatewayOutput](func(r *request) any {
				return &awsec2.DeleteEgressOnlyInternetGatewayInput{EgressOnlyInternetGatewayId: &r.id}
			}),
		}, "Tags", func(r *request, in *awsec2.CreateEgressOnlyInternetGatewayInput) {
			in.TagSpecifications, in.ClientToken = r.tagSpecs(ec2types.ResourceTypeEgressOnlyInternetGateway), &r.token
		}, func(_ *request, out *awsec2.CreateEgressOnlyInternetGatewayOutput) *string {
			return out.EgressOnlyInternetGateway.EgressOnlyInternetGatewayId
		}),
		"AWS::EC2::VPCCidrBlock": made(handler{
			find: func(r *request) (string, error) {
				v, err := r.vpc(r.text("VpcId"))
				for _, a := range v.CidrBlockAssociationSet {
					if aws.ToString(a.CidrBlock) == r.text("CidrBlock") {
						return aws.ToString(a.AssociationId), err
					}
				}
				return "", err
			},
			settle: func(r *request) error {
				return r.wait(func() (bool, error) {
					v, err := r.vpc(r.text("VpcId"))
					for _, a := range v.CidrBlockAssociationSet {
						if aws.ToString(a.AssociationId) == r.id {
							return a.CidrBlockState.State == ec2types.VpcCidrBlockStateCodeAssociated, err
						}
					}
					for _, a := range v.Ipv6CidrBlockAssociationSet {
						if aws.ToString(a.AssociationId) == r.id {
							return a.Ipv6CidrBlockState.State == ec2types.VpcCidrBlockStateCodeAssociated, err
						}
					}
					return false, err
				})
			},
			read: idAs("Id"),
			remove: one[awsec2.DisassociateVpcCidrBlockOutput](func(r *request) any {
				return &awsec2.DisassociateVpcCidrBlockInput{AssociationId: &r.id}
			}),
		}, "", func(*request, *awsec2.AssociateVpcCidrBlockInput) {}, func(_ *request, out *awsec2.AssociateVpcCidrBlockOutput) *string {
			if out.CidrBlockAssociation != nil {
				return out.CidrBlockAssociation.AssociationId
			}
			return out.Ipv6CidrBlockAssociation.AssociationId
		}),
		"AWS::EC2::SubnetCidrBlock": made(handler{
			find: func(r *request) (string, error) {
				out, err := call[awsec2.DescribeSubnetsOutput](r, &awsec2.DescribeSubnetsInput{SubnetIds: []string{r.text("SubnetId")}})
				if err != nil || len(out.Subnets) == 0 {
					return "", err
				}
				for _, a := range out.Subnets[0].Ipv6CidrBlockAssociationSet {
					if aws.ToString(a.Ipv6CidrBlock) == r.text("Ipv6CidrBlock") {
						return aws.ToString(a.AssociationId), nil
					}
				}
				return "", nil
			},
			read: idAs("Id"),
			remove: one[awsec2.DisassociateSubnetCidrBlockOutput](func(r *request) any {
				return &awsec2.DisassociateSubnetCidrBlockInput{AssociationId: &r.id}
			}),
		}, "", func(*request, *awsec2.AssociateSubnetCidrBlockInput) {}, func(_ *request, out *awsec2.AssociateSubnetCidrBlockOutput) *string {
			return out.Ipv6CidrBlockAssociation.AssociationId
		}),
		"AWS::EC2::DHCPOptions": made(handler{
			inPlace: "Tags", update: retagged,
			find:   byTags("dhcp-options"),
			read:   idAs("DhcpOptionsId"),
			remove: one[awsec2.DeleteDhcpOptionsOutput](func(r *request) any { return &awsec2.DeleteDhcpOptionsInput{DhcpOptionsId: &r.id} }),
		}, "Tags DomainName DomainNameServers NetbiosNameServers NetbiosNodeType NtpServers Ipv6AddressPreferredLeaseTime", func(r *request, in *awsec2.CreateDhcpOptionsInput) {
			in.TagSpecifications = r.tagSpecs(ec2types.ResourceTypeDhcpOptions)
			for _, option := range [][2]string{{"DomainName", "domain-name"}, {"DomainNameServers", "domain-name-servers"}, {"NetbiosNameServers", "netbios-name-servers"},
				{"NetbiosNodeType", "netbios-node-type"}, {"NtpServers", "ntp-servers"}, {"Ipv6AddressPreferredLeaseTime", "ipv6-address-preferred-lease-time"}} {
				if values := r.list(option[0]); len(values) > 0 {
					in.DhcpConfigurations = append(in.DhcpConfigurations, ec2types.NewDhcpConfiguration{Key: &option[1], Values: values})
				}
			}
		}, func(_ *request, out *awsec2.CreateDhcpOptionsOutput) *string { return out.DhcpOptions.DhcpOptionsId }),
		"AWS::EC2::VPCDHCPOptionsAssociation": made(handler{
			remove: one[awsec2.AssociateDhcpOptionsOutput](func(r *request) any {
				return &awsec2.AssociateDhcpOptionsInput{DhcpOptionsId: aws.String("default"), VpcId: aws.String(r.text("VpcId"))}
			}),
		}, "", func(*request, *awsec2.AssociateDhcpOptionsInput) {}, func(r *request, _ *awsec2.AssociateDhcpOptionsOutput) *string {
			return aws.String(r.text("DhcpOptionsId") + "|" + r.text("VpcId"))
		}),
		"AWS::EC2::NetworkAcl": made(handler{
			inPlace: "Tags", update: retagged,
			find:   byTags("network-acl"),
			read:   idAs("Id"),
			remove: one[awsec2.DeleteNetworkAclOutput](func(r *request) any { return &awsec2.DeleteNetworkAclInput{NetworkAclId: &r.id} }),
		}, "Tags", func(r *request, in *awsec2.CreateNetworkAclInput) {
			in.TagSpecifications, in.ClientToken = r.tagSpecs(ec2types.ResourceTypeNetworkAcl), &r.token
		}, func(_ *request, out *awsec2.CreateNetworkAclOutput) *string { return out.NetworkAcl.NetworkAclId }),
		"AWS::EC2::NetworkAclEntry": madeWith(handler{
			inPlace: "CidrBlock Icmp Ipv6CidrBlock PortRange Protocol RuleAction", update: updateACLEntry,
			find: func(r *request) (string, error) {
				out, err := call[awsec2.DescribeNetworkAclsOutput](r, &awsec2.DescribeNetworkAclsInput{NetworkAclIds: []string{r.text("NetworkAclId")}})
				if err != nil || len(out.NetworkAcls) == 0 {
					return "", err
				}
				for _, e := range out.NetworkAcls[0].Entries {
					if aws.ToBool(e.Egress) == (r.text("Egress") == "true") && fmt.Sprint(aws.ToInt32(e.RuleNumber)) == r.text("RuleNumber") {
						return r.generated(r.o.rec.Name, 255), nil
					}
				}
				return "", nil
			},
			read: idAs("Id"),
			remove: func(r *request) error {
				in := &awsec2.DeleteNetworkAclEntryInput{Egress: aws.Bool(false)}
				m := &template.Map{}
				for _, k := range []string{"NetworkAclId", "RuleNumber", "Egress"} {
					if r.props.Has(k) {
						m.Set(k, r.props.Get(k))
					}
				}
				if err := r.fillWith(in, m, nil, ""); err != nil {
					return err
				}
				_, err := call[awsec2.DeleteNetworkAclEntryOutput](r, in)
				return err
			},
		}, "Icmp", func(r *request, in *awsec2.CreateNetworkAclEntryInput) error {
			if in.Egress == nil {
				in.Egress = aws.Bool(false)
			}
			in.IcmpTypeCode = &ec2types.IcmpTypeCode{}
			if !r.props.Has("Icmp") {
				in.IcmpTypeCode = nil
				return nil
			}
			return r.fillIn(in.IcmpTypeCode, "Icmp", "")
		}, func(r *request, _ *awsec2.CreateNetworkAclEntryOutput) *string {
			return aws.String(r.generated(r.o.rec.Name, 255))
		}),
		"AWS::EC2::SubnetNetworkAclAssociation": {
			input: &awsec2.ReplaceNetworkAclAssociationInput{}, own: "SubnetId",
			find: func(r *request) (string, error) {
				a, err := r.subnetACL()
				if err != nil || aws.ToString(a.NetworkAclId) != r.text("NetworkAclId") {
					return "", err
				}
				return aws.ToString(a.NetworkAclAssociationId), nil
			},
			create: func(r *request) (string, error) { return r.useACL(r.text("NetworkAclId")) },
			read:   idAs("AssociationId"),
			remove: func(r *request) error {
				out, err := call[awsec2.DescribeNetworkAclsOutput](r, &awsec2.DescribeNetworkAclsInput{NetworkAclIds: []string{r.text("NetworkAclId")}})
				if err != nil || len(out.NetworkAcls) == 0 {
					return err
				}
				out, err = call[awsec2.DescribeNetworkAclsOutput](r, &awsec2.DescribeNetworkAclsInput{Filters: []ec2types.Filter{
					{Name: aws.String("vpc-id"), Values: []string{*out.NetworkAcls[0].VpcId}}, {Name: aws.String("default"), Values: []string{"true"}},
				}})
				if err != nil || len(out.NetworkAcls) == 0 {
					return err
				}
				_, err = r.useACL(*out.NetworkAcls[0].NetworkAclId)
				return err
			},
		},
		"AWS::EC2::PrefixList": made(handler{
			inPlace: "Entries MaxEntries PrefixListName Tags", update: updatePrefixList,
			find:   byTags("prefix-list"),
			settle: (*request).listSettled,
			read: func(r *request) (map[string]any, error) {
				l, err := r.prefixList()
				return map[string]any{"PrefixListId": r.id, "Arn": l.PrefixListArn, "OwnerId": l.OwnerId, "Version": aws.ToInt64(l.Version)}, err
			},
			remove: func(r *request) error {
				if _, err := call[awsec2.DeleteManagedPrefixListOutput](r, &awsec2.DeleteManagedPrefixListInput{PrefixListId: &r.id}); err != nil {
					return err
				}
				return r.wait(func() (bool, error) {
					l, err := r.prefixList()
					return notFound(err) || errors.Is(err, errNone) || l.State == ec2types.PrefixListStateDeleteComplete, nil
				})
			},
		}, "Tags", func(r *request, in *awsec2.CreateManagedPrefixListInput) {
			in.TagSpecifications, in.ClientToken = r.tagSpecs(ec2types.ResourceTypePrefixList), &r.token
			if in.MaxEntries == nil {
				in.MaxEntries = aws.Int32(int32(len(in.Entries)))
			}
		}, func(_ *request, out *awsec2.CreateManagedPrefixListOutput) *string {
			return out.PrefixList.PrefixListId
		}),
		"AWS::EC2::FlowLog": {
			inPlace: "Tags", update: retagged,
			input: &awsec2.CreateFlowLogsInput{}, own: "Tags ResourceId",
			find: byTags("vpc-flow-log"),
			create: func(r *request) (string, error) {
				in := &awsec2.CreateFlowLogsInput{ResourceIds: r.list("ResourceId"), TagSpecifications: r.tagSpecs(ec2types.ResourceTypeVpcFlowLog), ClientToken: &r.token}
				out, err := create[awsec2.CreateFlowLogsOutput](r, in, "Tags ResourceId")
				switch {
				case err != nil:
					return "", err
				case len(out.Unsuccessful) > 0 && out.Unsuccessful[0].Error != nil:
					return "", errors.New(aws.ToString(out.Unsuccessful[0].Error.Message))
				}
				return first(out.FlowLogIds)
			},
			read: idAs("Id"),
			remove: one[awsec2.DeleteFlowLogsOutput](func(r *request) any {
				return &awsec2.DeleteFlowLogsInput{FlowLogIds: []string{r.id}}
			}),
		},
		"AWS::EC2::InstanceConnectEndpoint": made(handler{
			inPlace: "Tags", update: retagged,
			find: byTags("instance-connect-endpoint"),
			settle: func(r *request) error {
				return r.until(func() (string, error) {
					e, err := r.connectEndpoint()
					return string(e.State), err
				}, string(ec2types.Ec2InstanceConnectEndpointStateCreateComplete), string(ec2types.Ec2InstanceConnectEndpointStateCreateFailed))
			},
			read: func(r *request) (map[string]any, error) {
				e, err := r.connectEndpoint()
				return map[string]any{
					"Id": r.id, "AvailabilityZone": e.AvailabilityZone, "AvailabilityZoneId": e.AvailabilityZoneId, "InstanceConnectEndpointArn": e.InstanceConnectEndpointArn,
					"NetworkInterfaceIds": append([]string{}, e.NetworkInterfaceIds...), "OwnerId": e.OwnerId, "State": e.State, "StateMessage": aws.ToString(e.StateMessage), "VpcId": e.VpcId, "CreatedAt": e.CreatedAt,
				}, err
			},
			remove: func(r *request) error {
				if _, err := call[awsec2.DeleteInstanceConnectEndpointOutput](r, &awsec2.DeleteInstanceConnectEndpointInput{InstanceConnectEndpointId: &r.id}); err != nil {
					return err
				}
				return r.wait(func() (bool, error) {
					e, err := r.connectEndpoint()
					return notFound(err) || errors.Is(err, errNone) || e.State == ec2types.Ec2InstanceConnectEndpointStateDeleteComplete, nil
				})
			},
		}, "Tags", func(r *request, in *awsec2.CreateInstanceConnectEndpointInput) {
			in.TagSpecifications = r.tagSpecs(ec2types.ResourceTypeInstanceConnectEndpoint)
			if in.ClientToken == nil {
				in.ClientToken = &r.token
			}
		}, func(_ *request, out *awsec2.CreateInstanceConnectEndpointOutput) *string {
			return out.InstanceConnectEndpoint.InstanceConnectEndpointId
		}),
	}
}

// settlePeering accepts the connection, as CloudFormation does if the caller owns both
// VPCs, and waits until it is active. For another account's VPC, the template would have to
// name a role.
func settlePeering(r *request) error {
	if owner := r.text("PeerOwnerId"); owner != "" && owner != r.o.key.Account {
		return r.notHonoured("PeerOwnerId of another account")
	}
	return r.wait(func() (bool, error) {
		out, err := call[awsec2.DescribeVpcPeeringConnectionsOutput](r, &awsec2.DescribeVpcPeeringConnectionsInput{VpcPeeringConnectionIds: []string{r.id}})
		if err != nil || len(out.VpcPeeringConnections) == 0 {
			return false, err
		}
		switch st := out.VpcPeeringConnections[0].Status; st.Code {
		case ec2types.VpcPeeringConnectionStateReasonCodeActive:
			return true, nil
		case ec2types.VpcPeeringConnectionStateReasonCodePendingAcceptance:
			_, err := call[awsec2.AcceptVpcPeeringConnectionOutput](r, &awsec2.AcceptVpcPeeringConnectionInput{VpcPeeringConnectionId: &r.id})
			return false, err
		case ec2types.VpcPeeringConnectionStateReasonCodeFailed, ec2types.VpcPeeringConnectionStateReasonCodeRejected, ec2types.VpcPeeringConnectionStateReasonCodeDeleted:
			return false, fmt.Errorf("%s: %s", st.Code, aws.ToString(st.Message))
		}
		return false, nil
	})
}

func (r *request) vpc(id string) (ec2types.Vpc, error) {
	out, err := call[awsec2.DescribeVpcsOutput](r, &awsec2.DescribeVpcsInput{VpcIds: []string{id}})
	if err != nil {
		return ec2types.Vpc{}, err
	}
	return first(out.Vpcs)
}

func (r *request) prefixList() (ec2types.ManagedPrefixList, error) {
	out, err := call[awsec2.DescribeManagedPrefixListsOutput](r, &awsec2.DescribeManagedPrefixListsInput{PrefixListIds: []string{r.id}})
	if err != nil {
		return ec2types.ManagedPrefixList{}, err
	}
	return first(out.PrefixLists)
}

func (r *request) connectEndpoint() (ec2types.Ec2InstanceConnectEndpoint, error) {
	out, err := call[awsec2.DescribeInstanceConnectEndpointsOutput](r, &awsec2.DescribeInstanceConnectEndpointsInput{InstanceConnectEndpointIds: []string{r.id}})
	if err != nil {
		return ec2types.Ec2InstanceConnectEndpoint{}, err
	}
	return first(out.InstanceConnectEndpoints)
}

// subnetACL returns the association of the resource's subnet with a network ACL.
func (r *request) subnetACL() (ec2types.NetworkAclAssociation, error) {
	subnet := r.text("SubnetId")
	out, err := call[awsec2.DescribeNetworkAclsOutput](r, &awsec2.DescribeNetworkAclsInput{Filters: []ec2types.Filter{{Name: aws.String("association.subnet-id"), Values: []string{subnet}}}})
	if err != nil {
		return ec2types.NetworkAclAssociation{}, err
	}
	for _, acl := range out.NetworkAcls {
		for _, a := range acl.Associations {
			if aws.ToString(a.SubnetId) == subnet {
				return a, nil
			}
		}
	}
	return ec2types.NetworkAclAssociation{}, errNone
}

func (r *request) useACL(id string) (string, error) {
	a, err := r.subnetACL()
	if err != nil {
		return "", err
	}
	out, err := call[awsec2.ReplaceNetworkAclAssociationOutput](r, &awsec2.ReplaceNetworkAclAssociationInput{AssociationId: a.NetworkAclAssociationId, NetworkAclId: &id})
	if err != nil {
		return "", err
	}
	return aws.ToString(out.NewAssociationId), nil
}
