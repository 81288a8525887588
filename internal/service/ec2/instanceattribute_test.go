package ec2_test

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"

	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestInstanceAttributes(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	id := *w.launch(t, 1, nil)[0].InstanceId
	yes, no := &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}, &ec2types.AttributeBooleanValue{Value: aws.Bool(false)}
	modify := func(in awsec2.ModifyInstanceAttributeInput) error {
		in.InstanceId = &id
		_, err := w.ModifyInstanceAttribute(ctx, &in)
		return err
	}
	ok := func(in awsec2.ModifyInstanceAttributeInput) {
		t.Helper()
		if err := modify(in); err != nil {
			t.Error(err)
		}
	}
	describe := func(name ec2types.InstanceAttributeName) *awsec2.DescribeInstanceAttributeOutput {
		t.Helper()
		return must(w.DescribeInstanceAttribute(ctx, &awsec2.DescribeInstanceAttributeInput{InstanceId: &id, Attribute: name}))(t)
	}
	wantError(t, modify(awsec2.ModifyInstanceAttributeInput{}), "InvalidParameterCombination", "No attributes specified.")
	wantError(t, modify(awsec2.ModifyInstanceAttributeInput{DisableApiStop: yes, DisableApiTermination: yes}), "InvalidParameterCombination",
		"Fields for multiple attribute types specified: disableApiTermination, disableApiStop")
	larger := &ec2types.AttributeValue{Value: aws.String("m5.xlarge")}
	wantError(t, modify(awsec2.ModifyInstanceAttributeInput{InstanceType: larger}), "IncorrectInstanceState", "The instance '"+id+"' is not in the 'stopped' state.")
	wantError(t, modify(awsec2.ModifyInstanceAttributeInput{Kernel: larger}), "NotImplemented", "")

	ok(awsec2.ModifyInstanceAttributeInput{DisableApiTermination: yes})
	_, err := w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{id}})
	wantError(t, err, "OperationNotPermitted", "The instance '"+id+"' may not be terminated. Modify its 'disableApiTermination' instance attribute and try again.")
	if !*describe("disableApiTermination").DisableApiTermination.Value {
		t.Error("the protection is not described")
	}
	ok(awsec2.ModifyInstanceAttributeInput{Attribute: "disableApiTermination", Value: aws.String("false")})
	ok(awsec2.ModifyInstanceAttributeInput{DisableApiStop: yes})
	_, err = w.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{id}})
	wantError(t, err, "OperationNotPermitted", "The instance '"+id+"' may not be stopped. Modify its 'disableApiStop' instance attribute and try again.")
	ok(awsec2.ModifyInstanceAttributeInput{DisableApiStop: no})
	ok(awsec2.ModifyInstanceAttributeInput{SourceDestCheck: no})
	if *describe("sourceDestCheck").SourceDestCheck.Value {
		t.Error("the source/destination check is still on")
	}
	must(w.ResetInstanceAttribute(ctx, &awsec2.ResetInstanceAttributeInput{InstanceId: &id, Attribute: "sourceDestCheck"}))(t)
	if !*describe("sourceDestCheck").SourceDestCheck.Value {
		t.Error("the source/destination check is still off")
	}
	must(w.ModifyInstanceMetadataOptions(ctx, &awsec2.ModifyInstanceMetadataOptionsInput{InstanceId: &id, HttpTokens: "required", HttpPutResponseHopLimit: aws.Int32(3), InstanceMetadataTags: "enabled"}))(t)
	must(w.MonitorInstances(ctx, &awsec2.MonitorInstancesInput{InstanceIds: []string{id}}))(t)
	got := w.await(t, "running", id)[0]
	if m := got.MetadataOptions; m.HttpTokens != "required" || *m.HttpPutResponseHopLimit != 3 || m.InstanceMetadataTags != "enabled" || m.State != "applied" || got.Monitoring.State != "enabled" {
		t.Errorf("got %+v, %+v", m, got.Monitoring)
	}

	must(w.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{id}}))(t)
	w.await(t, "stopped", id)
	ok(awsec2.ModifyInstanceAttributeInput{InstanceType: larger})
	ok(awsec2.ModifyInstanceAttributeInput{UserData: &ec2types.SecureBlobAttributeValue{Value: []byte("#!/bin/sh")}})
	wantError(t, modify(awsec2.ModifyInstanceAttributeInput{InstanceType: &ec2types.AttributeValue{Value: aws.String("m6g.large")}}), "InvalidParameterValue", "")
	if v := describe("userData").UserData.Value; aws.ToString(v) != base64.StdEncoding.EncodeToString([]byte("#!/bin/sh")) {
		t.Errorf("the user data is %q", aws.ToString(v))
	}
	must(w.StartInstances(ctx, &awsec2.StartInstancesInput{InstanceIds: []string{id}}))(t)
	w.await(t, "running", id)
	if m, _ := w.machines.get(id); m.Type.Name != "m5.xlarge" || m.Type.VCPU != 4 || string(m.UserData) != "#!/bin/sh" {
		t.Errorf("the machine is %+v", m)
	}
}

