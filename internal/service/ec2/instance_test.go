package ec2_test

import (
	"context"
	"encoding/base64"
	"fmt"
	"math"
	"net/netip"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
	"github.com/google/go-cmp/cmp"

	"github.com/drydock-dev/drydock/internal/catalog/images"
	"github.com/drydock-dev/drydock/internal/machine"
	"github.com/drydock-dev/drydock/internal/service/ec2"
	"github.com/drydock-dev/drydock/internal/testkit"
)

func TestInstanceLifecycle(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	script := "#!/bin/sh\necho hello\n"
	got := w.launch(t, 1, func(in *awsec2.RunInstancesInput) {
		in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: aws.String("node")}
		in.UserData = aws.String(base64.StdEncoding.EncodeToString([]byte(script)))
		in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: "instance", Tags: []ec2types.Tag{{Key: aws.String("Name"), Value: aws.String("one")}}}}
	})[0]
	id := *got.InstanceId
	if want := "ip-" + strings.ReplaceAll(*got.PrivateIpAddress, ".", "-") + ".ec2.internal"; *got.PrivateDnsName != want {
		t.Errorf("private name %s, want %s", *got.PrivateDnsName, want)
	}
	if !regexp.MustCompile(`^ec2-54-\d+-\d+-\d+\.compute-1\.amazonaws\.com$`).MatchString(*got.PublicDnsName) {
		t.Errorf("public name %q", *got.PublicDnsName)
	}
	if len(got.SecurityGroups) != 1 || *got.SecurityGroups[0].GroupName != "default" || *got.Placement.AvailabilityZone != "us-east-1a" {
		t.Errorf("groups %v, placement %+v", got.SecurityGroups, got.Placement)
	}
	m, ok := w.machines.get(id)
	if !ok {
		t.Fatal("nothing was started")
	}
	type facts struct {
		Type, Kubelet, DNS, IP, Role, UserData, ZoneID string
		ENIs                                           int
	}
	want := facts{"m5.large", "1.36.1", *got.PrivateDnsName, *got.PrivateIpAddress, "arn:aws:iam::" + w.account + ":role/node", script, "use1-az1", 3}
	have := facts{m.Type.Name, m.Image.KubeletVersion, m.PrivateDNSName, m.PrivateIP.String(), m.RoleARN, string(m.UserData), m.ZoneID, m.Type.ENIs}
	if diff := cmp.Diff(want, have); diff != "" {
		t.Error(diff)
	}

	must(w.StopInstances(ctx, &awsec2.StopInstancesInput{InstanceIds: []string{id}}))(t)
	stopped := w.await(t, "stopped", id)[0]
	if stopped.PublicIpAddress != nil || *stopped.PrivateIpAddress != *got.PrivateIpAddress || *stopped.StateReason.Code != "Client.UserInitiatedShutdown" {
		t.Errorf("stopped: %+v", stopped)
	}
	if _, ok := w.machines.get(id); ok {
		t.Error("a stopped instance's machine runs")
	}
	must(w.StartInstances(ctx, &awsec2.StartInstancesInput{InstanceIds: []string{id}}))(t)
	if again := w.await(t, "running", id)[0]; again.PublicIpAddress == nil {
		t.Error("no public address after a start")
	}
	must(w.RebootInstances(ctx, &awsec2.RebootInstancesInput{InstanceIds: []string{id}}))(t)
	testkit.Eventually(t, 5*time.Second, func() error {
		if m, _ := w.machines.get(id); !strings.HasSuffix(m.BootID, "/1") {
			return fmt.Errorf("boot %s", m.BootID)
		}
		return nil
	})
	change := must(w.TerminateInstances(ctx, &awsec2.TerminateInstancesInput{InstanceIds: []string{id}}))(t).TerminatingInstances[0]
	if change.PreviousState.Name != "running" || change.CurrentState.Name != "shutting-down" {
		t.Errorf("change: %+v", change)
	}
	gone := w.await(t, "terminated", id)[0]
	if gone.PrivateIpAddress != nil || gone.VpcId != nil || len(gone.NetworkInterfaces) != 0 || !strings.HasPrefix(*gone.StateTransitionReason, "User initiated (") {
		t.Errorf("terminated: %+v", gone)
	}
	if nics := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{}))(t).NetworkInterfaces; len(nics) != 0 {
		t.Errorf("%d interfaces are left", len(nics))
	}
	for _, s := range must(w.DescribeSubnets(ctx, &awsec2.DescribeSubnetsInput{}))(t).Subnets {
		if *s.AvailableIpAddressCount != 4091 {
			t.Errorf("%s has %d free addresses", *s.SubnetId, *s.AvailableIpAddressCount)
		}
	}
	_, err := w.StartInstances(ctx, &awsec2.StartInstancesInput{InstanceIds: []string{id}})
	wantError(t, err, "IncorrectInstanceState", "The instance '"+id+"' is not in a state from which it can be started.")
}

