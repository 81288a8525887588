// Package elbnet has the code that load balancers of both generations (service/elb and service/elbv2) share: the
// network interfaces that they need, their calls to EC2 about the network, and the results of their health checks.
// It stores nothing and contains only what both APIs have in common. The composition root connects it to the
// network.
package elbnet

import (
	"context"
	"errors"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/store"
)

// ServiceName is the service principal that calls EC2.
const ServiceName = "elasticloadbalancing.amazonaws.com"

// Requester is the requester of the interfaces, as DescribeNetworkInterfaces shows it.
const Requester = "amazon-elb"

// MinFree is how many free addresses a subnet needs for a load balancer.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/application-load-balancers.html#subnets-load-balancer
// https://docs.aws.amazon.com/elasticloadbalancing/latest/classic/elb-backend-instances.html#set-up-ec2
const MinFree = 8

// MaxGroups is the maximum number of security groups of a load balancer.
// https://docs.aws.amazon.com/elasticloadbalancing/latest/application/load-balancer-limits.html
const MaxGroups = 5

// EC2 is the part of the EC2 API that load balancers use.
type EC2 interface {
	DescribeAddresses(context.Context, *awsec2.DescribeAddressesInput) (*awsec2.DescribeAddressesOutput, error)
	DescribeInstances(context.Context, *awsec2.DescribeInstancesInput) (*awsec2.DescribeInstancesOutput, error)
	DescribeInternetGateways(context.Context, *awsec2.DescribeInternetGatewaysInput) (*awsec2.DescribeInternetGatewaysOutput, error)
	DescribeSecurityGroups(context.Context, *awsec2.DescribeSecurityGroupsInput) (*awsec2.DescribeSecurityGroupsOutput, error)
	DescribeSubnets(context.Context, *awsec2.DescribeSubnetsInput) (*awsec2.DescribeSubnetsOutput, error)
	DescribeVpcs(context.Context, *awsec2.DescribeVpcsInput) (*awsec2.DescribeVpcsOutput, error)
}

// A Network is the surroundings of load balancers. Pass methods that call EC2 a context from Base.AsService.
type Network struct {
	EC2 EC2
	// EnsureInterfaces creates and removes network interfaces until they match want. It calls alive in the same
	// transaction to learn whether the load balancer still exists.
	EnsureInterfaces func(ctx context.Context, account, region string, want Interfaces, alive func(store.Reader) bool) ([]Interface, error)
	// Probes returns the health checks of one request, which all use the network as of then. If nil, all findings are
	// Unknown.
	Probes func(ctx context.Context, account, region string) Prober
}

// Interfaces are the network interfaces that a load balancer wants in its subnets.
type Interfaces struct {
	// Requester is the service as DescribeNetworkInterfaces names it: amazon-elb.
	Requester string
	// Owner identifies the load balancer. Together with Requester it identifies its interfaces.
	Owner       string
	Description string
	Type        string // interface, network_load_balancer
	// Subnets get one interface each. If empty, all interfaces are removed.
	Subnets     []string
	Addresses   map[string]string // private addresses, by subnet
	Allocations map[string]string // allocation IDs of Elastic IP addresses, by subnet
	// Groups are the security groups. If empty, the interfaces have none.
	Groups []string
	// Public gives each interface a public address.
	Public bool
}

// An Interface is one of a load balancer's network interfaces.
type Interface struct{ ID, Subnet, Zone, Private, Public string }

// ByZone returns the IDs of interfaces by their zones.
func ByZone(in []Interface) map[string]string {
	out := map[string]string{}
	for _, i := range in {
		out[i.Zone] = i.ID
	}
	return out
}

// found returns the first item of EC2's answer. A client error means that what the request names does not exist.
func found[O, T any](out *O, err error, all func(*O) []T) (first T, ok bool, _ error) {
	if api, is := errors.AsType[smithy.APIError](err); is && api.ErrorFault() == smithy.FaultClient && !awsapi.IsThrottle(err) {
		return first, false, nil
	}
	if err != nil || len(all(out)) == 0 {
		return first, false, err
	}
	return all(out)[0], true, nil
}

