package ec2_test

import (
	"testing"

	"github.com/aws/aws-sdk-go-v2/aws"
	awsec2 "github.com/aws/aws-sdk-go-v2/service/ec2"
	ec2types "github.com/aws/aws-sdk-go-v2/service/ec2/types"
)

// machineDryRuns are the dryRunRequests about resources of machines.
func machineDryRuns(t *testing.T, w *world, template *string, instance ec2types.Instance) map[string]any {
	ctx := t.Context()
	disk := func() *string {
		return must(w.CreateVolume(ctx, &awsec2.CreateVolumeInput{AvailabilityZone: instance.Placement.AvailabilityZone, Size: aws.Int32(8)}))(t).VolumeId
	}
	data1, data2 := disk(), disk()
	must(w.AttachVolume(ctx, &awsec2.AttachVolumeInput{VolumeId: data1, InstanceId: instance.InstanceId, Device: aws.String("/dev/sdf")}))(t)
	configs := []ec2types.FleetLaunchTemplateConfigRequest{{LaunchTemplateSpecification: &ec2types.FleetLaunchTemplateSpecificationRequest{LaunchTemplateId: template, Version: aws.String("1")}}}
	target := &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(1), DefaultTargetCapacityType: "on-demand"}
	fleet := must(w.CreateFleet(ctx, &awsec2.CreateFleetInput{LaunchTemplateConfigs: configs, TargetCapacitySpecification: &ec2types.TargetCapacitySpecificationRequest{TotalTargetCapacity: aws.Int32(0)}}))(t).FleetId
	other := w.launch(t, 1, func(in *awsec2.RunInstancesInput) { in.InstanceMarketOptions = spot(nil) })[0]
	sir := other.SpotInstanceRequestId
	snap := must(w.CreateSnapshot(ctx, &awsec2.CreateSnapshotInput{VolumeId: data1}))(t).SnapshotId
	golden := must(w.CreateImage(ctx, &awsec2.CreateImageInput{InstanceId: instance.InstanceId, Name: aws.String("golden")}))(t).ImageId
	root := must(w.DescribeImages(ctx, &awsec2.DescribeImagesInput{ImageIds: []string{*golden}}))(t).Images[0].BlockDeviceMappings[:1]
	reserved := w.reserve(t, 1, "targeted").CapacityReservationId
	group := w.placementGroup(t, awsec2.CreatePlacementGroupInput{GroupName: aws.String("group")})
	w.quiet(t)
	return map[string]any{
		"CreateSnapshot":                    &awsec2.CreateSnapshotInput{VolumeId: data1},
		"CreateSnapshots":                   &awsec2.CreateSnapshotsInput{InstanceSpecification: &ec2types.InstanceSpecification{InstanceId: instance.InstanceId}},
		"CopySnapshot":                      &awsec2.CopySnapshotInput{SourceRegion: aws.String("us-east-1"), SourceSnapshotId: snap},
		"DeleteSnapshot":                    &awsec2.DeleteSnapshotInput{SnapshotId: snap},
		"DescribeSnapshots":                 &awsec2.DescribeSnapshotsInput{},
		"ModifySnapshotAttribute":           &awsec2.ModifySnapshotAttributeInput{SnapshotId: snap, OperationType: "add", UserIds: []string{"111122223333"}},
		"ResetSnapshotAttribute":            &awsec2.ResetSnapshotAttributeInput{SnapshotId: snap, Attribute: "createVolumePermission"},
		"DescribeSnapshotAttribute":         &awsec2.DescribeSnapshotAttributeInput{SnapshotId: snap, Attribute: "createVolumePermission"},
		"CreateReplaceRootVolumeTask":       &awsec2.CreateReplaceRootVolumeTaskInput{InstanceId: instance.InstanceId},
		"DescribeReplaceRootVolumeTasks":    &awsec2.DescribeReplaceRootVolumeTasksInput{},
		"CreateImage":                       &awsec2.CreateImageInput{InstanceId: instance.InstanceId, Name: aws.String("other")},
		"RegisterImage":                     &awsec2.RegisterImageInput{Name: aws.String("other"), RootDeviceName: instance.RootDeviceName, BlockDeviceMappings: []ec2types.BlockDeviceMapping{{DeviceName: root[0].DeviceName, Ebs: &ec2types.EbsBlockDevice{SnapshotId: root[0].Ebs.SnapshotId}}}},
		"CopyImage":                         &awsec2.CopyImageInput{Name: aws.String("other"), SourceImageId: golden, SourceRegion: aws.String("us-east-1")},
		"DeregisterImage":                   &awsec2.DeregisterImageInput{ImageId: golden},
		"ModifyImageAttribute":              &awsec2.ModifyImageAttributeInput{ImageId: golden, Description: &ec2types.AttributeValue{Value: aws.String("other")}},
		"ResetImageAttribute":               &awsec2.ResetImageAttributeInput{ImageId: golden, Attribute: "launchPermission"},
		"DescribeImageAttribute":            &awsec2.DescribeImageAttributeInput{ImageId: golden, Attribute: "launchPermission"},
		"ModifyInstanceAttribute":           &awsec2.ModifyInstanceAttributeInput{InstanceId: instance.InstanceId, DisableApiStop: &ec2types.AttributeBooleanValue{Value: aws.Bool(true)}},
		"ResetInstanceAttribute":            &awsec2.ResetInstanceAttributeInput{InstanceId: other.InstanceId, Attribute: "sourceDestCheck"},
		"DescribeInstanceAttribute":         &awsec2.DescribeInstanceAttributeInput{InstanceId: instance.InstanceId, Attribute: "userData"},
		"ModifyInstanceMetadataOptions":     &awsec2.ModifyInstanceMetadataOptionsInput{InstanceId: instance.InstanceId, HttpTokens: "optional"},
		"GetInstanceMetadataDefaults":       &awsec2.GetInstanceMetadataDefaultsInput{},
		"ModifyInstanceMetadataDefaults":    &awsec2.ModifyInstanceMetadataDefaultsInput{HttpTokens: "required"},
		"ModifyInstanceCreditSpecification": &awsec2.ModifyInstanceCreditSpecificationInput{InstanceCreditSpecifications: []ec2types.InstanceCreditSpecificationRequest{{InstanceId: instance.InstanceId, CpuCredits: aws.String("standard")}}},
		"MonitorInstances":                  &awsec2.MonitorInstancesInput{InstanceIds: []string{*instance.InstanceId}},
		"UnmonitorInstances":                &awsec2.UnmonitorInstancesInput{InstanceIds: []string{*instance.InstanceId}},
		"CreatePlacementGroup":              &awsec2.CreatePlacementGroupInput{GroupName: aws.String("other")},
		"DeletePlacementGroup":              &awsec2.DeletePlacementGroupInput{GroupName: group.GroupName},
		"CreateCapacityReservation":         &awsec2.CreateCapacityReservationInput{InstanceType: aws.String("m5.large"), InstancePlatform: "Linux/UNIX", InstanceCount: aws.Int32(1)},
		"ModifyCapacityReservation":         &awsec2.ModifyCapacityReservationInput{CapacityReservationId: reserved, InstanceCount: aws.Int32(2)},
		"CancelCapacityReservation":         &awsec2.CancelCapacityReservationInput{CapacityReservationId: reserved},
		"GetConsoleOutput":                  &awsec2.GetConsoleOutputInput{InstanceId: instance.InstanceId},
		"GetLaunchTemplateData":             &awsec2.GetLaunchTemplateDataInput{InstanceId: instance.InstanceId},
		"EnableEbsEncryptionByDefault":      &awsec2.EnableEbsEncryptionByDefaultInput{},
		"DisableEbsEncryptionByDefault":     &awsec2.DisableEbsEncryptionByDefaultInput{},
		"GetEbsEncryptionByDefault":         &awsec2.GetEbsEncryptionByDefaultInput{},
		"EnableSerialConsoleAccess":         &awsec2.EnableSerialConsoleAccessInput{},
		"DisableSerialConsoleAccess":        &awsec2.DisableSerialConsoleAccessInput{},
		"GetSerialConsoleAccessStatus":      &awsec2.GetSerialConsoleAccessStatusInput{},
		"GetEbsDefaultKmsKeyId":             &awsec2.GetEbsDefaultKmsKeyIdInput{},
		"ModifyEbsDefaultKmsKeyId":          &awsec2.ModifyEbsDefaultKmsKeyIdInput{KmsKeyId: aws.String("alias/disks")},
		"ResetEbsDefaultKmsKeyId":           &awsec2.ResetEbsDefaultKmsKeyIdInput{},
		"CreateVolume":                      &awsec2.CreateVolumeInput{AvailabilityZone: aws.String("us-east-1a"), Size: aws.Int32(8)},
		"DeleteVolume":                      &awsec2.DeleteVolumeInput{VolumeId: data2},
		"AttachVolume":                      &awsec2.AttachVolumeInput{VolumeId: data2, InstanceId: instance.InstanceId, Device: aws.String("/dev/sdg")},
		"DetachVolume":                      &awsec2.DetachVolumeInput{VolumeId: data1},
		"ModifyVolume":                      &awsec2.ModifyVolumeInput{VolumeId: data1, Size: aws.Int32(9)},
		"RequestSpotInstances":              &awsec2.RequestSpotInstancesInput{LaunchSpecification: &ec2types.RequestSpotLaunchSpecification{ImageId: instance.ImageId, InstanceType: "t3.micro"}},
		"CancelSpotInstanceRequests":        &awsec2.CancelSpotInstanceRequestsInput{SpotInstanceRequestIds: []string{*sir}},
		"CreateFleet":                       &awsec2.CreateFleetInput{LaunchTemplateConfigs: configs, TargetCapacitySpecification: target},
		"ModifyFleet":                       &awsec2.ModifyFleetInput{FleetId: fleet, TargetCapacitySpecification: target},
		"DeleteFleets":                      &awsec2.DeleteFleetsInput{FleetIds: []string{*fleet}, TerminateInstances: aws.Bool(true)},
		"DescribeFleetInstances":            &awsec2.DescribeFleetInstancesInput{FleetId: fleet},
		"GetInstanceTypesFromInstanceRequirements": &awsec2.GetInstanceTypesFromInstanceRequirementsInput{
			ArchitectureTypes: []ec2types.ArchitectureType{"x86_64"}, VirtualizationTypes: []ec2types.VirtualizationType{"hvm"},
			InstanceRequirements: &ec2types.InstanceRequirementsRequest{VCpuCount: &ec2types.VCpuCountRangeRequest{Min: aws.Int32(1)}, MemoryMiB: &ec2types.MemoryMiBRequest{Min: aws.Int32(1)}},
		},
	}
}