func TestRunInstancesRefuses(t *testing.T) {
	w := newWorld(t)
	vpc := w.vpc(t, "10.0.0.0/16")
	small := w.subnet(t, vpc, "10.0.0.0/28")
	arm, x86 := image(t, "arm64"), image(t, "x86_64")
	for _, tt := range []struct {
		name          string
		edit          func(*awsec2.RunInstancesInput)
		code, message string
	}{
		{"an unknown image", func(in *awsec2.RunInstancesInput) { in.ImageId = aws.String("ami-0123456789abcdef0") },
			"InvalidAMIID.NotFound", "The image id '[ami-0123456789abcdef0]' does not exist"},
		{"a malformed image", func(in *awsec2.RunInstancesInput) { in.ImageId = aws.String("image") },
			"InvalidAMIID.Malformed", `Invalid id: "image" (expecting "ami-...")`},
		{"an unknown type", func(in *awsec2.RunInstancesInput) { in.InstanceType = "m5.gigantic" },
			"InvalidParameterValue", "Invalid value 'm5.gigantic' for InstanceType."},
		{"another architecture", func(in *awsec2.RunInstancesInput) { in.ImageId = arm }, "InvalidParameterValue", ""},
		{"an unknown profile", func(in *awsec2.RunInstancesInput) {
			in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: aws.String("nobody")}
		}, "InvalidParameterValue", "Value (nobody) for parameter iamInstanceProfile.name is invalid. Invalid IAM Instance Profile name"},
		{"a profile without a role", func(in *awsec2.RunInstancesInput) {
			in.IamInstanceProfile = &ec2types.IamInstanceProfileSpecification{Name: aws.String("empty")}
		}, "InvalidParameterValue", `IAM Instance Profile "empty" has no associated IAM Roles`},
		{"too much user data", func(in *awsec2.RunInstancesInput) {
			in.UserData = aws.String(base64.StdEncoding.EncodeToString(make([]byte, 16385)))
		}, "InvalidParameterValue", "User data is limited to 16384 bytes"},
		{"user data that is not base64", func(in *awsec2.RunInstancesInput) { in.UserData = aws.String("#!/bin/sh") },
			"InvalidUserData.Malformed", "Invalid BASE64 encoding of user data."},
		{"an unknown key", func(in *awsec2.RunInstancesInput) { in.KeyName = aws.String("nokey") },
			"InvalidKeyPair.NotFound", "The key pair 'nokey' does not exist"},
		{"an unknown subnet", func(in *awsec2.RunInstancesInput) { in.SubnetId = aws.String("subnet-0123456789abcdef0") },
			"InvalidSubnetID.NotFound", "The subnet ID 'subnet-0123456789abcdef0' does not exist"},
		{"a full subnet", func(in *awsec2.RunInstancesInput) {
			in.SubnetId, in.MinCount, in.MaxCount = &small, aws.Int32(12), aws.Int32(12)
		},
			"InsufficientFreeAddressesInSubnet", ""},
		{"no instances", func(in *awsec2.RunInstancesInput) { in.MinCount = aws.Int32(0) }, "InvalidParameterValue", ""},
		{"a zone without the type", func(in *awsec2.RunInstancesInput) {
			in.SubnetId = must(w.CreateSubnet(t.Context(), &awsec2.CreateSubnetInput{VpcId: &vpc, CidrBlock: aws.String("10.0.9.0/24"), AvailabilityZoneId: aws.String("use1-az3")}))(t).Subnet.SubnetId
		}, "Unsupported", "Your requested instance type (m5.large) is not supported in your requested Availability Zone (us-east-1e). Please retry your request by not specifying an Availability Zone or choosing us-east-1a, us-east-1b, us-east-1c, us-east-1d, us-east-1f."},
		{"less than no addresses", func(in *awsec2.RunInstancesInput) {
			in.NetworkInterfaces = []ec2types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), SecondaryPrivateIpAddressCount: aws.Int32(-1)}}
		}, "InvalidParameterValue", "Value (-1) for parameter secondaryPrivateIpAddressCount is invalid. Expecting a value between 0 and 63."},
		{"too many addresses", func(in *awsec2.RunInstancesInput) {
			in.NetworkInterfaces = []ec2types.InstanceNetworkInterfaceSpecification{{DeviceIndex: aws.Int32(0), SecondaryPrivateIpAddressCount: aws.Int32(math.MaxInt32)}}
		}, "InvalidParameterValue", ""},
		{"a hibernating Spot Instance", func(in *awsec2.RunInstancesInput) {
			in.InstanceMarketOptions = spot(&ec2types.SpotMarketOptions{SpotInstanceType: "persistent", InstanceInterruptionBehavior: "hibernate"})
		}, "NotImplemented", ""},
		{"a one-time Spot Instance that stops", func(in *awsec2.RunInstancesInput) {
			in.InstanceMarketOptions = spot(&ec2types.SpotMarketOptions{InstanceInterruptionBehavior: "stop"})
		}, "InvalidParameterCombination", "The request with type 'one-time' is not supported when instanceInterruptionBehavior is set to 'stop'."},
		{"a persistent Spot Instance that ends", func(in *awsec2.RunInstancesInput) {
			in.InstanceMarketOptions = spot(&ec2types.SpotMarketOptions{SpotInstanceType: "persistent"})
		}, "InvalidParameterCombination", "The terminate InstanceInterruptionBehavior is not supported when requestType is set to persistent."},
		{"a Spot price that nobody sells at", func(in *awsec2.RunInstancesInput) {
			in.InstanceMarketOptions = spot(&ec2types.SpotMarketOptions{MaxPrice: aws.String("0.0001")})
		}, "SpotMaxPriceTooLow", ""},
		{"tags of a Spot request that there is not", func(in *awsec2.RunInstancesInput) {
			in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: "spot-instances-request", Tags: []ec2types.Tag{{Key: aws.String("k"), Value: aws.String("v")}}}}
		}, "InvalidParameterCombination", "You cannot specify tags for Spot instances requests if there are no Spot instances requests being created by the request."},
		{"hibernation", func(in *awsec2.RunInstancesInput) {
			in.HibernationOptions = &ec2types.HibernationOptionsRequest{Configured: aws.Bool(true)}
		}, "NotImplemented", ""},
		{"an enclave", func(in *awsec2.RunInstancesInput) {
			in.EnclaveOptions = &ec2types.EnclaveOptionsRequest{Enabled: aws.Bool(true)}
		}, "NotImplemented", ""},
		{"a reservation only", func(in *awsec2.RunInstancesInput) {
			in.CapacityReservationSpecification = &ec2types.CapacityReservationSpecification{CapacityReservationPreference: "capacity-reservations-only"}
		}, "ReservationCapacityExceeded", ""},
		{"a placement group that does not exist", func(in *awsec2.RunInstancesInput) {
			in.Placement = &ec2types.Placement{GroupName: aws.String("g")}
		}, "InvalidPlacementGroup.Unknown", ""},
		{"a dedicated host", func(in *awsec2.RunInstancesInput) {
			in.Placement = &ec2types.Placement{Tenancy: "host"}
		}, "NotImplemented", ""},
		{"cores the type cannot have", func(in *awsec2.RunInstancesInput) {
			in.CpuOptions = &ec2types.CpuOptionsRequest{CoreCount: aws.Int32(7), ThreadsPerCore: aws.Int32(2)}
		}, "InvalidParameterValue", ""},
		{"unlimited credits of a type without", func(in *awsec2.RunInstancesInput) {
			in.CreditSpecification = &ec2types.CreditSpecificationRequest{CpuCredits: aws.String("unlimited")}
		}, "InstanceCreditSpecification.NotSupported", "The m5.large instance type does not support T2 Unlimited."},
		{"cores without threads", func(in *awsec2.RunInstancesInput) {
			in.CpuOptions = &ec2types.CpuOptionsRequest{CoreCount: aws.Int32(1)}
		},
			"MissingParameter", "When specifying CpuOptions you must specify both CoreCount and ThreadsPerCore."},
		{"a volume of another snapshot", volume(ec2types.EbsBlockDevice{SnapshotId: aws.String("snap-0123456789abcdef0")}), "InvalidSnapshot.NotFound", "The snapshot 'snap-0123456789abcdef0' does not exist."},
		{"a device twice", func(in *awsec2.RunInstancesInput) {
			d := ec2types.BlockDeviceMapping{DeviceName: aws.String("/dev/sdb"), Ebs: &ec2types.EbsBlockDevice{VolumeSize: aws.Int32(1)}}
			in.BlockDeviceMappings = []ec2types.BlockDeviceMapping{d, d}
		}, "InvalidBlockDeviceMapping", ""},
		{"too few IOPS", volume(ec2types.EbsBlockDevice{VolumeSize: aws.Int32(100), VolumeType: "gp3", Iops: aws.Int32(100)}),
			"InvalidParameterValue", "Volume iops of 100 is too low; minimum is 3000."},
		{"too many IOPS for the size", volume(ec2types.EbsBlockDevice{VolumeSize: aws.Int32(20), VolumeType: "gp3", Iops: aws.Int32(15000)}),
			"InvalidParameterValue", "Iops to volume size ratio of 750.000000 is too high; maximum is 500"},
		{"too much throughput for the IOPS", volume(ec2types.EbsBlockDevice{VolumeSize: aws.Int32(100), VolumeType: "gp3", Iops: aws.Int32(3000), Throughput: aws.Int32(1000)}),
			"InvalidParameterValue", "Throughput (MiBps) to iops ratio of 0.333333 is too high; maximum is 0.250000 MiBps per iops"},
		{"a small cold disk", volume(ec2types.EbsBlockDevice{VolumeSize: aws.Int32(100), VolumeType: "sc1"}),
			"InvalidParameterValue", "The volume size is invalid for sc1 volumes: 100 GiB. sc1 volumes must be at least 125 GiB in size. Please specify a volume size above the minimum limit."},
		{"an instance store volume", func(in *awsec2.RunInstancesInput) {
			in.BlockDeviceMappings = []ec2types.BlockDeviceMapping{{DeviceName: aws.String("/dev/sdb"), VirtualName: aws.String("ephemeral0")}}
		}, "NotImplemented", ""},
		{"a volume option", volume(ec2types.EbsBlockDevice{VolumeSize: aws.Int32(8), OutpostArn: aws.String("arn:aws:outposts:us-east-1:1:outpost/op-1")}), "NotImplemented", ""},
		{"io2 without IOPS", volume(ec2types.EbsBlockDevice{VolumeSize: aws.Int32(8), VolumeType: "io2"}),
			"InvalidParameterCombination", "The parameter iops must be specified for io2 volumes."},
		{"IOPS of gp2", volume(ec2types.EbsBlockDevice{VolumeSize: aws.Int32(8), VolumeType: "gp2", Iops: aws.Int32(4000)}),
			"InvalidParameterCombination", "The parameter iops is not supported for gp2 volumes."},
		{"throughput of io1", volume(ec2types.EbsBlockDevice{VolumeSize: aws.Int32(8), VolumeType: "io1", Iops: aws.Int32(400), Throughput: aws.Int32(200)}),
			"InvalidParameterCombination", "throughput can only be specified for volumeType gp3."},
		{"a dry run", func(in *awsec2.RunInstancesInput) { in.DryRun = aws.Bool(true) }, "DryRunOperation", ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			in := &awsec2.RunInstancesInput{ImageId: x86, InstanceType: "m5.large", MinCount: aws.Int32(1), MaxCount: aws.Int32(1)}
			tt.edit(in)
			_, err := w.RunInstances(t.Context(), in)
			wantError(t, err, tt.code, tt.message)
		})
	}
	if all := must(w.DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{}))(t); len(all.Reservations) != 0 {
		t.Error("a refused launch left instances")
	}
}

