package ec2_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestModifyInstanceConnectEndpoint(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	subnet := w.defaultSubnet(t)
	made := must(w.CreateInstanceConnectEndpoint(ctx, &awsec2.CreateInstanceConnectEndpointInput{SubnetId: &subnet}))(t).InstanceConnectEndpoint
	modify := &awsec2.ModifyInstanceConnectEndpointInput{InstanceConnectEndpointId: made.InstanceConnectEndpointId, PreserveClientIp: aws.Bool(true)}
	get := func() ec2types.Ec2InstanceConnectEndpoint {
		t.Helper()
		return must(w.DescribeInstanceConnectEndpoints(ctx, &awsec2.DescribeInstanceConnectEndpointsInput{InstanceConnectEndpointIds: []string{*made.InstanceConnectEndpointId}}))(t).InstanceConnectEndpoints[0]
	}
	testkit.Eventually(t, 10*time.Second, func() error {
		if s := get().State; s != ec2types.Ec2InstanceConnectEndpointStateCreateComplete {
			return fmt.Errorf("the endpoint is %s", s)
		}
		return nil
	})
	group := must(w.CreateSecurityGroup(ctx, &awsec2.CreateSecurityGroupInput{VpcId: made.VpcId, GroupName: aws.String("connect"), Description: aws.String("connect")}))(t).GroupId
	modify.SecurityGroupIds = []string{*group}
	if out := must(w.ModifyInstanceConnectEndpoint(ctx, modify))(t); !*out.Return {
		t.Errorf("%+v", out)
	}
	e := get()
	i := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: e.NetworkInterfaceIds}))(t).NetworkInterfaces[0]
	if e.State != "update-complete" || !*e.PreserveClientIp || !slices.Equal(e.SecurityGroupIds, modify.SecurityGroupIds) || *i.Groups[0].GroupId != *group {
		t.Errorf("%+v, %+v", e, i.Groups)
	}
}
