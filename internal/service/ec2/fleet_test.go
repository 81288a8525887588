package ec2_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/fault"
	"github.com/drydock-dev/drydock/internal/testkit"
)

// template creates a launch template as Karpenter does and returns its name.
func (w *world) template(t testing.TB) *string {
	t.Helper()
	name := aws.String("karpenter.k8s.aws/0123456789")
	_, err := w.CreateLaunchTemplate(t.Context(), &awsec2.CreateLaunchTemplateInput{
		LaunchTemplateName: name,
		LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
			ImageId: image(t, "x86_64"), IamInstanceProfile: &ec2types.LaunchTemplateIamInstanceProfileSpecificationRequest{Name: aws.String("node")},
			Monitoring:     &ec2types.LaunchTemplatesMonitoringRequest{Enabled: aws.Bool(false)},
			UserData:       aws.String("aGVsbG8="),
			EnclaveOptions: &ec2types.LaunchTemplateEnclaveOptionsRequest{Enabled: aws.Bool(false)},
			Placement:      &ec2types.LaunchTemplatePlacementRequest{},
			CapacityReservationSpecification: &ec2types.LaunchTemplateCapacityReservationSpecificationRequest{
				CapacityReservationPreference: ec2types.CapacityReservationPreferenceNone,
			},
			MetadataOptions: &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{
				HttpEndpoint: "enabled", HttpProtocolIpv6: "disabled", HttpPutResponseHopLimit: aws.Int32(1), HttpTokens: "required", InstanceMetadataTags: "disabled",
			},
			NetworkInterfaces: []ec2types.LaunchTemplateInstanceNetworkInterfaceSpecificationRequest{{DeviceIndex: aws.Int32(0)}},
			TagSpecifications: []ec2types.LaunchTemplateTagSpecificationRequest{
				{ResourceType: ec2types.ResourceTypeNetworkInterface, Tags: []ec2types.Tag{{Key: aws.String("by"), Value: aws.String("karpenter")}}},
				{ResourceType: ec2types.ResourceTypeSpotInstancesRequest, Tags: []ec2types.Tag{{Key: aws.String("by"), Value: aws.String("karpenter")}}},
			},
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// override parses TYPE@ZONE:PRIORITY*WEIGHT, of which only the type is required. A zone stands for
// its default subnet.
func (w *world) override(t testing.TB, text string) ec2types.FleetLaunchTemplateOverridesRequest {
	t.Helper()
	var o ec2types.FleetLaunchTemplateOverridesRequest
	rest, weight, weighted := strings.Cut(text, "*")
	rest, priority, prioritized := strings.Cut(rest, ":")
	name, zone, zonal := strings.Cut(rest, "@")
	number := func(s string) *float64 {
		var f float64
		if _, err := fmt.Sscan(s, &f); err != nil {
			t.Fatal(err)
		}
		return &f
	}
	o.InstanceType = ec2types.InstanceType(name)
	if zonal {
		out := must(w.DescribeSubnets(t.Context(), &awsec2.DescribeSubnetsInput{Filters: filter("availability-zone", "us-east-1"+zone)}))(t)
		if len(out.Subnets) == 0 { // us-east-1e has no default subnet
			all := must(w.DescribeSubnets(t.Context(), &awsec2.DescribeSubnetsInput{}))(t)
			made := must(w.CreateSubnet(t.Context(), &awsec2.CreateSubnetInput{VpcId: all.Subnets[0].VpcId, CidrBlock: aws.String("172.31.240.0/24"), AvailabilityZone: aws.String("us-east-1" + zone)}))(t)
			out.Subnets = append(out.Subnets, *made.Subnet)
		}
		o.SubnetId = out.Subnets[0].SubnetId
	}
	if weighted {
		o.WeightedCapacity = number(weight)
	}
	if prioritized {
		o.Priority = number(priority)
	}
	return o
}

func (w *world) fleetInput(t testing.TB, kind ec2types.FleetType, capacity string, total int32, overrides ...string) *awsec2.CreateFleetInput {
	t.Helper()
	config := ec2types.FleetLaunchTemplateConfigRequest{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{
		LaunchTemplateName: w.template(t), Version: aws.String("$Latest"),
	}}
	for _, o := range overrides {
		config.Overrides = append(config.Overrides, w.override(t, o))
	}
	return &awsec2.CreateFleetInput{
		Type: kind, LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{config},
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{
			TotalTargetCapacity: aws.Int32(total), DefaultTargetCapacityType: ec2types.DefaultTargetCapacityType(capacity),
		},
	}
}

// launchedBy formats what an instant fleet launched: "2 m5.large@a".
func launchedBy(out *awsec2.CreateFleetOutput) []string {
	got := []string{}
	for _, g := range out.Instances {
		got = append(got, fmt.Sprintf("%d %s@%s", len(g.InstanceIds), g.InstanceType, strings.TrimPrefix(*g.LaunchTemplateAndOverrides.Overrides.AvailabilityZone, "us-east-1")))
	}
	return got
}

// faultsOf formats what an instant fleet could not launch: "Code m5.large@a".
func faultsOf(t testing.TB, out *awsec2.CreateFleetOutput) []string {
	t.Helper()
	got := []string{}
	for _, e := range out.Errors {
		// Karpenter reads these without checking for nil.
		o := e.LaunchTemplateAndOverrides.Overrides
		if aws.ToString(e.ErrorMessage) == "" || e.Lifecycle == "" || aws.ToString(e.LaunchTemplateAndOverrides.LaunchTemplateSpecification.LaunchTemplateId) == "" {
			t.Errorf("an error without its particulars: %+v", e)
		}
		got = append(got, fmt.Sprintf("%s %s@%s", *e.ErrorCode, o.InstanceType, strings.TrimPrefix(*o.AvailabilityZone, "us-east-1")))
	}
	return got
}

// Prices in us-east-1: t3.small < t3.medium < c5.large < m5.large < m5.xlarge.
func TestInstantFleets(t *testing.T) {
	for _, tt := range []struct {
		name      string
		capacity  string
		total     int32
		overrides []string
		faults    []fault.Fault
		denied    []string
		quota     int
		edit      func(*awsec2.CreateFleetInput)
		launched  []string
		refused   []string
	}{
		{
			name: "the cheapest on demand", capacity: "on-demand", total: 2,
			overrides: []string{"m5.large@a", "c5.large@a", "m5.xlarge@a"}, launched: []string{"2 c5.large@a"},
		},
		{
			name: "another pool when one has no capacity", capacity: "on-demand", total: 1,
			overrides: []string{"m5.large@a", "c5.large@a"}, faults: []fault.Fault{{InstanceType: "c5.large", Zone: "us-east-1a", CapacityType: "on-demand"}},
			launched: []string{"1 m5.large@a"}, refused: []string{"InsufficientInstanceCapacity c5.large@a"},
		},
		{
			name: "another zone", capacity: "on-demand", total: 1,
			overrides: []string{"m5.large@a", "m5.large@b"}, faults: []fault.Fault{{InstanceType: "m5.*", Zone: "us-east-1a"}},
			launched: []string{"1 m5.large@b"}, refused: []string{"InsufficientInstanceCapacity m5.large@a"},
		},
		{
			name: "no capacity of Spot is none of on demand", capacity: "on-demand", total: 1,
			overrides: []string{"m5.large@a"}, faults: []fault.Fault{{CapacityType: "spot"}}, launched: []string{"1 m5.large@a"},
		},
		{
			name: "nowhere any capacity", capacity: "spot", total: 1,
			overrides: []string{"m5.large@a", "m5.large@b"}, faults: []fault.Fault{{CapacityType: "spot"}}, launched: []string{},
			refused: []string{"InsufficientInstanceCapacity m5.large@a", "InsufficientInstanceCapacity m5.large@b"},
		},
		{
			name: "a denied pool", capacity: "on-demand", total: 1, denied: []string{"c5.large"},
			overrides: []string{"c5.large@a", "m5.large@a"}, launched: []string{"1 m5.large@a"}, refused: []string{"UnauthorizedOperation c5.large@a"},
		},
		{
			name: "prioritized", capacity: "on-demand", total: 1, overrides: []string{"c5.large@a:2", "m5.xlarge@a:1"},
			edit: func(in *awsec2.CreateFleetInput) {
				in.OnDemandOptions = &ec2types.OnDemandOptionsRequest{AllocationStrategy: "prioritized"}
			},
			launched: []string{"1 m5.xlarge@a"},
		},
		{
			name: "Spot by priority", capacity: "spot", total: 1, overrides: []string{"c5.large@a:2", "m5.xlarge@a:1"},
			edit: func(in *awsec2.CreateFleetInput) {
				in.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: "capacity-optimized-prioritized"}
			},
			launched: []string{"1 m5.xlarge@a"},
		},
		{
			name: "Spot by price and capacity", capacity: "spot", total: 3, overrides: []string{"m5.4xlarge@a", "t3.small@a"},
			edit: func(in *awsec2.CreateFleetInput) {
				in.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: "price-capacity-optimized"}
			},
			launched: []string{"3 t3.small@a"},
		},
		{
			name: "Spot diversified", capacity: "spot", total: 4, overrides: []string{"t3.small@a", "m5.large@a"},
			edit: func(in *awsec2.CreateFleetInput) {
				in.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: "diversified"}
			},
			launched: []string{"2 t3.small@a", "2 m5.large@a"},
		},
		{
			name: "Spot from the two cheapest", capacity: "spot", total: 4, overrides: []string{"m5.4xlarge@a", "t3.small@a", "m5.large@a"},
			edit: func(in *awsec2.CreateFleetInput) {
				in.SpotOptions = &ec2types.SpotOptionsRequest{AllocationStrategy: "lowest-price", InstancePoolsToUseCount: aws.Int32(2)}
			},
			launched: []string{"2 t3.small@a", "2 m5.large@a"},
		},
		{
			name: "weights", capacity: "on-demand", total: 8, overrides: []string{"m5.2xlarge@a*4", "m5.large@a*0.9"}, launched: []string{"2 m5.2xlarge@a"},
		},
		{
			name: "a type the zone does not have", capacity: "on-demand", total: 1, overrides: []string{"m5.large@e", "m5.xlarge@a"},
			launched: []string{"1 m5.xlarge@a"}, refused: []string{"Unsupported m5.large@e"},
		},
		{
			name: "a type of another architecture", capacity: "on-demand", total: 1, overrides: []string{"m6g.large@a", "m5.large@a"},
			launched: []string{"1 m5.large@a"}, refused: []string{"InvalidParameterValue m6g.large@a"},
		},
		{
			name: "beyond the quota", capacity: "on-demand", total: 5, quota: 4, overrides: []string{"m5.large@a"},
			launched: []string{"2 m5.large@a"}, refused: []string{"VcpuLimitExceeded m5.large@a"},
		},
		{
			name: "beyond Spot's quota", capacity: "spot", total: 1, quota: 1, overrides: []string{"m5.large@a"},
			launched: []string{}, refused: []string{"MaxSpotInstanceCountExceeded m5.large@a"},
		},
		{
			name: "both capacity types", capacity: "spot", total: 3, overrides: []string{"m5.large@a"},
			edit: func(in *awsec2.CreateFleetInput) {
				in.TargetCapacitySpecification.OnDemandTargetCapacity = aws.Int32(1)
			},
			launched: []string{"1 m5.large@a", "2 m5.large@a"},
		},
		{
			name: "by attributes", capacity: "on-demand", total: 1,
			edit: func(in *awsec2.CreateFleetInput) {
				in.LaunchTemplateConfigs[0].Overrides = []ec2types.FleetLaunchTemplateOverridesRequest{{
					SubnetId: in.LaunchTemplateConfigs[0].Overrides[0].SubnetId,
					InstanceRequirements: &ec2types.InstanceRequirementsRequest{
						VCpuCount: &ec2types.VCpuCountRangeRequest{Min: aws.Int32(2), Max: aws.Int32(2)}, MemoryMiB: &ec2types.MemoryMiBRequest{Min: aws.Int32(4096)},
						AllowedInstanceTypes: []string{"c5.*", "m5.*"},
					},
				}}
			},
			overrides: []string{"m5.large@a"}, launched: []string{"1 c5.large@a"},
		},
	} {
		t.Run(tt.name, func(t *testing.T) {
			w := newWorld(t)
			w.denied = tt.denied
			if tt.quota != 0 {
				w.setVCPUs(t, tt.quota)
			}
			in := w.fleetInput(t, ec2types.FleetTypeInstant, tt.capacity, tt.total, tt.overrides...)
			in.TagSpecifications = []ec2types.TagSpecification{
				{ResourceType: "instance", Tags: []ec2types.Tag{{Key: aws.String("karpenter.sh/nodepool"), Value: aws.String("default")}}},
				{ResourceType: "volume", Tags: []ec2types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}},
				{ResourceType: "fleet", Tags: []ec2types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}},
			}
			if tt.edit != nil {
				tt.edit(in)
			}
			w.short(tt.faults...)
			out := must(w.CreateFleet(t.Context(), in))(t)
			if diff := cmp.Diff(tt.launched, launchedBy(out)); diff != "" {
				t.Errorf("launched (-want +got):\n%s", diff)
			}
			want := tt.refused
			if want == nil {
				want = []string{}
			}
			got := faultsOf(t, out)
			slices.Sort(got)
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("refused (-want +got):\n%s", diff)
			}
			all := must(w.DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{Filters: filter("tag:aws:ec2:fleet-id", *out.FleetId)}))(t)
			n := 0
			for _, r := range all.Reservations {
				for _, i := range r.Instances {
					n++
					if (i.InstanceLifecycle == "spot") != (i.SpotInstanceRequestId != nil) {
						t.Errorf("%s is %q with request %v", *i.InstanceId, i.InstanceLifecycle, i.SpotInstanceRequestId)
					}
				}
			}
			wantN := 0
			for _, g := range out.Instances {
				wantN += len(g.InstanceIds)
			}
			if n != wantN {
				t.Errorf("%d instances have the fleet's tag, want %d", n, wantN)
			}
			described := must(w.DescribeFleets(t.Context(), &awsec2.DescribeFleetsInput{FleetIds: []string{*out.FleetId}}))(t).Fleets[0]
			if len(described.Errors) != len(out.Errors) || len(described.Instances) != len(out.Instances) || described.FleetState != "active" {
				t.Errorf("described as %+v", described)
			}
		})
	}
}