func spot(options *ec2types.SpotMarketOptions) *ec2types.InstanceMarketOptionsRequest {
	return &ec2types.InstanceMarketOptionsRequest{MarketType: "spot", SpotOptions: options}
}

// volume adds a volume to a launch.
func volume(ebs ec2types.EbsBlockDevice) func(*awsec2.RunInstancesInput) {
	return func(in *awsec2.RunInstancesInput) {
		in.BlockDeviceMappings = []ec2types.BlockDeviceMapping{{DeviceName: aws.String("/dev/sdb"), Ebs: &ebs}}
	}
}

func TestSpotInstancesAndProvisionedVolumes(t *testing.T) {
	w := newWorld(t)
	got := w.launch(t, 1, func(in *awsec2.RunInstancesInput) {
		in.InstanceMarketOptions = spot(&ec2types.SpotMarketOptions{SpotInstanceType: "one-time", MaxPrice: aws.String("0.1")})
		volume(ec2types.EbsBlockDevice{VolumeSize: aws.Int32(8), VolumeType: "io2", Iops: aws.Int32(4000)})(in)
	})[0]
	if got.InstanceLifecycle != "spot" {
		t.Errorf("the lifecycle is %q", got.InstanceLifecycle)
	}
	all := must(w.DescribeVolumes(t.Context(), &awsec2.DescribeVolumesInput{Filters: filter("volume-type", "io2")}))(t)
	if len(all.Volumes) != 1 || *all.Volumes[0].Iops != 4000 {
		t.Errorf("%+v", all.Volumes)
	}
}