func TestProfileAssociations(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	id := w.launch(t, 1, nil)[0].InstanceId
	node := &ec2types.IamInstanceProfileSpecification{Name: aws.String("node")}
	made := must(w.AssociateIamInstanceProfile(ctx, &awsec2.AssociateIamInstanceProfileInput{InstanceId: id, IamInstanceProfile: node}))(t).IamInstanceProfileAssociation
	_, err := w.AssociateIamInstanceProfile(ctx, &awsec2.AssociateIamInstanceProfileInput{InstanceId: id, IamInstanceProfile: node})
	wantError(t, err, "IncorrectState", "There is an existing association for instance "+*id)
	replaced := must(w.ReplaceIamInstanceProfileAssociation(ctx, &awsec2.ReplaceIamInstanceProfileAssociationInput{AssociationId: made.AssociationId, IamInstanceProfile: node}))(t).IamInstanceProfileAssociation
	_, err = w.DisassociateIamInstanceProfile(ctx, &awsec2.DisassociateIamInstanceProfileInput{AssociationId: made.AssociationId})
	wantError(t, err, "InvalidAssociationID.NotFound", "An invalid association-id of '"+*made.AssociationId+"' was given")
	found := must(w.DescribeIamInstanceProfileAssociations(ctx, &awsec2.DescribeIamInstanceProfileAssociationsInput{Filters: filter("instance-id", *id)}))(t).IamInstanceProfileAssociations
	if len(found) != 1 || *found[0].AssociationId != *replaced.AssociationId || found[0].State != "associated" {
		t.Errorf("got %+v", found)
	}
	must(w.DisassociateIamInstanceProfile(ctx, &awsec2.DisassociateIamInstanceProfileInput{AssociationId: replaced.AssociationId}))(t)
	if got := w.await(t, "running", *id)[0]; got.IamInstanceProfile != nil {
		t.Errorf("the profile is still %+v", got.IamInstanceProfile)
	}
}

func TestCapacityOfRunInstances(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	run := func(zone string) (*awsec2.RunInstancesOutput, error) {
		in := &awsec2.RunInstancesInput{ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(3)}
		if zone != "" {
			in.Placement = &ec2types.Placement{AvailabilityZone: &zone}
		}
		return w.RunInstances(ctx, in)
	}
	stopped := instanceIDs(w.launch(t, 1, func(in *awsec2.RunInstancesInput) {
		in.Placement = &ec2types.Placement{AvailabilityZone: aws.String("us-east-1a")}
	}))
	must(w.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: stopped}))(t)
	w.await(t, "stopped", stopped...)
	w.short(fault.Fault{InstanceType: "m5.large", Zone: "us-east-1a"})
	_, err := w.StartInstances(ctx, &awsec2.StartInstancesInput{InstanceIds: stopped})
	wantError(t, err, "InsufficientInstanceCapacity", "")
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: stopped}))(t)
	_, err = run("us-east-1a")
	wantError(t, err, "InsufficientInstanceCapacity", "We currently do not have sufficient m5.large capacity in the Availability Zone you requested (us-east-1a). Our system will be working on provisioning additional capacity. You can currently get m5.large capacity by not specifying an Availability Zone in your request or choosing us-east-1b, us-east-1c, us-east-1d, us-east-1f.")
	if out := must(run(""))(t); *out.Instances[0].Placement.AvailabilityZone == "us-east-1a" {
		t.Error("launched where there is no capacity")
	}
	w.setVCPUs(t, 8)
	if out := must(run("us-east-1b"))(t); len(out.Instances) != 1 {
		t.Errorf("%d instances fit below the quota, want 1", len(out.Instances))
	}
	_, err = run("us-east-1b")
	wantError(t, err, "VcpuLimitExceeded", "You have requested more vCPU capacity than your current vCPU limit of 8 allows for the instance bucket that the specified instance type belongs to. Please visit http://aws.amazon.com/contact-us/ec2-request to request an adjustment to this limit.")
}