func TestFleetRefusals(t *testing.T) {
	w := newWorld(t)
	valid := w.fleetInput(t, ec2types.FleetTypeInstant, "on-demand", 1, "m5.large@a")
	for _, tt := range []struct {
		name string
		edit func(*awsec2.CreateFleetInput)
		code string
	}{
		{"no template of the name", func(in *awsec2.CreateFleetInput) {
			in.LaunchTemplateConfigs = []ec2types.FleetLaunchTemplateConfigRequest{{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: aws.String("karpenter.k8s.aws/0"), Version: aws.String("$Latest")}}}
		}, "InvalidLaunchTemplateName.NotFoundException"},
		{"an instant fleet of nothing", func(in *awsec2.CreateFleetInput) {
			in.TargetCapacitySpecification = &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(0)}
		}, "InvalidParameterValue"},
		{"parts above the whole", func(in *awsec2.CreateFleetInput) {
			in.TargetCapacitySpecification = &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), OnDemandTargetCapacity: aws.Int32(1), SpotTargetCapacity: aws.Int32(1)}
		}, "InvalidTargetCapacitySpecification"},
		{"a strategy there is not", func(in *awsec2.CreateFleetInput) {
			in.OnDemandOptions = &ec2types.OnDemandOptionsRequest{AllocationStrategy: "random"}
		}, "InvalidParameterValue"},
		{"instance tags of a maintain fleet", func(in *awsec2.CreateFleetInput) {
			in.Type = "maintain"
			in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: "instance", Tags: []ec2types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}}
		}, "InvalidParameterValue"},
		{"a minimum", func(in *awsec2.CreateFleetInput) {
			in.OnDemandOptions = &ec2types.OnDemandOptionsRequest{MinTargetCapacity: aws.Int32(1)}
		}, "NotImplemented"},
		{"a dry run", func(in *awsec2.CreateFleetInput) { in.DryRun = aws.Bool(true) }, "DryRunOperation"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := *valid
			tt.edit(&in)
			_, err := w.CreateFleet(t.Context(), &in)
			wantError(t, err, tt.code, "")
		})
	}
	w.noRoles = true
	maintained := *valid
	maintained.Type = ec2types.FleetTypeMaintain
	_, err := w.CreateFleet(t.Context(), &maintained)
	wantError(t, err, "AuthFailure.ServiceLinkedRoleCreationNotPermitted", "The provided credentials do not have permission to create the service-linked role for EC2 Fleet.")
	in := *valid
	in.ClientToken = aws.String("once")
	a, b := must(w.CreateFleet(t.Context(), &in))(t), must(w.CreateFleet(t.Context(), &in))(t)
	if *a.FleetId != *b.FleetId || len(b.Instances) != 1 {
		t.Error("a repeated request made another fleet")
	}
}