func TestLaunchesAsManyAsFit(t *testing.T) {
	w := newWorld(t)
	sn := w.subnet(t, w.vpc(t, "10.0.0.0/16"), "10.0.0.0/28")
	out := must(w.RunInstances(t.Context(), &awsec2.RunInstancesInput{
		ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(2), MaxCount: aws.Int32(50), SubnetId: &sn,
	}))(t)
	seen := map[string]bool{}
	for _, i := range out.Instances {
		ip := netip.MustParseAddr(*i.PrivateIpAddress)
		if seen[ip.String()] || !netip.MustParsePrefix("10.0.0.0/28").Contains(ip) || ip.As4()[3] < 4 || ip.As4()[3] == 15 {
			t.Errorf("address %s", ip)
		}
		seen[ip.String()] = true
	}
	if len(seen) != 11 {
		t.Errorf("%d instances, want 16 addresses - 5 reserved", len(seen))
	}
}

func TestClientTokens(t *testing.T) {
	w := newWorld(t)
	in := &awsec2.RunInstancesInput{
		ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(100), MaxCount: aws.Int32(100), ClientToken: aws.String("once"),
	}
	a := must(w.RunInstances(t.Context(), in))(t)
	b := must(w.RunInstances(t.Context(), in))(t)
	if len(a.Instances) != 100 || *a.ReservationId != *b.ReservationId || *a.Instances[99].InstanceId != *b.Instances[99].InstanceId {
		t.Error("a repeated request launched again")
	}
	in.MaxCount = aws.Int32(101)
	_, err := w.RunInstances(t.Context(), in)
	wantError(t, err, "IdempotentParameterMismatch", "Arguments on this idempotent request are inconsistent with arguments used in previous request(s).")
}

