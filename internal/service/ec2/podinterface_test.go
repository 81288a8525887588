package ec2_test

import (
	"fmt"
	"net/netip"
	"slices"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// podHost launches an m5.large, with three interfaces of ten addresses each, in its own subnet.
func (w *world) podHost(t *testing.T, cidr string) (instance, vpc, subnet string) {
	t.Helper()
	vpc = w.vpc(t, "10.0.0.0/16")
	subnet = w.subnet(t, vpc, cidr)
	return *w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.SubnetId = &subnet })[0].InstanceId, vpc, subnet
}

// Pods use addresses of the instance's interfaces, which are deleted with it.
func TestPodInterfaces(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	id, _, sn := w.podHost(t, "10.0.0.0/26")
	first := must(w.service.PodInterfaces(ctx, w.account, testkit.Region, id))(t)
	if len(first) != 1 || first[0].Device != 0 || len(first[0].Addresses) != 0 {
		t.Fatalf("interfaces %+v", first)
	}
	tags := ec2.Tags{"cluster.k8s.amazonaws.com/name": "dev"}
	full := must(w.service.AssignPodAddresses(ctx, w.account, testkit.Region, first[0].ID, 9, 0, tags))(t)
	if len(full.Addresses) != 9 {
		t.Errorf("%d addresses", len(full.Addresses))
	}
	_, err := w.service.AssignPodAddresses(ctx, w.account, testkit.Region, first[0].ID, 1, 0, nil)
	wantError(t, err, "PrivateIpAddressLimitExceeded", "")
	second := must(w.service.AttachPodInterface(ctx, w.account, testkit.Region, id, ec2.PodInterfaceSpec{Addresses: 9, Tags: tags}))(t)
	third := must(w.service.AttachPodInterface(ctx, w.account, testkit.Region, id, ec2.PodInterfaceSpec{Prefixes: 1}))(t)
	_, err = w.service.AttachPodInterface(ctx, w.account, testkit.Region, id, ec2.PodInterfaceSpec{Addresses: 1})
	wantError(t, err, "AttachmentLimitExceeded", "")
	if len(second.Addresses) != 9 || second.Device != 1 || len(third.Prefixes) != 1 || third.Prefixes[0].Bits() != 28 || third.Device != 2 {
		t.Errorf("interfaces %+v and %+v", second, third)
	}

	got := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: []ec2types.Filter{
		{Name: aws.String("tag:cluster.k8s.amazonaws.com/name"), Values: []string{"dev"}}, {Name: aws.String("attachment.instance-id"), Values: []string{id}},
	}}))(t).NetworkInterfaces
	i := slices.IndexFunc(got, func(e ec2types.NetworkInterface) bool { return *e.NetworkInterfaceId == second.ID })
	if len(got) != 2 || i < 0 {
		t.Fatalf("%d tagged interfaces", len(got))
	}
	if e := got[i]; *e.Description != "aws-K8S-"+id || len(e.PrivateIpAddresses) != 10 || !*e.Attachment.DeleteOnTermination {
		t.Errorf("interface %+v", e)
	}

	gone := []netip.Addr{second.Addresses[0], second.Addresses[1], netip.MustParseAddr("10.0.0.200")}
	if err := w.service.UnassignPodAddresses(ctx, w.account, testkit.Region, second.ID, gone, nil); err != nil {
		t.Error(err)
	}
	if err := w.service.UnassignPodAddresses(ctx, w.account, testkit.Region, third.ID, nil, third.Prefixes); err != nil {
		t.Error(err)
	}
	all := must(w.service.PodInterfaces(ctx, w.account, testkit.Region, id))(t)
	if len(all) != 3 || len(all[1].Addresses) != 7 || len(all[2].Prefixes) != 0 {
		t.Errorf("interfaces %+v", all)
	}
	if err := w.service.RemovePodInterface(ctx, w.account, testkit.Region, third.ID); err != nil {
		t.Error(err)
	}
	wantError(t, w.service.RemovePodInterface(ctx, w.account, testkit.Region, first[0].ID), "InvalidParameterValue", "")

	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t)
	w.await(t, "terminated", id)
	must(w.DeleteSubnet(ctx, &awsec2.DeleteSubnetInput{SubnetId: &sn}))(t) // the subnet has no addresses left
}

func TestPodInterfacesInAFullSubnet(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	id, vpc, _ := w.podHost(t, "10.0.0.0/28") // eleven addresses, of which the instance has one
	eni := must(w.service.PodInterfaces(ctx, w.account, testkit.Region, id))(t)[0].ID
	must(w.service.AssignPodAddresses(ctx, w.account, testkit.Region, eni, 8, 0, nil))(t)
	_, err := w.service.AssignPodAddresses(ctx, w.account, testkit.Region, eni, 3, 0, nil)
	wantError(t, err, "PrivateIpAddressLimitExceeded", "")
	spec := ec2.PodInterfaceSpec{Addresses: 9, Discover: true, Cluster: "dev"}
	_, err = w.service.AttachPodInterface(ctx, w.account, testkit.Region, id, spec)
	wantError(t, err, "InsufficientFreeAddressesInSubnet", "")
	if got := must(w.service.PodInterfaces(ctx, w.account, testkit.Region, id))(t); len(got) != 1 {
		t.Errorf("%d interfaces after a failure", len(got))
	}
	// Other subnets of the zone are used for pods if they are tagged for them.
	for i, tc := range []struct {
		tags map[string]string
		ok   bool
	}{
		{nil, false},
		{map[string]string{"kubernetes.io/role/cni": "0"}, false},
		{map[string]string{"kubernetes.io/role/cni": "1", "kubernetes.io/cluster/other": "shared"}, false},
		{map[string]string{"kubernetes.io/role/cni": "1"}, true},
		{map[string]string{"kubernetes.io/role/cni": "1", "kubernetes.io/cluster/dev": "shared"}, true},
	} {
		sn := w.subnet(t, vpc, fmt.Sprintf("10.0.%d.0/24", i+1))
		if len(tc.tags) > 0 {
			in := &awsec2.CreateTagsInput{Resources: []string{sn}}
			for k, v := range tc.tags {
				in.Tags = append(in.Tags, ec2types.Tag{Key: &k, Value: &v})
			}
			must(w.CreateTags(ctx, in))(t)
		}
		got, err := w.service.AttachPodInterface(ctx, w.account, testkit.Region, id, spec)
		if ok := err == nil && got.SubnetID == sn; ok != tc.ok {
			t.Errorf("tags %v: %+v, %v", tc.tags, got, err)
		}
		if err == nil {
			if err := w.service.RemovePodInterface(ctx, w.account, testkit.Region, got.ID); err != nil {
				t.Error(err)
			}
		}
		must(w.DeleteSubnet(ctx, &awsec2.DeleteSubnetInput{SubnetId: &sn}))(t)
	}
}