func TestInterruptions(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	bought := instanceIDs(w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.InstanceMarketOptions = spot(nil) }))[0]
	ids := instanceIDs(w.launch(t, 2, func(in *awsec2.RunInstancesInput) { in.DisableApiTermination = aws.Bool(true) }))
	reason := func(id string, state ec2types.InstanceStateName) string {
		t.Helper()
		return *w.await(t, state, id)[0].StateReason.Code
	}
	if err := w.service.Interrupt(ctx, w.account, testkit.Region, bought, true); err == nil {
		t.Error("a one-time Spot Instance was stopped")
	}
	for _, tt := range []struct {
		id     string
		stop   bool
		state  ec2types.InstanceStateName
		reason string
	}{
		{bought, false, "terminated", "Server.SpotInstanceTermination"},
		{ids[0], false, "terminated", "Client.UserInitiatedShutdown"},
		{ids[1], true, "stopped", "Server.ScheduledStop"},
	} {
		if err := w.service.Interrupt(ctx, w.account, testkit.Region, tt.id, tt.stop); err != nil {
			t.Fatal(err)
		}
		if got := reason(tt.id, tt.state); got != tt.reason {
			t.Errorf("%s is %s because of %s, want %s", tt.id, tt.state, got, tt.reason)
		}
	}
	out := must(w.DescribeSpotInstanceRequests(ctx, &awsec2.DescribeSpotInstanceRequestsInput{}))(t)
	if code := *out.SpotInstanceRequests[0].Status.Code; code != "instance-terminated-no-capacity" {
		t.Errorf("the Spot request says %s", code)
	}
	if err := w.service.Interrupt(ctx, w.account, testkit.Region, "i-00000000000000000", false); err == nil {
		t.Error("an instance that is not there was interrupted")
	}
}

func TestPersistentSpotRequests(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	first := w.launch(t, 1, func(in *awsec2.RunInstancesInput) {
		in.InstanceMarketOptions = spot(&ec2types.SpotMarketOptions{SpotInstanceType: "persistent", InstanceInterruptionBehavior: "stop"})
		in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: "spot-instances-request", Tags: []ec2types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}}
	})[0]
	request := func(state ec2types.SpotInstanceState, other string) (got ec2types.SpotInstanceRequest) {
		t.Helper()
		testkit.Eventually(t, 10*time.Second, func() error {
			got = must(w.DescribeSpotInstanceRequests(ctx, &awsec2.DescribeSpotInstanceRequestsInput{Filters: filter("tag:k", "v")}))(t).SpotInstanceRequests[0]
			if got.State != state || aws.ToString(got.InstanceId) == other {
				return fmt.Errorf("the request is %s with %s", got.State, aws.ToString(got.InstanceId))
			}
			return nil
		})
		return got
	}
	request("active", "")
	must(w.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{*first.InstanceId}}))(t)
	request("disabled", "")
	w.await(t, "stopped", *first.InstanceId)
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{*first.InstanceId}}))(t)
	again := request("active", *first.InstanceId)
	must(w.CancelSpotInstanceRequests(ctx, &awsec2.CancelSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{*again.SpotInstanceRequestId}}))(t)
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{*again.InstanceId}}))(t)
	w.await(t, "terminated", *again.InstanceId)
	w.quiet(t)
	if got := request("cancelled", ""); *got.Status.Code != "request-canceled-and-instance-running" {
		t.Errorf("the status is %s", *got.Status.Code)
	}
	prices := must(w.DescribeSpotPriceHistory(ctx, &awsec2.DescribeSpotPriceHistoryInput{InstanceTypes: []ec2types.InstanceType{"m5.large"}, ProductDescriptions: []string{"Linux/UNIX"}, StartTime: aws.Time(time.Now())}))(t).SpotPriceHistory
	if len(prices) != 5 {
		t.Errorf("%d zones have a price, want all but us-east-1e: %+v", len(prices), prices)
	}
}