// Instance finds an instance.
func (n *Network) Instance(svc context.Context, id string) (ec2types.Instance, bool, error) {
	out, err := n.EC2.DescribeInstances(svc, &awsec2.DescribeInstancesInput{InstanceIds: []string{id}})
	return found(out, err, func(o *awsec2.DescribeInstancesOutput) (all []ec2types.Instance) {
		for _, r := range o.Reservations {
			all = append(all, r.Instances...)
		}
		return all
	})
}

// Address finds an Elastic IP address.
func (n *Network) Address(svc context.Context, allocation string) (ec2types.Address, bool, error) {
	out, err := n.EC2.DescribeAddresses(svc, &awsec2.DescribeAddressesInput{AllocationIds: []string{allocation}})
	return found(out, err, func(o *awsec2.DescribeAddressesOutput) []ec2types.Address { return o.Addresses })
}

// VPC finds a VPC.
func (n *Network) VPC(svc context.Context, id string) (ec2types.Vpc, bool, error) {
	out, err := n.EC2.DescribeVpcs(svc, &awsec2.DescribeVpcsInput{VpcIds: []string{id}})
	return found(out, err, func(o *awsec2.DescribeVpcsOutput) []ec2types.Vpc { return o.Vpcs })
}

// Subnet finds a subnet.
func (n *Network) Subnet(svc context.Context, id string) (ec2types.Subnet, bool, error) {
	out, err := n.EC2.DescribeSubnets(svc, &awsec2.DescribeSubnetsInput{SubnetIds: []string{id}})
	return found(out, err, func(o *awsec2.DescribeSubnetsOutput) []ec2types.Subnet { return o.Subnets })
}

// SubnetsOf lists the subnets of a VPC.
func (n *Network) SubnetsOf(svc context.Context, vpc string) ([]ec2types.Subnet, error) {
	out, err := n.EC2.DescribeSubnets(svc, &awsec2.DescribeSubnetsInput{Filters: []ec2types.Filter{{Name: aws.String("vpc-id"), Values: []string{vpc}}}})
	if err != nil {
		return nil, err
	}
	return out.Subnets, nil
}

// SecurityGroup finds a security group.
func (n *Network) SecurityGroup(svc context.Context, id string) (ec2types.SecurityGroup, bool, error) {
	out, err := n.EC2.DescribeSecurityGroups(svc, &awsec2.DescribeSecurityGroupsInput{GroupIds: []string{id}})
	return found(out, err, func(o *awsec2.DescribeSecurityGroupsOutput) []ec2types.SecurityGroup { return o.SecurityGroups })
}

// DefaultGroup finds a VPC's default security group.
func (n *Network) DefaultGroup(svc context.Context, vpc string) (ec2types.SecurityGroup, bool, error) {
	out, err := n.EC2.DescribeSecurityGroups(svc, &awsec2.DescribeSecurityGroupsInput{Filters: []ec2types.Filter{
		{Name: aws.String("vpc-id"), Values: []string{vpc}}, {Name: aws.String("group-name"), Values: []string{"default"}},
	}})
	return found(out, err, func(o *awsec2.DescribeSecurityGroupsOutput) []ec2types.SecurityGroup { return o.SecurityGroups })
}

// NeedInternetGateway returns missing if a VPC has no internet gateway.
func (n *Network) NeedInternetGateway(svc context.Context, vpc string, missing error) error {
	out, err := n.EC2.DescribeInternetGateways(svc, &awsec2.DescribeInternetGatewaysInput{Filters: []ec2types.Filter{{Name: aws.String("attachment.vpc-id"), Values: []string{vpc}}}})
	_, ok, err := found(out, err, func(o *awsec2.DescribeInternetGatewaysOutput) []ec2types.InternetGateway { return o.InternetGateways })
	if err == nil && !ok {
		return missing
	}
	return err
}

// CheckGroups checks that security groups are in a VPC. missing is the error for one that
// does not exist, foreign for one of another VPC.
func (n *Network) CheckGroups(svc context.Context, vpc string, groups []string, missing, foreign func(id string) error) error {
	for _, id := range groups {
		g, ok, err := n.SecurityGroup(svc, id)
		switch {
		case err != nil:
			return err
		case !ok:
			return missing(id)
		case aws.ToString(g.VpcId) != vpc:
			return foreign(id)
		}
	}
	return nil
}
