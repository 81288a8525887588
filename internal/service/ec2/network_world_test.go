package ec2_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	"github.com/aws/smithy-go"

	"github.com/drydock-dev/drydock/internal/catalog/quotas"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// A network is a VPC with an internet gateway, a public and a private subnet.
type network struct {
	vpc, igw, public, private, table string
}

func newNetwork(t testing.TB, w *world, cidr string) network {
	t.Helper()
	ctx := t.Context()
	var a, b int
	if _, err := fmt.Sscanf(cidr, "%d.%d.0.0/16", &a, &b); err != nil {
		t.Fatal(err)
	}
	n := network{vpc: w.vpc(t, cidr)}
	n.igw = *must(w.CreateInternetGateway(ctx, &awsec2.CreateInternetGatewayInput{}))(t).InternetGateway.InternetGatewayId
	must(w.AttachInternetGateway(ctx, &awsec2.AttachInternetGatewayInput{InternetGatewayId: &n.igw, VpcId: &n.vpc}))(t)
	n.public = w.subnet(t, n.vpc, fmt.Sprintf("%d.%d.1.0/24", a, b))
	n.private = w.subnet(t, n.vpc, fmt.Sprintf("%d.%d.2.0/24", a, b))
	tables := must(w.DescribeRouteTables(ctx, &awsec2.DescribeRouteTablesInput{Filters: filter("vpc-id", n.vpc)}))(t).RouteTables
	n.table = *tables[0].RouteTableId
	return n
}

func (w *world) allocate(t testing.TB) string {
	t.Helper()
	return *must(w.AllocateAddress(t.Context(), &awsec2.AllocateAddressInput{Domain: "vpc"}))(t).AllocationId
}

func (w *world) defaultSubnet(t testing.TB) string {
	t.Helper()
	return *must(w.DescribeSubnets(t.Context(), &awsec2.DescribeSubnetsInput{Filters: filter("default-for-az", "true")}))(t).Subnets[0].SubnetId
}

func flowLogInput(resource string) *awsec2.CreateFlowLogsInput {
	in := &awsec2.CreateFlowLogsInput{
		ResourceIds: []string{resource}, ResourceType: "VPC", TrafficType: "ALL", LogDestinationType: "s3", LogDestination: aws.String("arn:aws:s3:::logs"),
	}
	if resource[:3] == "sub" {
		in.ResourceType = "Subnet"
	}
	return in
}

// settle waits until no gateway or endpoint is changing its state.
func (w *world) settle(t testing.TB) {
	t.Helper()
	testkit.Eventually(t, 20*time.Second, func() error { return w.moving(t.Context()) })
}

func (w *world) moving(ctx context.Context) error {
	nats, err := w.DescribeNatGateways(ctx, &awsec2.DescribeNatGatewaysInput{Filter: filter("state", "pending", "deleting")})
	if err != nil {
		return err
	}
	endpoints, err := w.DescribeVpcEndpoints(ctx, &awsec2.DescribeVpcEndpointsInput{Filters: filter("vpc-endpoint-state", "pending", "deleting")})
	if err != nil {
		return err
	}
	connect, err := w.DescribeInstanceConnectEndpoints(ctx, &awsec2.DescribeInstanceConnectEndpointsInput{Filters: filter("state", "*-in-progress")})
	if err != nil {
		return err
	}
	if n := len(nats.NatGateways) + len(endpoints.VpcEndpoints) + len(connect.InstanceConnectEndpoints); n > 0 {
		return fmt.Errorf("%d gateways and endpoints are on their way", n)
	}
	return nil
}

// setQuota sets a quota of the account, as Service Quotas does.
func (w *world) setQuota(t testing.TB, code string, value float64) {
	t.Helper()
	for _, p := range w.service.Module(nil).Quotas {
		all := must(p.Quotas(t.Context(), w.account, testkit.Region))(t)
		if slices.ContainsFunc(all, func(q quotas.Quota) bool { return q.Code == code }) {
			if err := p.Set(t.Context(), w.account, testkit.Region, code, value); err != nil {
				t.Fatal(err)
			}
			return
		}
	}
	t.Fatalf("there is no quota %s", code)
}

func hasCode(err error, code string) bool {
	var api smithy.APIError
	return errors.As(err, &api) && api.ErrorCode() == code
}