func (w *world) fleetInstances(t testing.TB, id *string, want int) []string {
	t.Helper()
	var got []string
	testkit.Eventually(t, 20*time.Second, func() error {
		out, err := w.DescribeFleetInstances(t.Context(), &awsec2.DescribeFleetInstancesInput{FleetId: id})
		if err != nil {
			return err
		}
		got = nil
		for _, i := range out.ActiveInstances {
			got = append(got, *i.InstanceId)
		}
		if len(got) != want {
			return fmt.Errorf("%d instances, want %d", len(got), want)
		}
		return nil
	})
	return got
}

func TestMaintainFleetReplacesWhatEnds(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	id := must(w.CreateFleet(ctx, w.fleetInput(t, ec2types.FleetTypeMaintain, "on-demand", 3, "m5.large@a", "m5.large@b")))(t).FleetId
	had := w.fleetInstances(t, id, 3)
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: had[:1]}))(t)
	w.await(t, "terminated", had[0])
	if again := w.fleetInstances(t, id, 3); slices.Contains(again, had[0]) {
		t.Error("the terminated instance counts")
	}
	must(w.ModifyFleet(ctx, &awsec2.ModifyFleetInput{FleetId: id, TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(5), DefaultTargetCapacityType: "on-demand"}}))(t)
	w.fleetInstances(t, id, 5)
	must(w.ModifyFleet(ctx, &awsec2.ModifyFleetInput{FleetId: id, TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(2), DefaultTargetCapacityType: "on-demand"}}))(t)
	left := w.fleetInstances(t, id, 2)
	w.quiet(t)
	got := must(w.DescribeFleets(ctx, &awsec2.DescribeFleetsInput{Filters: filter("type", "maintain")}))(t).Fleets
	if len(got) != 1 || got[0].ActivityStatus != "fulfilled" || *got[0].FulfilledCapacity != 2 {
		t.Errorf("%+v", got)
	}
	deleted := must(w.DeleteFleets(ctx, &awsec2.DeleteFleetsInput{FleetIds: []string{*id, "fleet-00000000-0000-0000-0000-000000000000"}, TerminateInstances: aws.Bool(true)}))(t)
	if len(deleted.SuccessfulFleetDeletions) != 1 || deleted.SuccessfulFleetDeletions[0].CurrentFleetState != "deleted_terminating" ||
		len(deleted.UnsuccessfulFleetDeletions) != 1 || deleted.UnsuccessfulFleetDeletions[0].Error.Code != "fleetIdDoesNotExist" {
		t.Errorf("%+v", deleted)
	}
	w.await(t, "terminated", left...)
	testkit.Eventually(t, 10*time.Second, func() error {
		f := must(w.DescribeFleets(ctx, &awsec2.DescribeFleetsInput{FleetIds: []string{*id}}))(t).Fleets[0]
		if f.FleetState != "deleted" {
			return fmt.Errorf("the fleet is %s", f.FleetState)
		}
		return nil
	})
}

