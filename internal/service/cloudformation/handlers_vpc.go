package cloudformation

import (
	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func vpcHandlers() map[string]handler {
	return map[string]handler{
		"AWS::EC2::VPC": {
			input: &awsec2.CreateVpcInput{}, own: "Tags EnableDnsSupport EnableDnsHostnames",
			live:    "CidrBlockAssociations Ipv6CidrBlocks", // AWS::EC2::VPCCidrBlock adds to them
			find:    byTags("vpc"),
			inPlace: "EnableDnsSupport EnableDnsHostnames Tags",
			update: func(r *request) error {
				if r.changed("EnableDnsSupport") && !r.props.Has("EnableDnsSupport") { // it is on by default
					in := &awsec2.ModifyVpcAttributeInput{VpcId: &r.id, EnableDnsSupport: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}}
					if _, err := call[awsec2.ModifyVpcAttributeOutput](r, in); err != nil {
						return err
					}
				}
				if r.changed("EnableDnsHostnames") && !r.props.Has("EnableDnsHostnames") {
					in := &awsec2.ModifyVpcAttributeInput{VpcId: &r.id, EnableDnsHostnames: r.attribute("EnableDnsHostnames")}
					if _, err := call[awsec2.ModifyVpcAttributeOutput](r, in); err != nil {
						return err
					}
				}
				return r.retag(r.id)
			},
			create: func(r *request) (string, error) {
				in := &awsec2.CreateVpcInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeVpc)}
				out, err := create[awsec2.CreateVpcOutput](r, in, "Tags EnableDnsSupport EnableDnsHostnames")
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
			input: &awsec2.CreateSubnetInput{}, own: "Tags MapPublicIpOnLaunch AssignIpv6AddressOnCreation EnableDns64",
			live:    "Ipv6CidrBlocks",
			find:    byTags("subnet"),
			inPlace: "MapPublicIpOnLaunch AssignIpv6AddressOnCreation EnableDns64 Tags",
			update:  retagged,
			create: func(r *request) (string, error) {
				in := &awsec2.CreateSubnetInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeSubnet)}
				out, err := create[awsec2.CreateSubnetOutput](r, in, "Tags MapPublicIpOnLaunch AssignIpv6AddressOnCreation EnableDns64")
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
					if r.props.Has(name) || r.was != nil && r.changed(name) {
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
	}
}

// attribute returns a property in the form of EC2's boolean attributes.
func (r *request) attribute(property string) *ec2types.AttributeBooleanValue {
	return &ec2types.AttributeBooleanValue{Value: aws.Bool(r.text(property) == "true")}
}