// TestMachinesStartAfterTheirLaunch: a launch that takes several transactions may be taken back until the last one.
func TestMachinesStartAfterTheirLaunch(t *testing.T) {
	w := newWorld(t)
	const n = 200
	var known []int
	var first sync.Once
	w.machines.starting = func() {
		first.Do(func() {
			out, err := w.DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{})
			if err != nil {
				t.Error(err)
				return
			}
			for _, r := range out.Reservations {
				known = append(known, len(r.Instances))
			}
		})
	}
	must(w.RunInstances(t.Context(), &awsec2.RunInstancesInput{ImageId: image(t, "x86_64"), InstanceType: "m5.large", MinCount: aws.Int32(n), MaxCount: aws.Int32(n)}))(t)
	testkit.Eventually(t, 10*time.Second, func() error {
		w.machines.mu.Lock()
		defer w.machines.mu.Unlock()
		if len(w.machines.running) < n {
			return fmt.Errorf("%d machines run", len(w.machines.running))
		}
		return nil
	})
	if !slices.Equal(known, []int{n}) {
		t.Errorf("when the first machine started there were %v instances", known)
	}
}

func TestParallelLaunchesNeverShareAnAddress(t *testing.T) {
	w := newWorld(t)
	sn := w.subnet(t, w.vpc(t, "10.0.0.0/16"), "10.0.0.0/24")
	img := image(t, "x86_64")
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 5 {
				_, err := w.RunInstances(t.Context(), &awsec2.RunInstancesInput{ImageId: img, InstanceType: "m5.large", MinCount: aws.Int32(6), MaxCount: aws.Int32(6), SubnetId: &sn})
				if err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	seen := map[string]bool{}
	n := 0
	for _, r := range must(w.DescribeInstances(t.Context(), &awsec2.DescribeInstancesInput{Filters: filter("subnet-id", sn)}))(t).Reservations {
		for _, i := range r.Instances {
			seen[*i.PrivateIpAddress] = true
			n++
		}
	}
	if n != 240 || len(seen) != n {
		t.Errorf("%d instances with %d addresses, want 240 of both", n, len(seen))
	}
	got := must(w.DescribeSubnets(t.Context(), &awsec2.DescribeSubnetsInput{SubnetIds: []string{sn}}))(t).Subnets[0]
	if *got.AvailableIpAddressCount != 251-240 {
		t.Errorf("%d addresses are free", *got.AvailableIpAddressCount)
	}
	_, err := w.DeleteSubnet(t.Context(), &awsec2.DeleteSubnetInput{SubnetId: &sn})
	wantError(t, err, "DependencyViolation", "The subnet '"+sn+"' has dependencies and cannot be deleted.")
}

func TestLaunchTemplates(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	data := &ec2types.RequestLaunchTemplateData{
		ImageId: image(t, "x86_64"), InstanceType: "m5.large", UserData: aws.String("aGk="),
		MetadataOptions:     &ec2types.LaunchTemplateInstanceMetadataOptionsRequest{HttpTokens: "required", HttpPutResponseHopLimit: aws.Int32(3)},
		BlockDeviceMappings: []ec2types.LaunchTemplateBlockDeviceMappingRequest{{DeviceName: aws.String("/dev/xvda"), Ebs: &ec2types.LaunchTemplateEbsBlockDeviceRequest{VolumeSize: aws.Int32(80), VolumeType: "gp3"}}},
		TagSpecifications:   []ec2types.LaunchTemplateTagSpecificationRequest{{ResourceType: "instance", Tags: []ec2types.Tag{{Key: aws.String("from"), Value: aws.String("template")}}}},
	}
	name := "karpenter.k8s.aws/1234"
	in := &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: data}
	lt := must(w.CreateLaunchTemplate(ctx, in))(t).LaunchTemplate
	_, err := w.CreateLaunchTemplate(ctx, &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: data})
	wantError(t, err, "InvalidLaunchTemplateName.AlreadyExistsException", "Launch template name already in use.")
	_, err = w.DescribeLaunchTemplates(ctx, &awsec2.DescribeLaunchTemplatesInput{LaunchTemplateNames: []string{"nothing"}})
	wantError(t, err, "InvalidLaunchTemplateName.NotFoundException", "At least one of the launch templates specified in the request does not exist.")

	v2 := must(w.CreateLaunchTemplateVersion(ctx, &awsec2.CreateLaunchTemplateVersionInput{
		LaunchTemplateId: lt.LaunchTemplateId, SourceVersion: aws.String("1"), LaunchTemplateData: &ec2types.RequestLaunchTemplateData{InstanceType: "c5.large"},
	}))(t).LaunchTemplateVersion
	if *v2.VersionNumber != 2 || *v2.LaunchTemplateData.ImageId != *data.ImageId || v2.LaunchTemplateData.InstanceType != "c5.large" {
		t.Errorf("version 2: %+v", v2.LaunchTemplateData)
	}
	versions := must(w.DescribeLaunchTemplateVersions(ctx, &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateName: &name}))(t).LaunchTemplateVersions
	if len(versions) != 2 || *versions[0].VersionNumber != 2 || !*versions[1].DefaultVersion {
		t.Errorf("versions: %+v", versions)
	}
	got := w.launch(t, 1, func(in *awsec2.RunInstancesInput) {
		in.ImageId, in.InstanceType = nil, ""
		in.LaunchTemplate = &ec2types.LaunchTemplateSpecification{LaunchTemplateName: &name, Version: aws.String("$Latest")}
		in.TagSpecifications = []ec2types.TagSpecification{{ResourceType: "instance", Tags: []ec2types.Tag{{Key: aws.String("from2"), Value: aws.String("request")}}}}
	})[0]
	tags := map[string]string{}
	for _, tag := range got.Tags {
		tags[*tag.Key] = *tag.Value
	}
	want := map[string]string{"from": "template", "from2": "request", "aws:ec2launchtemplate:id": *lt.LaunchTemplateId, "aws:ec2launchtemplate:version": "2"}
	if diff := cmp.Diff(want, tags); diff != "" {
		t.Error(diff)
	}
	if got.InstanceType != "c5.large" || *got.MetadataOptions.HttpPutResponseHopLimit != 3 {
		t.Errorf("%s %+v", got.InstanceType, got.MetadataOptions)
	}
	vols := must(w.DescribeVolumes(ctx, &awsec2.DescribeVolumesInput{Filters: filter("attachment.instance-id", *got.InstanceId)}))(t).Volumes
	if len(vols) != 1 || *vols[0].Size != 80 {
		t.Errorf("volumes: %+v", vols)
	}

	must(w.ModifyLaunchTemplate(ctx, &awsec2.ModifyLaunchTemplateInput{LaunchTemplateName: &name, DefaultVersion: aws.String("2")}))(t)
	_, err = w.ModifyLaunchTemplate(ctx, &awsec2.ModifyLaunchTemplateInput{LaunchTemplateName: &name, DefaultVersion: aws.String("9")})
	wantError(t, err, "InvalidLaunchTemplateId.VersionNotFound", "")
	must(w.DeleteLaunchTemplate(ctx, &awsec2.DeleteLaunchTemplateInput{LaunchTemplateName: &name}))(t)
	_, err = w.DescribeLaunchTemplateVersions(ctx, &awsec2.DescribeLaunchTemplateVersionsInput{LaunchTemplateId: lt.LaunchTemplateId})
	wantError(t, err, "InvalidLaunchTemplateId.NotFound", "The specified launch template, with template ID "+*lt.LaunchTemplateId+", does not exist.")
}