func TestRequestFleetWaitsForCapacityAndReplacesNothing(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	w.short(fault.Fault{InstanceType: "m5.large"})
	id := must(w.CreateFleet(ctx, w.fleetInput(t, ec2types.FleetTypeRequest, "spot", 2, "m5.large@a")))(t).FleetId
	_, err := w.ModifyFleet(ctx, &awsec2.ModifyFleetInput{FleetId: id, TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(3)}})
	wantError(t, err, "FleetNotInModifiableState", "Fleet Request: "+*id+" is not a modifiable fleet request type.")
	testkit.Eventually(t, 10*time.Second, func() error {
		f := must(w.DescribeFleets(ctx, &awsec2.DescribeFleetsInput{FleetIds: []string{*id}}))(t).Fleets[0]
		if f.ActivityStatus != "error" {
			return fmt.Errorf("the activity is %s", f.ActivityStatus)
		}
		return nil
	})
	w.short()
	had := w.fleetInstances(t, id, 2)
	must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: had[:1]}))(t)
	w.await(t, "terminated", had[0])
	w.quiet(t)
	w.fleetInstances(t, id, 1)
}

// Changes that others make to an instant fleet during its launch are kept.
func TestInstantFleetChangedDuringItsLaunch(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	in := w.fleetInput(t, "instant", "on-demand", 1, "m5.large@a")
	in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: ec2types.ResourceTypeFleet, Tags: []ec2types.Tag{{Key: aws.String("Name"), Value: aws.String("f")}}}}
	w.launching = func() {
		w.launching = nil
		id := must(w.DescribeTags(ctx, &awsec2.DescribeTagsInput{Filters: filter("resource-type", "fleet")}))(t).Tags[0].ResourceId
		must(w.CreateTags(ctx, &awsec2.CreateTagsInput{Resources: []string{*id}, Tags: []ec2types.Tag{{Key: aws.String("late"), Value: aws.String("yes")}}}))(t)
		must(w.DeleteFleets(ctx, &awsec2.DeleteFleetsInput{FleetIds: []string{*id}, TerminateInstances: aws.Bool(true)}))(t)
	}
	out := must(w.CreateFleet(ctx, in))(t)
	got := must(w.DescribeFleets(ctx, &awsec2.DescribeFleetsInput{FleetIds: []string{*out.FleetId}}))(t).Fleets[0]
	if got.FleetState == "active" || len(got.Tags) != 2 {
		t.Errorf("the fleet is %s and has the tags %v", got.FleetState, got.Tags)
	}
	w.await(t, "terminated", out.Instances[0].InstanceIds...)
}