func TestRequestSpotInstances(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	ask := func(edit func(in *awsec2.RequestSpotInstancesInput)) (*awsec2.RequestSpotInstancesOutput, error) {
		in := &awsec2.RequestSpotInstancesInput{LaunchSpecification: &ec2types.RequestSpotLaunchSpecification{ImageId: image(t, "x86_64"), InstanceType: "m5.large"}}
		edit(in)
		return w.RequestSpotInstances(ctx, in)
	}
	await := func(id *string, state ec2types.SpotInstanceState, code string) (got ec2types.SpotInstanceRequest) {
		t.Helper()
		testkit.Eventually(t, 10*time.Second, func() error {
			got = must(w.DescribeSpotInstanceRequests(ctx, &awsec2.DescribeSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{*id}}))(t).SpotInstanceRequests[0]
			if got.State != state || *got.Status.Code != code {
				return fmt.Errorf("the request is %s: %s, %s", got.State, *got.Status.Code, *got.Status.Message)
			}
			return nil
		})
		return got
	}

	// Two one-time requests with a token and tags.
	twice := func(in *awsec2.RequestSpotInstancesInput) {
		in.InstanceCount, in.ClientToken = aws.Int32(2), aws.String("once")
		in.LaunchSpecification.Placement = &ec2types.SpotPlacement{AvailabilityZone: aws.String("us-east-1b")}
		in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: "spot-instances-request", Tags: []ec2types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}}
	}
	two := must(ask(twice))(t).SpotInstanceRequests
	if again := must(ask(twice))(t).SpotInstanceRequests; len(two) != 2 || len(again) != 2 || *again[0].SpotInstanceRequestId != *two[0].SpotInstanceRequestId {
		t.Fatalf("%d requests, then %d", len(two), len(again))
	}
	if r := two[0]; r.State != "open" || *r.Status.Code != "pending-evaluation" || r.Type != "one-time" || len(r.Tags) != 1 || time.Until(*r.ValidUntil) < 6*24*time.Hour {
		t.Errorf("%+v", r)
	}
	for _, r := range two {
		done := await(r.SpotInstanceRequestId, "active", "fulfilled")
		i := must(w.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{InstanceIds: []string{*done.InstanceId}}))(t).Reservations[0].Instances[0]
		if *i.SpotInstanceRequestId != *r.SpotInstanceRequestId || i.InstanceLifecycle != "spot" || *i.Placement.AvailabilityZone != "us-east-1b" || len(i.Tags) != 0 {
			t.Errorf("%+v", i)
		}
		must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{*done.InstanceId}}))(t)
		await(r.SpotInstanceRequestId, "closed", "instance-terminated-by-user")
	}

	// Persistent requests terminate by default, and launch again.
	first := await(must(ask(func(in *awsec2.RequestSpotInstancesInput) { in.Type = "persistent" }))(t).SpotInstanceRequests[0].SpotInstanceRequestId, "active", "fulfilled")
	if first.InstanceInterruptionBehavior != "terminate" || first.ValidUntil != nil {
		t.Errorf("%+v", first)
	}
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{*first.InstanceId}}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		if got := await(first.SpotInstanceRequestId, "active", "fulfilled"); *got.InstanceId == *first.InstanceId {
			return errors.New("the request has its old instance")
		}
		return nil
	})

	// What can change keeps a request open; what cannot is an error.
	low := must(ask(func(in *awsec2.RequestSpotInstancesInput) { in.SpotPrice = aws.String("0.0001") }))(t).SpotInstanceRequests[0]
	await(low.SpotInstanceRequestId, "open", "price-too-low")
	later := must(ask(func(in *awsec2.RequestSpotInstancesInput) { in.ValidFrom = aws.Time(time.Now().Add(time.Hour)) }))(t).SpotInstanceRequests[0]
	must(w.CancelSpotInstanceRequests(ctx, &awsec2.CancelSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{*later.SpotInstanceRequestId}}))(t)
	if await(later.SpotInstanceRequestId, "cancelled", "canceled-before-fulfillment"); *later.Status.Code != "not-scheduled-yet" {
		t.Errorf("%+v", later)
	}
	for _, tt := range []struct {
		edit func(in *awsec2.RequestSpotInstancesInput)
		code string
	}{
		{func(in *awsec2.RequestSpotInstancesInput) { in.LaunchSpecification = nil }, "MissingParameter"},
		{func(in *awsec2.RequestSpotInstancesInput) { in.InstanceCount = aws.Int32(0) }, "InvalidParameterValue"},
		{func(in *awsec2.RequestSpotInstancesInput) { in.SpotPrice = aws.String("cheap") }, "InvalidParameterValue"},
		{func(in *awsec2.RequestSpotInstancesInput) { in.InstanceInterruptionBehavior = "stop" }, "InvalidParameterCombination"},
		{func(in *awsec2.RequestSpotInstancesInput) {
			in.LaunchSpecification.ImageId = aws.String("ami-00000000000000000")
		}, "InvalidAMIID.NotFound"},
		{func(in *awsec2.RequestSpotInstancesInput) { in.ValidUntil = aws.Time(time.Now().Add(-time.Hour)) }, "InvalidParameterValue"},
		{func(in *awsec2.RequestSpotInstancesInput) { in.LaunchGroup = aws.String("together") }, "NotImplemented"},
	} {
		if _, err := ask(tt.edit); code(err) != tt.code {
			t.Errorf("%v, want %s", err, tt.code)
		}
	}
}