func TestTemplateMembersThatNothingHonoursRefuseTheLaunch(t *testing.T) {
	w := newWorld(t)
	name := "hibernating"
	must(w.CreateLaunchTemplate(t.Context(), &awsec2.CreateLaunchTemplateInput{LaunchTemplateName: &name, LaunchTemplateData: &ec2types.RequestLaunchTemplateData{
		ImageId: image(t, "x86_64"), InstanceType: "m5.large", HibernationOptions: &ec2types.LaunchTemplateHibernationOptionsRequest{Configured: aws.Bool(true)},
	}}))(t)
	_, err := w.RunInstances(t.Context(), &awsec2.RunInstancesInput{MinCount: aws.Int32(1), MaxCount: aws.Int32(1), LaunchTemplate: &ec2types.LaunchTemplateSpecification{LaunchTemplateName: &name}})
	wantError(t, err, "NotImplemented", "")
}

// After a restart of the daemon every running instance is started again.
func TestRunningInstancesAreStartedAgain(t *testing.T) {
	w := newWorld(t)
	w.launch(t, 3, nil)
	machines := &fakeMachines{running: map[string]machine.Instance{}}
	again := ec2.New(ec2.Config{Store: w.server.Store})
	ctx, stop := context.WithCancel(t.Context())
	done := make(chan error, 1)
	go func() { done <- again.RunOn(ctx, machines) }()
	testkit.Eventually(t, 5*time.Second, func() error {
		if n, _ := machines.count(); n != 3 {
			return fmt.Errorf("%d machines run", n)
		}
		return nil
	})
	stop()
	if err := <-done; err != nil {
		t.Error(err)
	}
}

