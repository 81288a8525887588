package bench

import (
	"context"
	"fmt"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	awseks "github.com/aws/aws-sdk-go-v2/service/eks"
	ekstypes "github.com/aws/aws-sdk-go-v2/service/eks/types"
	awsiam "github.com/aws/aws-sdk-go-v2/service/iam"
)

// TestBenchFargate measures how long it takes until 500 pods of a Fargate profile are Ready, each on its own node,
// and until everything is removed with the profile.
func TestBenchFargate(t *testing.T) {
	measure(t)
	ctx := t.Context()
	d, _ := up(t, "--warm-spares", "0")
	role, _ := d.roles(ctx)
	pods := d.fargateRole(ctx)
	subnets := d.privateNetwork(ctx)
	d.createCluster(ctx, "fargate", role, subnets)
	eks, ec2 := awseks.NewFromConfig(d.config()), awsec2.NewFromConfig(d.config())
	if _, err := eks.CreateFargateProfile(ctx, &awseks.CreateFargateProfileInput{
		ClusterName: aws.String("fargate"), FargateProfileName: aws.String("fp"), PodExecutionRoleArn: &pods, Subnets: subnets,
		Selectors: []ekstypes.FargateProfileSelector{{Namespace: aws.String("default")}},
	}); err != nil {
		t.Fatal(err)
	}
	profile := &awseks.DescribeFargateProfileInput{ClusterName: aws.String("fargate"), FargateProfileName: aws.String("fp")}
	if err := awseks.NewFargateProfileActiveWaiter(eks).Wait(ctx, profile, time.Minute); err != nil {
		t.Fatal(err)
	}
	kc := d.kubeconfig("fargate")
	const replicas, deployments = 500, 5
	pids := d.pids()
	cpu0, begun := cpuOf(pids), time.Now()
	for i := range deployments {
		if out, err := d.kubectl(kc, "create", "deployment", fmt.Sprint("web-", i), "--image", "public.ecr.aws/nginx/nginx", "--replicas", fmt.Sprint(replicas/deployments)); err != nil {
			t.Fatal(out)
		}
	}
	for i := range deployments {
		if out, err := d.kubectl(kc, "rollout", "status", fmt.Sprint("deployment/web-", i), "--timeout", "5m"); err != nil {
			t.Fatal(out)
		}
	}
	used := cpuOf(pids) - cpu0
	t.Logf("%d Fargate pods Ready in %v; %.0f ms of CPU per pod", replicas, time.Since(begun).Round(100*time.Millisecond), 1000*used.Seconds()/replicas)
	idle(t, d, fmt.Sprintf("%d Fargate pods", replicas))

	begun = time.Now()
	for i := range deployments {
		if out, err := d.kubectl(kc, "delete", "deployment", fmt.Sprint("web-", i), "--wait=false"); err != nil {
			t.Fatal(out)
		}
	}
	if _, err := eks.DeleteFargateProfile(ctx, &awseks.DeleteFargateProfileInput{ClusterName: aws.String("fargate"), FargateProfileName: aws.String("fp")}); err != nil {
		t.Fatal(err)
	}
	if err := awseks.NewFargateProfileDeletedWaiter(eks).Wait(ctx, profile, 5*time.Minute); err != nil {
		t.Fatal(err)
	}
	t.Logf("the profile and its %d pods deleted in %v", replicas, time.Since(begun).Round(100*time.Millisecond))
	left, err := ec2.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{{Name: aws.String("description"), Values: []string{"Fargate pod *"}}}})
	if err != nil || len(left.NetworkInterfaces) > 0 {
		t.Errorf("%d network interfaces are left, %v", len(left.NetworkInterfaces), err)
	}
}

// fargateRole makes a pod execution role.
func (d *drydock) fargateRole(ctx context.Context) string {
	iam := awsiam.NewFromConfig(d.config())
	out, err := iam.CreateRole(ctx, &awsiam.CreateRoleInput{RoleName: aws.String("pods"), AssumeRolePolicyDocument: aws.String(
		`{"Version":"2012-10-17","Statement":[{"Effect":"Allow","Principal":{"Service":"eks-fargate-pods.amazonaws.com"},"Action":"sts:AssumeRole"}]}`)})
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := iam.AttachRolePolicy(ctx, &awsiam.AttachRolePolicyInput{
		RoleName: aws.String("pods"), PolicyArn: aws.String("arn:aws:iam::aws:policy/AmazonEKSFargatePodExecutionRolePolicy"),
	}); err != nil {
		d.t.Fatal(err)
	}
	return *out.Role.Arn
}

// privateNetwork makes a VPC with three large private subnets behind a NAT gateway.
func (d *drydock) privateNetwork(ctx context.Context) []string {
	c := awsec2.NewFromConfig(d.config())
	check := func(err error) {
		if err != nil {
			d.t.Helper()
			d.t.Fatal(err)
		}
	}
	vpc, err := c.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16")})
	check(err)
	subnet := func(cidr, zone string) *string {
		s, err := c.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: vpc.Vpc.VpcId, CidrBlock: &cidr, AvailabilityZone: aws.String("us-east-1" + zone)})
		check(err)
		return s.Subnet.SubnetId
	}
	public := subnet("10.0.0.0/24", "a")
	d.open(ctx, c, vpc.Vpc.VpcId) // by the main route table
	address, err := c.AllocateAddress(ctx, &awsec2.AllocateAddressInput{Domain: ec2types.DomainTypeVpc})
	check(err)
	nat, err := c.CreateNatGateway(ctx, &awsec2.CreateNatGatewayInput{SubnetId: public, AllocationId: address.AllocationId})
	check(err)
	check(awsec2.NewNatGatewayAvailableWaiter(c).Wait(ctx, &awsec2.DescribeNatGatewaysInput{NatGatewayIds: []string{*nat.NatGateway.NatGatewayId}}, time.Minute))
	table, err := c.CreateRouteTable(ctx, &awsec2.CreateRouteTableInput{VpcId: vpc.Vpc.VpcId})
	check(err)
	_, err = c.CreateRoute(ctx, &awsec2.CreateRouteInput{
		RouteTableId: table.RouteTable.RouteTableId, DestinationCidrBlock: aws.String("0.0.0.0/0"), NatGatewayId: nat.NatGateway.NatGatewayId,
	})
	check(err)
	var ids []string
	for i, zone := range []string{"a", "b", "c"} {
		id := subnet(fmt.Sprintf("10.0.%d.0/18", 64*(i+1)), zone)
		_, err := c.AssociateRouteTable(ctx, &awsec2.AssociateRouteTableInput{RouteTableId: table.RouteTable.RouteTableId, SubnetId: id})
		check(err)
		ids = append(ids, *id)
	}
	return ids
}
