package cloudformation

import (
	"fmt"
	"slices"
	"strings"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

func gatewayHandlers() map[string]handler {
	return map[string]handler{
		"AWS::EC2::InternetGateway": {
			input: &awsec2.CreateInternetGatewayInput{}, own: "Tags",
			find:    byTags("internet-gateway"),
			inPlace: "Tags",
			update:  retagged,
			create: func(r *request) (string, error) {
				in := &awsec2.CreateInternetGatewayInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeInternetGateway)}
				out, err := create[awsec2.CreateInternetGatewayOutput](r, in, "Tags")
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
			input: &awsec2.AttachInternetGatewayInput{}, own: "VpnGatewayId", inPlace: "InternetGatewayId",
			update: func(r *request) error {
				if err := r.detachGateway(r.was.text("InternetGatewayId")); err != nil {
					return err
				}
				_, err := create[awsec2.AttachInternetGatewayOutput](r, &awsec2.AttachInternetGatewayInput{}, "")
				if codeOf(err) == "Resource.AlreadyAssociated" { // by an earlier run
					if id, ferr := findGateway(r); ferr == nil && id == r.id {
						return nil
					}
				}
				return err
			},
			find: findGateway,
			create: func(r *request) (string, error) {
				if r.props.Has("VpnGatewayId") {
					in := &awsec2.AttachVpnGatewayInput{VpcId: aws.String(r.text("VpcId")), VpnGatewayId: aws.String(r.text("VpnGatewayId"))}
					_, err := call[awsec2.AttachVpnGatewayOutput](r, in)
					return "VGW|" + r.text("VpcId"), err
				}
				in := &awsec2.AttachInternetGatewayInput{}
				_, err := create[awsec2.AttachInternetGatewayOutput](r, in, "")
				return "IGW|" + r.text("VpcId"), err
			},
			read: func(r *request) (map[string]any, error) {
				kind, _, _ := strings.Cut(r.id, "|")
				return map[string]any{"AttachmentType": kind}, nil
			},
			remove: func(r *request) error {
				if r.props.Has("VpnGatewayId") {
					_, err := call[awsec2.DetachVpnGatewayOutput](r, &awsec2.DetachVpnGatewayInput{VpcId: aws.String(r.text("VpcId")), VpnGatewayId: aws.String(r.text("VpnGatewayId"))})
					return err
				}
				return r.detachGateway(r.text("InternetGatewayId"))
			},
		},
		"AWS::EC2::EIP": {
			input: &awsec2.AllocateAddressInput{}, own: "Tags InstanceId",
			find: func(r *request) (string, error) {
				ids, err := r.tagged("elastic-ip")
				for _, id := range ids {
					a, err := r.address(&awsec2.DescribeAddressesInput{AllocationIds: []string{id}})
					if ip := aws.ToString(a.PublicIp); err != nil || !slices.Contains(r.others, ip) {
						return ip, err
					}
				}
				return "", err
			},
			inPlace: "InstanceId Tags",
			update: func(r *request) error {
				a, err := r.address(&awsec2.DescribeAddressesInput{PublicIps: []string{r.id}})
				if err != nil {
					return err
				}
				if a.AssociationId != nil && r.was.props.Has("InstanceId") && r.changed("InstanceId") {
					if _, err := call[awsec2.DisassociateAddressOutput](r, &awsec2.DisassociateAddressInput{AssociationId: a.AssociationId}); err != nil {
						return err
					}
				}
				return r.retag(aws.ToString(a.AllocationId))
			},
			create: func(r *request) (string, error) {
				in := &awsec2.AllocateAddressInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeElasticIp)}
				out, err := create[awsec2.AllocateAddressOutput](r, in, "Tags InstanceId")
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
			input: &awsec2.CreateNatGatewayInput{}, own: "Tags",
			find:    byTags("natgateway"),
			inPlace: "Tags",
			update:  retagged,
			create: func(r *request) (string, error) {
				in := &awsec2.CreateNatGatewayInput{TagSpecifications: r.tagSpecs(ec2types.ResourceTypeNatgateway), ClientToken: &r.token}
				out, err := create[awsec2.CreateNatGatewayOutput](r, in, "Tags")
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
	}
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

// findGateway returns the ID of the attachment of an internet gateway. A VPN gateway can be attached again.
func findGateway(r *request) (string, error) {
	if !r.props.Has("InternetGatewayId") {
		return "", nil
	}
	out, err := call[awsec2.DescribeInternetGatewaysOutput](r, &awsec2.DescribeInternetGatewaysInput{InternetGatewayIds: []string{r.text("InternetGatewayId")}})
	if err != nil || len(out.InternetGateways) == 0 || len(out.InternetGateways[0].Attachments) == 0 {
		return "", err
	}
	return "IGW|" + aws.ToString(out.InternetGateways[0].Attachments[0].VpcId), nil
}

func (r *request) detachGateway(id string) error {
	_, err := call[awsec2.DetachInternetGatewayOutput](r, &awsec2.DetachInternetGatewayInput{InternetGatewayId: &id, VpcId: aws.String(r.text("VpcId"))})
	if codeOf(err) == "Gateway.NotAttached" {
		return nil
	}
	return err
}