func TestImagesAndAliases(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	got := must(w.DescribeImages(ctx, &awsec2.DescribeImagesInput{
		Owners: []string{"602401143452"}, Filters: filter("name", "amazon-eks-node-al2023-x86_64-standard-1.36-*"),
	}))(t).Images
	if len(got) != 2 || *got[0].RootDeviceName != "/dev/xvda" {
		t.Errorf("images: %+v", got)
	}
	const foreign = "ami-0aaaaaaaaaaaaaaaa"
	_, err := w.DescribeImages(ctx, &awsec2.DescribeImagesInput{ImageIds: []string{foreign}})
	wantError(t, err, "InvalidAMIID.NotFound", "The image id '[ami-0aaaaaaaaaaaaaaaa]' does not exist")
	if err := w.service.AliasImage(ctx, foreign, "no-such-image"); err == nil {
		t.Error("an alias of nothing was taken")
	}
	if err := w.service.AliasImage(ctx, foreign, "/aws/service/eks/optimized-ami/1.36/amazon-linux-2023/x86_64/standard/recommended/image_id"); err != nil {
		t.Fatal(err)
	}
	inst := w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.ImageId = aws.String(foreign) })[0]
	m, _ := w.machines.get(*inst.InstanceId)
	if *inst.ImageId != foreign || m.Image.KubeletVersion != "1.36.1" {
		t.Errorf("%s with kubelet %s", *inst.ImageId, m.Image.KubeletVersion)
	}
}

func TestInstanceTypes(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	n := 0
	p := awsec2.NewDescribeInstanceTypesPaginator(w, &awsec2.DescribeInstanceTypesInput{MaxResults: aws.Int32(25), Filters: []ec2types.Filter{
		{Name: aws.String("supported-virtualization-type"), Values: []string{"hvm"}},
		{Name: aws.String("processor-info.supported-architecture"), Values: []string{"arm64"}},
	}})
	for p.HasMorePages() {
		n += len(must(p.NextPage(ctx))(t).InstanceTypes)
	}
	if n < 200 {
		t.Errorf("%d types", n)
	}
	_, err := w.DescribeInstanceTypes(ctx, &awsec2.DescribeInstanceTypesInput{InstanceTypes: []ec2types.InstanceType{"x.y"}})
	wantError(t, err, "InvalidInstanceType", "The following supplied instance types do not exist: [x.y]")
	off := must(w.DescribeInstanceTypeOfferings(ctx, &awsec2.DescribeInstanceTypeOfferingsInput{LocationType: "availability-zone", Filters: filter("instance-type", "m5.large")}))(t).InstanceTypeOfferings
	if len(off) != 5 {
		t.Errorf("m5.large is offered in %d zones of us-east-1, want all but us-east-1e", len(off))
	}
	zones := must(w.DescribeAvailabilityZones(ctx, &awsec2.DescribeAvailabilityZonesInput{}))(t).AvailabilityZones
	if len(zones) != 6 || *zones[0].ZoneId != "use1-az1" {
		t.Errorf("zones: %+v", zones)
	}
}

