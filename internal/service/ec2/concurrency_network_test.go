package ec2_test

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"

	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// parallel calls fn for 0…n-1 from several goroutines.
func parallel(workers, n int, fn func(i int)) {
	var next atomic.Int64
	var wg sync.WaitGroup
	for range workers {
		wg.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				fn(i)
			}
		})
	}
	wg.Wait()
}

// Thousands of parallel calls request overlapping subnets and addresses of one small subnet. No two
// subnets may overlap, no address may have two owners, and the free-address count must be right.
func TestParallelAllocation(t *testing.T) {
	w := newWorld(t)
	vpc := w.vpc(t, "10.0.0.0/16")
	ctx := awsapi.WithCall(t.Context(), &awsapi.Call{Service: "ec2", Account: w.account, Region: testkit.Region})
	parallel(16, 1000, func(i int) {
		cidr := fmt.Sprintf("10.0.%d.0/%d", i%64, 23+i%4)
		_, err := w.service.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: &cidr})
		if err != nil && !hasCode(err, "InvalidSubnet.Conflict") {
			t.Errorf("%s: %v", cidr, err)
		}
	})
	all := must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{Filters: filter("vpc-id", vpc)}))(t).Subnets
	var blocks []netip.Prefix
	for _, sn := range all {
		p := netip.MustParsePrefix(*sn.CidrBlock)
		for _, q := range blocks {
			if p.Overlaps(q) {
				t.Errorf("%s and %s overlap", p, q)
			}
		}
		blocks = append(blocks, p)
	}
	if len(blocks) < 20 {
		t.Fatalf("only %d subnets", len(blocks))
	}

	sn := w.subnet(t, vpc, "10.0.128.0/23") // 507 addresses
	ifc := func(ctx context.Context) (string, error) {
		out, err := w.service.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: &sn})
		if err != nil {
			return "", err
		}
		return *out.NetworkInterface.NetworkInterfaceId, nil
	}
	parallel(16, 2000, func(i int) {
		id, err := ifc(ctx)
		if hasCode(err, "InsufficientFreeAddressesInSubnet") {
			return
		}
		if err != nil {
			t.Error(err)
			return
		}
		switch i % 4 {
		case 0:
			_, err = w.service.DeleteNetworkInterface(ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: &id})
		case 1:
			_, err = w.service.AssignPrivateIpAddresses(ctx, &awsec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: &id, SecondaryPrivateIpAddressCount: aws.Int32(2)})
		case 2:
			_, err = w.service.AssignPrivateIpAddresses(ctx, &awsec2.AssignPrivateIpAddressesInput{NetworkInterfaceId: &id, Ipv4PrefixCount: aws.Int32(1)})
		}
		if err != nil && !hasCode(err, "InsufficientFreeAddressesInSubnet") && !hasCode(err, "InsufficientCidrBlocks") {
			t.Error(err)
		}
	})
	owner := map[netip.Addr]string{}
	take := func(a netip.Addr, eni string) {
		if other, taken := owner[a]; taken {
			t.Errorf("%s belongs to %s and %s", a, other, eni)
		}
		owner[a] = eni
	}
	enis := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: filter("subnet-id", sn)}))(t).NetworkInterfaces
	for _, e := range enis {
		for _, a := range e.PrivateIpAddresses {
			take(netip.MustParseAddr(*a.PrivateIpAddress), *e.NetworkInterfaceId)
		}
		for _, p := range e.Ipv4Prefixes {
			block := netip.MustParsePrefix(*p.Ipv4Prefix)
			for a := block.Addr(); block.Contains(a); a = a.Next() {
				take(a, *e.NetworkInterfaceId)
			}
		}
	}
	got := must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{sn}}))(t).Subnets[0]
	if free := 507 - len(owner); int(*got.AvailableIpAddressCount) != free {
		t.Errorf("%d addresses are counted as free; %d are", *got.AvailableIpAddressCount, free)
	}
	for _, reserved := range []string{"10.0.128.0", "10.0.128.1", "10.0.128.2", "10.0.128.3", "10.0.129.255"} {
		if eni, taken := owner[netip.MustParseAddr(reserved)]; taken {
			t.Errorf("%s has the reserved address %s", eni, reserved)
		}
	}
	t.Logf("%d subnets, %d interfaces, %d addresses", len(blocks), len(enis), len(owner))
}

// Elastic addresses are never assigned twice either, not even to different accounts.
func TestParallelElasticAddresses(t *testing.T) {
	w := newWorld(t)
	var mu sync.Mutex
	var all []string
	parallel(16, 400, func(i int) {
		account := fmt.Sprintf("%012d", 777000000000+i%100)
		ctx := awsapi.WithCall(t.Context(), &awsapi.Call{Service: "ec2", Account: account, Region: testkit.Region})
		out, err := w.service.AllocateAddress(ctx, &awsec2.AllocateAddressInput{})
		if err != nil {
			t.Error(err)
			return
		}
		mu.Lock()
		defer mu.Unlock()
		all = append(all, *out.PublicIp)
	})
	slices.Sort(all)
	if n := len(slices.Compact(slices.Clone(all))); n != 400 {
		t.Errorf("400 addresses, %d different ones", n)
	}
}
