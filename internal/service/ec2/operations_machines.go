package ec2

import "github.com/drydock-dev/drydock/internal/awsapi"

// machineOperations are the operations of the machines and of the catalogues they come from.
func machineOperations() []awsapi.Operation {
	return []awsapi.Operation{
		// Regions.
		{Name: "DescribeRegions", Members: "AllRegions DryRun Filters RegionNames"},
		{Name: "DescribeAvailabilityZones", Members: "AllAvailabilityZones DryRun Filters ZoneIds ZoneNames"},
		{Name: "DescribeAccountAttributes", Members: "AttributeNames DryRun"},
		// Key pairs.
		{Name: "CreateKeyPair", Members: "DryRun KeyFormat KeyName KeyType TagSpecifications"},
		{Name: "ImportKeyPair", Members: "DryRun KeyName PublicKeyMaterial TagSpecifications"},
		{Name: "DescribeKeyPairs", Members: "DryRun Filters IncludePublicKey KeyNames KeyPairIds"},
		{Name: "DeleteKeyPair", Members: "DryRun KeyName KeyPairId"},
		// Launch templates.
		{Name: "CreateLaunchTemplate", Members: "ClientToken DryRun LaunchTemplateData LaunchTemplateName TagSpecifications VersionDescription"},
		{Name: "CreateLaunchTemplateVersion", Members: "ClientToken DryRun LaunchTemplateData LaunchTemplateId LaunchTemplateName SourceVersion VersionDescription"},
		{Name: "DescribeLaunchTemplates", Members: "LaunchTemplateIds LaunchTemplateNames" + paged},
		{Name: "DescribeLaunchTemplateVersions", Members: "LaunchTemplateId LaunchTemplateName MaxVersion MinVersion ResolveAlias Versions" + paged},
		{Name: "ModifyLaunchTemplate", Members: "ClientToken DefaultVersion DryRun LaunchTemplateId LaunchTemplateName"},
		{Name: "DeleteLaunchTemplate", Members: "DryRun LaunchTemplateId LaunchTemplateName"},
		{Name: "DeleteLaunchTemplateVersions", Members: "DryRun LaunchTemplateId LaunchTemplateName Versions"},
		// Instances.
		{Name: "RunInstances", Members: runMembers, Except: "Spot Instances that are not one-time, tags of Spot Instance requests"},
		{Name: "DescribeInstances", Members: "InstanceIds" + paged, Settled: awsapi.SettledWhen(instancesSettled)},
		{Name: "DescribeInstanceStatus", Members: "IncludeAllInstances InstanceIds" + paged, Settled: awsapi.SettledWhen(statusSettled)},
		{Name: "StartInstances", Members: "DryRun InstanceIds"},
		{Name: "StopInstances", Members: "DryRun Force InstanceIds"},
		{Name: "RebootInstances", Members: "DryRun InstanceIds"},
		{Name: "TerminateInstances", Members: "DryRun Force InstanceIds"},
		{Name: "DescribeVolumes", Members: "VolumeIds" + paged},
		// Catalogue.
		{Name: "DescribeInstanceTypes", Members: "InstanceTypes" + paged},
		{Name: "DescribeInstanceTypeOfferings", Members: "LocationType" + paged},
		{Name: "DescribeImages", Members: "ExecutableUsers ImageIds IncludeDeprecated IncludeDisabled Owners" + paged},
	}
}
