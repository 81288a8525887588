package ec2

import (
	"github.com/drydock-dev/drydock/internal/awsapi"
	"github.com/drydock-dev/drydock/internal/service/ec2/fleet"
	"github.com/drydock-dev/drydock/internal/service/ec2/image"
	"github.com/drydock-dev/drydock/internal/service/ec2/instance"
	"github.com/drydock-dev/drydock/internal/service/ec2/instancetype"
	"github.com/drydock-dev/drydock/internal/service/ec2/storage"
)

// ebs are the members of a block device mapping's volume.
const ebs = "BlockDeviceMappings.Ebs.DeleteOnTermination BlockDeviceMappings.Ebs.Encrypted BlockDeviceMappings.Ebs.Iops BlockDeviceMappings.Ebs.KmsKeyId " +
	"BlockDeviceMappings.Ebs.SnapshotId BlockDeviceMappings.Ebs.Throughput BlockDeviceMappings.Ebs.VolumeSize BlockDeviceMappings.Ebs.VolumeType"

// machineOperations are the operations on machines and on the catalogues behind them.
func machineOperations() []awsapi.Operation {
	return []awsapi.Operation{
		// Regions.
		{Name: "DescribeRegions", Members: "AllRegions DryRun Filters RegionNames"},
		{Name: "DescribeAvailabilityZones", Members: "AllAvailabilityZones DryRun Filters ZoneIds ZoneNames"},
		{Name: "DescribeAccountAttributes", Members: "AttributeNames DryRun"},
		// Key pairs.
		{Name: "CreateKeyPair", Members: "DryRun KeyFormat KeyName KeyType TagSpecifications", Except: "KeyFormat=ppk"},
		{Name: "ImportKeyPair", Members: "DryRun KeyName PublicKeyMaterial TagSpecifications"},
		{Name: "DescribeKeyPairs", Members: "DryRun Filters IncludePublicKey KeyNames KeyPairIds"},
		{Name: "DeleteKeyPair", Members: "DryRun KeyName KeyPairId"},
		// Launch templates.
		{Name: "CreateLaunchTemplate", Members: "ClientToken DryRun LaunchTemplateData LaunchTemplateName Operator TagSpecifications VersionDescription", Except: storage.CreateExcept},
		{Name: "CreateLaunchTemplateVersion", Members: "ClientToken DryRun LaunchTemplateData LaunchTemplateId LaunchTemplateName SourceVersion VersionDescription", Except: storage.CreateExcept},
		{Name: "DescribeLaunchTemplates", Members: "IncludeManagedResources LaunchTemplateIds LaunchTemplateNames" + paged},
		{Name: "DescribeLaunchTemplateVersions", Members: "LaunchTemplateId LaunchTemplateName MaxVersion MinVersion ResolveAlias Versions" + paged},
		{Name: "ModifyLaunchTemplate", Members: "ClientToken DefaultVersion DryRun LaunchTemplateId LaunchTemplateName"},
		{Name: "GetLaunchTemplateData", Members: "DryRun InstanceId"},
		{Name: "DeleteLaunchTemplate", Members: "DryRun LaunchTemplateId LaunchTemplateName"},
		{Name: "DeleteLaunchTemplateVersions", Members: "DryRun LaunchTemplateId LaunchTemplateName Versions"},
		// Instances.
		{Name: "RunInstances", Members: instance.RunMembers, Except: instance.RunExcept},
		{Name: "DescribeInstances", Members: "IncludeManagedResources InstanceIds" + paged, FromStore: true, Settled: awsapi.SettledWhen(instance.Settled)},
		{Name: "DescribeInstanceStatus", Members: "IncludeAllInstances IncludeManagedResources InstanceIds" + paged, Settled: awsapi.SettledWhen(instance.StatusSettled)},
		{Name: "StartInstances", Members: "DryRun InstanceIds"},
		{Name: "StopInstances", Members: "DryRun Force InstanceIds"},
		{Name: "RebootInstances", Members: "DryRun InstanceIds"},
		{Name: "TerminateInstances", Members: "DryRun Force InstanceIds"},
		{Name: "ModifyInstanceAttribute", Members: instance.ModifyAttributeMembers, Except: "attributes kernel, ramdisk, sriovNetSupport, enaSupport, enclaveOptions"},
		{Name: "ResetInstanceAttribute", Members: "Attribute DryRun InstanceId"},
		{Name: "DescribeInstanceAttribute", Members: "Attribute DryRun InstanceId"},
		{Name: "ModifyInstanceMetadataOptions", Members: "DryRun HttpEndpoint HttpProtocolIpv6 HttpPutResponseHopLimit HttpTokens InstanceId InstanceMetadataTags"},
		{Name: "GetInstanceMetadataDefaults", Members: "DryRun"},
		{Name: "EnableSerialConsoleAccess", Members: "DryRun"},
		{Name: "DisableSerialConsoleAccess", Members: "DryRun"},
		{Name: "GetSerialConsoleAccessStatus", Members: "DryRun"},
		{Name: "ModifyInstanceMetadataDefaults", Members: "DryRun HttpEndpoint HttpPutResponseHopLimit HttpTokens InstanceMetadataTags"},
		{Name: "MonitorInstances", Members: "DryRun InstanceIds"},
		{Name: "UnmonitorInstances", Members: "DryRun InstanceIds"},
		{Name: "DescribeInstanceCreditSpecifications", Members: "InstanceIds" + paged},
		{Name: "ModifyInstanceCreditSpecification", Members: "ClientToken DryRun InstanceCreditSpecifications"},
		{Name: "GetConsoleOutput", Members: "DryRun InstanceId Latest"},
		{Name: "AssociateIamInstanceProfile", Members: "IamInstanceProfile InstanceId"},
		{Name: "ReplaceIamInstanceProfileAssociation", Members: "AssociationId IamInstanceProfile"},
		{Name: "DisassociateIamInstanceProfile", Members: "AssociationId"},
		{Name: "DescribeIamInstanceProfileAssociations", Members: "AssociationIds Filters MaxResults NextToken"},
		// Capacity Reservations and placement groups.
		{Name: "CreateCapacityReservation", Members: "AvailabilityZone AvailabilityZoneId ClientToken DryRun EbsOptimized EndDate EndDateType EphemeralStorage InstanceCount InstanceMatchCriteria InstancePlatform InstanceType TagSpecifications Tenancy", Except: "EphemeralStorage=true"},
		{Name: "ModifyCapacityReservation", Members: "CapacityReservationId DryRun EndDate EndDateType InstanceCount InstanceMatchCriteria"},
		{Name: "CancelCapacityReservation", Members: "CapacityReservationId DryRun"},
		{Name: "DescribeCapacityReservations", Members: "CapacityReservationIds" + paged},
		{Name: "CreatePlacementGroup", Members: "DryRun GroupName PartitionCount SpreadLevel Strategy TagSpecifications"},
		{Name: "DeletePlacementGroup", Members: "DryRun GroupName"},
		{Name: "DescribePlacementGroups", Members: "DryRun Filters GroupIds GroupNames"},
		// Volumes and snapshots.
		{Name: "CreateVolume", Members: "AvailabilityZone AvailabilityZoneId ClientToken DryRun Encrypted Iops KmsKeyId MultiAttachEnabled Size SnapshotId TagSpecifications Throughput VolumeType", Except: "MultiAttachEnabled=true, " + storage.CreateExcept},
		{Name: "DeleteVolume", Members: "DryRun VolumeId"},
		{Name: "AttachVolume", Members: "Device DryRun InstanceId VolumeId"},
		{Name: "DetachVolume", Members: "Device DryRun Force InstanceId VolumeId"},
		{Name: "ModifyVolume", Members: "DryRun Iops MultiAttachEnabled Size Throughput VolumeId VolumeType", Except: "MultiAttachEnabled=true"},
		{Name: "DescribeVolumes", Members: "VolumeIds" + paged, FromStore: true},
		{Name: "DescribeVolumeStatus", Members: "VolumeIds" + paged},
		{Name: "DescribeVolumesModifications", Members: "VolumeIds" + paged},
		{Name: "CreateSnapshot", Members: "Description DryRun TagSpecifications VolumeId"},
		{Name: "CreateSnapshots", Members: "CopyTagsFromSource Description DryRun InstanceSpecification.ExcludeBootVolume InstanceSpecification.ExcludeDataVolumeIds InstanceSpecification.InstanceId TagSpecifications"},
		{Name: "CopySnapshot", Members: "Description DryRun Encrypted KmsKeyId PresignedUrl SourceRegion SourceSnapshotId TagSpecifications", Except: storage.CreateExcept},
		{Name: "DeleteSnapshot", Members: "DryRun SnapshotId"},
		{Name: "DescribeSnapshots", Members: "OwnerIds RestorableByUserIds SnapshotIds" + paged},
		{Name: "ModifySnapshotAttribute", Members: "Attribute CreateVolumePermission DryRun GroupNames OperationType SnapshotId UserIds"},
		{Name: "ResetSnapshotAttribute", Members: "Attribute DryRun SnapshotId"},
		{Name: "DescribeSnapshotAttribute", Members: "Attribute DryRun SnapshotId"},
		{Name: "EnableEbsEncryptionByDefault", Members: "DryRun"},
		{Name: "DisableEbsEncryptionByDefault", Members: "DryRun"},
		{Name: "GetEbsEncryptionByDefault", Members: "DryRun"},
		{Name: "GetEbsDefaultKmsKeyId", Members: "DryRun"},
		{Name: "ModifyEbsDefaultKmsKeyId", Members: "DryRun KmsKeyId", Except: storage.CreateExcept},
		{Name: "ResetEbsDefaultKmsKeyId", Members: "DryRun"},
		{Name: "CreateReplaceRootVolumeTask", Members: "ClientToken DeleteReplacedRootVolume DryRun ImageId InstanceId SnapshotId TagSpecifications",
			Except: "machines that run containers start with the image's files, and nothing can read the files of a replaced volume"},
		{Name: "DescribeReplaceRootVolumeTasks", Members: "ReplaceRootVolumeTaskIds" + paged},
		// Spot.
		{Name: "RequestSpotInstances", Members: instance.SpotMembers(), Except: "hibernation"},
		{Name: "DescribeSpotInstanceRequests", Members: "SpotInstanceRequestIds" + paged, Settled: awsapi.SettledWhen(instance.SpotSettled)},
		{Name: "CancelSpotInstanceRequests", Members: "DryRun SpotInstanceRequestIds"},
		{Name: "DescribeSpotPriceHistory", Members: "AvailabilityZone AvailabilityZoneId EndTime InstanceTypes ProductDescriptions StartTime" + paged},
		// Fleets.
		{Name: "CreateFleet", Members: fleet.Members, Except: fleet.Except},
		{Name: "ModifyFleet", Members: fleet.ConfigMembers + " Context DryRun ExcessCapacityTerminationPolicy FleetId", Except: instancetype.RequirementsExcept},
		{Name: "DeleteFleets", Members: "DryRun FleetIds TerminateInstances"},
		{Name: "DescribeFleets", Members: "FleetIds" + paged, Settled: awsapi.SettledWhen(fleet.Settled)},
		{Name: "DescribeFleetInstances", Members: "FleetId" + paged},
		// Catalogue.
		{Name: "DescribeInstanceTypes", Members: "InstanceTypes" + paged},
		{Name: "GetInstanceTypesFromInstanceRequirements", Members: "ArchitectureTypes DryRun InstanceRequirements MaxResults NextToken VirtualizationTypes", Except: instancetype.RequirementsExcept},
		{Name: "DescribeInstanceTypeOfferings", Members: "LocationType" + paged},
		// Images.
		{Name: "DescribeImages", Members: "ExecutableUsers ImageIds IncludeDeprecated IncludeDisabled Owners" + paged},
		{Name: "CreateImage", Members: "BlockDeviceMappings.DeviceName " + ebs + " BlockDeviceMappings.NoDevice Description DryRun InstanceId Name NoReboot TagSpecifications", Except: image.CreateExcept},
		{Name: "RegisterImage", Members: "Architecture BlockDeviceMappings.DeviceName " + ebs + " BlockDeviceMappings.NoDevice Description DryRun EnaSupport Name RootDeviceName SriovNetSupport TagSpecifications VirtualizationType", Except: image.RegisterExcept},
		{Name: "CopyImage", Members: "ClientToken CopyImageTags Description DryRun Encrypted KmsKeyId Name SourceImageId SourceRegion TagSpecifications", Except: storage.CreateExcept},
		{Name: "DeregisterImage", Members: "DeleteAssociatedSnapshots DryRun ImageId"},
		{Name: "ModifyImageAttribute", Members: "Attribute Description DryRun ImageId LaunchPermission.Add.Group LaunchPermission.Add.UserId LaunchPermission.Remove.Group LaunchPermission.Remove.UserId OperationType UserGroups UserIds Value"},
		{Name: "ResetImageAttribute", Members: "Attribute DryRun ImageId"},
		{Name: "DescribeImageAttribute", Members: "Attribute DryRun ImageId", Except: "attributes tpmSupport, uefiData, lastLaunchedTime, deregistrationProtection"},
	}
}