// TestFleetDefaults checks that Terraform's default values are accepted and that strategies are
// returned in EC2's spelling.
func TestFleetDefaults(t *testing.T) {
	w := newWorld(t)
	made := must(w.CreateFleet(t.Context(), &awsec2.CreateFleetInput{
		LaunchTemplateConfigs: []ec2types.FleetLaunchTemplateConfigRequest{{
			LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateName: w.template(t), Version: aws.String("$Latest")},
			Overrides:                   []ec2types.FleetLaunchTemplateOverridesRequest{w.override(t, "m5.large@a")},
		}},
		TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(0), DefaultTargetCapacityType: "spot"},
		OnDemandOptions: &ec2types.OnDemandOptionsRequest{
			AllocationStrategy: "lowestPrice", MinTargetCapacity: aws.Int32(0), SingleInstanceType: aws.Bool(false), SingleAvailabilityZone: aws.Bool(false), MaxTotalPrice: aws.String(""),
		},
		SpotOptions: &ec2types.SpotOptionsRequest{
			AllocationStrategy: "lowestPrice", InstancePoolsToUseCount: aws.Int32(1), MinTargetCapacity: aws.Int32(0), SingleInstanceType: aws.Bool(false), SingleAvailabilityZone: aws.Bool(false),
		},
	}))(t)
	f := must(w.DescribeFleets(t.Context(), &awsec2.DescribeFleetsInput{FleetIds: []string{*made.FleetId}}))(t).Fleets[0]
	if f.OnDemandOptions.AllocationStrategy != "lowestPrice" || f.SpotOptions.AllocationStrategy != "lowestPrice" || *f.SpotOptions.InstancePoolsToUseCount != 1 {
		t.Errorf("strategies %+v, %+v", f.OnDemandOptions, f.SpotOptions)
	}
}
