package bench

import (
	"fmt"
	"strings"
	"testing"
	"time"

	awscloudformation "github.com/aws/aws-sdk-go-v2/service/cloudformation"
	cloudformationtypes "github.com/aws/aws-sdk-go-v2/service/cloudformation/types"
)

// stackOf returns a template of n resources: a VPC with a gateway, then in turn groups, rules, subnets with their route
// tables, queues and parameters, which refer to one another.
func stackOf(n int) string {
	var b strings.Builder
	b.WriteString("Resources:\n  V: {Type: AWS::EC2::VPC, Properties: {CidrBlock: 10.0.0.0/16}}\n  I: {Type: AWS::EC2::InternetGateway}\n" +
		"  A: {Type: AWS::EC2::VPCGatewayAttachment, Properties: {VpcId: !Ref V, InternetGatewayId: !Ref I}}\n")
	kinds := []string{
		"  G%[1]d: {Type: AWS::EC2::SecurityGroup, Properties: {GroupDescription: g, VpcId: !Ref V}}\n",
		"  E%[1]d: {Type: AWS::EC2::SecurityGroupIngress, Properties: {GroupId: !Ref G%[1]d, IpProtocol: tcp, FromPort: 443, ToPort: 443, CidrIp: 10.0.0.0/16}}\n",
		"  S%[1]d: {Type: AWS::EC2::Subnet, Properties: {VpcId: !Ref V, CidrBlock: 10.0.%[1]d.0/24}}\n",
		"  T%[1]d: {Type: AWS::EC2::RouteTable, DependsOn: A, Properties: {VpcId: !Ref V}}\n",
		"  L%[1]d: {Type: AWS::EC2::SubnetRouteTableAssociation, Properties: {SubnetId: !Ref S%[1]d, RouteTableId: !Ref T%[1]d}}\n",
		"  R%[1]d: {Type: AWS::EC2::Route, Properties: {RouteTableId: !Ref T%[1]d, DestinationCidrBlock: 0.0.0.0/0, GatewayId: !Ref I}}\n",
		"  Q%[1]d: {Type: AWS::SQS::Queue}\n",
		"  P%[1]d: {Type: AWS::SSM::Parameter, Properties: {Type: String, Value: !GetAtt Q%[1]d.Arn}}\n",
	}
	for i := range n - 3 {
		fmt.Fprintf(&b, kinds[i%len(kinds)], i/len(kinds))
	}
	return b.String()
}

// TestBenchStacks creates and deletes stacks of 60 and 500 resources, and measures how much later than the last event an
// SDK waiter returns.
func TestBenchStacks(t *testing.T) {
	measure(t)
	d, _ := up(t, "--warm-spares", "0")
	ctx := t.Context()
	c := awscloudformation.NewFromConfig(d.config())
	for _, n := range []int{60, 500} {
		var creating, deleting, late []time.Duration
		for round := range 3 {
			name, body := fmt.Sprintf("s%d-%d", n, round), stackOf(n)
			out, err := c.CreateStack(ctx, &awscloudformation.CreateStackInput{StackName: &name, TemplateBody: &body})
			if err != nil {
				t.Fatal(err)
			}
			// took returns the time between the first and the last event of the last operation.
			took := func() time.Duration {
				back := time.Now()
				var last, first time.Time
				pages := awscloudformation.NewDescribeStackEventsPaginator(c, &awscloudformation.DescribeStackEventsInput{StackName: out.StackId})
				for pages.HasMorePages() && first.IsZero() {
					page, err := pages.NextPage(ctx)
					if err != nil {
						t.Fatal(err)
					}
					for i := range page.StackEvents {
						e := &page.StackEvents[i]
						if last.IsZero() {
							last = *e.Timestamp
						}
						if *e.PhysicalResourceId == *out.StackId && e.ResourceStatusReason != nil && *e.ResourceStatusReason == "User Initiated" {
							first = *e.Timestamp
							break
						}
					}
				}
				late = append(late, back.Sub(last))
				return last.Sub(first)
			}
			in := &awscloudformation.DescribeStacksInput{StackName: out.StackId}
			if err := awscloudformation.NewStackCreateCompleteWaiter(c).Wait(ctx, in, 2*time.Minute); err != nil {
				events, _ := c.DescribeStackEvents(ctx, &awscloudformation.DescribeStackEventsInput{StackName: out.StackId})
				for i := range events.StackEvents {
					if e := &events.StackEvents[i]; strings.HasSuffix(string(e.ResourceStatus), "_FAILED") && e.ResourceStatus != cloudformationtypes.ResourceStatusDeleteFailed {
						t.Logf("%s: %s", *e.LogicalResourceId, *e.ResourceStatusReason)
					}
				}
				t.Fatal(err)
			}
			creating = append(creating, took())
			if _, err := c.DeleteStack(ctx, &awscloudformation.DeleteStackInput{StackName: out.StackId}); err != nil {
				t.Fatal(err)
			}
			if err := awscloudformation.NewStackDeleteCompleteWaiter(c).Wait(ctx, in, 2*time.Minute); err != nil {
				t.Fatal(err)
			}
			deleting = append(deleting, took())
		}
		t.Logf("a stack of %d resources: created in %v, deleted in %v; waiters returned %v after the end (medians of 3, 3 and 6)", n, median(creating), median(deleting), median(late))
	}
}
