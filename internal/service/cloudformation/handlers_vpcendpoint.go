package cloudformation

import (
	"errors"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func vpcEndpointHandlers() map[string]handler {
	return map[string]handler{
		"AWS::EC2::VPCEndpoint": {
			input: &awsec2.CreateVpcEndpointInput{}, own: "Tags",
			find:    byTags("vpc-endpoint"),
			inPlace: "PolicyDocument PrivateDnsEnabled RouteTableIds SecurityGroupIds SubnetIds Tags",
			update: func(r *request) error {
				in := &awsec2.ModifyVpcEndpointInput{
					VpcEndpointId: &r.id, AddRouteTableIds: r.newIn("RouteTableIds"), RemoveRouteTableIds: r.goneFrom("RouteTableIds"),
					AddSecurityGroupIds: r.newIn("SecurityGroupIds"), RemoveSecurityGroupIds: r.goneFrom("SecurityGroupIds"),
					AddSubnetIds: r.newIn("SubnetIds"), RemoveSubnetIds: r.goneFrom("SubnetIds"),
				}
				if r.changed("PrivateDnsEnabled") {
					in.PrivateDnsEnabled = aws.Bool(r.text("PrivateDnsEnabled") == "true")
				}
				if r.changed("PolicyDocument") {
					if in.PolicyDocument = nonEmpty(r.document("PolicyDocument")); in.PolicyDocument == nil {
						in.ResetPolicy = aws.Bool(true)
					}
				}
				if r.changed("PolicyDocument", "PrivateDnsEnabled", "RouteTableIds", "SecurityGroupIds", "SubnetIds") {
					if _, err := call[awsec2.ModifyVpcEndpointOutput](r, in); err != nil {
						return err
					}
				}
				return r.retag(r.id)
			},
			create: func(r *request) (string, error) {
				in := &awsec2.CreateVpcEndpointInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeVpcEndpoint), ClientToken: &r.token}
				out, err := create[awsec2.CreateVpcEndpointOutput](r, in, "Tags")
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
	}
}

func (r *request) endpoint() (ec2types.VpcEndpoint, error) {
	out, err := call[awsec2.DescribeVpcEndpointsOutput](r, &awsec2.DescribeVpcEndpointsInput{VpcEndpointIds: []string{r.id}})
	if err != nil || len(out.VpcEndpoints) == 0 {
		return ec2types.VpcEndpoint{}, err
	}
	return out.VpcEndpoints[0], nil
}