// Thousands of concurrent launches and terminations neither leak addresses nor assign one twice.
func TestParallelLaunchesAndTerminations(t *testing.T) {
	w := newWorld(t)
	vpc := w.vpc(t, "10.0.0.0/16")
	nets := []string{w.subnet(t, vpc, "10.0.0.0/24"), w.subnet(t, vpc, "10.0.4.0/22")}
	img := image(t, "x86_64")
	ctx := context.Background()
	var mu sync.Mutex
	var running []string
	used := map[string]string{} // addresses known to be in use
	var wg sync.WaitGroup
	for worker := range 8 {
		wg.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(worker)))
			for range 30 {
				n := int32(1 + r.IntN(12))
				out, err := w.RunInstances(ctx, &awsec2.RunInstancesInput{
					ImageId: img, InstanceType: "m5.large", MinCount: &n, MaxCount: &n, SubnetId: &nets[r.IntN(2)],
				})
				if err != nil {
					if c := code(err); c != "InsufficientFreeAddressesInSubnet" {
						t.Error(err)
					}
				} else {
					mu.Lock()
					for _, i := range out.Instances {
						if other, taken := used[*i.PrivateIpAddress]; taken {
							t.Errorf("%s and %s have %s", *i.InstanceId, other, *i.PrivateIpAddress)
						}
						used[*i.PrivateIpAddress] = *i.InstanceId
						running = append(running, *i.InstanceId)
					}
					mu.Unlock()
				}
				mu.Lock()
				r.Shuffle(len(running), func(a, b int) { running[a], running[b] = running[b], running[a] })
				var end []string
				if len(running) > 0 && r.IntN(3) > 0 {
					k := min(len(running), 1+r.IntN(20))
					end, running = slices.Clone(running[:k]), running[k:]
					for a, id := range used {
						if slices.Contains(end, id) {
							delete(used, a)
						}
					}
				}
				mu.Unlock()
				if len(end) > 0 {
					if _, err := w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: end}); err != nil {
						t.Error(err)
					}
				}
			}
		})
	}
	wg.Wait()
	w.quiet(t)
	live := map[string]int{}
	for _, r := range must(w.DescribeInstances(ctx, &awsec2.DescribeInstancesInput{Filters: filter("instance-state-name", "running")}))(t).Reservations {
		for _, i := range r.Instances {
			live[*i.SubnetId]++
		}
	}
	for n, size := range []int{251, 1019} {
		sn := must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{nets[n]}}))(t).Subnets[0]
		enis := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: filter("subnet-id", nets[n])}))(t).NetworkInterfaces
		if len(enis) != live[nets[n]] || int(*sn.AvailableIpAddressCount) != size-live[nets[n]] {
			t.Errorf("%s: %d instances, %d interfaces, %d of %d addresses free", nets[n], live[nets[n]], len(enis), *sn.AvailableIpAddressCount, size)
		}
	}
	all := slices.Clone(running)
	for chunk := range slices.Chunk(all, 500) {
		must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: chunk}))(t)
	}
	w.quiet(t)
	for n, size := range []int{251, 1019} {
		if sn := must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{nets[n]}}))(t).Subnets[0]; int(*sn.AvailableIpAddressCount) != size {
			t.Errorf("%d of %d addresses are free when all is terminated", *sn.AvailableIpAddressCount, size)
		}
	}
	if vols := must(w.DescribeVolumes(ctx, &awsec2.DescribeVolumesInput{}))(t).Volumes; len(vols) != 0 {
		t.Errorf("%d volumes are left", len(vols))
	}
	if n, _ := w.machines.count(); n != 0 {
		t.Errorf("%d machines run", n)
	}
}

