package cloudformation

import (
	"slices"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func routeHandlers() map[string]handler {
	return map[string]handler{
		"AWS::EC2::RouteTable": {
			input: &awsec2.CreateRouteTableInput{}, own: "Tags",
			find:    byTags("route-table"),
			inPlace: "Tags",
			update:  retagged,
			create: func(r *request) (string, error) {
				in := &awsec2.CreateRouteTableInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeRouteTable), ClientToken: &r.token}
				out, err := create[awsec2.CreateRouteTableOutput](r, in, "Tags")
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
			input:   &awsec2.CreateRouteInput{},
			find:    findRoute,
			inPlace: "CarrierGatewayId CoreNetworkArn EgressOnlyInternetGatewayId GatewayId InstanceId LocalGatewayId NatGatewayId NetworkInterfaceId TransitGatewayId VpcEndpointId VpcPeeringConnectionId",
			update: func(r *request) error {
				_, err := create[awsec2.ReplaceRouteOutput](r, &awsec2.ReplaceRouteInput{}, "")
				return err
			},
			create: func(r *request) (string, error) {
				in := &awsec2.CreateRouteInput{}
				_, err := create[awsec2.CreateRouteOutput](r, in, "")
				return r.routeID(), err
			},
			read: func(r *request) (map[string]any, error) {
				return map[string]any{"CidrBlock": r.unrevealed().destination()}, nil
			},
			remove: func(r *request) error {
				in := &awsec2.DeleteRouteInput{RouteTableId: aws.String(r.text("RouteTableId")), DestinationCidrBlock: nonEmpty(r.text("DestinationCidrBlock")),
					DestinationIpv6CidrBlock: nonEmpty(r.text("DestinationIpv6CidrBlock")), DestinationPrefixListId: nonEmpty(r.text("DestinationPrefixListId"))}
				_, err := call[awsec2.DeleteRouteOutput](r, in)
				return err
			},
		},
		"AWS::EC2::SubnetRouteTableAssociation": {
			input: &awsec2.AssociateRouteTableInput{},
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
				out, err := create[awsec2.AssociateRouteTableOutput](r, in, "")
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
	}
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