// A machine's disk is as large as the volume on which the operating system keeps its data, whatever
// size the launch chose.
func TestMachinesKnowTheSizeOfTheirDisk(t *testing.T) {
	w := newWorld(t)
	sized := func(device string, size int32) []ec2types.BlockDeviceMapping {
		return []ec2types.BlockDeviceMapping{{DeviceName: aws.String(device), Ebs: &ec2types.EbsBlockDevice{VolumeSize: aws.Int32(size)}}}
	}
	for _, tt := range []struct {
		name   string
		family images.Family
		disks  []ec2types.BlockDeviceMapping
		want   int32
	}{
		{"the image's", images.AL2023, nil, 20},
		{"a larger root volume", images.AL2023, sized("/dev/xvda", 100), 100},
		{"another volume", images.AL2023, sized("/dev/xvdz", 500), 20},
		{"Bottlerocket's root volume holds no data", images.Bottlerocket, sized("/dev/xvda", 100), 20},
		{"Bottlerocket's data volume", images.Bottlerocket, sized("/dev/xvdb", 100), 100},
	} {
		t.Run(tt.name, func(t *testing.T) {
			img, ok := images.EKS(testkit.Region, tt.family, "1.36", "x86_64", "")
			if !ok {
				t.Fatal("no image")
			}
			got := w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.ImageId, in.BlockDeviceMappings = aws.String(img.ID), tt.disks })[0]
			if m, ok := w.machines.get(*got.InstanceId); !ok || m.DiskGiB != tt.want {
				t.Errorf("%d GiB (started: %v), want %d", m.DiskGiB, ok, tt.want)
			}
		})
	}
}

// A running machine is updated with its network interfaces, and its console can be read.
func TestRunningMachinesFollowTheirInterfaces(t *testing.T) {
	w := newWorld(t)
	ctx := t.Context()
	one := w.launch(t, 1, nil)[0]
	id := *one.InstanceId
	w.await(t, "running", id)
	if out := must(w.GetConsoleOutput(ctx, &awsec2.GetConsoleOutputInput{InstanceId: &id}))(t); aws.ToString(out.Output) != base64.StdEncoding.EncodeToString([]byte("booted\n")) {
		t.Errorf("the console is %q", aws.ToString(out.Output))
	}
	has := func(want ...string) {
		t.Helper()
		testkit.Eventually(t, 5*time.Second, func() error {
			m, _ := w.machines.get(id)
			var got []string
			for _, i := range m.Interfaces {
				got = append(got, i.ID)
			}
			if !slices.Equal(got, want) {
				return fmt.Errorf("the machine has %v, want %v", got, want)
			}
			return nil
		})
	}
	first := *one.NetworkInterfaces[0].NetworkInterfaceId
	has(first)
	second := must(w.CreateNetworkInterface(ctx, &awsec2.CreateNetworkInterfaceInput{SubnetId: one.SubnetId}))(t).NetworkInterface.NetworkInterfaceId
	attached := must(w.AttachNetworkInterface(ctx, &awsec2.AttachNetworkInterfaceInput{InstanceId: &id, NetworkInterfaceId: second, DeviceIndex: aws.Int32(1)}))(t)
	has(first, *second)
	must(w.DetachNetworkInterface(ctx, &awsec2.DetachNetworkInterfaceInput{AttachmentId: attached.AttachmentId}))(t)
	has(first)
	// Who waits for the end of the attachment by its ID sees it. The interface itself has none any more.
	ended := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: filter("attachment.attachment-id", *attached.AttachmentId)}))(t).NetworkInterfaces
	if len(ended) != 1 || *ended[0].NetworkInterfaceId != *second || ended[0].Attachment.Status != "detached" || ended[0].Status != "available" {
		t.Errorf("the attachment that ended: %+v", ended)
	}
	if e := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{NetworkInterfaceIds: []string{*second}}))(t).NetworkInterfaces[0]; e.Attachment != nil {
		t.Errorf("the interface: %+v", e.Attachment)
	}
	must(w.DeleteNetworkInterface(ctx, &awsec2.DeleteNetworkInterfaceInput{NetworkInterfaceId: second}))(t)
	if ended := must(w.DescribeNetworkInterfaces(ctx, &awsec2.DescribeNetworkInterfacesInput{Filters: filter("attachment.attachment-id", *attached.AttachmentId)}))(t).NetworkInterfaces; len(ended) > 0 {
		t.Errorf("the attachment of a deleted interface: %+v", ended)
	}
}