func TestLaunchWithPrefixesAndIPv6(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	vpc := must(w.CreateVpc(ctx, &awsec2.CreateVpcInput{CidrBlock: aws.String("10.0.0.0/16"), AmazonProvidedIpv6CidrBlock: aws.Bool(true)}))(t).Vpc
	block := must(w.DescribeVpcs(ctx, &awsec2.DescribeVpcsInput{VpcIds: []string{*vpc.VpcId}}))(t).Vpcs[0].Ipv6CidrBlockAssociationSet[0].Ipv6CidrBlock
	sn := must(w.CreateSubnet(ctx, &awsec2.CreateSubnetInput{VpcId: vpc.VpcId, CidrBlock: aws.String("10.0.0.0/24"), Ipv6CidrBlock: aws.String((*block)[:len(*block)-2] + "64")}))(t).Subnet.SubnetId
	got := w.launch(t, 2, func(in *awsec2.RunInstancesInput) {
		in.NetworkInterfaces = []ec2types.InstanceNetworkInterfaceSpecification{
			{DeviceIndex: aws.Int32(0), SubnetId: sn, Ipv4PrefixCount: aws.Int32(2), Ipv6AddressCount: aws.Int32(1)},
			{DeviceIndex: aws.Int32(1), SubnetId: sn, SecondaryPrivateIpAddressCount: aws.Int32(3)},
		}
	})
	seen := map[string]bool{}
	for _, i := range got {
		if i.Ipv6Address == nil || len(i.NetworkInterfaces) != 2 || len(i.NetworkInterfaces[0].Ipv4Prefixes) != 2 || len(i.NetworkInterfaces[1].PrivateIpAddresses) != 4 {
			t.Fatalf("got %+v", i.NetworkInterfaces)
		}
		for _, a := range []string{*i.Ipv6Address, *i.NetworkInterfaces[0].Ipv4Prefixes[0].Ipv4Prefix, *i.NetworkInterfaces[0].Ipv4Prefixes[1].Ipv4Prefix} {
			if seen[a] {
				t.Errorf("%s is there twice", a)
			}
			seen[a] = true
		}
	}
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{*got[0].InstanceId, *got[1].InstanceId}}))(t)
	w.await(t, "terminated", *got[0].InstanceId, *got[1].InstanceId)
	if free := *must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{SubnetIds: []string{*sn}}))(t).Subnets[0].AvailableIpAddressCount; free != 251 {
		t.Errorf("%d addresses are free", free)
	}
}
