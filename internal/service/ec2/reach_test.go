package ec2_test

import (
	"net/netip"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/reach"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func (w *world) reach(t testing.TB) *reach.Snapshot {
	t.Helper()
	return must(w.service.Reach(t.Context(), w.account, testkit.Region))(t)
}

// The snapshot follows the records, and stays the same value while nothing changes.
func TestReachFollowsTheRecords(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	sn := must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{}))(t).Subnets[0]
	e := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: sn.SubnetId}))(t).NetworkInterface
	s := w.reach(t)
	address := netip.MustParseAddr(*e.PrivateIpAddress)
	got := s.InterfaceAt(*sn.VpcId, address)
	if got == nil || got.ID != *e.NetworkInterfaceId || got.Subnet != *sn.SubnetId || got.Attached {
		t.Fatalf("interface at %s: %+v", address, got)
	}
	if w.reach(t) != s {
		t.Error("a new snapshot though nothing has changed")
	}
	must(w.CreateTags(ctx, &awsec2.CreateTagsInput{Resources: []string{*e.NetworkInterfaceId}, Tags: []ec2types.Tag{{Key: aws.String("Name"), Value: aws.String("n")}}}))(t)
	if got := w.reach(t).InterfaceAt(*sn.VpcId, address); got == nil || got.Name != "n" {
		t.Errorf("after naming it: %+v", got)
	}
	must(w.DeleteNetworkInterface(ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: e.NetworkInterfaceId}))(t)
	if got := w.reach(t).InterfaceAt(*sn.VpcId, address); got != nil {
		t.Errorf("after deleting it: %+v", got)
	}
	if s.InterfaceAt(*sn.VpcId, address) == nil {
		t.Error("an old snapshot has changed")
	}
}

// managed creates an interface as an AWS service does. It counts as attached.
func (w *world) managed(t testing.TB, account string, in *awsec2.CreateNetworkInterfaceInput) *ec2types.NetworkInterface {
	t.Helper()
	ctx := awsapi.WithCall(t.Context(), &awsapi.Call{Account: account, Region: testkit.Region, Service: "ec2", Principal: awsapi.Principal{Type: awsapi.AWSService, Name: "eks.amazonaws.com"}})
	return must(w.service.CreateNetworkInterface(ctx, in))(t).NetworkInterface
}
